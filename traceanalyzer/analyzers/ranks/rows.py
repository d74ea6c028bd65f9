"""The rows of the comparison of ranks: ranks, steps, groups of collectives, stragglers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.communication import GpuLink
from traceanalyzer.analyzers.ranks.matching import Matched, RankTable
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import Caused, Excess, ExchangeRow, GroupRow, RankRow, RunStep, Skew, Straggler
from traceanalyzer.analyzers.ranks.rank_facts import CollectiveKind
from traceanalyzer.analyzers.ranks.waiting import Blame, RankWaits
from traceanalyzer.knowledge import gpus
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.sums import count_by, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Device
from traceanalyzer.trace.table import F64, I64, Array, Bool

MOST_STRAGGLERS = 16
MOST_STEPS = 1000
MOST_GROUPS = 200
_MOST_COSTS = 20_000
"""Figures of steps and ranks that a report holds (own choice: a tenth of a megabyte)."""
_WORST = 5
_EXPLAINS = 0.5
"""Least part of a rank's longer idle time for which one owner is named (own choice)."""


class RankRun(msgspec.Struct, frozen=True):
    """Everything that the rows are built from."""

    numbers: tuple[int, ...]
    """Numbers of the ranks, ascending."""
    members: Sequence[Member]
    table: RankTable
    matched: Matched
    waits: RankWaits
    blame: Blame
    clocks: Mapping[int, Skew]
    start_ns: I64
    """When each matched row starts, by a common clock."""

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
    wait = run.by_member(run.waits.wait)
    exposed = run.by_member(run.waits.exposed)
    transfer = run.by_member(run.waits.transfer)
    last = run.by_member(run.waits.is_last.astype(np.int64))
    matched = count_by(run.table.member[run.matched.rows], len(run.members)).tolist()
    return tuple(
        _rank(run, position, matched[position], last[position], (wait[position], exposed[position], transfer[position]))
        for position in range(len(run.members))
    )


def _rank(run: RankRun, position: int, matched: int, last: int, times: tuple[int, int, int]) -> RankRow:
    member = run.members[position]
    steps, resources, recording = member.facts.steps, member.resources, member.recording
    count = len(steps.name)
    wait, exposed, transfer = (time / count if matched and count else None for time in times)
    exposed_wait = exposed if tells_exposed(run) else None
    mean_step = fmean(steps.duration_ns) if count else None
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
        exposed_wait_ns=exposed_wait,
        transfer_ns=transfer,
        own_ns=_own_ns(mean_step, exposed_wait),
        loader_ns=resources.exposed_loader_ns if resources else None,
        idle_ns=_idle(resources),
        matched=matched,
        last=last,
        skew=_skew(run, position),
        workload=recording.workload if recording else None,
        typical_step_ns=recording.typical_step_ns if recording else None,
        **_stalls(member),
    )


def _own_ns(mean_step: float | None, exposed_wait: float | None) -> float | None:
    """Time of a step in which the rank does not only wait for others."""
    if mean_step is None or exposed_wait is None:
        return None
    return max(0.0, mean_step - exposed_wait)


def _stalls(member: Member) -> dict[str, float]:
    """Stalls of a rank's threads per typical step, by field of its row; nothing where they are not known."""
    host_stalls, recording = member.host_stalls, member.recording
    if recording is None or recording.typical is None:
        return {}
    steps = recording.typical.steps
    if host_stalls is None:
        return {"stalls": 0.0, "stalled_ns": 0.0, "longest_stall_ns": 0} if member.host_owners is not None else {}
    return {
        "stalls": host_stalls.stalls / steps,
        "stalled_ns": host_stalls.time_ns / steps,
        "longest_stall_ns": host_stalls.longest_ns,
    }


def beginning(run: RankRun) -> dict[str, int]:
    """How long ranks wait at the start of the recording for one that began later, by field of the result."""
    rows = np.flatnonzero(run.waits.at_start)
    if not len(rows):
        return {}
    longest = rows[run.waits.wait[rows].argmax()]
    first = run.matched.opens[run.matched.collective[longest]]
    latest = run.numbers[run.table.member[run.matched.rows[first]]]
    return {"start_wait_ns": int(run.waits.wait[longest]), "start_rank": latest}


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
    return replace(offset, reference=run.numbers[offset.reference])


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


