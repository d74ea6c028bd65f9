"""What is sent to a worker and back: plain data that needs nothing else of this program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from traceanalyzer.batching.request import ReportOptions


class JobEnd(Enum):
    """How the analysis of a file ended."""

    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """Its name and first bytes looked like a table, but it holds none."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker must know to analyze one file."""

    id: int
    location: str
    name: str
    size: int
    fingerprint: str
    may_be_nothing: bool
    """True for a text found in a folder that mentions a table's columns: it only counts if it holds a table."""
    output: str
    """Path or URL of the folder of the reports."""
    force: bool
    options: ReportOptions


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What a worker reports about one file."""

    end: JobEnd
    record: bytes = b""
    """Encoded record of a file that is done."""
    reason: str = ""
    """One line that says why a file failed."""
