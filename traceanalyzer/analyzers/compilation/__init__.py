"""What does code of torch.compile cost apart from its kernels: graph breaks, guards, size checks, recompilation?

A compiled region runs one graph. After a graph break, torch compiles the rest of the function as a separate function,
whose region runs within the region before the break: regions within regions are graph breaks. A compile log
(`TORCH_TRACE`) adds functions, lines and reasons.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.compilation import compiling, from_log, input_copies, regions
from traceanalyzer.analyzers.compilation.compiling import Compiling
from traceanalyzer.analyzers.compilation.from_log import FailedCompilation, SizeGuard
from traceanalyzer.analyzers.compilation.input_copies import InputCopies
from traceanalyzer.analyzers.compilation.regions import CompiledRegion, GraphBreak
from traceanalyzer.knowledge import compiled_code
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.intervals import Intervals


class CompiledCode(msgspec.Struct, frozen=True):
    """Compiled regions, graph breaks, checks and compilations; figures per step are means over the typical steps."""

    steps: int
    """Number of typical steps that the means are over; 0 without steps."""
    regions_per_step: float | None
    """Calls of compiled regions; null without steps."""
    breaks_per_step: float | None
    """Number of executed graph breaks: regions that run within another region; null without steps."""
    between_ns_per_step: float | None
    """Host time in ns between the regions before and after graph breaks; null without steps."""
    guards_ns_per_step: float | None
    """Host time in ns of checking guards, which selects the compiled code before each call; null if the profiler did
    not record these checks."""
    guard_checks_per_step: float | None
    """Number of guard checks; null if the profiler did not record them."""
    size_checks_ns_per_step: float | None
    """Host time in ns of `assert_size_stride`, with which Inductor's code checks its inputs; null without Python
    stacks."""
    input_copies: InputCopies | None
    """Copies into the static inputs of graphs; null where no compiled region launches a graph."""
    compiling_ns: int
    """Time of the recording in ns in which code was compiled."""
    regions: tuple[CompiledRegion, ...]
    """Compiled regions, those with the most host time first."""
    breaks: tuple[GraphBreak, ...]
    """Graph breaks, the most frequent first."""
    compilations: tuple[Compiling, ...]
    """Compilations in the recording, in the order of time; then those that are only in a log."""
    failures: tuple[FailedCompilation, ...]
    """Compilations that failed, from the log."""
    size_guards: tuple[SizeGuard, ...]
    """Conditions on sizes that became part of compiled code, with the lines that caused them, from the log."""
    logs: tuple[str, ...]
    """Names of the compile logs that were read."""
    entering_ns_per_step: float | None = None
    """Host time in ns of starting and leaving compiled regions, before their first and after their last operator; null
    without steps."""
    entering_behind_ns_per_step: float | None = None
    """Part of `entering_ns_per_step` in regions after graph breaks; null without steps."""


def _is_of_compiler(name: str) -> bool:
    return compiled_code.is_region(name) or compiled_code.is_compilation(name)


def analyze(context: Context) -> CompiledCode:
    """The cost of compiled code on the host."""
    steps = program_steps(context).typical
    told = from_log.told(context.compile_logs, context.trace.info.rank)
    found, broken = regions.analyze(context, steps, told)
    compilations = compiling.analyze(context, told)
    count = len(steps) or None
    guards, checks = _time(context, compiled_code.is_guards)
    sizes = _frames(context)
    entering, behind = regions.entering(context, steps)
    return CompiledCode(
        steps=len(steps),
        regions_per_step=None if count is None else sum(row.calls for row in found) / count,
        breaks_per_step=None if count is None else sum(row.calls for row in broken) / count,
        between_ns_per_step=None if count is None else sum(row.between_ns for row in broken) / count,
        guards_ns_per_step=None if count is None or not checks else guards / count,
        guard_checks_per_step=None if count is None or not checks else checks / count,
        size_checks_ns_per_step=None if count is None or sizes is None else sizes / count,
        input_copies=input_copies.analyze(context, steps),
        compiling_ns=compiling.length(context),
        regions=found,
        breaks=broken,
        compilations=compilations,
        failures=told.failures,
        size_guards=told.guards,
        logs=told.names,
        entering_ns_per_step=None if count is None else entering / count,
        entering_behind_ns_per_step=None if count is None else behind / count,
    )


def _time(context: Context, wanted: regions.Wanted) -> tuple[int, int]:
    """Host time and number of events of a kind that start in typical steps."""
    host, steps = context.trace.host, program_steps(context).typical
    rows = regions.rows_of(context, wanted)
    rows = rows[steps.at(host.start_ns[rows]) >= 0] if len(steps) else rows[:0]
    return int(host.dur_ns[rows].sum()), len(rows)


def _frames(context: Context) -> int | None:
    """Time of size checks in typical steps; None without Python stacks."""
    frames, steps = context.trace.frames, program_steps(context).typical
    if not len(frames) or not len(steps):
        return None
    rows = context.trace.names.where(compiled_code.is_size_check)[frames.name].nonzero()[0]
    rows = rows[steps.at(frames.start_ns[rows]) >= 0]
    return Intervals.union(frames.start_ns[rows], frames.end_ns[rows]).length


_NOTHING = Need(
    Text(
        "skip-no-compiled-code",
        "the trace shows no code of torch.compile, and no compile log was given (--compile-log)",
    ),
    lambda context: (
        bool(context.compile_logs) or context.trace.names.where(_is_of_compiler)[context.trace.host.name].any()
    ),
)
ANALYSES = (Analysis(230, "compilation", CompiledCode, analyze, needs=(_NOTHING,)),)
