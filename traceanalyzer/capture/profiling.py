"""`profile`: records some steps of a training, with facts that the trace alone cannot know."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from traceanalyzer.capture import require
from traceanalyzer.capture.agent import endings, tracefile
from traceanalyzer.capture.agent.hooks import Hooks
from traceanalyzer.capture.agent.recorder import Recorder
from traceanalyzer.capture.agent.settings import Settings
from traceanalyzer.capture.agent.tools import Tools
from traceanalyzer.capture.agent.whole_run import WholeRun
from traceanalyzer.errors import OutputError, UsageError

P = ParamSpec("P")
R = TypeVar("R")


class profile:  # noqa: N801 - read as a verb, like torch.profiler.profile
    """Record some steps and write `trace_rank<N>_<UTC>.json.gz` with tables of `key_averages()` beside it.

        with profile("runs/", steps=5, warmup=3) as prof:
            for batch in loader:
                ...
                prof.step()

    As a decorator it does so in every call of the function. Where `prof.step()` is never called, steps end where an
    optimizer has stepped; without optimizers, where the next batch is asked for; without both, the block is one step.
    A block that ends early, also by an exception, leaves what was recorded so far.

    Args:
        out_dir: The folder for the files; it is made if it is not there. Nothing in it is overwritten.
        steps: Steps to record.
        warmup: Steps before them that are not recorded; the profiler is on in the last one, and throws away.
        wait: Steps before the warm-up.
        record_shapes: Shapes and types of the operators' inputs.
        with_stack: Frames of Python; slows the program down a lot.
        profile_memory: Every allocation.
        with_modules: Modules of TorchScript models. (Those of others come with stacks.)
        with_flops: Floating-point operations of convolutions and matrix products.
        limit_s: Most seconds to record while no steps have been detected.

    Raises:
        MissingDependencyError: torch is not installed.
        OutputError: The folder cannot be created.
        UsageError: A number of steps that makes no sense.
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
        limit_s: float = 30.0,
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
        )
        self.trace: Path | None = None
        """The trace, once it is written."""
        self._run: _Run | None = None

    def __enter__(self) -> profile:
        if self._run is not None:
            raise UsageError("this profile is in use; create another one")
        self.trace = None
        self._run = _Run(require.torch(), self._settings)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._run is None:
            return
        run, self._run = self._run, None
        self.trace = run.close(endings.EXIT if error is None else endings.EXCEPTION)

    def step(self) -> None:
        """A step has ended, the next begins."""
        if self._run is None:
            raise UsageError("prof.step() is called within `with profile(...) as prof:`")
        self.trace = self._run.step()

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, recorded in every call."""

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
        self._hooks.recorder = self._recorder
        self._hooks.install()
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
        trace = self._trace()
        if trace is not None and "facts" in self._said:
            tracefile.replace_facts(trace, self._said["facts"])
        if "error" in self._said:
            warnings.warn(f"traceanalyzer: the capture failed: {self._said['error']}", RuntimeWarning, stacklevel=3)
        return trace

    def _trace(self) -> Path | None:
        path = self._said.get("trace") or self._said.get("whole_run")
        return None if path is None else Path(path)
