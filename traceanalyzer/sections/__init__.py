"""Builds the sections of a report, in the order of the report, one file per subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections import (
    accelerators,
    capture,
    communication,
    compilation,
    copies,
    critical_path,
    explained,
    findings,
    host,
    idle,
    in_steps,
    kernels,
    launches,
    memory,
    modules,
    operators,
    overview,
    phases,
    ranks,
    steps,
    story,
    tables,
    throughput,
    trust,
    waits,
)

_BUILDERS: tuple[Callable[[Report, int], Iterator[Section]], ...] = (
    story.build,
    capture.build_step,
    findings.build,
    overview.build,
    critical_path.build,
    steps.build_recording,
    phases.build,
    ranks.build,
    capture.build,
    tables.build,
    throughput.build,
    idle.build_utilization,
    accelerators.build,
    launches.build_joined,
    operators.build,
    kernels.build,
    host.build,
    idle.build,
    waits.build,
    copies.build,
    launches.build,
    compilation.build,
    kernels.build_classes,
    kernels.build_layers,
    kernels.build_roofline,
    communication.build,
    modules.build,
    modules.build_lines,
    memory.build,
    steps.build,
    trust.build,
)


def build(report: Report, top: int) -> tuple[Section, ...]:
    """Build all nonempty sections of a report.

    Args:
        report: The report.
        top: Number of rows of each ranking.
    """
    found = (section for builder in _BUILDERS for section in builder(report, top))
    return explained.ordered(report, in_steps.named(report, found))
