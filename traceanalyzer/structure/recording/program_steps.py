"""Steps of the program, for everything that is judged, and which of them are typical.

`analyzers.steps` has the steps of the step breakdown, whose numbers agree with other tools; these steps are separate.
If the profiler marked no steps, they are made from the first of the following that the trace has: step marks of a
framework, an annotation that repeats and fills a thread, waits for the loader, optimizer steps, launches of one graph,
backward passes, operators or kernels that repeat (`repetition`); else the whole recording is one step.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import backward, critical_threads
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.recording import left_out, repetition, requests, step_signs
from traceanalyzer.structure.recording.frameworks import main_framework
from traceanalyzer.structure.recording.left_out import FEWEST, MARKED
from traceanalyzer.structure.recording.repeated_launches import launched_passes
from traceanalyzer.structure.recording.step_signs import (
    are_in_flight,
    hold_the_work,
    marks_within,
    outermost,
    step_marks,
    trains_after_work,
    updates_of_a_step,
)
from traceanalyzer.structure.steps import ON_DEVICE, Steps, extend, launched_in
from traceanalyzer.structure.sums import count_by, members, rows_by
from traceanalyzer.trace.distinct import ascending, distinct, ranked
from traceanalyzer.trace.table import I32, I64, Bool
from traceanalyzer.trace.tables import Category

WHOLE = "whole-trace"
_A_PASS = 10
"""Least calls of a pass of a model that put something on a device (own choice: one operator makes a few)."""
_REPEATS = 3
"""An annotation must repeat so often to be a step."""
_TILES = 0.5
"""Share of the time of the main thread that the annotation must fill."""
_MUCH = 0.1
"""Least share of the recording that passes which nothing marks must have without those that are unlike the others (own
choice: of a recording with less, somebody wants to know what the rest is)."""
_LITTLE, _MOST = 1 / 3, 0.5
"""Where steps have less of the recording than the first, what repeats in more than the second is it (own choice)."""
_AHEAD = 1.5
"""A host that launches a step so many times as fast as its device works runs ahead of it (own choice)."""


class ProgramSteps(msgspec.Struct, frozen=True):
    """Steps in the order of time, and which of them count as typical."""

    names: tuple[str, ...]
    start_ns: I64
    end_ns: I64
    found_by: str | None
    """What marks the steps: `ProfilerStep`, `whole-trace`, the id of a framework, or the name of what repeats; None
    without steps."""
    reasons: tuple[str | None, ...]
    """The reason why a step is not typical, one of `left_out.REASONS`; None for typical steps."""
    marks: tuple[StepMark | None, ...] = ()
    """The content of a framework's mark for each step, which is this mark or contains it; empty without any."""
    mark_ns: tuple[I64, I64] | None = None
    """Starts and ends of the marks, before the device's work moved the steps; None where the steps are not moved."""
    is_cut: bool = False
    """Whether the recording ended soon after the last step began."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def is_typical(self) -> Bool:
        """Which steps count: those without a reason; if fewer than two, those without a one-time event; else all.

        A last one that was cut never counts.
        """
        is_whole = np.arange(len(self)) < len(self) - self.is_cut
        for no_reason, fewest in ((frozenset(), FEWEST), (left_out.REASONS - left_out.ONE_TIME, 1)):
            kept = is_whole & np.array([reason is None or reason in no_reason for reason in self.reasons], np.bool_)
            if kept.sum() >= fewest:
                return kept
        return is_whole

    @property
    def typical(self) -> Steps:
        """The steps that count, in the order of time; not always consecutive."""
        rows = np.flatnonzero(self.is_typical)
        names = tuple(self.names[row] for row in rows.tolist())
        marks = None if self.mark_ns is None else (self.mark_ns[0][rows], self.mark_ns[1][rows])
        return Steps(names, self.start_ns[rows], self.end_ns[rows], self.found_by, mark_ns=marks)

    @property
    def middle(self) -> int:
        """Row of the typical step that represents the others: the one whose duration is nearest to their mean."""
        rows = np.flatnonzero(self.is_typical)
        length = (self.end_ns - self.start_ns)[rows]
        away = np.abs(length - length.mean())
        return int(rows[np.argmin(np.where(length > 0, away, np.inf))])

    @property
    def every(self) -> Steps:
        """All steps, including those that do not count."""
        return Steps(self.names, self.start_ns, self.end_ns, self.found_by)


@cached
def program_steps(context: Context) -> ProgramSteps:
    """The steps of the program, computed once."""
    if context.scope is not None or is_marked(context):
        return _with_marks(context, context.steps, marks_within(context, context.steps))
    framework, marks = _of_framework(context)
    if framework is not None:
        return _with_marks(context, left_out.after_earlier_work(context, framework), marks)
    for find in _FINDERS:
        repeated = find(context)
        if repeated is not None:
            steps = left_out.after_earlier_work(context, repeated)
            program = _as_program(context, steps, left_out.reasons(context, steps))
            if steps.found_by not in repetition.FOUND_BY or _are_much(context, program):
                return _by_what_counts(context, _of_longer_phase(context, program))
    if (marked := _around_a_pass(context) or _around_everything(context)) is not None:
        return _as_program(context, marked, left_out.reasons(context, marked))
    steps = left_out.after_earlier_work(context, _whole(context))
    return _as_program(context, steps, (None,) * len(steps))


def count_steps(context: Context, start_ns: I64) -> int:
    """In how many steps of the program some times lie."""
    steps = distinct(program_steps(context).every.at(start_ns))
    return int((steps >= 0).sum())


def _by_what_counts(context: Context, program: ProgramSteps) -> ProgramSteps:
    """The steps, called after the passes that count where these are an evaluation after a training."""
    if program.found_by not in {left_out.OPTIMIZER, repetition.BACKWARD}:
        return program
    apart = left_out.calls_without_training(context, program.every)[program.is_typical]
    return replace(program, found_by=repetition.OPERATORS) if apart.all() else program


def _are_much(context: Context, program: ProgramSteps) -> bool:
    """Whether the typical steps are a part of the recording worth judging, or most steps are what starts the others."""
    whole = _recorded_ns(context)
    starts = program.reasons.count(left_out.LOADING)
    if starts + len(program.typical) == len(program) <= 2 * starts and program.every.length_ns >= (1 - _MUCH) * whole:
        return True
    return program.typical.length_ns >= _MUCH * whole


def _recorded_ns(context: Context) -> int:
    """Time from the first event to the end of the last one."""
    tables = context.trace.host, context.trace.launches, context.trace.device
    begins = min(int(table.start_ns.min()) for table in tables if len(table))
    return max(int(table.end_ns.max()) for table in tables if len(table)) - begins


def _of_longer_phase(context: Context, program: ProgramSteps) -> ProgramSteps:
    """The steps, or what fills the recording by repeating where they are little of it: rollouts around few updates."""
    recorded_ns = _recorded_ns(context)
    if program.typical.length_ns >= _LITTLE * recorded_ns:
        return program
    own = program.mark_ns[0] if program.mark_ns is not None else program.start_ns
    passes = repetition.operator_starts(context)
    start = None if passes is None else np.union1d(passes, own)
    repeated = _from_pass_to_pass(context, start, repetition.OPERATORS)
    if repeated is None:
        return program
    other = _as_program(context, repeated, left_out.reasons(context, repeated))
    begun = other.typical.mark_ns
    is_other = begun is not None and np.isin(begun[0], own).mean() < _MUCH  # else it is the same loop
    return other if is_other and other.typical.length_ns >= _MOST * recorded_ns else program


def is_marked(context: Context) -> bool:
    """Whether the profiler marked steps of the process that was recorded."""
    return context.steps.found_by == MARKED and not is_foreign(context)


@cached
def is_foreign(context: Context) -> bool:
    """Whether the steps belong to processes of which nothing else was recorded, while others left events."""
    trace, marked = context.trace, context.kind == NodeKind.STEP
    if not marked.any():
        return False
    process = np.unique([thread.pid for thread in trace.threads], return_inverse=True)[1]
    others = np.concatenate((process[distinct(trace.host.thread[~marked])], process[distinct(trace.launches.thread)]))
    return len(others) > 0 and not np.isin(process[trace.host.thread[marked]], others).any()


def _as_program(context: Context, steps: Steps, reasons: tuple[str | None, ...]) -> ProgramSteps:
    is_cut, reasons = left_out.is_cut(context, steps), left_out.unless_often(reasons, steps)
    return ProgramSteps(
        steps.names,
        steps.start_ns,
        steps.end_ns,
        steps.found_by,
        reasons,
        mark_ns=steps.mark_ns,
        is_cut=is_cut,
    )


def _with_marks(context: Context, steps: Steps, marks: tuple[StepMark | None, ...]) -> ProgramSteps:
    found = left_out.reasons(context, steps)
    if marks:
        found = left_out.of_phases(found, [mark.phase if mark else None for mark in marks])
    return replace(_as_program(context, steps, found), marks=marks)


def _of_framework(context: Context) -> tuple[Steps | None, tuple[StepMark | None, ...]]:
    """The outermost step marks of the framework, until the device has done the work that they launched."""
    trace, framework = context.trace, main_framework(context)
    rows, said = step_marks(context)
    if framework is None or not len(rows) or are_in_flight(context, rows):
        return None, ()
    rows = outermost(context, rows)
    marks = tuple(said[code] for code in trace.host.name[rows].tolist())
    names = tuple(trace.names[code] for code in trace.host.name[rows].tolist())
    return _of_marks(context, rows, names, framework.id), marks


def _of_marks(context: Context, rows: I64, names: tuple[str, ...], found_by: str) -> Steps:
    """Steps from host rows that do not overlap."""
    start, end = context.trace.host.start_ns[rows], context.trace.host.end_ns[rows]
    raw = Steps(names, start, end, found_by, mark_ns=(start, end))
    return extend(context.trace, context.links, raw, drop_tail=False)


def _between_turns(context: Context) -> Steps | None:
    """Steps from the first of several marks that take turns to the next such one."""
    host, thread = context.trace.host, _main_thread(context)
    rows = np.empty(0, np.int64) if thread is None else step_signs.turns(context, thread)
    name = context.trace.names[int(host.name[rows[0]])] if len(rows) else ""
    return _from_starts(context, host.start_ns[rows], int(host.end_ns.max(initial=0)), name)


def _repeated_annotation(context: Context) -> Steps | None:
    """The annotation that fills most of the main thread, if it repeats and contains the work.

    It fills half of the thread, or is what a service does for each request.
    """
    trace = context.trace
    thread = _main_thread(context)
    if thread is None:
        return None
    on_thread = trace.host.thread == thread
    is_plain = (trace.host.category == Category.ANNOTATION) & (context.kind == NodeKind.NONE)
    rows = np.flatnonzero(is_plain & on_thread)
    if not len(rows):
        return None
    span = int(trace.host.end_ns[on_thread].max() - trace.host.start_ns[on_thread].min())
    longest: tuple[int, I64] | None = None
    for marks in _repeated(trace.host.name[rows]):
        outer = outermost(context, rows[marks])
        time = int(trace.host.dur_ns[outer].sum())
        if len(outer) < _REPEATS or time <= (longest[0] if longest else 0):
            continue
        if time < _TILES * span and not requests.wait_for_work(context, outer):
            continue
        if not are_in_flight(context, rows[marks]) and hold_the_work(context, outer):
            longest = time, outer
    if longest is None:
        return None
    return _by_annotation(context, longest[1])


def _by_annotation(context: Context, outer: I64) -> Steps:
    """Steps by marks that do not overlap, or by those that begin turns of which these are a part."""
    host, turns = context.trace.host, step_signs.turns_around(context, outer)
    name = context.trace.names[int(host.name[turns[0]])]
    found = None if turns is outer else _from_starts(context, host.start_ns[turns], int(host.end_ns.max()), name)
    return found if found is not None else _of_marks(context, outer, tuple(map(str, range(len(outer)))), name)


def _repeated(names: I32) -> Iterator[I64]:
    """The rows of each name that repeats, by the codes of the names."""
    codes, number = ranked(names)
    rows_of = rows_by(number)
    for repeated in np.flatnonzero(count_by(number, len(codes)) >= _REPEATS).tolist():
        yield rows_of(repeated)


def _main_thread(context: Context) -> int | None:
    """The thread that launches most, or that waits for autograd's; without a device the one with most operators."""
    critical = critical_threads(context)
    return critical[0] if critical else host_activity.with_most_rows(context)


