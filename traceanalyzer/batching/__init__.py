"""Analyzes many traces in parallel, within the memory limit, and summarizes them in one index.

    run          runs a batch from files to index
    triage       what is done, what is new, what is no input
    catalog      files and their states, in a scratch database
    dispatch     what a worker gets and answers
    machine      cores, memory, and the memory that a file takes
    pool         processes of this machine
    cluster      workers of Dask
    processing   analyzes one file, or the ranks of one run
    record       what is stored for each file
    summary      a table for other programs
    overview     all files in figures
    index        all files as a page
    history      a table with one row for each run of many batches
    trends       its page

Before a file is started, its need of memory is estimated from its first bytes; files run together only while their sum
fits, so memory does not depend on how many there are. A record is written after the reports of its file and names their
sizes: a file with a valid record is done, every other file is analyzed again. Resuming needs nothing else, after Ctrl-C
or a power failure. Workers are processes, because one that dies must fail one file only; on a cluster they are Dask's,
with the same function.

Here are the options of a batch, and the interface that receives its progress.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from traceanalyzer._version import __version__
from traceanalyzer.config import Config
from traceanalyzer.formats import FORMATS

_WANTED = ("json", "html")
"""Formats that are written by default if this version supports them."""


def formats() -> tuple[str, ...]:
    """Names of the formats that are written as files."""
    return tuple(name for name, suffixes in FORMATS.items() if suffixes)


def default_formats() -> tuple[str, ...]:
    """Formats that are written if the user names none."""
    return tuple(name for name in _WANTED if name in FORMATS)


@dataclass(frozen=True)
class ReportOptions:
    """The options that determine the bytes of a report together with the input file."""

    formats: tuple[str, ...] = field(default_factory=default_formats)
    top: int | None = None
    """Number of rows of each ranking."""
    skip_warmup: int = 0
    """Number of steps to leave out at the start."""
    config: Config = field(default_factory=Config)
    language: str = "en"
    """Code of the language of the reports."""

    def fingerprint(self, name: str, size: int, version: str) -> str:
        """Hash of the input, the options and the version of this program, which differs whenever one of them does.

        Args:
            name: Relative path of the file.
            size: Size of the file in bytes.
            version: Version of the file: the time of its last change, or the tag of an object store.
        """
        settings = replace(self.config, origin="", options=frozenset())  # the location of settings changes no report
        what = (__version__, name, size, version, replace(self, config=settings))
        import hashlib  # noqa: PLC0415 - OpenSSL takes 5 MB, which a report on one trace does not need

        return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()


@dataclass(frozen=True)
class Request:
    """Everything that defines one batch."""

    inputs: tuple[str, ...]
    """Files, folders, patterns and URLs to analyze."""
    output: str
    """Path or URL of the folder of the reports."""
    options: ReportOptions = field(default_factory=ReportOptions)
    jobs: int | None = None
    """Most processes to use; None for one per core."""
    memory: str | None = None
    """Memory that all processes may use, such as `8G` or `50%`; None for the available memory less a reserve."""
    cluster: str | None = None
    """Address of a Dask scheduler that runs the jobs instead of local processes; None for none."""
    force: bool = False
    """Whether to overwrite files that this program did not write."""
    history: str | None = None
    """Path of a history to which the runs are added, or None."""
    recorded_ns: int | None = None
    """When runs were recorded whose traces do not say it, in ns since 1970."""


class Progress:
    """Receives every event of a batch, always from the same thread; this class ignores them all."""

    def found(self, files: int) -> None:
        """Called when this many files have been checked."""

    def begin(self, files: int, size_bytes: int) -> None:
        """Called when the number and size of the files to analyze is known."""

    def read(self, size_bytes: int) -> None:
        """Called when this many more bytes have been read or skipped."""

    def end(self, name: str, failure: str | None) -> None:
        """Called when a file is done, or has failed for a reason."""

    def note(self, text: str) -> None:
        """Called with a line that the user should see."""
