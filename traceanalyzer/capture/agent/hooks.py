"""Hooks into the program's optimizers, loaders, gradients and automatic precision."""

from __future__ import annotations

import functools
import gc
import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from . import facts
from .recorder import Recorder
from .samples import SampleClock
from .seen import FetchClock
from .steps import MODULE
from .tools import Tools

_STEP_MARK = "ProfilerStep#"
_OLDEST = 2
"""The generation that `gc.collect()` collects, and Python by itself only now and then."""


class _Depth(threading.local):
    """Nesting depth of optimizer steps in this thread, what was seen inside them, and what is called."""

    def __init__(self) -> None:
        self.steps = 0
        self.step_ended = False
        self.stepped: int | None = None
        self.in_module = False
        self.in_backward = False


class Hooks:
    """Reports to a recorder what the program does; the hooks can be removed again."""

    def __init__(self, tools: Tools) -> None:
        self.recorder: Recorder | None = None
        torch = tools.torch
        self._torch, self._ranges, self._rivals = torch, tools.ranges, tools.rivals
        self._depth = _Depth()
        self._fetches = FetchClock()
        self._samples = SampleClock(tools.settings.project)
        self._collects_since: int | None = None
        self._undo: list[Callable[[], None]] = []
        self._leave_modules: Callable[[], None] = lambda: None
        self._watches_modules = self._with_stack = False
        self._is_compiling = torch.compiler.is_compiling
        self._graph_task = getattr(torch._C, "_current_graph_task_id", lambda: -1)

    def install(self, *, with_stack: bool = False) -> None:
        """Install the hooks in torch; those of modules only if no stacks are recorded."""
        optimizer = import_module("torch.optim.optimizer")
        self._undo.append(optimizer.register_optimizer_step_post_hook(self._stepped).remove)
        self._replace(optimizer.Optimizer, "__init__", self._optimizer_made)
        self._replace(optimizer.Optimizer, "profile_hook_step", self._hook_step, static=True)
        loaders = import_module("torch.utils.data.dataloader")
        self._replace(loaders.DataLoader, "__iter__", self._iter)
        self._replace(loaders._BaseDataLoaderIter, "__next__", self._next)
        fetchers = import_module("torch.utils.data._utils.fetch")
        for fetcher in (fetchers._MapDatasetFetcher, fetchers._IterableDatasetFetcher):
            self._replace(fetcher, "fetch", self._fetch)
        self._replace(self._torch.autograd, "backward", self._backward)
        self._replace(self._torch.autograd, "_engine_run_backward", self._run_backward)
        ranges = self._torch.autograd.profiler.record_function
        self._replace(ranges, "__enter__", self._range_enter)
        self._replace(ranges, "__exit__", self._range_exit)
        self._replace(self._torch.autocast, "__enter__", self._enter)
        scaler = getattr(self._torch.amp, "GradScaler", None) or self._torch.cuda.amp.GradScaler
        self._replace(scaler, "step", self._scaler_step)
        gc.callbacks.append(self._collect)
        self._undo.append(functools.partial(gc.callbacks.remove, self._collect))
        self._with_stack = with_stack
        self._watch_modules()

    def _collect(self, phase: str, info: Mapping[str, int]) -> None:
        """Time collections of all garbage; Python calls this when one begins and ends."""
        if info["generation"] < _OLDEST:
            return
        now = time.perf_counter_ns()
        if phase == "start":
            self._collects_since = now
        elif self._collects_since is not None and self.recorder is not None:
            self.recorder.seen.garbage_collected(now - self._collects_since)
            self._collects_since = None

    def _watch_modules(self) -> None:
        """Install the hook of modules, unless it is installed: without it, calls cost nothing."""
        if self._with_stack or self._watches_modules:
            return  # the profiler remembers the code of `Module.__call__`, by which it knows modules
        self._watches_modules, undo = True, self._replace(self._torch.nn.Module, "__call__", self._module_call)

        def leave() -> None:
            self._watches_modules = False
            undo()

        self._leave_modules = leave

    def remove(self) -> None:
        """Remove all hooks from torch."""
        self.recorder = None
        while self._undo:
            self._undo.pop()()

    def _replace(
        self,
        owner: Any,
        name: str,
        wrap: Callable[[Callable[..., Any]], Callable[..., Any]],
        *,
        static: bool = False,
    ) -> Callable[[], None]:
        """Replace a method if there is one; returns how to put it back."""
        original = vars(owner).get(name)
        if original is None:
            return lambda: None
        replacement: Any = wrap(getattr(owner, name))
        setattr(owner, name, staticmethod(replacement) if static else replacement)

        def undo() -> None:
            if getattr(owner, name) is replacement:  # otherwise other code has wrapped it since
                setattr(owner, name, original)

        self._undo.append(undo)
        return undo

    # Optimizers: the step ends outside the range that torch draws around it, so that ranges nest.

    def _optimizer_made(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def __init__(optimizer: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - the name of what it replaces
            original(optimizer, *args, **kwargs)
            if self.recorder is not None:
                held = (p for group in optimizer.param_groups for p in group["params"])
                self.recorder.finder.has_optimizer = True
                self.recorder.finder.updates.watch(id(optimizer), held)

        return __init__

    def _hook_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Optimizer.profile_hook_step`, which torch calls on the first optimizer of each class."""

        def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
            if self.recorder is not None:
                self.recorder.finder.has_optimizer = True
            hooked = original(function)

            @functools.wraps(hooked)
            def step(*args: Any, **kwargs: Any) -> Any:
                if self._is_compiling():
                    return hooked(*args, **kwargs)
                depth = self._depth
                depth.steps += 1
                try:
                    return hooked(*args, **kwargs)
                finally:
                    depth.steps -= 1
                    if depth.step_ended and not depth.steps:
                        self._end_step()

            return step

        return profile_hook_step

    def _stepped(self, optimizer: Any, args: Any = None, kwargs: Any = None) -> None:
        """Global post-step hook of torch, which runs inside the range; the outermost `step` continues after it."""
        del args, kwargs
        if self.recorder is None or self._is_compiling():
            return
        self._depth.stepped = id(optimizer)
        self.recorder.seen.optimizer(optimizer)
        cannot_end = self._graph_task() != -1 or facts.is_capturing(self._torch)
        if self.recorder.finder.optimizer_stepped(id(optimizer), in_backward=cannot_end):
            self._depth.step_ended = True
            if not self._depth.steps:
                self._end_step()

    def _end_step(self) -> None:
        self._depth.step_ended = False
        if self.recorder is not None:
            self.recorder.step_ended()

    def _scaler_step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `GradScaler.step`: it skips the optimizer when gradients overflow, yet the loop has made a step."""

        @functools.wraps(original)
        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.recorder is not None:
                self.recorder.seen.has_scaler = self.recorder.seen.has_scaler or scaler.is_enabled()
            self._depth.stepped = None
            result = original(scaler, optimizer, *args, **kwargs)
            if self._depth.stepped is None:
                self._stepped(optimizer)
            return result

        return step

    # Loaders

    def _iter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def iterate(loader: Any) -> Any:
            if self.recorder is not None:
                self._samples.begins(loader)
                self.recorder.seen.loader(loader, self._samples)
            iterator = original(loader)
            if self.recorder is not None:
                self.recorder.seen.iterator(iterator, loader)
            return iterator

        return iterate

    def _fetch(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap how a batch is made of samples, here or in a worker that was forked with this hook."""
        return self._samples.timed(original, is_wanted=lambda: self.recorder is not None and self.recorder.is_recording)

    def _next(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def next_batch(iterator: Any) -> Any:
            recorder = self.recorder
            if recorder is not None:
                recorder.seen.batches += 1
                if recorder.finder.batch_wanted(id(getattr(iterator, "_dataset", iterator))):
                    recorder.step_ended()
            if recorder is None:
                return original(iterator)
            try:
                if not recorder.is_recording or getattr(iterator, "_num_workers", None) != 0:
                    return original(iterator)
                return self._fetches.measure(original, iterator, recorder.seen.fetched)
            except StopIteration:  # the end of an epoch is no batch
                recorder.finder.counts["batches"] -= 1
                raise

        return next_batch

    # Modules

    def _module_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `Module.__call__`, as long as calls of the outermost module may mark steps.

        While torch.compile traces it, there must be nothing in it but the call; the profiler asks for its `self`.
        """
        is_compiling, depth, called = self._is_compiling, self._depth, self._module_called

        @functools.wraps(original)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - the name of what it replaces
            if is_compiling() or depth.in_module:
                return original(self, *args, **kwargs)
            depth.in_module = True
            try:
                called(self, args, kwargs)
                return original(self, *args, **kwargs)
            finally:
                depth.in_module = False

        return __call__

    def _module_called(self, module: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        recorder = self.recorder
        if recorder is None or not recorder.needs_calls:
            self._leave_modules()
            return
        if self._graph_task() != -1 or facts.is_capturing(self._torch):
            return  # inside a backward pass, where modules are computed again, the profiler can neither start nor stop
        is_trainable = recorder.finder.updates.watch(id(module), self._torch.nn.Module.parameters(module))
        may_train = is_trainable and module.training and self._torch.is_grad_enabled()
        if recorder.finder.module_called(id(module), may_train=may_train):
            recorder.step_ended()
        if recorder.finder.source == MODULE:
            recorder.seen.called(next((shape for each in (*args, *kwargs.values()) if (shape := _shape(each))), ()))

    # Named ranges

    def _range_enter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `record_function.__enter__`: marks of the program's own profiler are no steps of this recording."""

        @functools.wraps(original)
        def enter(opened: Any) -> Any:
            is_ours = self.recorder is None or not self.recorder.is_recording or self._rivals.is_ours
            if not is_ours and opened.name.startswith(_STEP_MARK):
                opened.run_callbacks_on_exit = False
                return opened
            result = original(opened)
            self._ranges.entered(opened)
            return result

        return enter

    def _range_exit(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def leave(closed: Any, *error: Any) -> Any:
            self._ranges.left(closed)
            return original(closed, *error)

        return leave

    # Gradients and precision

    def _backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self.recorder is not None and self._graph_task() == -1:  # not one within another
                self.recorder.seen.backwards += 1
            return self._with_gradients(original, *args, **kwargs)

        return backward

    def _run_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap what `torch.autograd.grad` calls, too; what it computes is of a training, but is no backward pass."""

        @functools.wraps(original)
        def run_backward(*args: Any, **kwargs: Any) -> Any:
            return self._with_gradients(original, *args, **kwargs)

        return run_backward

    def _with_gradients(self, compute: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        recorder, depth = self.recorder, self._depth
        if recorder is None or depth.in_backward or self._graph_task() != -1 or facts.is_capturing(self._torch):
            return compute(*args, **kwargs)
        if recorder.finder.backward_begins():
            recorder.step_ended()
        depth.in_backward = True
        try:
            return compute(*args, **kwargs)
        finally:
            depth.in_backward = False
            if recorder.finder.backward_ended():
                recorder.discard()
                self._watch_modules()

    def _enter(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(context: Any) -> Any:
            if self.recorder is not None:
                self.recorder.seen.autocast_entered(context)
            return original(context)

        return enter


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a tensor; empty for anything else."""
    shape = getattr(value, "shape", ())
    return tuple(shape) if isinstance(shape, tuple) and all(type(length) is int for length in shape) else ()
