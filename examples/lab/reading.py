"""Reads a trace and keeps what the tool says of it."""

from __future__ import annotations

from pathlib import Path

import traceanalyzer as ta
from examples.lab.results import Recorded, Said

_NS_PER_MS = 1e6


def recorded(trace: Path) -> Recorded:
    """The findings of a trace, and its typical step."""
    report = ta.analyze(ta.load(trace))
    said = []
    for finding in report.findings:
        wall = None if finding.saving is None else finding.saving.wall_ns_per_step
        saving = None if wall is None else (wall[0] / _NS_PER_MS, wall[1] / _NS_PER_MS)
        said.append(Said(finding.rule, finding.severity, saving))
    return Recorded(report.headlines[0].resources.step_ns / _NS_PER_MS, tuple(said))
