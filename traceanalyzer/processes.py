"""Forked processes that work for this one. They end with it, even after a crash."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any


def can_fork() -> bool:
    """Whether this system can fork safely; what else it starts processes with takes longer than most files."""
    return sys.platform == "linux"


class Child:
    """The parent's end of a forked process, which shares all that the parent has in memory at this moment."""

    def __init__(self, work: Callable[..., None], arguments: Sequence[Any], others: Sequence[Child]) -> None:
        """Fork.

        Args:
            work: Function of the process, called with its end of the connection and the arguments.
            arguments: Used as they are in memory, nothing is copied.
            others: Children that were forked before it.

        Raises:
            OSError: There are no more processes, or no memory for them.
        """
        how = multiprocessing.get_context("fork")
        self.connection, theirs = how.Pipe()
        inherited = [self.connection, *(child.connection for child in others)]
        self._process = how.Process(target=_run, args=(work, theirs, inherited, arguments), daemon=True)
        with no_interrupts(), warnings.catch_warnings():
            # Python warns of threads of others, which may hold locks; children need none of these.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        theirs.close()

    def stop(self) -> None:
        """Kill the process; it has no state that must be kept."""
        self.connection.close()
        self._process.kill()
        self._process.join()


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Let processes that start here ignore Ctrl-C from the beginning, because the parent handles it."""
    if threading.current_thread() is not threading.main_thread():  # handlers can only be set in the main thread
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _run(
    work: Callable[..., None],
    connection: Connection[Any, Any],
    inherited: Sequence[Connection[Any, Any]],
    arguments: Sequence[Any],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The terminal is the parent's, and a thread that draws there may hold its lock.
    warnings.simplefilter("ignore")
    for other in inherited:
        other.close()  # otherwise the end of the parent would go unnoticed
    work(connection, *arguments)
