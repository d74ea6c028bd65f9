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
    gpu,
    graph_join,
    host_owners,
    idle,
    kernel_classes,
    kernels,
    launches,
    memory,
    modules,
    operators,
    overview,
    phases,
    python_lines,
    ranks,
    recording,
    repeated_layers,
    roofline,
    runs,
    steps,
    synchronizations,
    throughput,
    trust,
)

_BUILDERS: tuple[Callable[[Report, int], Iterator[Section]], ...] = (
    findings.build,
    overview.build,
    critical_path.build,
    recording.build,
    phases.build,
    ranks.build,
    capture.build,
    runs.build,
    throughput.build,
    gpu.build,
    accelerators.build,
    graph_join.build,
    operators.build,
    kernels.build,
    host_owners.build,
    idle.build,
    synchronizations.build,
    copies.build,
    launches.build,
    compilation.build,
    kernel_classes.build,
    repeated_layers.build,
    roofline.build,
    communication.build,
    modules.build,
    python_lines.build,
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
    return explained.ordered(report, (section for builder in _BUILDERS for section in builder(report, top)))
