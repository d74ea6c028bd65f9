"""Analyzes a trace, or the traces of all ranks, and keeps the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import traceanalyzer as ta
from examples.lab.results import Recorded, Said

_NS_PER_MS = 1e6


def recorded(traces: Sequence[Path]) -> Recorded:
    """The findings and the typical step of a trace; for several ranks, those of rank 0 and of the joint report."""
    report = ta.analyze(ta.load(traces[0]))
    findings, step_ns = list(report.findings), report.headlines[0].resources.step_ns
    if len(traces) > 1:
        findings += ta.ranks(list(traces)).findings
    said = []
    for finding in findings:
        saving = finding.saving
        wall = (
            None
            if saving is None
            else (saving.wall_ns_per_step[0] / _NS_PER_MS, saving.wall_ns_per_step[1] / _NS_PER_MS)
        )
        said.append(Said(finding.rule, finding.severity, wall, None if saving is None else saving.wall_share))
    return Recorded(step_ns / _NS_PER_MS, tuple(said))
