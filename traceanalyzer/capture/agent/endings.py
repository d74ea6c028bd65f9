"""Saves what was recorded before a program ends by returning, by an exception, or by a signal."""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import multiprocessing.util
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

EXIT, EXCEPTION, SIGNAL = "exit", "exception", "signal"

_DEADLY = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""Without a handler, these signals end the program without running any exit code; SIGINT raises KeyboardInterrupt."""


class Endings:
    """Calls `finish` before the program ends, and passes how it ends."""

    def __init__(self, finish: Callable[[str], None]) -> None:
        self._finish = finish
        self._pid = 0

    def watch(self) -> None:
        """Watch this process; call it again in a forked child."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        atexit.register(self._at_exit)
        if multiprocessing.parent_process() is not None:  # its forked processes end without atexit
            multiprocessing.util.Finalize(None, self._at_exit, exitpriority=0)
        for number in _DEADLY if _is_main_thread() else ():
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_signal)

    def leave_signals(self) -> None:
        """Restore the program's signal handlers, unless the program has changed them since."""
        for number in _DEADLY if _is_main_thread() else ():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, signal.SIG_DFL)

    def _at_exit(self) -> None:
        if self._pid == os.getpid():
            self._finish(EXIT if getattr(sys, "last_value", None) is None else EXCEPTION)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Save, then end by the signal as if there had been no handler."""
        del frame
        try:
            if self._pid == os.getpid():
                self._finish(SIGNAL)
        finally:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer signals that arrive in the block until its end, because half a trace is useless."""
    if not _is_main_thread():  # signal handlers run only in the main thread
        yield
        return
    arrived: list[int] = []
    replaced = {}
    for number in (signal.SIGINT, *_DEADLY):
        handler = signal.getsignal(number)
        if handler is not None and handler is not signal.SIG_IGN:  # None: a handler that was not installed from Python
            replaced[number] = handler
            signal.signal(number, lambda n, _: arrived.append(n))
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        for number in arrived:
            signal.raise_signal(number)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
