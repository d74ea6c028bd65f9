"""What does code of torch.compile cost apart from its kernels: graph breaks, guards, size checks, recompilation?

A compiled region runs one graph. After a graph break, torch compiles the rest of the function as a separate function,
whose region runs within the region before the break: regions within regions are graph breaks. A compile log
(`TORCH_TRACE`) adds functions, lines and reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.compilation import logged, regions
from traceanalyzer.analyzers.compilation.logged import (
    CacheUse,
    FailedCompilation,
    LogFigures,
    LoggedGraphBreak,
    LogSummary,
    SizeGuard,
    place_of,
)
from traceanalyzer.analyzers.compilation.regions import CompiledRegion, GraphBreak
from traceanalyzer.knowledge import compiled_code, python_frames
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import graph_calls
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.compile_log import CompileLog, LoggedCompilation
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Loss
from traceanalyzer.trace.table import I32, I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT, Tree

_COPIES = frozenset({"aten::copy_", "aten::_foreach_copy_"})
_BEFORE_ALL = -1
_SAME = 0.05
"""Own choice: the recorded and the logged time of one compilation differ by less, because one range is in the other."""


class Compiling(msgspec.Struct, frozen=True):
    """One compilation of a function, or of its backward pass."""

    compilation: str | None
    """Number of the function and of its compilation, both counted by torch from 0: 0/1 is the second compilation of the
    first function; null for versions of torch that do not record it."""
    is_backward: bool
    """Whether the backward pass was compiled."""
    is_again: bool
    """Whether the function had been compiled before, so that an existing compilation could not be used."""
    start_ns: int | None
    """Start in the recording in ns since the first event of the trace; null if it is only in the log."""
    time_ns: int | None
    """Duration in ns, compilations within it included; null if unknown."""
    step: str | None
    """Name of the step in which it started; null outside of steps or of the recording."""
    function: str | None
    """Name of the function, from the log; null without a log."""
    file: str | None
    """File of the function, from the log; null without a log."""
    line: int | None
    """First line of the function, from the log; null without a log."""
    reasons: tuple[str, ...]
    """Why earlier compilations could not be used, from the log."""
    phases: logged.CompilationPhases | None = None
    """Parts of the time, from the log; null if it is not in one."""
    is_by_clock: bool = False
    """Whether the time is only known from the dates of the log's lines."""
    logged_start_ns: int | None = None
    """Start in ns since the first entry of the log; null if it is not in one."""
    backward_ns: int | None = None
    """Time in ns of compiling the backward pass, which comes later; null if the log has none."""
    is_library: bool = False
    """Whether the function is one of torch or a library, such as a wrapper around code of the user."""
    caller_function: str | None = None
    """Name of the function that called it: the last one on the stack that is code of the user; null without a log."""
    caller_file: str | None = None
    """Its file; null without a log."""
    caller_line: int | None = None
    """The line of the call; null without a log."""
    cache_hits: int | None = None
    """Its graphs that a cache had, of all caches; null if it is not in a log."""
    cache_misses: int | None = None
    """Its graphs that a cache did not have."""
    cache_bypasses: int | None = None
    """Its graphs that cannot be cached."""

    @property
    def place(self) -> tuple[str | None, int | None]:
        """File and line in code of the user: of the function, or of the call of one that is unknown or a library's."""
        is_elsewhere = self.is_library or self.file is None
        return (self.caller_file, self.caller_line) if is_elsewhere else (self.file, self.line)


class InputCopies(msgspec.Struct, frozen=True):
    """Copies of inputs that the graphs of compiled code read from fixed addresses; sums over the typical steps."""

    calls: int
    """Copy operators that start before the last graph launch of their region."""
    host_ns: int
    """Host time in ns of these operators."""
    device_ns: int
    """Device time in ns of the work that they launched."""
    shapes: tuple[str, ...]
    """Input shapes of the operators as recorded, the most frequent first; calls without recorded shapes are left
    out."""


