"""What must be known of one rank to compare it with the others of its run?

Steps and collectives as columns, few enough to lie in every saved report, so that ranks can be joined (`ranks`) without
their traces. Collectives are kernels; where a trace has none, host ranges of libraries that work on the CPU (`gloo:`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import numpy as np

from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.communication import HOST_NAMES
from traceanalyzer.analyzers.context import Context
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.collectives import message_bytes, operation
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import NO_COLLECTIVE, Collective
from traceanalyzer.trace.strings import Pool
from traceanalyzer.trace.table import I64, UNKNOWN, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

MOST = 8192
"""Collectives of a rank, and steps (own choice: a quarter of a megabyte in the report)."""

_EPOCH_NS = 10**18
"""2001: a clock that has passed it counts from 1970."""

_ON_HOST = ("gloo:", "mpi:", "ucc:")
_MUTUAL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "barrier"})
"""Nobody can finish before everybody has come."""

_ALONE = Text("skip-no-ranks", "the trace names no rank and has no collectives: there is nothing to compare")


class ProcessGroup(msgspec.Struct, frozen=True):
    """Ranks that communicate with each other."""

    name: str | None
    """Null where it is not recorded."""
    ranks: str | None
    """List of global ranks as recorded; the writer cuts long ones."""
    size: int | None


class CollectiveKind(msgspec.Struct, frozen=True):
    """What collectives have in common."""

    operation: str | None
    """As in `communication`."""
    group: int
    """Position in `groups`."""
    message_bytes: int | None
    shapes: str | None
    """Input shapes of the host range, as recorded."""
    is_mutual: bool
    """No rank can finish before all have come: `all_reduce`, `all_gather`, `reduce_scatter`, `barrier`, and
    `all_to_all` with equal parts. Not so: messages between two ranks, from or to one, and of unequal parts."""


class RankSteps(msgspec.Struct, frozen=True):
    """Columns, one row per step in the order of time; ns since the first event of the trace."""

    name: tuple[str, ...]
    start_ns: tuple[int, ...]
    duration_ns: tuple[int, ...]
    computation_ns: tuple[int, ...]
    """Time in which a kernel that is no collective runs on any device."""


class RankCollectives(msgspec.Struct, frozen=True):
    """Columns, one row per collective in the order in which they were called."""

    kind: tuple[int, ...]
    """Position in `kinds`."""
    sequence: tuple[int | None, ...]
    """Number of the operation within its group, the same on all ranks; null where it is not recorded."""
    step: tuple[int | None, ...]
    """Position in `steps` of the step that called it; null between steps."""
    start_ns: tuple[int, ...]
    duration_ns: tuple[int, ...]
    exposed_ns: tuple[int | None, ...]
    """The part of the duration in which no other kernel runs; null on the host."""


class RankFacts(msgspec.Struct, frozen=True):
    """One rank."""

    clock_ns: int | None
    """Time of the first event in ns since 1970, by the clock of the rank's host; null where the file does not tell."""
    is_on_host: bool
    """The collectives are host ranges."""
    groups: tuple[ProcessGroup, ...]
    kinds: tuple[CollectiveKind, ...]
    steps: RankSteps
    collectives: RankCollectives
    left_out: int
    """Collectives of later steps that are not in the columns."""


@dataclass(frozen=True)
class _Found:
    """Collectives before they are described."""

    start: I64
    dur: I64
    called: I64
    """Start of the launching call; of the collective where that is unknown."""
    exposed: I64 | None
    described: I64
    """Rows of the descriptions, 0: none."""
    names: list[str]
    """What tells the operation if the description does not."""
    sequence: I64
    shapes: I64
    """Codes of the input shapes of host ranges."""

    def take(self, rows: I64) -> _Found:
        """Some of them."""
        exposed = None if self.exposed is None else self.exposed[rows]
        columns = (self.start, self.dur, self.called, self.described, self.sequence, self.shapes)
        start, dur, called, described, sequence, shapes = (column[rows] for column in columns)
        names = [self.names[row] for row in rows.tolist()]
        return _Found(start, dur, called, exposed, described, names, sequence, shapes)


