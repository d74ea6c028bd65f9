"""How long would the typical step of a trace take with some changes?

Each change is converted to edits of the causal model, and all edits are replayed together. If the model does not
reproduce the recording it abstains: then the answer is an interval from zero to all time that the changes could remove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer._version import __version__
from traceanalyzer.analyzers import operators
from traceanalyzer.analyzers.kernels import classes
from traceanalyzer.errors import UsageError
from traceanalyzer.report.model import Generator, ReportSource
from traceanalyzer.simulation import critical_path, edits, measured_edits, model, replay_error, selectors, variation
from traceanalyzer.simulation.edits import LEAST_FACTOR, MOST_FACTOR, Edit
from traceanalyzer.simulation.model import Model
from traceanalyzer.simulation.replay_error import Replay
from traceanalyzer.structure import typical
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.event_rows import EventRows
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.recording.workload import mostly_startup_ns
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.tables import Category

SCHEMA_VERSION = 1
KINDS = ("loader", "speedup", "free", "gone", "no-sync", "bandwidth", "overlap", "graphs")
GRAPH_LAUNCH_NS = 10_000
"""Host time of the launch of a graph (own choice; NVIDIA measured 2 to 6 us on graphs of up to 100 nodes, and large
ones take longer)."""
_TOP = 10
"""Number of operators, owners and classes that are tried if no change is requested (own choice)."""

PredictedNs = tuple[float, float | None, float]
"""Low, point and high estimate in ns; the point is null if the model abstains."""


@dataclass(frozen=True)
class ChangeAsked:
    """One change that is requested."""

    kind: str
    """One of `KINDS`."""
    selector: str = ""
    """Selector of its target; empty for changes of all work of their kind."""
    factor: float | None = None
    """Speedup factor, 0 for no time at all; for `loader`, the longest wait in ns."""


class AppliedChange(msgspec.Struct, frozen=True):
    """One change and the parts of the trace that it affects."""

    kind: str
    """`loader`, `speedup`, `free`, `gone`, `no-sync`, `bandwidth`, `overlap`, `graphs` or, of a run of several ranks,
    `rank`: a rank whose work takes no longer than the median of all ranks."""
    selector: str
    """What was asked for, of `rank` the number of the rank; empty for changes of everything of their kind."""
    factor: float | None
    """Speedup factor, 0 for no time at all; null if the kind needs none."""
    found: str
    """What the selector means: `loader`, `gpu`, `host`, `communication`, `operator`, `kernel`, `class`, `owner`,
    `synchronization` or `rank`."""
    device_events: int | None
    """Number of kernels, copies and fills that change, in the whole trace; null if the change is not of these."""
    calls: int | None
    """Number of runtime calls that change, in the whole trace; null if the change is not of these."""
    wait_ns: float | None = None
    """Longest wait for the loader in ns; null for other kinds."""


class WhatHelps(msgspec.Struct, frozen=True):
    """Time that a step would save if one part took no time, took half as long, or were not there at all."""

    kind: str
    """`resource`, `operator`, `class`, `owner`, `change` or `rank`."""
    selector: str
    """The selector or, of a change and a rank, the option to ask about it by itself."""
    free_ns: PredictedNs
    """Time in ns by which the step gets shorter if it takes no time where it runs, but is launched as before, or with
    the change: low, point and high."""
    half_ns: PredictedNs | None
    """The same if it takes half as long; null for changes and ranks, which are made or not."""
    gone_ns: PredictedNs | None = None
    """The same if its launches and, of operators, their time on the host disappear as well; null for changes and
    ranks."""
    once_ns: float | None = None
    """Time in ns that it takes outside of the typical steps, where it has none in them: it saves nothing of a step, but
    once. Null for all others."""


class WhatIf(msgspec.Struct, frozen=True):
    """The predicted effect of changes."""

    schema_version: int
    """Version of this document: 1."""
    generator: Generator
    """The program that created it."""
    source: ReportSource
    """The file of the trace, or the files of a run."""
    step_ns: float
    """Duration of the typical step in ns as recorded."""
    predicted_ns: PredictedNs
    """Its duration in ns with the changes: low, point and high; the point is null if the model abstains."""
    saving_ns: PredictedNs
    """Saving in ns: low, point and high; negative if the step gets longer."""
    edits: tuple[AppliedChange, ...]
    """The changes, applied together."""
    replay: Replay
    """How well the model reproduces the recording without changes."""
    next_bottleneck: str | None
    """The resource with most time on the critical path with the changes: `loader`, `host`, `gpu` or `communication`;
    null if the model abstains, and for a run of several ranks."""
    helps: tuple[WhatHelps, ...] = ()
    """Parts that would save time if they were faster, largest first; only if no change is requested."""
    startup_ns: int | None = None
    """Time of the steps in ns in which code is loaded or memory taken, once, where that is most of them; else null."""
    other_devices: bool = False
    """Whether devices that are no GPUs work, which the model does not know: waiting for them is time of the host."""


def ask(context: Context, changes: Sequence[ChangeAsked] = ()) -> WhatIf:
    """The effect of some changes together; without changes, the parts that would help most.

    Args:
        context: The trace.
        changes: The changes, in any order.

    Raises:
        UsageError: The trace has no steps, a selector matches nothing in it, or a factor is negative.
    """
    causal = model.of(context)
    if causal is None:
        raise UsageError("the trace has no step longer than 0, so nothing can be predicted")
    resolved = [_Resolved(change, *_resolved(context, change)) for change in changes]
    ends = [_ends(causal, each.change, each.edits) for each in resolved]
    least, likely, most = (list(chain.from_iterable(edits[end] for edits in ends)) for end in range(3))
    has_loader = any(change.kind == "loader" for change in changes)
    saving = _saving(
        causal,
        likely,
        [least, most] if has_loader else (),
        is_of_host=all(_is_of_host(each.change, each.selected) for each in resolved),
    )
    step = causal.what_if(()).step_ns
    info = context.trace.info
    return WhatIf(
        schema_version=SCHEMA_VERSION,
        generator=Generator("traceanalyzer", __version__),
        source=ReportSource(info.name, "kineto", info.size_bytes),
        step_ns=step,
        predicted_ns=without(step, saving),
        saving_ns=saving,
        edits=tuple(_applied(each.change, each.selected) for each in resolved),
        replay=replay_error.analyze(context),
        next_bottleneck=None if causal.abstains else critical_path.bottleneck(causal, likely),
        helps=() if changes else _helps(context, causal),
        startup_ns=mostly_startup_ns(context),
        other_devices=len(context.trace.accelerator) > 0,
    )


class _Resolved(NamedTuple):
    """A change, the work that it selects, and its edits."""

    change: ChangeAsked
    selected: EventRows
    edits: list[Edit]


def without(step_ns: float, saving_ns: PredictedNs) -> PredictedNs:
    """What is left of a step: low, point and high."""
    low, point, high = saving_ns
    return step_ns - high, None if point is None else step_ns - point, step_ns - low


def _ends(causal: Model, change: ChangeAsked, edits: list[Edit]) -> tuple[list[Edit], list[Edit], list[Edit]]:
    """The edits of a change where it helps least, as is most likely, and where it helps most."""
    if change.kind == "loader":
        return measured_edits.loader_waits_at_most(causal, round(change.factor or 0))
    return edits, edits, edits


def _saving(
    causal: Model, every: Sequence[Edit], others: Sequence[list[Edit]] = (), *, is_of_host: bool = False
) -> PredictedNs:
    """Low, point and high, also of changes at the ends of their uncertainty; no point where the model abstains.

    Changes that are only of the host save no more than the time for which the busiest stream does nothing.
    """
    low, point, high = _replayed_saving(causal, every, others)
    room = typical.room_ns(causal.context) if is_of_host else None
    if room is None:
        return low, point, high
    return min(low, room), None if point is None else min(point, room), min(high, room)


def _replayed_saving(causal: Model, every: Sequence[Edit], others: Sequence[list[Edit]]) -> PredictedNs:
    outcome = causal.what_if(every, others)
    low, point, high = outcome.saving_ns
    if not causal.abstains:
        low, high = variation.combined((low, high), point, variation.USUAL * point)
        return low, point, min(high, outcome.step_ns)
    error = causal.error_share * outcome.step_ns
    high = max(high, 0.0) + error if every else 0.0
    return min(low, 0.0), None, min(high, outcome.step_ns)


def _applied(change: ChangeAsked, selected: EventRows) -> AppliedChange:
    is_wait = change.kind == "loader"
    return AppliedChange(
        kind=change.kind,
        selector=change.selector,
        factor=None if is_wait else change.factor,
        found=selected.kind,
        device_events=len(selected.device) or None,
        calls=len(selected.calls) or None,
        wait_ns=change.factor if is_wait else None,
    )


def _resolved(context: Context, change: ChangeAsked) -> tuple[EventRows, list[Edit]]:
    """The work that a change selects, and its edits.

    Raises:
        UsageError: Its selector matches nothing in the trace, or its factor is negative.
    """
    factor = 0.0 if change.factor is None else change.factor
    unit = 1e6 if change.kind == "loader" else 1  # ns in a ms
    if factor != 0 and not LEAST_FACTOR <= factor / unit <= MOST_FACTOR:
        name = change.selector or change.kind
        raise UsageError(f"{name}={factor / unit:g}: must be 0 (free), or from {LEAST_FACTOR:g} to {MOST_FACTOR:g}")
    if change.kind == "loader":
        return selectors.select(context, "loader"), [edits.LoaderEdit(round(factor))]
    if change.kind == "no-sync":
        waits = selectors.waiting_calls(context, change.selector or "*")
        return waits, [edits.UnblockEdit(waits.calls)]
    if change.kind in ("bandwidth", "overlap"):
        collectives = selectors.select(context, "communication")
        return collectives, _of_collectives(change.kind, collectives, _share(factor))
    if change.kind == "graphs":
        return _graphs(context)
    selected = selectors.select(context, change.selector)
    return selected, _gone(selected) if change.kind == "gone" else _faster(selected, _share(factor))


def _of_collectives(kind: str, collectives: EventRows, share: float) -> list[Edit]:
    """Edits that overlap collectives with computation, or reduce them to a share of their time."""
    if not len(collectives.device) and kind == "overlap":
        raise UsageError("--overlap: the trace has no kernels that communicate")
    if not len(collectives.device):
        return _faster(collectives, share)
    overlap = edits.OverlapEdit(collectives.device)
    return [overlap] if kind == "overlap" else [edits.BandwidthEdit(collectives.device, share)]


def _share(factor: float) -> float:
    """Ratio of new to old time for a speedup factor; 0 means no time at all."""
    return 1 / factor if factor else 0.0


def _graphs(context: Context) -> tuple[EventRows, list[Edit]]:
    """The edit that launches all kernels of a step by one graph."""
    device = context.trace.device
    rows = np.flatnonzero((device.category == Category.KERNEL) & (context.links.launch >= 0))
    if not len(rows):
        raise UsageError("--graphs: the trace has no kernels with launches")
    return EventRows("gpu", "", device=rows), [edits.RelaunchEdit(rows, GRAPH_LAUNCH_NS)]


def _faster(selected: EventRows, share: float) -> list[Edit]:
    """Edits that reduce work to a share of its time where it runs, on a device or on the host; launches stay."""
    if selected.kind == "loader":
        return [edits.LoaderEdit(factor=share)]
    if _is_on_host(selected):
        return [edits.HostEdit(selected.thread, selected.start_ns, selected.end_ns, share)]
    return [edits.ScaleEdit(selected.device, share)]


def _gone(selected: EventRows) -> list[Edit]:
    """Edits that remove the selected work with everything that launches it or waits for it."""
    if selected.kind == "loader" or _is_on_host(selected):
        return _faster(selected, 0.0)
    on_host = edits.HostEdit(selected.thread, selected.start_ns, selected.end_ns, 0.0)
    around: list[Edit] = [edits.UnblockEdit(selected.calls), on_host] if selected.kind == "operator" else []
    return [edits.DropEdit(selected.device), *around]


def _is_of_host(change: ChangeAsked, selected: EventRows) -> bool:
    """Whether a change leaves the work of devices as it is: waits, launches, or work of the host."""
    return change.kind in ("no-sync", "graphs") or _is_on_host(selected)


def _is_on_host(selected: EventRows) -> bool:
    of_host = ("owner", "host", "communication", "operator")
    return selected.kind in of_host and len(selected.thread) > 0 and not len(selected.device)


def _helps(context: Context, causal: Model) -> tuple[WhatHelps, ...]:
    """Parts that would help, by their point estimate without any time."""
    rows = []
    for kind, selector in _candidates(context):
        try:
            selected = selectors.select(context, selector)
        except UsageError:
            continue
        rows.append(_help_of(causal, kind, selector, selected))
    for option, change in _CHANGES.items():
        try:
            selected, edits = _resolved(context, change)
        except UsageError:
            continue
        saving = _saving(causal, edits, is_of_host=_is_of_host(change, selected))
        rows.append(WhatHelps("change", option, saving, None))
    return tuple(sorted(rows, key=_order))


def _help_of(causal: Model, kind: str, selector: str, selected: EventRows) -> WhatHelps:
    """What a part would help if it took no time, took half as long, or were not there."""
    is_of_host = _is_on_host(selected)
    free = _saving(causal, _faster(selected, 0.0), is_of_host=is_of_host)
    half = _saving(causal, _faster(selected, 0.5), is_of_host=is_of_host)
    gone = _saving(causal, _gone(selected)) if len(selected.device) else free
    return WhatHelps(kind, selector, free, half, gone, _once_ns(causal.context, selected))


def _order(row: WhatHelps) -> tuple[float, float, str]:
    """What saves most first; then what takes most time once."""
    saved = row.free_ns[2] if row.free_ns[1] is None else row.free_ns[1]
    return -saved, -(row.once_ns or 0.0), row.selector


def _once_ns(context: Context, selected: EventRows) -> float | None:
    """How long some work takes that lies outside of the typical steps; None if some lies in them."""
    device = context.trace.device
    on_device = Intervals.union(device.start_ns[selected.device], device.end_ns[selected.device])
    work = on_device or Intervals.union(selected.start_ns, selected.end_ns)
    is_outside = work and not (work & typical.times(context))
    return float(work.length) if is_outside else None


_CHANGES = {
    "--no-sync '*'": ChangeAsked("no-sync", "*"),
    "--overlap": ChangeAsked("overlap"),
    "--graphs": ChangeAsked("graphs"),
}


def _candidates(context: Context) -> Iterator[tuple[str, str]]:
    """Kinds and selectors of the parts with most time, each name once."""
    for name in selectors.RESOURCES:
        yield "resource", name
    listed = operators.by_name(context).rows
    for row in islice(listed, _TOP):
        yield "operator", f"operator:{row.name}"
    if classes.ANALYSES[0].missing(context) is None:
        for each in islice(classes.analyze(context).rows, _TOP):
            yield "class", f"class:{each.name}"
    index = context.cached(owner_index)
    segments = index.timeline
    is_owned = segments.owner >= 0
    duration = segments.end_ns - segments.start_ns
    time_of_owner = sum_by(segments.owner[is_owned], duration[is_owned], len(index.owners))
    largest = np.argsort(-time_of_owner, kind="stable")[:_TOP]
    owners = [index.owners[number] for number in largest.tolist() if time_of_owner[number]]
    for name in dict.fromkeys(owner.name for owner in owners):
        yield "owner", f"owner:{name}"
