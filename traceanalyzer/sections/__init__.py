"""Builds the sections of a report, in the order of the report, one file per subject.

    findings         what bounds the run, and what should be changed
    outcome          what a step would be with all fixes, and the first cards
    overview         how long a step is, and where it goes
    critical_path    what decides how long it is
    throughput       samples and tokens per second, of trainings and of servers
    accelerators     devices that write no kernels
    clocks           clocks of GPUs, power and temperature
    printed_memory   what errors and summaries in a text say of memory
    memory_snapshot  what a snapshot of memory holds, and who holds the peak
    memory_savings   what would free memory, by the replay of a snapshot
    memory_change    what grew from one snapshot to another
    trust            the file, losses while reading, skipped analyses
    story            several measurements of one program
    story_headline   what became of its step
    columns          what sections are made of: tables and facts, whose columns are data
    explained        orders tables by the device time that they explain
    in_steps         puts the typical step before the whole recording
    several_runs     merges what many tables have in common

The others have the names of their subjects: `capture`, `communication`, `compilation`, `copies`, `hangs`, `host`,
`idle`, `kernels`, `launches`, `memory`, `modules`, `operators`, `phases`, `ranks`, `steps`, `tables`, `waits`.

Terminal, Markdown, HTML and spreadsheets show the same facts, and what to show is decided once, here. What a format
needs of a section or a column is a field of it. Sections are a layer below the formats, not a part of them, so that
none can depend on a layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections import (
    accelerators,
    capture,
    clocks,
    communication,
    compilation,
    copies,
    critical_path,
    explained,
    findings,
    hangs,
    host,
    idle,
    in_steps,
    kernels,
    launches,
    memory,
    memory_change,
    memory_savings,
    memory_snapshot,
    modules,
    operators,
    overview,
    phases,
    printed_memory,
    ranks,
    steps,
    story,
    story_headline,
    tables,
    throughput,
    trust,
    waits,
)

_BUILDERS: tuple[Callable[[Report, int], Iterator[Section]], ...] = (
    story_headline.build,
    story.build,
    capture.build_step,
    findings.build,
    overview.build,
    critical_path.build,
    steps.build_recording,
    phases.build,
    ranks.build,
    hangs.build,
    memory_snapshot.build,
    memory_savings.build,
    memory_change.build,
    printed_memory.build,
    capture.build,
    tables.build,
    throughput.build,
    idle.build_utilization,
    clocks.build,
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
    modules.build_labels,
    modules.build_lines,
    modules.build_graph_lines,
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