_ERROR = 300
"""Characters of an error that a warning shows."""


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
    log: LogFigures | None = None
    """Sums over the compile logs; null without logs."""
    logged_breaks: tuple[LoggedGraphBreak, ...] = ()
    """All graph breaks in the logs, in their order."""
    caches: tuple[CacheUse, ...] = ()
    """Lookups in the caches of compiled graphs, from the logs."""


def analyze(context: Context) -> CompiledCode:
    """The cost of compiled code on the host."""
    steps = program_steps(context).typical
    logs = logged.summarize_logs(context.compile_logs, context.trace.info.rank)
    rows, breaks, (entering, behind) = regions.analyze(context, steps, logs)
    guards, checks = _time(context, compiled_code.is_guards)
    sizes = _frames(context)

    def per_step(total: int, *, known: object = True) -> float | None:
        return total / len(steps) if len(steps) and known else None

    return CompiledCode(
        steps=len(steps),
        regions_per_step=per_step(sum(row.calls for row in rows)),
        breaks_per_step=per_step(sum(row.calls for row in breaks)),
        between_ns_per_step=per_step(sum(row.between_ns for row in breaks)),
        guards_ns_per_step=per_step(guards, known=checks),
        guard_checks_per_step=per_step(checks, known=checks),
        size_checks_ns_per_step=per_step(sizes or 0, known=sizes is not None),
        input_copies=input_copies(context, steps),
        compiling_ns=compiling_ns(context),
        regions=rows,
        breaks=breaks,
        compilations=compilations(context, logs),
        failures=logs.failures,
        size_guards=logs.guards,
        logs=logs.names,
        entering_ns_per_step=per_step(entering),
        entering_behind_ns_per_step=per_step(behind),
        **_only_logged(context.compile_logs, logs),
    )


def doubts(code: object) -> Iterator[Loss]:
    """Compilations that failed, which a log tells and which nobody sees in a trace; none without a result."""
    if isinstance(code, CompiledCode) and code.failures:
        first = code.failures[0]
        error = " ".join(first.error.split())[:_ERROR]
        yield Loss("q-compilation-failed", len(code.failures), {"function": first.function or "?", "error": error})


def of_logs(compile_logs: Sequence[CompileLog]) -> CompiledCode:
    """What compile logs say without a trace; of several ranks, those of the lowest."""
    logs = logged.summarize_logs(compile_logs, None)
    unknown: dict[str, Any] = {
        name: None for name in CompiledCode.__struct_fields__ if name.endswith(("per_step", "input_copies"))
    }
    return CompiledCode(
        steps=0,
        compiling_ns=0,
        regions=(),
        breaks=(),
        compilations=tuple(map(_of_log, logs.compilations)),
        failures=logs.failures,
        size_guards=logs.guards,
        logs=logs.names,
        **unknown,
        **_only_logged(compile_logs, logs),
    )


def _only_logged(compile_logs: Sequence[CompileLog], logs: LogSummary) -> dict[str, Any]:
    """Fields that only logs fill."""
    figures = logged.figures(compile_logs, logs)
    return {"log": figures, "logged_breaks": logs.graph_breaks, "caches": logs.caches}


def _time(context: Context, wanted: regions.Wanted) -> tuple[int, int]:
    """Host time and number of events of a kind that start in typical steps."""
    host = context.trace.host
    steps = program_steps(context).typical
    rows = regions.rows_of(context, wanted)
    rows = rows[steps.at(host.start_ns[rows]) >= 0] if len(steps) else rows[:0]
    return int(host.dur_ns[rows].sum()), len(rows)


def _frames(context: Context) -> int | None:
    """Time of size checks in typical steps; None without Python stacks."""
    frames = context.trace.frames
    steps = program_steps(context).typical
    if not len(frames) or not len(steps):
        return None
    rows = context.trace.names.where(compiled_code.is_size_check)[frames.name].nonzero()[0]
    rows = rows[steps.at(frames.start_ns[rows]) >= 0]
    return Intervals.union(frames.start_ns[rows], frames.end_ns[rows]).length


