"""Decodes the windows of one file in several processes.

`EventWindows` decides alone what the windows are and what becomes of damaged ones. The stream that it reads from is
read ahead here, and what is likely to be its next windows is decoded by workers meanwhile, some windows at a time.
Where it comes to the first of these, the columns of all of them are there; where it comes to another one, because a
damaged event has shifted the borders or a worker has failed, it decodes the text itself. So the result does not depend
on the number of processes.

Workers are forked, so they start within milliseconds and share the modules of this process. All that they need is in
their slots of shared memory; an error of theirs, whatever it is, only means that the parent decodes the window itself.
"""

from __future__ import annotations

import contextlib
import mmap
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing.connection import Connection, wait
from typing import Any

from traceanalyzer import processes
from traceanalyzer.processes import Child
from traceanalyzer.readers.kineto import windows
from traceanalyzer.readers.kineto.parts import Part, pack, unpack
from traceanalyzer.readers.kineto.scanning import ScanningDecoder
from traceanalyzer.readers.kineto.windows import EventWindows, last_border
from traceanalyzer.readers.source import Source


@dataclass(frozen=True)
class Slot:
    """Memory for some windows, shared by all processes."""

    text: memoryview
    columns: memoryview
    """Room for what a worker makes of the text."""


def shared_slots(count: int, text: int, columns: int) -> list[Slot]:
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
def started_workers(count: int, shared: Sequence[Slot]) -> Iterator[list[DecodingWorker]]:
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


_READS = 2
"""Windows that are read into a chunk, which makes one part: to hand over and join a part takes half a millisecond,
however small it is."""

_LONGEST_REST = 1 << 16
"""Bytes between the last border of a chunk and its end; no event of a profiler has more."""

_COLUMN_BYTES = 8 << 20
"""Room for the columns of a chunk, which take half a byte for each byte of text."""

_DEPTH = 2
"""Chunks that a worker has at a time, so that it never waits for the next one."""

_SLOTS = 3
"""Chunks that are read ahead, for each process."""


@contextmanager
def windows_of(source: Source, jobs: int) -> Iterator[EventWindows]:
    """The windows of a file, decoded by this many processes, of which this one is the first.

    Where the system cannot fork, or has no memory that processes share, this process is the only one.
    """
    slots: list[Slot] = []
    if processes.can_fork():
        with suppress(OSError):
            slots = shared_slots(_SLOTS * jobs, _LONGEST_REST + _READS * windows.WINDOW, _COLUMN_BYTES)
    if not slots:
        yield EventWindows(source, ScanningDecoder())
        return
    with started_workers(jobs - 1, slots) as started:
        decoder = ScanningDecoder()
        ahead = ReadAhead(source, slots, started, decoder)
        yield SharedWindows(ahead, decoder)
        ahead.forget_unused()


class SharedWindows(EventWindows):
    """Iterates over lists of events, or over the parts of the trace that were made of them already."""

    def __init__(self, ahead: ReadAhead, decoder: ScanningDecoder) -> None:
        super().__init__(ahead, decoder)
        self._ahead = ahead

    def _decode(self, cut: int) -> Any:
        part = self._ahead.part(self._offset, self._offset + cut)
        return super()._decode(cut) if part is None else part


@dataclass(frozen=True)
class _Read:
    """What one read of the source returned."""

    text: memoryview
    losses: int
    """Losses of the source up to here."""


@dataclass
class _Chunk:
    """The text that some reads returned, and the windows that probably end in it."""

    slot: int
    reads: deque[_Read] = field(default_factory=deque)
    """Reads that were not yet requested."""
    borders: list[int] = field(default_factory=list)
    """Of the windows in the slot's text, as of `ScanningDecoder.part`; fewer than two: it is not to be decoded."""
    origin: int = 0
    """The offset in the file at which the slot's text would begin."""
    is_given: bool = False
    """A worker has it, or had it."""
    is_done: bool = False
    part: Part | None = None
    is_taken: bool = False
    """The part was handed out, for all windows."""
    is_over: bool = False
    """The slot is no longer needed."""