def _step(run: RankRun, number: int, name: str, durations: list[tuple[int, int]], *, is_counted: bool) -> RunStep:
    longest, rank = max(durations, key=lambda entry: (entry[0], -entry[1]))
    waits = _longest_wait(run, number) if is_counted else {}
    caused = run.blame.by_step[number] / len(durations)
    worst = int(caused.argmax())
    return RunStep(
        name=name,
        ranks=len(durations),
        mean_ns=fmean(duration for duration, _ in durations),
        min_ns=min(duration for duration, _ in durations),
        max_ns=longest,
        longest=rank,
        wait_ns=float(caused.sum()) if is_counted else None,
        waited_for=run.numbers[worst] if is_counted and caused[worst] > 0 else None,
        caused_ns=float(caused[worst]) if is_counted and caused[worst] > 0 else None,
        reason=_reason(run, name),
        costs_ns=_costs(caused) if is_counted and number * len(run.members) < _MOST_COSTS else (),
        **waits,
    )


def _costs(caused: F64) -> tuple[int, ...]:
    """Waiting that each rank causes in a step, in whole ns."""
    return tuple(caused.round().astype(np.int64).tolist())


def _reason(run: RankRun, name: str) -> str | None:
    """Why most of the ranks that leave a step out do so."""
    steps = [step for member in run.members if member.recording for step in member.recording.steps]
    known = Counter(step.reason for step in steps if step.name == name and not step.is_typical and step.reason)
    return known.most_common(1)[0][0] if known else None


def _longest_wait(run: RankRun, number: int) -> dict[str, Any]:
    """The longest exposed waiting in a step, by field of its row."""
    rows = np.flatnonzero(run.table.step[run.matched.rows] == number)
    longest = int(rows[run.waits.exposed[rows].argmax()])
    row = run.matched.rows[longest]
    wait = int(run.waits.exposed[longest])
    return {
        "longest_wait_ns": wait,
        "longest_wait_rank": run.numbers[run.table.member[row]] if wait else None,
        "longest_wait_in": run.table.kinds[run.table.kind[row]].operation if wait else None,
    }


def groups(run: RankRun) -> tuple[GroupRow, ...]:
    """One row per kind of matched collectives, whatever the shapes; the one with the most waiting first."""
    table = run.table
    kind = table.kind[run.matched.rows]
    joined: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for number in distinct(kind).tolist():
        facts = table.kinds[number]
        joined[facts.operation, facts.group, facts.message_bytes, facts.is_own].append(number)
    rows_by_wait: list[tuple[int, GroupRow]] = []
    for kinds in joined.values():
        rows = np.flatnonzero(np.isin(kind, kinds))
        rows_by_wait.append((int(run.waits.wait[rows].sum()), _group(run, table.kinds[kinds[0]], rows)))
    rows_by_wait.sort(key=lambda entry: -entry[0])
    return tuple(row for _, row in rows_by_wait[:MOST_GROUPS])


def _group(run: RankRun, facts: CollectiveKind, rows: I64) -> GroupRow:
    """The row of the matched collectives of a kind; of figures that all ranks share the first rank's count."""
    group = run.table.groups[facts.group]
    first = rows[_opens(run, rows)]
    transfer = int(run.waits.transfer[first].sum())
    rate = None
    if facts.message_bytes and transfer:
        rate = facts.message_bytes * len(first) / transfer
    factor = bus_factor(facts.operation, group.size)
    return GroupRow(
        operation=facts.operation,
        process_group=group.name,
        group_size=group.size,
        ranks=len(distinct(run.table.member[run.matched.rows[rows]])),
        message_bytes=facts.message_bytes,
        collectives=len(first),
        wait_ns=int(run.waits.wait[rows].sum()) / len(rows),
        transfer_ns=transfer / len(first),
        algorithm_gb_per_s=rate,
        bus_gb_per_s=None if rate is None or factor is None else rate * factor,
        rank_transfer_ns=int(run.waits.transfer[rows].sum()) / len(rows),
        is_own=facts.is_own,
        **_starts(run, rows),
    )


def _opens(run: RankRun, rows: I64) -> Bool:
    """Which of some rows are the first of their collective."""
    return np.append(True, np.diff(run.matched.collective[rows]) > 0)


def _starts(run: RankRun, rows: I64) -> dict[str, Any]:
    """How far apart ranks start some collectives, and which comes last most often, by field of their row."""
    figures = _last(run, rows)
    if run.table.has_clocks:
        skew = (run.matched.most(run.start_ns) - run.matched.least(run.start_ns))[rows]
        figures["start_skew_ns"] = float(skew[_opens(run, rows)].mean())
    return figures


