"""Reads traces, printed tables and saved reports for programs: what `traceanalyzer.load` and `load_report` are.

What analyzes is not imported here: reading a trace of 100 MB would take a third more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from traceanalyzer import readers
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import opening, saved_reports
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

_SAVED = (
    "is a saved report or difference, which contains no events; give the trace that it was made of "
    "(in Python, traceanalyzer.load_report reads reports)"
)
_NOT_SAVED = "is not a report that traceanalyzer saved (report -o x.json); traceanalyzer.load reads traces"


def load(path: str | Path, progress: Callable[[int], None] | None = None, *, jobs: int = 1) -> Trace | TableDocument:
    """Read a trace, or a text with tables of `key_averages()`; the content decides.

    Args:
        path: A Kineto trace (`.json`, `.json.gz`, `.tmp`), any text, the URL of one, or "-" for standard input.
        progress: Called with the number of bytes after each read.
        jobs: Most processes that decode a large trace, this one included. On Linux they are forked from this process;
            elsewhere this one does all.

    Raises:
        UnusableInputError: Missing, empty, or neither of the two.
        MissingDependencyError: A URL whose library is not installed.
    """
    with opening.open_source(path, progress or (lambda _: None)) as source:
        if saved_reports.begins(source):
            raise UnusableInputError(f"{source.name}: {_SAVED}")
        return readers.read(source, jobs)


def load_report(path: str | Path) -> Report:
    """Read a report that was saved as JSON (`report -o x.json`).

    Args:
        path: The file, the URL of one, or "-" for standard input.

    Raises:
        UnusableInputError: Missing, empty, not a report, or one that another version of the schema describes.
        MissingDependencyError: A URL whose library is not installed.
    """
    with opening.open_source(path) as source:
        if not saved_reports.begins(source):
            raise UnusableInputError(f"{source.name}: {_NOT_SAVED}")
        return saved_reports.read_report(source)