class ReadAhead:
    """A stream that is read ahead, and the parts of the trace that have been made of what was read."""

    def __init__(
        self, source: Source, slots: list[Slot], started: list[DecodingWorker], decoder: ScanningDecoder
    ) -> None:
        self._source, self._slots, self._workers, self._decoder = source, slots, list(started), decoder
        self._free = list(range(len(slots)))
        self._ahead: deque[_Chunk] = deque()
        """Text that was read but not yet requested."""
        self._current: _Chunk | None = None
        """The text that was requested last."""
        self._given: dict[int, _Chunk] = {}
        """By slot: what workers have."""
        self._rest: bytes | None = None
        """The text from the last border on; None where that is not known."""
        self._offset = 0  # of the next chunk in the file
        self._end: Exception | None = None
        self._is_ended = False
        self._losses = len(source.losses)

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer with what the next read returned, never more than a window; 0 at the end of the input.

        Raises:
            Exception: As from the source, when its turn has come.
        """
        if self._current is None or not self._current.reads:
            self._current = self._next_chunk()
        if self._current is None:
            self._losses = len(self._source.losses)
            return 0
        found = self._current.reads.popleft()
        buffer[: len(found.text)] = found.text
        self._losses = found.losses
        return len(found.text)

    def _next_chunk(self) -> _Chunk | None:
        """The next chunk, instead of the one before it; None at the end of the input."""
        if self._current is not None:
            self._release(self._current)
            self._current = None
        self._advance()
        while not self._ahead and not self._is_ended:  # workers have all slots, for nothing
            self._hear(None)
            self._advance()
        if not self._ahead:
            if self._end is not None:
                raise self._end
            return None
        return self._ahead.popleft()

    def part(self, start: int, cut: int) -> Part | list[Any] | None:
        """The decoded part of a window and of those that follow in its chunk, which then get an empty list.

        None if decoding failed or was not tried.

        Args:
            start: Offset in the file of the byte before the first event.
            cut: Offset of the byte after the last one.
        """
        chunk = self._current
        if chunk is None or not (chunk.is_given or chunk.is_done):
            return None
        window = (start - chunk.origin, cut - chunk.origin)
        if chunk.is_taken:  # each window but the first begins where the one before it ends
            return [] if window in pairwise(chunk.borders) else None
        if window != (chunk.borders[0], chunk.borders[1]):
            return None
        while not chunk.is_done:
            self._advance()
            if not chunk.is_done and not self._decode_one():
                self._hear(None)
        chunk.is_taken = chunk.part is not None
        return chunk.part

    def forget_unused(self) -> None:
        """Drop losses of the source after the last requested read, which a single process would not have reached."""
        del self._source.losses[self._losses :]

    def _advance(self) -> None:
        """Read while there is room, and let all workers be busy."""
        self._hear(0)
        while self._free and not self._is_ended:
            self._read()
        for chunk in self._waiting():
            worker = min(self._workers, key=lambda worker: len(worker.busy_with), default=None)
            if worker is None or len(worker.busy_with) >= _DEPTH:
                break
            self._give(chunk, worker)

    def _read(self) -> None:
        chunk = _Chunk(self._free.pop(), origin=self._offset - _LONGEST_REST)
        text = self._slots[chunk.slot].text
        end = _LONGEST_REST
        while end < len(text) and not self._is_ended:
            try:
                size = self._source.readinto(text[end : end + windows.WINDOW])
            except Exception as error:  # text that was read before comes first
                self._end, size = error, 0
            self._is_ended = not size
            if size:
                chunk.reads.append(_Read(text[end : end + size], len(self._source.losses)))
                end += size
        if not chunk.reads:
            self._free.append(chunk.slot)
            return
        self._find_windows(chunk, text)
        self._offset += end - _LONGEST_REST
        self._ahead.append(chunk)

    def _find_windows(self, chunk: _Chunk, text: memoryview) -> None:
        """Cut the text as `EventWindows` will, if nothing happens before it gets there."""
        rest, self._rest = self._rest, None
        if rest is not None:
            chunk.borders.append(_LONGEST_REST - len(rest))
            text[_LONGEST_REST - len(rest) : _LONGEST_REST] = rest
        end = _LONGEST_REST
        for found in chunk.reads:
            start, end = end, end + len(found.text)
            cut = last_border(text, start, end)
            if cut is None:
                return
            chunk.borders.append(cut)
        if end - chunk.borders[-1] <= _LONGEST_REST:
            self._rest = bytes(text[chunk.borders[-1] : end])

    def _waiting(self) -> Iterator[_Chunk]:
        """The text that no process has begun to decode."""
        for chunk in self._ahead:
            if len(chunk.borders) > 1 and not (chunk.is_given or chunk.is_done):
                yield chunk

    def _give(self, chunk: _Chunk, worker: DecodingWorker) -> None:
        chunk.is_given = True
        self._given[chunk.slot] = chunk
        try:
            worker.give(chunk.slot, chunk.borders)
        except OSError:
            self._lose(worker)

    def _hear(self, timeout: float | None) -> None:
        """Collect results of workers; wait for one of them if there is no timeout."""
        busy = [worker for worker in self._workers if worker.busy_with]
        ready = wait([worker.connection for worker in busy], timeout) if busy else []
        for worker in busy:
            if worker.connection not in ready:
                continue
            try:
                slot, sizes = worker.take()
            except (EOFError, OSError):
                self._lose(worker)
            else:
                self._finish(slot, sizes)

    def _lose(self, worker: DecodingWorker) -> None:
        """Go on without a worker that has died."""
        self._workers.remove(worker)
        for slot in worker.busy_with:
            self._finish(slot, None)

    def _finish(self, slot: int, sizes: list[int] | None) -> None:
        chunk = self._given.pop(slot)
        chunk.is_done = True
        chunk.part = None if sizes is None else unpack(self._slots[slot].columns, sizes)
        if chunk.is_over:
            self._free.append(slot)

    def _decode_one(self) -> bool:
        """Decode the next chunk that no worker has. Returns False if there is none."""
        for chunk in self._waiting():
            chunk.part = self._decoder.part(self._slots[chunk.slot].text, chunk.borders)
            chunk.is_done = True
            return True
        return False

    def _release(self, chunk: _Chunk) -> None:
        chunk.part, chunk.is_over = None, True
        if chunk.slot not in self._given:
            self._free.append(chunk.slot)
