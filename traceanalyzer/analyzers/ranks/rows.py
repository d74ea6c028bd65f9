"""Builds the rows of the result: ranks, steps, groups, stragglers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, median

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks.clocks import Offset
from traceanalyzer.analyzers.ranks.matching import Matched
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import Caused, Excess, GroupRow, RankRow, RunStep, Skew, Straggler
from traceanalyzer.analyzers.ranks.table import RankTable
from traceanalyzer.analyzers.ranks.waits import Blame, RankWaits
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import F64, Array

MOST_STRAGGLERS = 16
MOST_STEPS = 1000
MOST_GROUPS = 200
_WORST = 5


class RankRun(msgspec.Struct, frozen=True):
    """Everything that the rows are built from."""

    numbers: tuple[int, ...]
    """Numbers of the ranks, ascending."""
    members: Sequence[Member]
    table: RankTable
    matched: Matched
    waits: RankWaits
    blame: Blame
    clocks: Mapping[int, Offset]

    @property
    def steps(self) -> int:
        """Number of steps of all ranks together."""
        return sum(len(member.facts.steps.name) for member in self.members)

    def by_member(self, values: Array) -> list[int]:
        """Sums of a column of the matched rows that were called within steps, by rank."""
        counts = self.waits.counts
        sums: list[int] = sum_by(
            self.table.member[self.matched.rows][counts], values[counts], len(self.members)
        ).tolist()
        return sums


def ranks(run: RankRun) -> tuple[RankRow, ...]:
    """One row per rank."""
    wait, exposed = run.by_member(run.waits.wait), run.by_member(run.waits.exposed)
    transfer, last = run.by_member(run.waits.transfer), run.by_member(run.waits.is_last.astype(np.int64))
    matched = count_by(run.table.member[run.matched.rows], len(run.members)).tolist()
    return tuple(
        _rank(run, position, matched[position], last[position], (wait[position], exposed[position], transfer[position]))
        for position in range(len(run.members))
    )


def _rank(run: RankRun, position: int, matched: int, last: int, times: tuple[int, int, int]) -> RankRow:
    member = run.members[position]
    steps, resources = member.facts.steps, member.resources
    count = len(steps.name)
    wait, exposed, transfer = (time / count if matched and count else None for time in times)
    mean_step = fmean(steps.duration_ns) if count else None
    known = exposed if tells_exposed(run) else None
    return RankRow(
        rank=run.numbers[position],
        file=member.source.name,
        steps=count,
        mean_step_ns=mean_step,
        median_step_ns=float(median(steps.duration_ns)) if count else None,
        computation_ns=fmean(steps.computation_ns) if count and not member.facts.is_on_host else None,
        communication_ns=resources.communication_ns if resources else None,
        exposed_ns=resources.exposed_communication_ns if resources else None,
        wait_ns=wait,
        exposed_wait_ns=known,
        transfer_ns=transfer,
        own_ns=None if mean_step is None or known is None else max(0.0, mean_step - known),
        loader_ns=resources.exposed_loader_ns if resources else None,
        idle_ns=_idle(resources),
        matched=matched,
        last=last,
        skew=_skew(run, position),
        workload=member.recording.workload if member.recording else None,
        typical_step_ns=member.recording.typical_step_ns if member.recording else None,
    )


def tells_exposed(run: RankRun) -> bool:
    """Whether it is known for every rank what else ran during its collectives; old reports lack it for the host."""
    return all(None not in member.facts.collectives.exposed_ns for member in run.members)


def _idle(resources: StepResources | None) -> float | None:
    """Time per step in ns in which no device works and nothing waits for the loader; None if unknown."""
    if resources is None or resources.gpu_ns is None:
        return None
    return max(0.0, resources.step_ns - resources.gpu_ns - resources.exposed_loader_ns)


def _skew(run: RankRun, position: int) -> Skew | None:
    """Clock difference of a rank; None without clocks, and for a reference itself."""
    offset = run.clocks.get(position)
    if offset is None or not run.table.has_clocks or offset.reference == position:
        return None
    reference = run.numbers[offset.reference]
    return Skew(reference, offset.ns, offset.low_ns, offset.high_ns, offset.collectives)


def steps(run: RankRun) -> tuple[RunStep, ...]:
    """One row per step, in the order of the first rank that has it."""
    durations: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for rank, member in zip(run.numbers, run.members, strict=True):
        own = member.facts.steps
        for name, duration in zip(own.name, own.duration_ns, strict=True):
            durations[name].append((duration, rank))
    counted = counted_steps(run)
    return tuple(
        _step(run, number, name, durations[name], is_counted=number in counted)
        for number, name in enumerate(run.table.steps[:MOST_STEPS])
    )


def counted_steps(run: RankRun) -> frozenset[int]:
    """Steps in which collectives were matched."""
    return frozenset(run.table.step[run.matched.rows][run.waits.counts].tolist())


def _step(run: RankRun, number: int, name: str, found: list[tuple[int, int]], *, is_counted: bool) -> RunStep:
    longest, rank = max(found, key=lambda entry: (entry[0], -entry[1]))
    caused = run.blame.by_step[number] / len(found)
    worst = int(caused.argmax())
    return RunStep(
        name=name,
        ranks=len(found),
        mean_ns=fmean(duration for duration, _ in found),
        min_ns=min(duration for duration, _ in found),
        max_ns=longest,
        longest=rank,
        wait_ns=float(caused.sum()) if is_counted else None,
        waited_for=run.numbers[worst] if is_counted and caused[worst] > 0 else None,
        caused_ns=float(caused[worst]) if is_counted and caused[worst] > 0 else None,
    )


def groups(run: RankRun) -> tuple[GroupRow, ...]:
    """One row per kind of matched collectives, whatever the shapes; the one with the most waiting first."""
    table, matched, waits = run.table, run.matched, run.waits
    kind, member = table.kind[matched.rows], table.member[matched.rows]
    joined: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number in distinct(kind).tolist():
        facts = table.kinds[number]
        joined[facts.operation, facts.group, facts.message_bytes].append(number)
    found: list[tuple[int, GroupRow]] = []
    for kinds in joined.values():
        rows = np.flatnonzero(np.isin(kind, kinds))
        first = rows[np.append(True, np.diff(matched.collective[rows]) > 0)]
        wait, transfer = int(waits.wait[rows].sum()), int(waits.transfer[first].sum())
        facts = table.kinds[kinds[0]]
        group, size = table.groups[facts.group], facts.message_bytes
        rate = size * len(first) / transfer if size and transfer else None
        factor = bus_factor(facts.operation, group.size)
        row = GroupRow(
            operation=facts.operation,
            process_group=group.name,
            group_size=group.size,
            ranks=len(distinct(member[rows])),
            message_bytes=size,
            collectives=len(first),
            wait_ns=wait / len(rows),
            transfer_ns=transfer / len(first),
            algorithm_gb_per_s=rate,
            bus_gb_per_s=None if rate is None or factor is None else rate * factor,
        )
        found.append((wait, row))
    found.sort(key=lambda entry: -entry[0])
    return tuple(row for _, row in found[:MOST_GROUPS])


def stragglers(run: RankRun, rows: Sequence[RankRow]) -> tuple[Straggler, ...]:
    """Ranks that cause waiting, the one that causes most first."""
    if not run.steps:
        return ()
    caused = run.blame.by_step.sum(axis=0) / run.steps
    main = _main_causes(run.blame.by_step, len(run.members))
    order = sorted(np.flatnonzero(caused > 0).tolist(), key=lambda member: (-caused[member], member))
    total = float(caused.sum())
    return tuple(
        Straggler(
            rank=rows[member].rank,
            last=rows[member].last,
            matched=rows[member].matched,
            steps=main[member],
            caused_ns=float(caused[member]),
            gap_ns=float(run.blame.gap[member]) / run.steps,
            share=float(caused[member]) / total,
            excess=_excess(rows, member),
            worst_steps=_worst_steps(run, member),
            worst_collectives=_worst_collectives(run, member),
        )
        for member in order[:MOST_STRAGGLERS]
    )


def _main_causes(by_step: F64, members: int) -> list[int]:
    """Number of steps in which each rank caused more waiting than any other."""
    waited = by_step[by_step.sum(axis=1) > 0] if len(by_step) else by_step
    return count_by(waited.argmax(axis=1), members).tolist() if len(waited) else [0] * members


def _excess(rows: Sequence[RankRow], member: int) -> tuple[Excess, ...]:
    found = []
    for part in ("computation", "loader", "idle"):
        own = getattr(rows[member], f"{part}_ns")
        others = [v for i, row in enumerate(rows) if i != member and (v := getattr(row, f"{part}_ns")) is not None]
        if own is not None and others and own > median(others):
            found.append(Excess(part, own - median(others)))
    return tuple(sorted(found, key=lambda excess: -excess.ns))


def _worst_steps(run: RankRun, member: int) -> tuple[Caused, ...]:
    caused = run.blame.by_step[:, member] / len(run.members)
    worst = sorted(np.flatnonzero(caused > 0).tolist(), key=lambda step: (-caused[step], step))[:_WORST]
    return tuple(Caused(run.table.steps[step], None, float(caused[step])) for step in worst)


def _worst_collectives(run: RankRun, member: int) -> tuple[Caused, ...]:
    caused: defaultdict[tuple[str, str | None], float] = defaultdict(float)
    for kind, ns in zip(run.table.kinds, run.blame.by_kind[:, member].tolist(), strict=True):
        caused[kind.operation or "", run.table.groups[kind.group].name] += ns / run.steps
    worst = sorted(((key, ns) for key, ns in caused.items() if ns > 0), key=lambda entry: -entry[1])[:_WORST]
    return tuple(Caused(operation, group, ns) for (operation, group), ns in worst)
