"""Runs the analyses of a trace in several processes: each takes the next one that has not begun.

The processes are forked, so they have the trace and everything computed before. The result of an analysis does not
depend on the process that runs it; an analysis that fails in a process for any reason is repeated in this one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from traceanalyzer.processes import Child, can_fork

T = TypeVar("T")

_NUMBER = 2
"""Bytes of the number of an analysis."""


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
                children.append(Child(_work, (taking, compute), children))
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


def _work(connection: Connection[Any, Any], taking: int, compute: Callable[[int], Any]) -> None:
    """The work of a child process: compute until nothing is left or something fails, and send the results."""
    found: dict[int, Any] = {}
    with contextlib.suppress(Exception):  # the parent finds the same error, and raises it
        for number in _numbers(taking):
            found[number] = compute(number)
    with contextlib.suppress(Exception):  # the parent is gone, or will compute what cannot be sent
        connection.send(found)