def compiling_ns(context: Context) -> int:
    """Time of the recording in ns in which something was compiled."""
    host = context.trace.host
    rows = regions.rows_of(context, compiled_code.is_compilation)
    return Intervals.union(host.start_ns[rows], host.end_ns[rows]).length


def compilations(context: Context, logs: LogSummary) -> tuple[Compiling, ...]:
    """All compilations, each once: first those in the recording, in the order of time, then those only in logs."""
    recorded = _recorded(context, logs)
    seen = {row.compilation for row in recorded}
    return (*recorded, *(_of_log(entry) for entry in logs.compilations if entry.id not in seen))


def _of_log(entry: LoggedCompilation) -> Compiling:
    """A compilation that is only in a log."""
    is_by_clock = entry.duration_ns is None
    row = Compiling(
        compilation=entry.id,
        is_backward=False,
        is_again=compiled_code.is_recompilation(entry.id),
        start_ns=None,
        time_ns=entry.logged_ns if is_by_clock else entry.duration_ns,
        step=None,
        function=None,
        file=None,
        line=None,
        reasons=entry.reasons,
        is_by_clock=is_by_clock,
    )
    return _explained(row, entry)


def _explained(row: Compiling, entry: LoggedCompilation | None) -> Compiling:
    """A compilation with what the log says about it; a recorded backward pass has times of its own."""
    if entry is None:
        return row
    function, file, line = place_of(entry.code)
    row = replace(row, function=function, file=file, line=line, reasons=entry.reasons)
    if row.is_backward:
        return row
    caller_function, caller_file, caller_line = place_of(entry.caller)
    outcomes = Counter(lookup.outcome for lookup in entry.lookups)
    return replace(
        row,
        phases=logged.phases_of(entry),
        logged_start_ns=entry.start_ns,
        backward_ns=entry.backward_ns,
        is_library=entry.code is not None and not python_frames.is_own_file(entry.code.file),
        caller_function=caller_function,
        caller_file=caller_file,
        caller_line=caller_line,
        cache_hits=outcomes["hit"],
        cache_misses=outcomes["miss"],
        cache_bypasses=outcomes["bypass"],
    )


def _recorded(context: Context, logs: LogSummary) -> tuple[Compiling, ...]:
    host = context.trace.host
    rows = regions.rows_of(context, compiled_code.is_compilation)
    if not len(rows):
        return ()
    tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
    rows = rows[order]
    outermost = np.flatnonzero(~_is_within_equal(context, tree, rows))
    outermost = outermost[np.argsort(rows[outermost])]
    ids = _ids(context, tree, rows)
    left = [entry for entry in logs.compilations if entry.id not in ids]
    compilations = []
    for position in outermost.tolist():
        compiling = _recorded_compiling(context, int(rows[position]), ids[position])
        entry = logs.of(compiling.compilation)
        if compiling.compilation is None and not compiling.is_backward:
            entry = _as_long(left, int(host.dur_ns[rows[position]]))
            if entry is not None:
                left.remove(entry)
                is_again = compiled_code.is_recompilation(entry.id)
                compiling = replace(compiling, compilation=entry.id, is_again=is_again)
        compilations.append(_explained(compiling, entry))
    return tuple(compilations)


def _recorded_compiling(context: Context, row: int, compilation: str | None) -> Compiling:
    """What the recording says of a compilation."""
    host = context.trace.host
    steps = program_steps(context).every
    start = host.start_ns[row]
    step = int(steps.at(np.array([start]))[0])
    return Compiling(
        compilation=compilation,
        is_backward=compiled_code.is_backward_compilation(context.trace.names[int(host.name[row])]),
        is_again=compilation is not None and compiled_code.is_recompilation(compilation),
        start_ns=int(start),
        time_ns=int(host.dur_ns[row]),
        step=steps.names[step] if step >= 0 else None,
        function=None,
        file=None,
        line=None,
        reasons=(),
    )


