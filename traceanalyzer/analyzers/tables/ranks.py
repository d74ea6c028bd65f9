"""What do the sums of several ranks show: which one do the others wait for?

A collective ends on all ranks at about the same time, and its transfer takes about as long on each. So what a rank
spends in a collective beyond the least of all ranks is waiting, and the rank that waits least comes last most often.
How much of that least is waiting, too, is not in sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun
from traceanalyzer.knowledge.kernel_names import is_communication

_RANK = "rank-"
_SINGLE = "run-"
"""Ids of a few tables without names: most likely of runs before and after a change."""


class RankSums(msgspec.Struct, frozen=True):
    """The sums of one rank, over all its steps."""

    run: str
    """Id of its run in the analysis `runs`."""
    device_ns: int | None
    """Device time in ns; null where it is not printed."""
    communication_ns: int
    """Part of it in the collectives that all ranks print, equally often."""
    waits_ns: int
    """Least part of that which is waiting: beyond the time of the rank that takes least, collective by collective."""


class PrintedRanks(msgspec.Struct, frozen=True):
    """Tables with the same collectives."""

    is_named: bool
    """Whether their headings say that they are ranks; if not, they may also be of one rank several times."""
    ranks: tuple[RankSums, ...]
    """In the order of the document."""
    collectives: tuple[str, ...]
    """Names of the kernels that are compared, the one with most waiting first."""
    last: str
    """Id of the run that waits least: the others wait for it."""


def analyze(runs: Sequence[PrintedRun]) -> tuple[PrintedRanks, ...]:
    """The groups of runs with mostly the same rows, as far as they have collectives in common."""
    groups: dict[str, list[PrintedRun]] = {}
    for run in runs:
        if not run.id.startswith(_SINGLE):
            groups.setdefault("ranks" if run.id.startswith(_RANK) else run.like or run.id, []).append(run)
    return tuple(found for group in groups.values() if len(group) > 1 for found in _compared(group))


def _compared(group: Sequence[PrintedRun]) -> Iterator[PrintedRanks]:
    times = [_collectives(run) for run in group]
    shared = [key for key in times[0] if all(key in other for other in times)]
    if not shared:
        return
    waits = {key: _waits([by_key[key] for by_key in times]) for key in shared}
    ranks = []
    for position, run in enumerate(group):
        communication = sum(times[position][key] for key in shared)
        waiting = sum(of_runs[position] for of_runs in waits.values())
        ranks.append(RankSums(run.id, run.device_ns, communication_ns=communication, waits_ns=waiting))
    longest_first = sorted(shared, key=lambda key: (-sum(waits[key]), key))
    last = min(ranks, key=lambda row: row.waits_ns).run
    yield PrintedRanks(group[0].id.startswith(_RANK), tuple(ranks), tuple(name for name, _ in longest_first), last)


def _waits(times: Sequence[int]) -> list[int]:
    """How long each run is in a collective beyond the shortest time."""
    return [time - min(times) for time in times]


def _collectives(run: PrintedRun) -> Mapping[tuple[str, int | None], int]:
    """Device time of the kernels that communicate, by name and calls; names that several rows share are left out."""
    rows: list[Hot] = [row for row in run.kernels if row.device_self_ns is not None and is_communication(row.name)]
    names = Counter(row.name for row in rows)
    return {(row.name, row.calls): row.device_self_ns or 0 for row in rows if names[row.name] == 1}