def missing(context: Context) -> Message | None:
    """Why the question cannot be asked of a trace."""
    if context.trace.info.rank is not None or context.once(communication.kernels_of_collectives).any():
        return None
    return None if context.once(_host_ranges).any() else _ALONE()


def analyze(context: Context) -> RankFacts:
    """The steps and collectives of a trace."""
    on_device = bool(context.once(communication.kernels_of_collectives).any())
    found = _on_device(context) if on_device else _on_host(context)
    found = found.take(np.argsort(found.called, kind="stable"))
    step = _step_of(context, found.called)
    kept = _kept(step)
    left_out = len(found.start) - kept
    found, step = found.take(np.arange(kept)), step[:kept]
    groups, kinds, kind = _kinds(context, found)
    return RankFacts(
        clock_ns=_clock(context),
        is_on_host=not on_device and bool(len(found.start)),
        groups=groups,
        kinds=kinds,
        steps=_steps(context),
        collectives=RankCollectives(
            kind=kind,
            sequence=_or_null(found.sequence),
            step=_or_null(step),
            start_ns=tuple(found.start.tolist()),
            duration_ns=tuple(found.dur.tolist()),
            exposed_ns=(None,) * kept if found.exposed is None else tuple(found.exposed.tolist()),
        ),
        left_out=left_out,
    )


def _clock(context: Context) -> int | None:
    """Before 2024 the file's own clock counts from 1970; since then the header has the origin."""
    info = context.trace.info
    if info.base_ns is not None:
        return info.base_ns + info.origin_ns
    return info.origin_ns if info.origin_ns > _EPOCH_NS else None


def _on_device(context: Context) -> _Found:
    trace, device = context.trace, context.trace.device
    kernels = np.flatnonzero(context.once(communication.kernels_of_collectives))
    described, host_name = communication.described_by(context, kernels)
    sequence, shapes = _from_host(context, kernels)
    own = context.once(_sequences)[described]
    launch = context.links.launch[kernels]
    start, dur = device.start_ns[kernels], device.dur_ns[kernels]
    called = np.where(launch == NO_PARENT, start, np.append(trace.launches.start_ns, 0)[launch])
    _, computation = communication.times_of(context, np.ones(len(device), np.bool_))
    names = [
        trace.names[host] if host >= 0 and operation(trace.names[host]) else trace.names[kernel]
        for host, kernel in zip(host_name.tolist(), device.name[kernels].tolist(), strict=True)
    ]
    return _Found(
        start=start,
        dur=dur,
        called=called,
        exposed=dur - computation.within(start, start + dur),
        described=described,
        names=names,
        sequence=np.where(own == UNKNOWN, sequence, own),
        shapes=shapes,
    )


def _from_host(context: Context, kernels: I64) -> tuple[I64, I64]:
    """Sequence number and input shapes that the host events around the launch tell; the innermost that has them."""
    trace, host = context.trace, context.host
    tells = trace.names.where(lambda name: name.startswith(HOST_NAMES))
    sequences = context.once(_sequences)
    sequence, shapes = np.full(len(kernels), UNKNOWN, np.int64), np.zeros(len(kernels), np.int64)
    node = context.links.device_node()[kernels]
    while (asked := np.flatnonzero(node != NO_PARENT)).size:
        here = node[asked]
        row = np.where(host.category[here] == Category.FRAME, UNKNOWN, host.row[here])  # rows of another table
        told = sequences[np.append(trace.host.collective, 0)[row]]
        sequence[asked] = np.where(sequence[asked] == UNKNOWN, told, sequence[asked])
        shaped = np.where(tells[host.name[here]], np.append(trace.host.shapes, 0)[row], 0)
        shapes[asked] = np.where(shapes[asked] == 0, shaped, shapes[asked])
        node[asked] = host.tree.parent[here]
    return sequence, shapes


