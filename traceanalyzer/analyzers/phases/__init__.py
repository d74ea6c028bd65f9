"""Which parts of the program did people mark, and what does each take of the host and of the device?

Marks are what `record_function`, frameworks and the profiler wrote into the trace as named ranges: `## forward ##`,
`Optimizer.step#SGD.step`, `step[DECODE bs=32]`. They are the first split that people look for.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.analyzers.phases import inferred
from traceanalyzer.analyzers.phases.costs import (
    PhaseTimes,
    TimesByName,
    costs,
    figures,
    in_typical_steps,
    most_expensive,
    names_of,
    paths,
    sums,
    times,
    windows,
)
from traceanalyzer.analyzers.phases.kinds import StepKind, kinds
from traceanalyzer.report.message import Text
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.graph_events import BACKWARD, FORWARD, graph_labels, passes
from traceanalyzer.structure.mark_forest import forest, mark_rows

ROWS = 200
"""Number of listed rows, those with the most host time (own choice: longer lists are not read)."""

PLACES = 400
"""Number of listed places of the tree, those with the most host time (own choice)."""


class Phase(PhaseTimes, frozen=True):
    """All marks of one name, or a phase of training that no mark shows. Inclusive times hold the marks inside."""

    name: str
    """Name of the mark as recorded; with `*` for numbers where it stands for many names that differ in these only."""
    names: int
    """Number of different names that the row stands for."""
    is_inferred: bool
    """Whether the phase is inferred from autograd's events instead of a mark; its name is then `forward` or
    `backward`."""


class PhasePlace(PhaseTimes, frozen=True):
    """Marks of one name inside the same other marks. Inclusive times include the marks inside."""

    name: str
    """Name of the mark as in the rows."""
    parent: int | None
    """Position in the tree of the place around it; null at the top."""


class GraphPass(msgspec.Struct, frozen=True):
    """A pass of a training that runs inside of graphs, by the labels of their kernels."""

    name: str
    """`forward` or `backward`."""
    events: int
    """Number of kernels, copies and fills."""
    device_ns: int
    """Device time in ns, each in full."""
    device_ns_per_typical_step: float | None
    """What of it runs in typical steps, in ns, divided by their number; null where none is marked."""


class HiddenPhases(msgspec.Struct, frozen=True):
    """Numbers of rows and places that are not listed."""

    count: int
    """Number of rows or places."""
    calls: int
    """Number of marks in them."""
    host_self_ns: int
    """Their host time in ns without the marks inside."""
    device_self_ns: int | None
    """Device time in ns of the work launched in them; null if no launch is known."""


class Phases(msgspec.Struct, frozen=True):
    """The marks of the program, and if there are none, the phases of training that autograd shows."""

    rows: tuple[Phase, ...]
    """One row per name, the most host time first, at most 200; then what is inferred."""
    tree: tuple[PhasePlace, ...]
    """Marks by the marks around them: parents before their children, siblings in the order of their first mark. What
    a thread of autograd's own marks lies within the mark that waits for it."""
    steps: int | None
    """Number of steps that times are divided by: all that the profiler marked, else those of the program; null if there
    are no steps."""
    steps_from: str | None
    """How steps are recognized: by `ProfilerStep`, or by what the program repeats; null without steps."""
    marks: int
    """Number of marks."""
    empty: int
    """Number of marks without any duration."""
    crossing: int
    """Number of marks that a step begins or ends within."""
    clipped: int
    """Number of marks that start inside another of their thread and end after it; inside counts until its end."""
    device_ns: int | None
    """Device time in ns of everything whose launch is known; null where no launch is."""
    unmarked_device_ns: int | None
    """Part of the device time that was launched outside of marks; null if no launch is known."""
    kinds: tuple[StepKind, ...]
    """Steps that a server marked, by kind; empty for other programs."""
    hidden_rows: HiddenPhases
    """Names that are not listed."""
    hidden_places: HiddenPhases
    """Places of the tree that are not listed."""
    in_graphs: tuple[GraphPass, ...] = ()
    """Passes of a training inside of graphs, where labels tell the backward pass."""


