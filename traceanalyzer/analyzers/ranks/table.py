"""Puts the collectives of all ranks into one table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind, ProcessGroup, RankFacts
from traceanalyzer.trace.strings import StringPool
from traceanalyzer.trace.table import I64, UNKNOWN, Bool


class RankTable(msgspec.Struct, frozen=True):
    """Collectives as columns, rank by rank, each in the order of calls; -1 is unknown."""

    member: I64
    """Position of the rank of each collective."""
    kind: I64
    sequence: I64
    step: I64
    start_ns: I64
    """Since the first event of the first rank, by the clock of the rank; without clocks since its own first event."""
    dur_ns: I64
    exposed_ns: I64
    """Exposed part of each duration in ns; -1 where unknown."""
    kinds: tuple[CollectiveKind, ...]
    """Kinds of collectives, with positions in `groups`."""
    groups: tuple[ProcessGroup, ...]
    steps: tuple[str, ...]
    members: int
    has_clocks: bool

    def __len__(self) -> int:
        return len(self.member)

    @property
    def end_ns(self) -> I64:
        """Time at which each collective ends, in ns."""
        return self.start_ns + self.dur_ns

    @property
    def group(self) -> I64:
        """The process group of each row."""
        found: I64 = np.array([kind.group for kind in self.kinds] or [0], np.int64)[self.kind]
        return found

    @property
    def is_mutual(self) -> Bool:
        """Which collectives no rank can finish before all have come, if waiting can be distinguished from sending.

        Where parts are unequal, the starts show it, which needs the clocks of all ranks.
        """
        told = [kind.is_mutual and (kind.is_even or self.has_clocks) for kind in self.kinds]
        found: Bool = np.array(told or [False], np.bool_)[self.kind]
        return found

    @property
    def is_even(self) -> Bool:
        """In which collectives every rank sends as much as any other."""
        found: Bool = np.array([kind.is_even for kind in self.kinds] or [True], np.bool_)[self.kind]
        return found


def build(members: Sequence[RankFacts]) -> RankTable:
    """Put the columns of the ranks under common kinds, groups and steps."""
    groups: StringPool[ProcessGroup] = StringPool()
    kinds: StringPool[CollectiveKind] = StringPool()
    steps: StringPool[str] = StringPool()
    known = [facts.clock_ns for facts in members if facts.clock_ns is not None]
    has_clocks = len(known) == len(members) > 0
    parts: list[tuple[I64, ...]] = []
    for position, facts in enumerate(members):
        columns = facts.collectives
        own_groups = [groups.encode(group) for group in facts.groups]
        own_kinds = [kinds.encode(_moved(kind, own_groups)) for kind in facts.kinds]
        own_steps = [steps.encode(name) for name in facts.steps.name]
        origin = (facts.clock_ns or 0) - min(known) if has_clocks else 0
        parts.append(
            (
                np.full(len(columns.kind), position, np.int64),
                _coded(columns.kind, own_kinds),
                _known(columns.sequence),
                _coded(columns.step, own_steps),
                np.array(columns.start_ns, np.int64) + origin,
                np.array(columns.duration_ns, np.int64),
                _known(columns.exposed_ns),
            )
        )
    member, kind, sequence, step, start, dur, exposed = (np.concatenate(column) for column in zip(*parts, strict=True))
    return RankTable(
        member=member,
        kind=kind,
        sequence=sequence,
        step=step,
        start_ns=start,
        dur_ns=dur,
        exposed_ns=exposed,
        kinds=tuple(kinds.values()),
        groups=tuple(groups.values()),
        steps=tuple(steps.values()),
        members=len(members),
        has_clocks=has_clocks,
    )


def _moved(kind: CollectiveKind, groups: list[int]) -> CollectiveKind:
    return msgspec.structs.replace(kind, group=groups[kind.group])


def _known(values: Sequence[int | None]) -> I64:
    return np.array([UNKNOWN if value is None else value for value in values], np.int64)


def _coded(positions: Sequence[int | None], codes: list[int]) -> I64:
    return np.array([UNKNOWN if place is None else codes[place] for place in positions], np.int64)
