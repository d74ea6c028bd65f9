"""No finding promises more than the time of its own events and what they hold up, on whatever trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import corpus_files
from traceanalyzer.report.model import Finding, Report
from traceanalyzer.trace.model import Trace

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = sorted(path for name in ("synthetic", "captured") for path in (FIXTURES / name).glob("*.json*"))
_WITHOUT_DEVICE = 1.6
"""Greatest factor that a page explains: what autograd does besides for the pieces of a loop on a CPU."""
_ROUNDED = 1.02
_KEEP_FROM_FUSING = frozenset({"batch-norm-not-eval"})
"""Rules about operators that make others slow, whose places are only the former."""


def beyond(report: Report) -> Iterator[str]:
    """Savings above what the events of their findings, and idle time, leave."""
    for finding in report.findings:
        bound = _bound(report, finding)
        if bound is not None and finding.saving and finding.saving.wall_ns_per_step[1] > _ROUNDED * bound + 1:
            yield f"{finding.rule}: {finding.saving.wall_ns_per_step[1]:.0f} of at most {bound:.0f}"


def _bound(report: Report, finding: Finding) -> float | None:
    """The most that it may save per step in ns; None where it is about no events of typical steps."""
    (headline,) = report.headlines
    own = [entry.ns_per_step for entry in finding.where if entry.ns_per_step is not None]
    resources = headline.resources
    if resources is None or not own or finding.saving is None or finding.rule in _KEEP_FROM_FUSING:
        return None
    step = finding.saving.step_ns or resources.step_ns
    if resources.gpu_ns is None:
        return min(step, _WITHOUT_DEVICE * sum(own))
    return min(step, sum(own) + max(0.0, resources.step_ns - resources.gpu_ns))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_fixtures(path: Path) -> None:
    is_trace = isinstance(corpus_files.content_of(path), Trace)
    found = [*beyond(corpus_files.report_of(path))] if is_trace else []
    assert found == []


@pytest.mark.corpus
def test_real_traces(corpus: Path, corpus_name: str) -> None:
    assert [*beyond(corpus_files.report_of(corpus / "corpus" / f"{corpus_name}.json.gz"))] == []


def test_a_saving_above_its_events_is_found() -> None:
    report = corpus_files.report_of(FIXTURES / "synthetic" / "planted_faults.json.gz")
    first = next(finding for finding in report.findings if finding.saving and finding.where)
    assert first.saving is not None
    more = replace(first, saving=replace(first.saving, wall_ns_per_step=(0.0, 1e12)))
    assert [text.split(":")[0] for text in beyond(replace(report, findings=(more,)))] == [first.rule]