def _between_loads(context: Context) -> Steps | None:
    """Steps from batch to batch, or to the call that ends an epoch."""
    start, end_ns, has_batch = step_signs.loads(context)
    steps = _from_starts(context, start, end_ns, "enumerate(DataLoader)")
    if steps is None:
        return None
    names = tuple(map(str, range(len(steps))))
    kept = steps.take(np.flatnonzero(has_batch))
    return replace(kept, names=names[: len(kept)]) if len(kept) > 1 else steps


def _between_optimizer_steps(context: Context) -> Steps | None:
    host = context.trace.host
    rows = outermost(context, np.flatnonzero(context.kind == NodeKind.OPTIMIZER))
    size = updates_of_a_step(context, rows)
    start = host.start_ns[rows[::size]]
    if (whole := step_signs.whole_iterations(context, rows, size)) is not None:
        start = whole
    elif len(start) > 1:
        start = _and_passes_after(context, start, int(host.end_ns[rows].max()))
    return _from_starts(context, start, int(host.end_ns.max(initial=0)), left_out.OPTIMIZER)


def _and_passes_after(context: Context, start: I64, end_ns: int) -> I64:
    """Starts of a training's steps and of passes without a backward pass that repeat after its end: an evaluation."""
    passes = repetition.operator_starts(context, end_ns)
    evaluated = context.host.tree.start_ns[np.flatnonzero(context.cached(evaluations))]
    return start if passes is None or evaluated.max(initial=0) > passes[0] else np.append(start, passes)