def _as_long(logged: Sequence[LoggedCompilation], duration: int) -> LoggedCompilation | None:
    """The first logged compilation of about this duration: old versions of torch record no number."""
    fitting = (one for one in logged if one.duration_ns and abs(one.duration_ns - duration) <= _SAME * duration)
    return next(fitting, None)


def _is_within_equal(context: Context, tree: Tree, rows: I64) -> Bool:
    """Which events are the second range of a compilation: dynamo writes two ranges for each.

    A range of another kind within one of `entire_frame_compile` is the same compilation.
    """
    names = context.trace.names
    second = names.where(lambda name: name.startswith("_compile."))[context.trace.host.name[rows]]
    within: Bool = second & (tree.parent != NO_PARENT)
    return within


def _ids(context: Context, tree: Tree, rows: I64) -> list[str | None]:
    """The compilation of each event: from the first mark within it that names one."""
    host, names = context.trace.host, context.trace.names
    marks = np.flatnonzero(names.where(compiled_code.is_named_compilation)[host.name])
    around = tree.innermost(host.thread[marks], host.start_ns[marks])
    known = np.full(len(rows), -1, np.int64)
    inside = around != NO_PARENT
    known[around[inside][::-1]] = host.name[marks[inside]][::-1]  # the first of several counts
    outer = take_or(known, tree.parent, -1)
    code = np.where(known >= 0, known, outer)
    return [compiled_code.named_compilation(names[int(row)]) if row >= 0 else None for row in code.tolist()]


def input_copies(context: Context, steps: Steps) -> InputCopies | None:
    """Copies before graph launches in compiled regions; None if no region launches a graph."""
    host = context.host
    if not len(steps):
        return None
    region = host.tree.nearest(context.trace.names.where(compiled_code.is_region)[host.name])
    last = _last_launch(context, region)
    if not (last > _BEFORE_ALL).any():
        return None
    copies = np.flatnonzero(context.trace.names.where(lambda name: name in _COPIES)[host.name])
    start = host.tree.start_ns[copies]
    wanted = (start < take_or(last, region[copies], _BEFORE_ALL)) & (steps.at(start) >= 0)
    copies = copies[wanted]
    time = host.tree.end_ns[copies] - host.tree.start_ns[copies]
    return InputCopies(len(copies), int(time.sum()), _device_ns(context, copies), _shapes(context, copies))


def _last_launch(context: Context, region: I32) -> I64:
    """For each node, the start of the last graph launch in it if it is a region, or -1."""
    calls = np.flatnonzero(graph_calls(context))
    around = take_or(region, context.links.innermost[calls], NO_PARENT)
    inside = around != NO_PARENT
    last = np.full(len(region), _BEFORE_ALL, np.int64)
    np.maximum.at(last, around[inside], context.trace.launches.start_ns[calls[inside]])
    return last


def _device_ns(context: Context, copies: I64) -> int:
    """Device time of the work that some operators launched."""
    marked = np.zeros(len(context.host.tree), np.bool_)
    marked[copies] = True
    around = take_or(context.host.tree.nearest(marked), context.links.device_node(), NO_PARENT)
    return int(context.trace.device.dur_ns[around != NO_PARENT].sum())


def _shapes(context: Context, copies: I64) -> tuple[str, ...]:
    """Shapes of the operators, the most frequent first."""
    codes, counts = np.unique(context.trace.host.shapes[context.host.row[copies]], return_counts=True)
    texts = [(context.trace.shapes[code], count) for code, count in zip(codes.tolist(), counts.tolist(), strict=True)]
    return tuple(text for text, _ in sorted(texts, key=lambda pair: (-pair[1], pair[0])) if text)[:5]


_NOTHING = Need(
    Text(
        "skip-no-compiled-code",
        "the trace shows no code of torch.compile, and no compile log was given (--compile-log)",
    ),
    lambda context: bool(
        context.compile_logs
        or len(regions.rows_of(context, compiled_code.is_region))
        or len(regions.rows_of(context, compiled_code.is_compilation))
    ),
)
ANALYSES = (Analysis(230, "compilation", CompiledCode, analyze, needs=(_NOTHING,)),)
