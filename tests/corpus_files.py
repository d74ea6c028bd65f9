"""Traces and documents of the corpus, read and analyzed once a session and worker: many tests ask the same ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from traceanalyzer.analyzers.context import Context
from traceanalyzer.pipeline import analyze, load
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace


@cache
def content_of(path: Path) -> Trace | TableDocument:
    """What is in a file."""
    return load(path)


def trace_of(path: Path) -> Trace:
    """The trace in a file."""
    trace = content_of(path)
    assert isinstance(trace, Trace)
    return trace


@cache
def context_of(path: Path) -> Context:
    """The trace in a file with what analyses share; it is frozen, so tests may share it, too."""
    return Context(trace_of(path))


@cache
def report_of(path: Path) -> Report:
    """The report on a file, be it a trace or a document."""
    return analyze(content_of(path))