def _sequences(context: Context) -> I64:
    """By row of the descriptions."""
    told = [UNKNOWN if c.sequence is None else c.sequence for c in context.trace.collectives]
    return np.array(told, np.int64)


def _host_ranges(context: Context) -> Bool:
    """Which host events are collectives that a library on the CPU carries out."""
    trace, host = context.trace, context.trace.host
    named = trace.names.where(lambda name: name.startswith(_ON_HOST) and operation(name) is not None)
    found: Bool = (host.category == Category.ANNOTATION) & named[host.name] & context.in_scope(host.start_ns)
    return found


def _on_host(context: Context) -> _Found:
    trace, host = context.trace, context.trace.host
    rows = np.flatnonzero(context.once(_host_ranges))
    start, nothing = host.start_ns[rows], np.zeros(len(rows), np.int64)
    return _Found(
        start=start,
        dur=host.dur_ns[rows],
        called=start,
        exposed=None,
        described=nothing,
        names=[trace.names[name] for name in host.name[rows].tolist()],
        sequence=nothing + UNKNOWN,
        shapes=host.shapes[rows].astype(np.int64),
    )


def _step_of(context: Context, called: I64) -> I64:
    """The position of the step that contains a time, or -1."""
    steps = context.steps
    step = np.searchsorted(steps.start_ns, called, side="right") - 1
    inside = (step >= 0) & (called < np.append(steps.end_ns, 0)[step]) & (step < MOST)
    return np.where(inside, step, UNKNOWN)


def _kept(step: I64) -> int:
    """Whole steps, so that all ranks keep the same; of a first step that is too large, its beginning."""
    if len(step) <= MOST:
        return len(step)
    opens = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    whole = opens[opens <= MOST]
    return int(whole[-1]) or MOST


def _kinds(
    context: Context, found: _Found
) -> tuple[tuple[ProcessGroup, ...], tuple[CollectiveKind, ...], tuple[int, ...]]:
    trace = context.trace
    groups: Pool[ProcessGroup] = Pool()
    kinds: Pool[CollectiveKind] = Pool()
    columns = zip(found.described.tolist(), found.names, found.shapes.tolist(), strict=True)
    codes = tuple(
        kinds.encode(_kind(trace.collectives[described], name, trace.shapes[shapes], groups))
        for described, name, shapes in columns
    )
    return tuple(groups.values()), tuple(kinds.values()), codes


def _kind(facts: Collective, name: str, shapes: str, groups: Pool[ProcessGroup]) -> CollectiveKind:
    found = operation(facts.name) if facts is not NO_COLLECTIVE else None
    found = found or operation(name)
    return CollectiveKind(
        operation=found,
        group=groups.encode(ProcessGroup(facts.group or None, facts.ranks or None, facts.group_size)),
        message_bytes=message_bytes(found, facts),
        shapes=shapes or None,
        is_mutual=found in _MUTUAL or (found == "all_to_all" and _has_equal_parts(facts)),
    )


def _has_equal_parts(facts: Collective) -> bool:
    """c10d calls it `all_to_all` where the parts are equal, `all_to_allv` where they need not be."""
    letters = re.sub("[^a-z]", "", facts.name.lower())
    return letters == "alltoall" and facts.in_elements is not None and facts.in_elements == facts.out_elements


def _steps(context: Context) -> RankSteps:
    steps, device = context.steps, context.trace.device
    kept = slice(0, MOST)
    start, end = steps.start_ns[kept], steps.end_ns[kept]
    computation = Intervals.none()
    if len(device):
        _, computation = communication.times_of(context, np.ones(len(device), np.bool_))
    return RankSteps(
        name=steps.names[kept],
        start_ns=tuple(start.tolist()),
        duration_ns=tuple((end - start).tolist()),
        computation_ns=tuple(computation.within(start, end).tolist()),
    )


def _or_null(values: I64) -> tuple[int | None, ...]:
    return tuple(None if value == UNKNOWN else value for value in values.tolist())
