"""For use in code: `profile` records some steps, `ThroughputMeter` measures speed, `annotate` names ranges."""

from __future__ import annotations

import contextlib
import functools
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from traceanalyzer.capture.agent import endings, facts, tracefile
from traceanalyzer.capture.agent.hooks import Hooks
from traceanalyzer.capture.agent.recorder import Recorder
from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.capture.agent.tools import Tools
from traceanalyzer.capture.agent.whole_run import WholeRun
from traceanalyzer.errors import MissingDependencyError, OutputError, UsageError

P = ParamSpec("P")
R = TypeVar("R")


class profile:  # noqa: N801 - read as a verb, like torch.profiler.profile
    """Record some steps and write `trace_rank<N>_<UTC>.json.gz` with tables of `key_averages()` beside it.

        with profile("runs/", steps=5, warmup=3) as prof:
            for batch in loader:
                ...
                prof.step()

    As a decorator it records in every call of the function. If `prof.step()` is never called, a step ends after an
    optimizer step; without optimizers, before the next batch; without both, the whole block is one step.
    If the block ends early, even by an exception, the steps recorded so far are saved.

    Args:
        out_dir: Folder for the files; created if it does not exist. Nothing in it is overwritten.
        steps: Number of steps to record.
        warmup: Number of steps before them that are not recorded; the profiler is on in the last one and discards it.
        wait: Number of steps before the warm-up.
        record_shapes: Record shapes and types of the operators' inputs.
        with_stack: Record Python stack frames; this slows the program down a lot.
        profile_memory: Record every allocation.
        with_modules: Record modules of TorchScript models, before torch 2.14. (Other modules come with stacks.)
        with_flops: Record floating-point operations of convolutions and matrix products.
        limit_s: Most seconds to record while no steps have been detected.
        slowest: Number of steps to look at, in recordings of `steps` steps; the one with the slowest step is kept.

    Raises:
        MissingDependencyError: torch is not installed.
        OutputError: The folder cannot be created.
        UsageError: A number of steps is out of range, or (when the block begins) a profiler is active.
    """

    def __init__(
        self,
        out_dir: str | Path = "traces",
        *,
        steps: int = 5,
        warmup: int = 3,
        wait: int = 0,
        record_shapes: bool = True,
        with_stack: bool = False,
        profile_memory: bool = False,
        with_modules: bool = False,
        with_flops: bool = False,
        limit_s: float = 5.0,
        slowest: int = 0,
    ) -> None:
        if steps < 1 or warmup < 0 or wait < 0:
            raise UsageError(f"steps={steps}, warmup={warmup}, wait={wait}: record at least one step, skip 0 or more")
        self._settings = Settings(
            folder=str(Path(out_dir).absolute()),
            steps=steps,
            warmup=warmup,
            wait=wait,
            record_shapes=record_shapes,
            with_stack=with_stack,
            profile_memory=profile_memory,
            with_modules=with_modules,
            with_flops=with_flops,
            project=str(Path.cwd()),
            limit_s=limit_s,
            slowest=slowest,
        )
        self.trace: Path | None = None
        """Path of the trace; None until it is written."""
        self._run: _Run | None = None

    def __enter__(self) -> profile:
        if self._run is not None:
            raise UsageError("this profile is in use; create another one")
        self.trace = None
        torch = import_torch()
        if torch.autograd._profiler_enabled():
            raise UsageError("a profiler is active, and torch crashes if another one starts: end that one first")
        self._run = _Run(torch, self._settings)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._run is None:
            return
        run, self._run = self._run, None
        self.trace = run.close(endings.EXIT if error is None else endings.EXCEPTION)

    def step(self) -> None:
        """End a step and begin the next."""
        if self._run is None:
            raise UsageError("call prof.step() inside `with profile(...) as prof:`")
        self.trace = self._run.step()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Wrap a function so that every call is recorded."""

        @functools.wraps(function)
        def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
            fresh = profile(self._settings.folder)
            fresh._settings = self._settings
            with fresh:
                return function(*args, **kwargs)

        return recorded


class _Run:
    """One execution of the profiled block."""

    def __init__(self, torch: Any, settings: Settings) -> None:
        try:
            Path(settings.folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{settings.folder}: cannot be written: {error.strerror or error}") from None
        self._said: dict[str, Any] = {}
        tools = Tools(torch, settings)
        self._hooks = Hooks(tools)
        whole_run = WholeRun(tools)
        self._recorder = Recorder(
            tools,
            self._said.update,
            whole_run,
            first_step=lambda: None,
            let_go=self._hooks.remove,
            activities=lambda: None,
        )
        self._rivals = tools.rivals
        self._rivals.watch(torch.autograd.profiler, self._recorder.give_way)
        self._hooks.recorder = self._recorder
        self._hooks.install(with_stack=settings.with_stack)
        if settings.wait + settings.warmup:
            whole_run.start(None)
        else:
            self._recorder.start_marked()

    def step(self) -> Path | None:
        self._recorder.finder.marked()
        self._recorder.step_ended()
        return self._trace()

    def close(self, ended: str) -> Path | None:
        self._recorder.finish(ended)
        self._hooks.remove()
        self._rivals.leave()
        trace = self._trace()
        if trace is not None and "facts" in self._said:
            tracefile.replace_facts(trace, self._said["facts"])
        if "error" in self._said:
            warnings.warn(f"traceanalyzer: the capture failed: {self._said['error']}", RuntimeWarning, stacklevel=3)
        return trace

    def _trace(self) -> Path | None:
        path = self._said.get("trace") or self._said.get("whole_run")
        return None if path is None else Path(path)


@dataclass(frozen=True)
class Throughput:
    """Samples, steps and seconds, measured either with or without the profiler."""

    steps: int
    samples: int
    seconds: float

    @property
    def samples_per_s(self) -> float | None:
        """Samples per second; None before the first step."""
        return self.samples / self.seconds if self.seconds else None

    @property
    def steps_per_s(self) -> float | None:
        """Steps per second; None before the first step."""
        return self.steps / self.seconds if self.seconds else None

    def __str__(self) -> str:
        if not self.seconds:
            return "no steps"
        return f"{self.samples_per_s:.4g} samples/s, {self.steps_per_s:.4g} steps/s ({self.steps} steps)"


class ThroughputMeter:
    """Measures samples per second, separately for steps with and without a profiler.

        meter = ThroughputMeter(warmup=3)
        for images, labels in loader:
            ...
            meter.step(len(images))
        print(meter)

    It waits for the devices only when a profiler starts or stops and when a number is read, not at every step.

    Args:
        warmup: Number of steps at the beginning that are not counted.

    Raises:
        MissingDependencyError: torch is not installed.
    """

    def __init__(self, warmup: int = 0) -> None:
        self._torch = import_torch()
        self._left = warmup
        self._sums = {state: Throughput(0, 0, 0.0) for state in (False, True)}
        self._since = 0.0
        self._start()

    def __enter__(self) -> ThroughputMeter:
        self._start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def step(self, samples: int = 0) -> None:
        """Record that a step with this many samples has ended."""
        state = self._is_profiled()
        if self._left > 0:
            self._left -= 1
            if not self._left:
                self._start()
            return
        if state != self._state:  # a step in which the profiler was switched on or off counts for neither
            self._close()
            self._start()
            return
        now = time.perf_counter()
        self._add(1, samples, now - self._since)
        self._since = now

    @property
    def plain(self) -> Throughput:
        """Throughput of the steps without a profiler."""
        self._close()
        return self._sums[False]

    @property
    def profiled(self) -> Throughput:
        """Throughput of the steps with a profiler."""
        self._close()
        return self._sums[True]

    def __str__(self) -> str:
        self._close()
        return f"plain: {self._sums[False]}; profiled: {self._sums[True]}"

    def _is_profiled(self) -> bool:
        return bool(self._torch.autograd._profiler_enabled())

    def _start(self) -> None:
        facts.synchronize(self._torch)
        self._state = self._is_profiled()
        self._since = time.perf_counter()

    def _close(self) -> None:
        """Wait for the devices, and add that time to the steps before."""
        if self._sums[self._state].steps:
            begin = time.perf_counter()
            facts.synchronize(self._torch)
            caught_up = time.perf_counter() - begin
            self._add(0, 0, caught_up)
            self._since += caught_up

    def _add(self, steps: int, samples: int, seconds: float) -> None:
        sums = self._sums[self._state]
        self._sums[self._state] = Throughput(sums.steps + steps, sums.samples + samples, sums.seconds + seconds)


@contextlib.contextmanager
def annotate(name: str) -> Iterator[None]:
    """Mark a named range, on the host and above the kernels that are launched in it.

    Works as a context manager and as a decorator:

        with annotate("forward"):
            loss = model(images)

        @annotate("augment")
        def augment(images): ...

    Args:
        name: Name of the range in the trace.

    Raises:
        MissingDependencyError: torch is not installed.
    """
    with import_torch().profiler.record_function(name):
        yield


def import_torch() -> Any:
    """Import and return torch.

    Raises:
        MissingDependencyError: torch is not installed; the message says how to install it.
    """
    try:
        return import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":  # torch is installed, and one of its dependencies is missing
            raise
        raise MissingDependencyError("torch", extra="capture") from None
