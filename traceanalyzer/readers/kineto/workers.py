"""Processes that decode windows: the parent's end, the worker's end, and the memory that they share.

Workers are forked, so they start within milliseconds and share the modules of this process. All that they need is in
their slots; an error of theirs, whatever it is, only means that the parent decodes the window itself.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from traceanalyzer.processes import Child
from traceanalyzer.readers.kineto.parts import pack
from traceanalyzer.readers.kineto.scanning import ScanningDecoder


@dataclass(frozen=True)
class Slot:
    """Memory for some windows, shared by all processes."""

    text: memoryview
    columns: memoryview
    """Room for what a worker makes of the text."""


def slots(count: int, text: int, columns: int) -> list[Slot]:
    """Shared memory for windows and their columns. What is not written to takes no memory.

    Args:
        count: How many.
        text: Bytes for the text of each.
        columns: Bytes for the columns of each.
    """
    size = text + columns
    memory = memoryview(mmap.mmap(-1, count * size))
    pieces = (memory[number * size : (number + 1) * size] for number in range(count))
    return [Slot(piece[:text], piece[text:]) for piece in pieces]


class DecodingWorker(Child):
    """The parent's end of a worker."""

    def __init__(self, shared: Sequence[Slot], others: Sequence[DecodingWorker]) -> None:
        super().__init__(_serve, (shared,), others)
        self.busy_with: list[int] = []
        """The slots that it was given and has not given back."""

    def give(self, slot: int, borders: Sequence[int]) -> None:
        """Let it decode windows in the text of a slot, with borders as of `ScanningDecoder.part`.

        Raises:
            OSError: It has died.
        """
        self.busy_with.append(slot)
        self.connection.send((slot, borders))

    def take(self) -> tuple[int, list[int] | None]:
        """The slot that it is done with, and the sizes of the pieces there; None if it could not decode the text.

        Raises:
            OSError, EOFError: It has died.
        """
        slot, sizes = self.connection.recv()
        self.busy_with.remove(slot)
        return slot, sizes


@contextmanager
def started(count: int, shared: Sequence[Slot]) -> Iterator[list[DecodingWorker]]:
    """Start workers, as many of them as the system allows; none is left afterwards, whatever happens."""
    found: list[DecodingWorker] = []
    try:
        with contextlib.suppress(OSError):  # no more processes, or no memory for them
            for _ in range(count):
                found.append(DecodingWorker(shared, found))
        yield found
    finally:
        for worker in found:
            worker.stop()


def _serve(connection: Connection[Any, Any], shared: Sequence[Slot]) -> None:
    """The worker's loop: decode what it is given until the parent is gone."""
    decoder = ScanningDecoder()
    with contextlib.suppress(EOFError, OSError):
        while True:
            slot, borders = connection.recv()
            part = decoder.part(shared[slot].text, borders)
            connection.send((slot, None if part is None else pack(part, shared[slot].columns)))