def _between_graphs(context: Context) -> Steps | None:
    """Steps from launch to launch of one graph, if graphs repeat."""
    start = step_signs.graph_starts(context)
    end_ns = int(context.trace.launches.end_ns.max(initial=0))
    return None if start is None else _from_starts(context, start, end_ns, "graph launch")


def _between_forwards(context: Context) -> Steps | None:
    """Steps from the forward pass before one backward pass to that before the next."""
    start = repetition.forward_starts(context)
    if start is not None:
        start = _and_passes_after(context, start, int(context.cached(backward).end_ns.max()))
    return _from_pass_to_pass(context, start, repetition.BACKWARD)


def _between_repetitions(context: Context) -> Steps | None:
    """Steps from where operators that repeat, or calls of the same modules, begin to where they begin again."""
    start = repetition.operator_starts(context)
    start = step_signs.module_starts(context) if start is None else start
    return _from_pass_to_pass(context, start, repetition.OPERATORS)


def _between_calls(context: Context) -> Steps | None:
    return _from_starts(context, *step_signs.function_calls(context, _main_thread(context)))


def _between_repeated_kernels(context: Context) -> Steps | None:
    """The same of kernels where no operators were recorded."""
    found = launched_passes(context)
    if found is None:
        return None
    return _from_pass_to_pass(context, found.start_ns, repetition.KERNELS, found.end_ns)


