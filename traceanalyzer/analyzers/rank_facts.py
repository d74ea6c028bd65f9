"""What must be known of one rank to compare it with the others of its run?

Steps and collectives as columns, few enough to lie in every saved report, so that ranks can be joined (`ranks`) without
their traces. Collectives are kernels; where a trace has none, host ranges of libraries that work on the CPU (`gloo:`).
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.analyzers import communication, recorded_collectives
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.recorded_collectives import RecordedCollectives
from traceanalyzer.knowledge.collectives import message_bytes, operation
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import NO_COLLECTIVE, Collective
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, UNKNOWN

MOST = 8192
"""Collectives of a rank, and steps (own choice: a quarter of a megabyte in the report)."""

_EPOCH_NS = 10**18
"""2001: a clock that has passed it counts from 1970."""

_MUTUAL = frozenset({"all_reduce", "all_gather", "reduce_scatter", "barrier", "all_to_all"})
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
    """No rank can finish before all have come: `all_reduce`, `all_gather`, `reduce_scatter`, `barrier` and
    `all_to_all`, whatever its kernels are called. Not so: messages between two ranks, and from or to one."""
    is_even: bool = True
    """Every rank sends as much as any other, so that durations differ by waiting alone. Unknown, and then not
    assumed, of an `all_to_all` that does not say that its parts are equal."""


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
    """Position in `steps` of the step whose mark holds the call; null between steps."""
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


def missing(context: Context) -> Message | None:
    """Why the question cannot be asked of a trace."""
    if context.trace.info.rank is not None or context.once(communication.kernels_of_collectives).any():
        return None
    return None if context.once(recorded_collectives.host_ranges).any() else _ALONE()


def analyze(context: Context) -> RankFacts:
    """The steps and collectives of a trace."""
    on_device = bool(context.once(communication.kernels_of_collectives).any())
    found = recorded_collectives.on_device(context) if on_device else recorded_collectives.on_host(context)
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


def _step_of(context: Context, called: I64) -> I64:
    """The position of the step that contains a call, or -1.

    By the marks themselves: how far the device's work moves a step differs from rank to rank.
    """
    start, end = context.steps.mark_ns or (context.steps.start_ns, context.steps.end_ns)
    step = np.searchsorted(start, called, side="right") - 1
    inside = (step >= 0) & (called < np.append(end, 0)[step]) & (step < MOST)
    return np.where(inside, step, UNKNOWN)


def _kept(step: I64) -> int:
    """Whole steps, so that all ranks keep the same; of a first step that is too large, its beginning."""
    if len(step) <= MOST:
        return len(step)
    opens = np.flatnonzero(np.append(True, step[1:] != step[:-1]))
    whole = opens[opens <= MOST]
    return int(whole[-1]) or MOST


def _kinds(
    context: Context, found: RecordedCollectives
) -> tuple[tuple[ProcessGroup, ...], tuple[CollectiveKind, ...], tuple[int, ...]]:
    trace = context.trace
    groups: StringPool[ProcessGroup] = StringPool()
    kinds: StringPool[CollectiveKind] = StringPool()
    columns = zip(found.described.tolist(), found.names, found.shapes.tolist(), strict=True)
    codes = tuple(
        kinds.encode(_kind(trace.collectives[described], name, trace.shapes[shapes], groups))
        for described, name, shapes in columns
    )
    return tuple(groups.values()), tuple(kinds.values()), codes


def _kind(facts: Collective, name: str, shapes: str, groups: StringPool[ProcessGroup]) -> CollectiveKind:
    found = operation(facts.name) if facts is not NO_COLLECTIVE else None
    found = found or operation(name)
    is_even = found != "all_to_all" or _has_equal_parts(facts)
    return CollectiveKind(
        operation=found,
        group=groups.encode(ProcessGroup(facts.group or None, facts.ranks or None, facts.group_size)),
        message_bytes=message_bytes(found, facts) if is_even else None,  # each rank sends its own
        shapes=shapes or None,
        is_mutual=found in _MUTUAL,
        is_even=is_even,
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
