"""Forked processes that work for this one. They end with it, even after a crash.

Work that is shared among them (`shared`) is taken piece by piece: each process takes the next one that has not begun.
They have all that was computed before. A result does not depend on the process that computes it; what fails in a
process for any reason is repeated in this one.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")

_NUMBER = 2
"""Bytes of the number of a piece of work that is shared."""


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


def shared(count: int, compute: Callable[[int], T], jobs: int) -> list[T]:
    """Compute what has the numbers from 0 on, by several processes that share the work.

    Args:
        count: How many there are.
        compute: Called with each number, in any order.
        jobs: How many processes, this one included.

    Raises:
        Exception: As from `compute`, in this process.
    """
    children: list[Child] = []
    taking, giving = os.pipe()
    try:
        os.write(giving, b"".join(number.to_bytes(_NUMBER, "little") for number in range(count)))
        os.close(giving)
        with contextlib.suppress(OSError):
            for _ in range(jobs - 1 if can_fork() else 0):
                children.append(Child(_compute_shared, (taking, compute), children))
        found = {number: compute(number) for number in _numbers(taking)}
        for child in children:
            with contextlib.suppress(EOFError, OSError):
                found |= child.connection.recv()
    finally:
        os.close(taking)
        for child in children:
            child.stop()
    return [found[number] if number in found else compute(number) for number in range(count)]


def _numbers(taking: int) -> Iterator[int]:
    """The numbers that are still free; reading from the pipe removes a number for all processes."""
    while number := os.read(taking, _NUMBER):
        yield int.from_bytes(number, "little")


def _compute_shared(connection: Connection[Any, Any], taking: int, compute: Callable[[int], Any]) -> None:
    """The work of a child process: compute until nothing is left or something fails, and send the results."""
    found: dict[int, Any] = {}
    with contextlib.suppress(Exception):  # the parent finds the same error, and raises it
        for number in _numbers(taking):
            found[number] = compute(number)
    with contextlib.suppress(Exception):  # the parent is gone, or will compute what cannot be sent
        connection.send(found)