def _from_pass_to_pass(context: Context, start: I64 | None, found_by: str, end_ns: int | None = None) -> Steps | None:
    """Steps from start to start, and until the device has done its work; a host that runs ahead begins none earlier."""
    if start is None:
        return None
    tables = context.trace.host, context.trace.launches, context.trace.accelerator
    last = max(int(table.end_ns.max(initial=0)) for table in tables) if end_ns is None else end_ns
    end = np.append(start[1:], last)
    raw = Steps(tuple(map(str, range(len(start)))), start, end, found_by, mark_ns=(start, end))
    return extend(context.trace, context.links, raw, drop_tail=False)


def _from_starts(context: Context, start: I64, end_ns: int, found_by: str) -> Steps | None:
    """Steps from start to start; the last one lasts until the device has done its work.

    Of a program that launches faster than its device works, and never waits, each lasts until the device is done.
    """
    if len(start) < 2:
        return None
    end = np.append(start[1:], max(end_ns, int(start[-1])))
    raw = Steps(tuple(map(str, range(len(start)))), start, end, found_by, mark_ns=(start, end))
    done = extend(context.trace, context.links, raw, drop_tail=False)
    if np.median(done.end_ns - done.start_ns) > _AHEAD * np.median((end - start)[:-1]):
        return done
    launched = launched_in(context.trace, context.links, raw)[-1]
    if len(launched):
        end[-1] = max(int(context.trace.device.end_ns[launched].max()), int(start[-1]))
    return raw


