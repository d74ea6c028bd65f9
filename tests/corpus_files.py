"""Traces and documents of the corpus, read and analyzed once a session and worker: many tests ask the same ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from unittest.mock import patch

from traceanalyzer import pipeline
from traceanalyzer.formats import html
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.runner import Advice, judge
from traceanalyzer.rules.engine.selection import Chosen
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

FIELD = ("pairs", "second", "serving", "ranks")
"""Folders with traces that others recorded in their programs."""


def field() -> list[Path]:
    """The traces of these folders; none without the corpus."""
    folder = os.environ.get("TRACEANALYZER_CORPUS")
    return [path for name in FIELD if folder for path in sorted(Path(folder, "field", name).glob("*.json.gz"))]


@cache
def content_of(path: Path) -> Trace | TableDocument:
    """The content of a file of the corpus."""
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


def report_of(path: Path) -> Report:
    """The report on a file, be it a trace or a document."""
    return _analyzed(path)[0]


@lru_cache(8)  # tests of one file come one after another
def page_of(path: Path) -> str:
    """The page of the report on a file, in English."""
    return html.render(report_of(path))


def facts_of(path: Path) -> tuple[Facts, ...]:
    """What the rules are asked about when a file is reported on."""
    return _analyzed(path)[1]


@cache
def _analyzed(path: Path) -> tuple[Report, tuple[Facts, ...]]:
    asked: list[Facts] = []

    def watched(runs: Sequence[Facts], chosen: Sequence[Chosen]) -> Advice:
        asked.extend(runs)
        return judge(runs, chosen)

    with patch.object(pipeline, "judge", watched):
        report = analyze(content_of(path))
    return report, tuple(asked)
