"""Builds the sections of a report, in the order of the report, one file per subject."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traceanalyzer.renderers.sections import (
    capture,
    communication,
    copies,
    findings,
    gpu,
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
    roofline,
    runs,
    steps,
    synchronizations,
    trust,
)
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section

_BUILDERS: tuple[Callable[[Report, int], Iterator[Section]], ...] = (
    findings.build,
    overview.build,
    phases.build,
    ranks.build,
    capture.build,
    runs.build,
    gpu.build,
    operators.build,
    kernels.build,
    idle.build,
    synchronizations.build,
    copies.build,
    launches.build,
    kernel_classes.build,
    roofline.build,
    communication.build,
    modules.build,
    python_lines.build,
    memory.build,
    steps.build,
    trust.build,
)


def build(report: Report, top: int) -> tuple[Section, ...]:
    """Build all sections that the report has something for.

    Args:
        report: The report.
        top: How many rows of each ranking are shown.
    """
    return tuple(section for builder in _BUILDERS for section in builder(report, top))
