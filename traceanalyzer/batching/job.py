"""Messages between parent and worker: plain data without imports from the rest of the program."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from traceanalyzer.batching.request import ReportOptions


class JobEnd(Enum):
    """How the analysis of a file ended."""

    DONE = "done"
    FAILED = "failed"
    LEFT_OUT = "left out"
    """The name and first bytes of the file looked like a table, but it contains none."""


@dataclass(frozen=True, slots=True)
class Job:
    """All that a worker needs to analyze one file."""

    id: int
    location: str
    name: str
    size: int
    fingerprint: str
    may_be_nothing: bool
    """True for a text found in a folder that mentions a table's columns; it counts only if it contains a table."""
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
