"""Jobs of a batch: what a worker gets and answers, and how waiting files are handed out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

from traceanalyzer.batching import Progress, ReportOptions, Request
from traceanalyzer.batching.catalog import Catalog, Pending


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


class Dispatch:
    """Connects the catalog with the workers, which are local processes or those of a cluster."""

    def __init__(self, catalog: Catalog, request: Request, output: str, progress: Progress) -> None:
        self._catalog, self._request, self._output, self._progress = catalog, request, output, progress
        self._pending: dict[int, Pending] = {}
        self._read: Counter[int] = Counter()

    def take(self, limit: int) -> tuple[Job, int] | None:
        """Take the largest waiting file that fits into `limit` bytes. Returns its job and the bytes that it needs."""
        return self._task(self._catalog.take(limit))

    def take_any(self) -> tuple[Job, int] | None:
        """Take the largest waiting file, or one whose worker died; it must run alone."""
        return self._task(self._catalog.take() or self._catalog.take(state="suspect"))

    def read(self, file: int, size: int) -> None:
        """Report that `size` more bytes of a file have been read."""
        self._read[file] += size
        self._progress.read(size)

    def finish(self, file: int, outcome: JobOutcome) -> None:
        """Record the outcome of the analysis of a file."""
        pending = self._pending.pop(file)
        failure = None
        if outcome.end is JobEnd.LEFT_OUT:
            self._catalog.leave_out(file)
        elif outcome.end is JobEnd.FAILED or not self._catalog.finish(file, outcome.record):
            failure = outcome.reason or "a worker of another version wrote its record"
            self._catalog.fail(file, failure)
        self._progress.read(max(0, pending.size - self._read.pop(file, 0)))
        self._progress.end(pending.name, failure)

    def crash(self, file: int, how: str) -> None:
        """Record that a worker died during a file: it is tried once more, alone, and fails if that worker dies too."""
        self._progress.read(-self._read.pop(file, 0))
        if self._catalog.suspect(file):
            del self._pending[file]
            return
        need = self._pending[file].estimate >> 20
        reason = f"the worker {how} twice, the second time alone; if memory was short: some {need:,} MiB may be needed"
        self.finish(file, JobOutcome(JobEnd.FAILED, reason=reason))

    def _task(self, pending: Pending | None) -> tuple[Job, int] | None:
        if pending is None:
            return None
        self._pending[pending.id] = pending
        task = Job(
            id=pending.id,
            location=pending.location,
            name=pending.name,
            size=pending.size,
            fingerprint=pending.fingerprint,
            may_be_nothing=pending.may_be_nothing,
            output=self._output,
            force=self._request.force,
            options=self._request.options,
        )
        return task, pending.estimate