def _around_a_pass(context: Context) -> Steps | None:
    """The outermost marks of one name around work and what trains with it, if they fill half of their thread."""
    host = context.trace.host
    plain = (host.category == Category.ANNOTATION) & (context.kind == NodeKind.NONE)
    works = host.category == Category.OPERATOR
    updates, backward = context.kind == NodeKind.OPTIMIZER, context.cached(evaluations)
    passes = ascending(np.append(host.start_ns[updates], context.host.tree.start_ns[backward]))
    for _, own in members(host.thread):
        rows = outermost(context, own[plain[own]])
        rows = rows[trains_after_work(context, rows, passes, host.start_ns[own[works[own]]])]
        rows = rows[host.name[rows] == host.name[rows[:1]]]
        span = int(host.end_ns[own].max() - host.start_ns[own].min())
        if len(rows) and int(host.dur_ns[rows].sum()) >= _TILES * span:
            names = tuple(map(str, range(len(rows))))
            return _of_marks(context, rows, names, context.trace.names[int(host.name[rows[0]])])
    return None


def _around_everything(context: Context) -> Steps | None:
    """The outermost mark, if one mark contains all operators and launches: a recording of a single pass."""
    host, launches = context.trace.host, context.trace.launches
    operators = host.category == Category.OPERATOR
    calls = launches.start_ns[context.links.calls]
    if not operators.any() or len(calls) < _A_PASS:
        return None
    first = min(int(host.start_ns[operators].min()), int(calls.min()))
    last = max(int(host.end_ns[operators].max()), int(calls.max()))
    plain = (host.category == Category.ANNOTATION) & (context.kind == NodeKind.NONE)
    rows = np.flatnonzero(plain & (host.start_ns <= first) & (host.end_ns >= last))[:1]
    return _of_marks(context, rows, ("0",), context.trace.names[int(host.name[rows[0]])]) if len(rows) else None


def _whole(context: Context) -> Steps:
    """The whole recording, until the device is done; without the marks if they belong to another process."""
    steps = context.steps
    if not is_foreign(context):
        if len(steps) != 1:
            return steps
        begins = steps.start_ns
        if steps.found_by == ON_DEVICE:  # else a cold pass begins after most of its start-up
            begins = np.minimum(begins, step_signs.first_use_ns(context))
        ends = np.maximum(steps.end_ns, context.trace.device.end_ns.max(initial=0))
        return replace(steps, start_ns=begins, end_ns=ends, found_by=WHOLE)
    trace, own = context.trace, context.kind != NodeKind.STEP
    start = np.concatenate((trace.host.start_ns[own], trace.launches.start_ns, trace.device.start_ns))
    end = np.concatenate((trace.host.end_ns[own], trace.launches.end_ns, trace.device.end_ns))
    return Steps(("0",), np.array([start.min()]), np.array([end.max()]), WHOLE)


_FINDERS = (
    _between_turns,
    _repeated_annotation,
    _between_loads,
    _between_optimizer_steps,
    _between_graphs,
    _between_forwards,
    _between_repetitions,
    _between_calls,
    _between_repeated_kernels,
)
"""What shows steps that are not marked, the surest sign first."""
