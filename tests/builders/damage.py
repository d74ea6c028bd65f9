"""Ways to spoil a file: edits of its text, pickles that call something, and gzip of which every byte is known."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from .layout import LAYOUTS
from .trace import TraceBuilder

_STORED_LIMIT = 65_535


def clean(events: int = 6) -> TraceBuilder:
    """A small sound trace: step, operator, launch, kernel, memory record, operator; nothing else in the list.

    More than six events are more operators.
    """
    trace = TraceBuilder(options=("record_shapes", "profile_memory"), origin=1000)
    trace.framed = False
    trace.step(1, 0, 500)
    trace.op("aten::mm", 20, 60, shapes=[[64, 64], [64, 64]], types=["float", "float"])
    launch = trace.launch("cudaLaunchKernel", 40, 8)
    trace.kernel("ampere_sgemm_64x64_nn", 60, 120, correlation=launch, external_id=2, grid=(54, 1, 1))
    trace.memory(16_384, 30, addr=4096, allocated=16_384, reserved=2_097_152, device=0)
    for number in range(events - 5):
        trace.op("aten::relu", 100 + 20 * number, 10, shapes=[[64, 64]], types=["float"])
    return trace


class Runs:
    """An object whose pickle calls a function when an unpickler reads it."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call it with these arguments."""
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], Any]:
        return self.call


def text(events: int = 6, layout: str = "classic") -> bytes:
    """The clean trace as bytes."""
    return clean(events).to_bytes(LAYOUTS[layout])


def edit(old: str | bytes, new: str | bytes, data: bytes | None = None) -> bytes:
    """The clean trace with one place changed; the old text must occur exactly once."""
    source = text() if data is None else data
    before = old.encode() if isinstance(old, str) else old
    after = new.encode() if isinstance(new, str) else new
    if source.count(before) != 1:
        raise ValueError(f"{before!r} occurs {source.count(before)} times")
    return source.replace(before, after)


def cut(after: str, data: bytes | None = None) -> bytes:
    """The clean trace up to and including the last occurrence of a text."""
    source = text() if data is None else data
    return source[: source.rindex(after.encode()) + len(after)]


def gzip_member(data: bytes, crc: int | None = None) -> bytes:
    """A gzip member that stores its data; `crc` replaces the right checksum."""
    if len(data) > _STORED_LIMIT:
        raise ValueError("one stored block holds 65535 bytes")
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    checksum = zlib.crc32(data) if crc is None else crc
    return header + block + struct.pack("<II", checksum, len(data))
