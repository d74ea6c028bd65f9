"""What every recording in a process needs: torch, settings, the open ranges, and the program's own profiler."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .settings import Settings

# Closes the named ranges that are open when a recording stops.
#
# A range that begins in one recording of a process and ends in the next writes into memory that torch has freed in
# between (torch 2.13 crashes). Closing a range twice is harmless.


class Ranges(threading.local):
    """The ranges of `record_function` that are open in this thread, the outermost first."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def entered(self, opened: Any) -> None:
        """Record that a range has begun."""
        self._open.append(opened)

    def left(self, closed: Any) -> None:
        """Record that a range has ended."""
        if self._open and self._open[-1] is closed:
            self._open.pop()
        elif closed in self._open:  # the ranges do not nest
            self._open.remove(closed)

    def close(self, torch: Any) -> None:
        """End all open ranges in the profiler; the program still sees them as open."""
        for opened in reversed(self._open):
            record = getattr(opened, "record", None)
            if record is not None:
                torch.ops.profiler._record_function_exit._RecordFunction(record)
        self._open.clear()


# Gives way to the program's own profiler, because only one can run in a process.

_STARTS = ("_prepare_profiler", "_enable_profiler")
_STOP = "_disable_profiler"


class Rivals:
    """Watches the functions that every torch profiler calls to start and stop."""

    def __init__(self) -> None:
        self.is_on = False
        """Whether the program's own profiler is prepared or running."""
        self.was_on = False
        """Whether the program's own profiler has ever been on."""
        self._ours = 0
        self._give_way: Callable[[], None] = lambda: None
        self._undo: list[Callable[[], None]] = []

    def watch(self, module: Any, give_way: Callable[[], None]) -> None:
        """Start to watch these functions.

        Args:
            module: `torch.autograd.profiler`.
            give_way: Called before the program's profiler starts.
        """
        self._give_way = give_way
        for name in (*_STARTS, _STOP):
            if hasattr(module, name):
                original = getattr(module, name)
                setattr(module, name, self._wrapped(original, starts=name in _STARTS))
                self._undo.append(functools.partial(setattr, module, name, original))

    def leave(self) -> None:
        """Put the functions back."""
        while self._undo:
            self._undo.pop()()

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

    @property
    def is_ours(self) -> bool:
        """Whether calls to the profiler are our own now."""
        return self._ours > 0

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Mark the profiler calls in this block as our own."""
        self._ours += 1
        try:
            yield
        finally:
            self._ours -= 1


@dataclass(frozen=True)
class Tools:
    """The objects that all recordings in a process share."""

    torch: Any
    """The module torch, passed in because the agent never imports it."""
    settings: Settings
    rivals: Rivals = field(default_factory=Rivals)
    """Watches whether the program's own profiler is on."""
    ranges: Ranges = field(default_factory=Ranges)
    """Tracks which named ranges are open."""
