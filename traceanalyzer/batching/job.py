"""What travels to a worker and back; plain data, so that both sides need nothing else to speak."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from traceanalyzer.batching.request import ReportOptions


class JobEnd(Enum):
    """How a file ended."""

    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """Its name and first bytes promised a table, and there was none."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker must know."""

    id: int
    location: str
    name: str
    size: int
    fingerprint: str
    may_be_nothing: bool
    """A text that mentions a table's columns, and that nobody named."""
    output: str
    """Folder of the reports."""
    force: bool
    options: ReportOptions


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What a worker says about a file."""

    end: JobEnd
    record: bytes = b""
    """Of a file that is done."""
    reason: str = ""
    """Of a file that failed: one line."""
