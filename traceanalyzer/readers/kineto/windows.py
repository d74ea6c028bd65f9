"""Decodes the event array window by window in one reused buffer.

A window ends between two events; the separator after it becomes `]`, the one before it `[`, and msgspec
decodes the text in place. What does not decode (the tail of the file, a damaged event, a cut inside a
nested object) goes through `recovery`. Memory stays at the size of a window, whatever the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from traceanalyzer.readers.kineto.events import NOT_JSON, EventDecoder
from traceanalyzer.readers.kineto.header import find_events
from traceanalyzer.readers.kineto.recovery import BORDER, recover

WINDOW = 1 << 20
"""Bytes that are decoded at once: what they become fits the cache of a processor's core. Half as much took 4 to 7 %
more CPU, twice as much 1 % more (2026-11-27, 2 MB of cache a core)."""

_LARGEST_ELEMENT = 16 << 20
"""Bytes without a border between events beyond which a text is not an event and given up."""

_LARGEST_METADATA = 64 << 20
_TAIL_SEARCH = (1 << 12, 1 << 16)

_OPEN, _CLOSE = b"[]"
_WHITE = b" \t\r\n"


class Stream(Protocol):
    """The part of `io.RawIOBase` that windows are read from."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill the buffer as far as the input reaches; 0 at the end."""


class Decoder(Protocol):
    """What windows are decoded with, as by `msgspec.json.Decoder`."""

    def decode(self, text: memoryview, /) -> Any:
        """The events of a list, or what stands for them."""


def last_border(text: bytearray | memoryview, begin: int, end: int) -> int | None:
    """Where the last separator between two events is, searched from the end of the text."""
    for reach in (*_TAIL_SEARCH, end - begin):
        cut = None
        for match in BORDER.finditer(text, max(begin, end - reach), end):
            cut = match.start(1)
        if cut is not None:
            return cut
    return None


class EventWindows:
    """Iterates over lists of events, decoded; what stands around them is known after the iteration."""

    def __init__(
        self, stream: Stream, decoder: Decoder | None = None, make: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        """Set what events are made of.

        Args:
            stream: The file.
            decoder: Decodes the text of a list of events, to what is iterated over; None for an `EventDecoder`.
            make: The same from the object of a damaged event; None for `Event`.
        """
        self.before = b""
        """The text before the event array."""
        self.after = b""
        """The text after the event array."""
        self.is_trace = False
        """An event array was found."""
        self.ended = False
        """The event array was closed: the file is not cut."""
        self.bytes_read = 0
        self.cut_bytes = 0
        """Bytes of an incomplete last event."""
        self.losses: Counter[str] = Counter()
        self.first_at: dict[str, int] = {}
        """Byte offset of the first occurrence of each loss, in the uncompressed text."""
        self._stream = stream
        self._decoder = decoder or EventDecoder()
        self._make = make
        self._buffer = bytearray(2 * WINDOW)
        self._filled = 0
        self._given_up = False
        self._offset = 0  # of the buffer's first byte, in the uncompressed text

    def __iter__(self) -> Iterator[Any]:
        """Lists of events in the order of the file. A list is valid until the next one is requested."""
        at = self._find_array()
        if at is None:
            return
        self.is_trace = True
        self._drop(at)
        while not self.ended:
            yield from self._whole_windows()
            if self.ended or not self._fill():
                break
        if not self.ended:
            yield from self._recover(final=True)
        if self.ended:
            self._read_rest()
        else:
            self._note_cut()

    def _fill(self) -> bool:
        """Read up to one window of text after the existing text; False at the end of the input."""
        if self._filled + WINDOW > len(self._buffer):
            # A new buffer, because texts of the last events still look into the old one.
            grown = bytearray(max(2 * len(self._buffer), self._filled + WINDOW))
            grown[: self._filled] = self._buffer[: self._filled]
            self._buffer = grown
        view = memoryview(self._buffer)[self._filled : self._filled + WINDOW]
        count = self._stream.readinto(view)
        self._filled += count
        self.bytes_read += count
        return count > 0

    def _fill_up_to(self, size: int) -> bool:
        """Read until the buffer holds at least `size` bytes; False if the input gave nothing more."""
        before = self._filled
        while self._filled < size and self._fill():
            pass
        return self._filled > before

    def _drop(self, count: int) -> None:
        self._buffer[: self._filled - count] = self._buffer[count : self._filled]
        self._filled -= count
        self._offset += count

    def _find_array(self) -> int | None:
        """Read up to the event array; the offset of its opening bracket, or None."""
        enough = 1
        while self._fill_up_to(enough):
            enough = 2 * self._filled  # text without an array is searched again at twice the size
            text = bytes(memoryview(self._buffer)[: self._filled])
            start = len(text) - len(text.removeprefix(b"\xef\xbb\xbf").lstrip(_WHITE))
            first = text[start : start + 1]
            if first == b"[":
                return start
            match = find_events(text) if first == b"{" else None
            if match:
                self.before = text[start : match.start()]
                return match.end() - 1
            if first not in (b"", b"{") or self._filled > _LARGEST_METADATA:
                return None
        return None

    def _whole_windows(self) -> Iterator[Any]:
        cut = last_border(self._buffer, 1, self._filled)
        if cut is None:
            if self._filled > _LARGEST_ELEMENT:
                yield from self._recover(final=False)
                self._give_up_element()
            return
        events = self._decode(cut)
        if events is None:
            yield from self._recover(final=False)
        else:
            yield events
            self._drop(cut)

    def _decode(self, cut: int) -> Any:
        buffer = self._buffer
        first, last = buffer[0], buffer[cut]
        buffer[0], buffer[cut] = _OPEN, _CLOSE
        try:
            return self._decoder.decode(memoryview(buffer)[: cut + 1])
        except NOT_JSON:
            return None
        finally:
            buffer[0], buffer[cut] = first, last

    def _recover(self, *, final: bool) -> Iterator[list[Any]]:
        """Read what is in the buffer event by event; its first byte is a bracket or a comma."""
        result = recover(bytes(memoryview(self._buffer)[1 : self._filled]), final=final, make=self._make)
        if self._given_up and result.first_at.get("read-lost-event") == 0:
            result.losses["read-lost-event"] -= 1  # the rest of a part that was given up and counted
        self._given_up = self._given_up and not result.consumed
        for loss, count in result.losses.items():
            self.losses[loss] += count
            self.first_at.setdefault(loss, self._offset + 1 + result.first_at[loss])
        if result.events:
            yield result.events
        self.ended = result.ended
        # Keep one byte that is done with, for the next window's opening bracket, or step over the array's end.
        self._drop(result.consumed + 2 if result.ended else result.consumed)

    def _give_up_element(self) -> None:
        """Forget an endless element, but keep the last bytes: a border may start in them."""
        if self._filled > _LARGEST_ELEMENT:
            self.losses["read-lost-event"] += 0 if self._given_up else 1
            self.first_at.setdefault("read-lost-event", self._offset)
            self._drop(self._filled - (1 << 8))
            self._given_up = True

    def _read_rest(self) -> None:
        """Read what follows the array, up to a bound that no metadata reaches."""
        while self._filled <= _LARGEST_METADATA and self._fill():
            pass
        self.after = bytes(memoryview(self._buffer)[: self._filled])

    def _note_cut(self) -> None:
        cut = bytes(memoryview(self._buffer)[1 : self._filled]).strip(b" \t\r\n,")
        self.losses["read-truncated"] = 1
        self.first_at["read-truncated"] = self._offset
        self.cut_bytes = 0 if self._given_up else len(cut)  # what was given up is counted already
