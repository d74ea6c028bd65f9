"""Estimates an upper bound of the memory of the analysis of a file before it starts.

Measured (benchmarks/README.md): a Kineto trace takes 0.3 to 0.6 bytes per byte of plain JSON, 120 to 200 bytes per
event in the densest layouts, and some 60 MB for the process; `benchmarks/batch.py` checks these bounds.
"""

from __future__ import annotations

import re

from traceanalyzer.errors import UsageError
from traceanalyzer.inputs.sniffing import LONGEST_TEXT, FileKind, Peek

PROCESS_BYTES = 150 << 20
"""Memory in bytes of a worker with all its modules, its read buffers and the texts of its reports."""

IDLE_BYTES = 80 << 20
"""Memory of a worker between two files."""

_PER_TRACE_BYTE = 0.65
_PER_EVENT = 200
_PER_TEXT_BYTE = 12
"""Text is decoded and split into lines, that of a notebook twice. Values of saved reports take less."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")


def peak_bytes(peek: Peek) -> int:
    """An upper bound of the memory of a worker that analyzes the file."""
    if peek.kind in (FileKind.DOCUMENT, FileKind.REPORT, FileKind.DIFFERENCE):
        return PROCESS_BYTES + _PER_TEXT_BYTE * min(peek.plain_bytes, LONGEST_TEXT)
    events = peek.plain_bytes * peek.events_per_byte
    return PROCESS_BYTES + int(max(_PER_TRACE_BYTE * peek.plain_bytes, _PER_EVENT * events))


def parse_size(text: str, available: int | None) -> int:
    """Parse `8G`, `512 MiB`, `4000000000` or `50%` (of what is available) to bytes; units are powers of 1024.

    Raises:
        UsageError: The text has none of these forms, or is 0.
    """
    if (share := _SHARE.fullmatch(text.strip())) and available is not None:
        size = int(float(share[1]) / 100 * available)
    elif match := _SIZE.fullmatch(text.strip()):
        size = int(float(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " "))
    else:
        raise UsageError(f"memory limit {text}: not a size; write it as 8G, 512M or 50%")
    if size <= 0:
        raise UsageError(f"memory limit {text}: must be more than 0; write it as 8G, 512M or 50%")
    return size
