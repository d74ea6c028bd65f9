"""Gives way to the program's own profiler, because only one can run in a process."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

_STARTS = ("_prepare_profiler", "_enable_profiler")
_STOP = "_disable_profiler"


class Rivals:
    """Watches the functions that every torch profiler calls to start and stop.

    The library (`profile`) does not watch, because there the user starts all profilers.
    """

    def __init__(self) -> None:
        self.is_on = False
        """Whether the program's own profiler is prepared or running."""
        self.was_on = False
        """Whether the program's own profiler has ever been on."""
        self._ours = 0
        self._give_way: Callable[[], None] = lambda: None

    def watch(self, module: Any, give_way: Callable[[], None]) -> None:
        """Start to watch these functions.

        Args:
            module: `torch.autograd.profiler`.
            give_way: Called before the program's profiler starts.
        """
        self._give_way = give_way
        for name in (*_STARTS, _STOP):
            if hasattr(module, name):
                setattr(module, name, self._wrapped(getattr(module, name), starts=name in _STARTS))

    def _wrapped(self, call: Callable[..., Any], *, starts: bool) -> Callable[..., Any]:
        @functools.wraps(call)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._ours:
                return call(*args, **kwargs)
            if starts and not self.is_on:
                self.is_on = self.was_on = True
                self._give_way()
            self.is_on = False  # set to True again if the profiler starts now
            result = call(*args, **kwargs)
            self.is_on = starts
            return result

        return watched

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Mark the profiler calls in this block as our own."""
        self._ours += 1
        try:
            yield
        finally:
            self._ours -= 1