def exchanges(run: RankRun) -> tuple[ExchangeRow, ...]:
    """One row per place in the step of what a program exchanges between experts by itself; in the order of time."""
    places: defaultdict[int, list[int]] = defaultdict(list)
    for in_step in _exchanges_by_step(run).values():
        for place, (_, number) in enumerate(sorted(in_step)[:MOST_GROUPS], 1):
            places[place].append(number)
    return tuple(_exchange(run, place, numbers) for place, numbers in sorted(places.items()))


def _exchanges_by_step(run: RankRun) -> dict[int, list[tuple[int, int]]]:
    """Starts and numbers of the exchanges between experts that count, by step."""
    table, matched = run.table, run.matched
    first = matched.opens
    is_exchange = [kind.is_own and kind.operation == "all_to_all" for kind in table.kinds]
    of_experts = np.array(is_exchange or [False])[table.kind[matched.rows[first]]]
    numbers = np.flatnonzero(of_experts & run.waits.counts[first])
    rows = first[numbers]
    columns = (numbers, table.step[matched.rows[rows]], matched.least(run.start_ns)[rows])
    by_step: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, step, start in zip(*(column.tolist() for column in columns), strict=True):
        by_step[step].append((start, number))
    return by_step


def _exchange(run: RankRun, place: int, numbers: list[int]) -> ExchangeRow:
    rows = np.flatnonzero(np.isin(run.matched.collective, numbers))
    last = {"last_rank": None, "last": 0} | _last(run, rows)
    return ExchangeRow(place, len(numbers), int(run.waits.wait[rows].sum()) / len(rows), **last)


def _last(run: RankRun, rows: I64) -> dict[str, Any]:
    """Which rank comes last most often in some collectives, and in how many, by field of a row."""
    last = count_by(run.table.member[run.matched.rows[rows]][run.waits.is_last[rows]], len(run.members))
    return {"last_rank": run.numbers[int(last.argmax())], "last": int(last.max())} if last.any() else {}


def link(run: RankRun) -> GpuLink | None:
    """The link between GPUs of the kind that all ranks have."""
    named = [device for member in run.members for device in member.summary.devices]
    found = gpus.link_between(Device(device.id, device.name, memory_bytes=device.memory_bytes) for device in named)
    return None if found is None else GpuLink(found.name, found.bandwidth, found.source)


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
            excess=_excess(run, rows, member),
            worst_steps=_worst_steps(run, member),
            worst_collectives=_worst_collectives(run, member),
            collectives=int(run.blame.led[member]),
            largest_ns=float(run.blame.largest[member]) / len(run.members),
        )
        for member in order[:MOST_STRAGGLERS]
    )


def _main_causes(by_step: F64, members: int) -> list[int]:
    """Number of steps in which each rank caused more waiting than any other."""
    waited = by_step[by_step.sum(axis=1) > 0] if len(by_step) else by_step
    return count_by(waited.argmax(axis=1), members).tolist() if len(waited) else [0] * members


def _excess(run: RankRun, rows: Sequence[RankRow], member: int) -> tuple[Excess, ...]:
    excesses = []
    for part in ("computation", "loader", "idle"):
        own = getattr(rows[member], f"{part}_ns")
        others = [v for i, row in enumerate(rows) if i != member and (v := getattr(row, f"{part}_ns")) is not None]
        if own is not None and others and own > median(others):
            excesses.append(Excess(part, own - median(others)))
    known = [replace(one, **_owner(run, member, one.ns)) if one.part == "idle" else one for one in excesses]
    return tuple(sorted(known, key=lambda excess: -excess.ns))


def _owner(run: RankRun, member: int, idle_ns: float) -> dict[str, Any]:
    """The owner of host time by which a rank's idle time differs most from others', if it explains half of it."""
    times = [_idle_of_owners(each) for each in run.members]
    others = times[:member] + times[member + 1 :]
    longer = {name: ns - median([each.get(name, 0.0) for each in others]) for name, ns in times[member].items()}
    name = max(longer, key=lambda name: (longer[name], name), default=None)
    if name is None or longer[name] < _EXPLAINS * idle_ns:
        return {}
    return {"owner": name, "owner_ns": longer[name]}


def _idle_of_owners(member: Member) -> dict[str, float]:
    """Time in ns per step in which the device idles while an owner takes the host, by its name."""
    found: defaultdict[str, float] = defaultdict(float)
    for row in member.host_owners.rows if member.host_owners is not None else ():
        found[row.name] += row.idle_self_ns_per_step or 0.0
    return found


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