def analyze(context: Context) -> Phases:
    """The marks by name and as a tree."""
    marks = context.cached(forest)
    steps = context.cached(windows)
    cost = context.cached(costs)
    on_device = cost.device_ns > 0
    rows, hidden_rows = _by_name(context)
    tree, hidden_places = _by_place(context)
    return Phases(
        rows=(*rows, *_inferred(context)),
        tree=tree,
        steps=steps.count or None,
        steps_from=steps.found_by,
        marks=len(marks),
        empty=int((marks.dur_ns == 0).sum()),
        crossing=int(steps.cut(marks.start_ns, marks.start_ns + marks.dur_ns).sum()),
        clipped=marks.clipped,
        device_ns=cost.device_ns if on_device else None,
        unmarked_device_ns=cost.unmarked_device_ns if on_device else None,
        kinds=kinds(context),
        hidden_rows=hidden_rows,
        hidden_places=hidden_places,
        in_graphs=tuple(_in_graphs(context)),
    )


def _by_name(context: Context) -> tuple[list[Phase], HiddenPhases]:
    """The names of marks that cost most, and the others."""
    label = context.cached(names_of)
    names = [*label.names]
    rows = figures(context, sums(context, label.of_mark, len(names)))
    listed = most_expensive(rows, names, ROWS)
    phases = [Phase(names[row], int(label.counts[row]), False, **rows[row]) for row in listed]
    return phases, _hidden(context, rows, listed)


def _by_place(context: Context) -> tuple[tuple[PhasePlace, ...], HiddenPhases]:
    """The places of the tree of marks that cost most, with those around them, and the others."""
    label = context.cached(names_of)
    places = paths(context.cached(forest), label.of_mark)
    names = [label.names[number] for number in places.label.tolist()]
    rows = figures(context, sums(context, places.of_mark, len(places), places.depth))
    parent = places.parent.tolist()
    shown = sorted(most_expensive(rows, names, PLACES, parent))
    position = {place: number for number, place in enumerate(shown)}
    tree = tuple(PhasePlace(names[place], position.get(parent[place]), **rows[place]) for place in shown)
    return tree, _hidden(context, rows, shown)


def _hidden(context: Context, rows: list[TimesByName], listed: list[int]) -> HiddenPhases:
    """Count the rows and places that are not listed."""
    on_device = context.cached(costs).device_ns > 0
    kept = set(listed)
    rest = [row for number, row in enumerate(rows) if number not in kept]
    return HiddenPhases(
        count=len(rest),
        calls=sum(int(row["calls"]) for row in rest),
        host_self_ns=sum(int(row["host_self_ns"]) for row in rest),
        device_self_ns=sum(int(row["device_self_ns"]) for row in rest) if on_device else None,
    )


def _inferred(context: Context) -> Iterator[Phase]:
    """The passes of a training that no mark shows."""
    for phase in inferred.missing_phases(context):
        spans = inferred.spans(context, phase)
        if spans.calls:
            yield Phase(phase, 1, True, **times(context, inferred.columns(context, spans)))


def _in_graphs(context: Context) -> Iterator[GraphPass]:
    """The passes that labels of kernels of graphs tell."""
    device, found = context.trace.device, context.cached(graph_labels)
    told, steps = np.array(passes(found)), context.cached(in_typical_steps)
    for name in (FORWARD, BACKWARD):
        rows = np.flatnonzero((told[found.of_event] == name) & device_events_in_scope(context))
        start, end = device.start_ns[rows], device.end_ns[rows]
        part = typical.mean(int(steps.times.within(start, end).sum()), steps.count) if steps.count else None
        if len(rows):
            yield GraphPass(name, len(rows), int((end - start).sum()), part)


_MARKS = Need(
    Text(
        "skip-no-marks",
        "the trace has no ranges set by the program or a framework, and no training passes that could be inferred",
    ),
    lambda context: bool(
        len(mark_rows(context)) or inferred.is_training(context) or any(passes(context.cached(graph_labels)))
    ),
)
ANALYSES = (Analysis(30, "phases", Phases, analyze, needs=(_MARKS,)),)
