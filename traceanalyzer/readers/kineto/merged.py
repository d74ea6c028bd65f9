"""A file that scripts merged the traces of several ranks into: its events, apart again.

torch.profiler records one process. Where several processes launch work, or communicate in a trace without a device,
somebody merged files: with processes that were made unique by an offset or by a label such as `[TP00]` or `rank 3`,
with the number of the rank as their process, or as they were.

Events of the host tell their process. Those of a device have the device as their process, which is told apart in the
same way: by the label, by the offset (what it has beyond its device), or by nothing. So a device is that of the process
with its name or label; of the process in the same place of their order, where both have offsets; and else of the one
whose launches come before its kernels.

Ranks in containers have equal processes and threads. Where their files were joined as they were, one thread has calls
of several ranks, which overlap and cannot nest. What each profiler wrote ends with its own span, so that the events of
a file can be told from those of the next one; sorted by time they cannot, and such a file has nothing to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace

from traceanalyzer.errors import UnusableInputError
from traceanalyzer.trace.distinct import distinct, stable_order
from traceanalyzer.trace.model import Loss, Trace, TraceInfo, all_tables
from traceanalyzer.trace.table import I32, I64, UNKNOWN
from traceanalyzer.trace.tables import Category

_NUMBERED = re.compile(r"rank[\s_.:=#-]*(\d{1,7})", re.IGNORECASE)
_LABELLED = re.compile(r"\A(?:\[(?P<bracket>[^\]]+)\]|(?P<word>[A-Za-z]+[_ -]?\d+))[\s_.:/-]+\d+\Z")
"""Labels before the number of a process: `[TP00] 1234`, `TP0_1234`, `r3-1234`."""
_ON_HOST = ("gloo:", "mpi:", "ucc:")
"""Beginnings of the names of collectives on the CPU."""
_FEWEST, _SHARE = 20, 0.05
"""Fewest outermost operators of a thread that overlap without nesting, and the least share of them (own choice: torch's
operators return before others begin; of 96 recordings in use no operator overlaps another)."""
_ROUNDED_NS = 2_000
"""Nanoseconds by which calls may seem to overlap: writers rounded start and duration to microseconds."""
_AT_ONCE, _HARDLY = 1 << 16, 8
"""Rows that are looked at together, and the fewest of a thread among them that are (own choice: memory and time)."""
_REPEATED = 0.5
"""Least share of ids that are there several times."""
_MOST = 1024
"""Most processes of a file (own choice: the ranks of a large run)."""
_LATE = 0.5
"""Least share of a device's kernels that must start after the launches of its process (own choice: of another process,
about as many start before them)."""


def with_ranks(trace: Trace) -> Trace:
    """The same trace; with the ranks that were merged into it, or with a loss if they cannot be told apart."""
    processes = _processes(trace)
    if len(processes) < 2:
        return trace
    owner = _owners(trace, processes)
    if owner is None or len(processes) > _MOST:
        loss = Loss("read-merged-muddled", len(processes))
        return replace(trace, losses=(*trace.losses, loss))
    numbers = _numbers(trace, processes, owner)
    process_of = dict(zip(numbers or range(len(processes)), range(len(processes)), strict=True))
    ranks = tuple(_parts(trace, owner, dict(sorted(process_of.items()))))
    loss = Loss("read-merged" if numbers else "read-merged-counted", len(ranks))
    return replace(trace, ranks=ranks, losses=(*trace.losses, loss))


def is_muddled(trace: Trace, *, is_of_several: bool) -> bool:
    """Whether a thread has calls of several ranks.

    Args:
        trace: The whole trace.
        is_of_several: Several profilers wrote it, so that ids of calls may tell, too.
    """
    if _crossing(trace):
        return True
    return is_of_several and any(
        _repeated(table.thread, ids)
        for table, ids in (
            (trace.launches, trace.launches.correlation),
            (trace.host, trace.host.external_id),
        )
    )


def _crossing(trace: Trace) -> bool:
    """Whether many operators of torch begin within another one of their thread and end after it."""
    host, is_torch = trace.host, trace.names.where(lambda name: name.startswith("aten::"))
    outermost: dict[int, tuple[int, int]] = {}
    """By thread: start of the last operator that is in no other one, and the end of all until then."""
    outer = crossing = 0
    for first in range(0, len(host), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        rows = first + np.flatnonzero(is_torch[host.name[part]] & (host.category[part] == Category.OPERATOR))
        for own in _by_thread(host.thread[rows], rows):
            thread, start, end = (
                int(host.thread[own[0]]),
                host.start_ns[own],
                host.start_ns[own] + host.dur_ns[own],
            )
            begun, ended = outermost.get(thread, (int(start[0]), -1))
            high = np.maximum.accumulate(np.append(ended, end))
            found = np.flatnonzero(end > high[:-1] + _ROUNDED_NS)
            before = np.append(begun, start[found])
            is_within = start[found] + _ROUNDED_NS < high[found]
            crossing += int((is_within & (start[found] > before[:-1] + _ROUNDED_NS)).sum())
            outer += len(found)
            outermost[thread] = int(before[-1]), int(high[-1])
    return crossing >= max(_FEWEST, _SHARE * outer)


def _by_thread(thread: I32, rows: I64) -> Iterator[I64]:
    """The rows of each thread, in their order, but for threads with hardly any."""
    order = stable_order(thread)
    bounds = np.flatnonzero(np.diff(thread[order])) + 1
    yield from (rows[own] for own in np.split(order, bounds) if len(own) >= _HARDLY)


def _repeated(thread: I32, ids: I64) -> bool:
    """Whether most ids of calls occur again on their thread, before the last one occurred for the first time."""
    known = np.flatnonzero(ids > 0)
    keys = (thread[known].astype(np.int64) << 48) + (ids[known] & ((1 << 48) - 1))
    _, first, counts = np.unique(keys, return_index=True, return_counts=True)
    again = np.ones(len(keys), np.bool_)
    again[first] = False
    is_mixed = len(first) > 1 and bool(again[: int(first.max())].any())
    return is_mixed and int((counts > 1).sum()) >= _REPEATED * len(counts)


def of_recordings(trace: Trace, recordings: Sequence[Trace]) -> Trace:
    """A trace in which threads have calls of several ranks, with these ranks.

    Args:
        trace: All of the file.
        recordings: What each profiler wrote, in the order of the file; none if it cannot be told apart.

    Raises:
        UnusableInputError: Nothing tells the ranks apart.
    """
    if len(recordings) < 2 or any(is_muddled(part, is_of_several=True) for part in recordings):
        raise UnusableInputError(f"{trace.info.name}: has events of several ranks in one thread; give each rank's file")
    said = [distinct(part.device.rank).tolist() for part in recordings]
    told = [ranks[0] for ranks in said if len(ranks) == 1 and ranks[0] >= 0]
    is_told = len(set(told)) == len(recordings)
    parts = _numbered(told if is_told else range(len(recordings)), recordings)
    ranks = tuple(replace(part, info=replace(part.info, capture=None), losses=()) for part in parts)
    loss = Loss("read-merged" if is_told else "read-merged-counted", len(ranks))
    return replace(trace, ranks=ranks, losses=(*trace.losses, loss))


def with_further(trace: Trace, others: Sequence[Trace]) -> Trace:
    """The first trace of a file, with the ranks if all that follow are whole, and of other ranks by their headers."""
    size = trace.info.size_bytes
    every = (
        trace,
        *(replace(other, info=replace(other.info, size_bytes=size)) for other in others),
    )
    numbers = [part.info.rank for part in every]
    known = [number for number in numbers if number is not None]
    is_told = len(set(known)) == len(every) and not any(part.ranks or part.is_cut for part in every)
    ranks = tuple(_numbered(known, every)) if is_told else trace.ranks
    return replace(trace, ranks=ranks, losses=(*trace.losses, Loss("read-more-traces", len(every))))


def _numbered(numbers: Iterable[int], parts: Sequence[Trace]) -> Iterator[Trace]:
    """The parts of a file in the order of their ranks."""
    ordered = sorted(zip(numbers, parts, strict=True), key=lambda one: one[0])
    ends = list(accumulate((sum(map(len, all_tables(part).values())) for _, part in ordered), initial=0))
    for (number, part), (before, after) in zip(ordered, pairwise(ends), strict=True):
        yield replace(part, info=_facts(part.info, number, (before, after, ends[-1])))


def _facts(info: TraceInfo, rank: int, of_file: tuple[int, int, int]) -> TraceInfo:
    """What is known of a rank, with its share of the bytes of the file."""
    before, after, every = of_file
    size = info.size_bytes
    size = None if size is None else size * after // every - size * before // every
    return replace(info, size_bytes=size, rank=rank)


def _processes(trace: Trace) -> list[str]:
    """Processes that launch work, or that communicate where nothing is launched, in their order."""
    if len(trace.launches):
        threads = trace.launches.thread[np.isin(trace.launches.thread, distinct(trace.host.thread))]
    else:
        communicates = trace.names.where(lambda name: name.startswith(_ON_HOST))[trace.host.name]
        threads = trace.host.thread[communicates | (trace.host.collective > 0)]
    return sorted({trace.threads[thread].pid for thread in distinct(threads).tolist()}, key=_natural)


def _natural(pid: str) -> tuple[list[int], str]:
    return [int(part) for part in re.findall(r"\d{1,18}", pid)], pid


def _owners(trace: Trace, processes: Sequence[str]) -> I64 | None:
    """For each thread the position of its process, or -1; None if devices cannot be told apart."""
    place: dict[str, int] = {pid: number for number, pid in enumerate(processes)}
    groups = _devices(trace, place)
    if groups:
        labels = [_label(pid) for pid in processes]
        of_labels = {label: number for number, label in enumerate(labels) if label is not None}
        found = [of_labels.get(_label(pids[0]) or "") for pids in groups]
        chosen = found if None not in found else _by_launches(trace, processes, groups)
        if chosen is None:
            return None
        place |= {
            pid: number for pids, number in zip(groups, chosen, strict=True) for pid in pids if number is not None
        }
    return np.array([place.get(thread.pid, UNKNOWN) for thread in trace.threads], np.int64)


def _label(pid: str) -> str | None:
    """What a script put before the number of a process to make it unique; None without such a label."""
    if (rank := _NUMBERED.search(pid)) is not None:
        return rank[1]
    label = _LABELLED.match(pid)
    return None if label is None else label["bracket"] or label["word"]


def _devices(trace: Trace, place: Mapping[str, int]) -> list[tuple[str, ...]]:
    """The processes of devices that are none of the host, those with one offset or label together, in their order."""
    device = trace.device
    pairs = Counter(zip(device.thread.tolist(), device.device.tolist(), strict=True))
    groups: dict[tuple[Any, ...], set[str]] = {}
    for thread, number in pairs:
        pid = trace.threads[thread].pid
        if pid in place:
            continue
        label = _label(pid)
        offset = int(pid) - number if label is None and re.fullmatch(r"-?\d{1,18}", pid) else 0
        groups.setdefault((offset, label or ("" if offset else pid)), set()).add(pid)
    return [
        tuple(sorted(groups[key], key=_natural)) for key in sorted(groups, key=lambda key: (key[0], _natural(key[1])))
    ]


def _by_launches(trace: Trace, processes: Sequence[str], groups: Sequence[tuple[str, ...]]) -> list[int | None] | None:
    """The process of each group of devices: of those whose launches fit alike the one in the same place.

    Ids of launches are often equal in all processes, so times decide: no kernel starts before its launch.
    """
    if len(groups) != len(processes):
        return None
    launches, device = trace.launches, trace.device
    pids = [thread.pid for thread in trace.threads]
    rows = [np.flatnonzero(np.isin(launches.thread, [t for t, p in enumerate(pids) if p == pid])) for pid in processes]
    started = [dict(zip(launches.correlation[r].tolist(), launches.start_ns[r].tolist(), strict=True)) for r in rows]
    free = set(range(len(processes)))
    chosen: list[int | None] = []
    for number, group in enumerate(groups):
        own = np.flatnonzero(np.isin(device.thread, [t for t, p in enumerate(pids) if p in group]))
        kernels = list(zip(device.correlation[own].tolist(), device.start_ns[own].tolist(), strict=True))
        fits = {p: _fit(kernels, started[p]) for p in free}
        best = max(free, key=lambda p: (round(fits[p], 2), p == number, -p))
        if fits[best] < _LATE:
            return None
        free.remove(best)
        chosen.append(best)
    return chosen


def _fit(kernels: Sequence[tuple[int, int]], started: Mapping[int, int]) -> float:
    """Share of kernels that start after a launch with their id."""
    late = sum(1 for correlation, start in kernels if started.get(correlation, start + 1) <= start)
    return late / max(1, len(kernels))


def _numbers(trace: Trace, processes: Sequence[str], owner: I64) -> list[int] | None:
    """The rank of each process: what its kernels say, else its label; None where neither is a number of its own."""
    device = trace.device
    said = [distinct(device.rank[owner[device.thread] == number]).tolist() for number in range(len(processes))]
    labels = [re.findall(r"\d{1,7}", _label(pid) or "") for pid in processes]
    for found in (said, labels):
        numbers = [int(one[0]) for one in found if len(one) == 1 and int(one[0]) >= 0]
        if len(set(numbers)) == len(processes):
            return numbers
    return None


def _parts(trace: Trace, owner: I64, process_of: Mapping[int, int]) -> list[Trace]:
    """The traces of the ranks, in their order, without counters: those of all ranks have the names of their devices."""
    tables = {name: table for name, table in all_tables(trace).items() if table is not trace.counters}
    owners = {name: owner[table.thread] for name, table in tables.items()}  # type: ignore[attr-defined]
    nobody = int(sum(int((rows == UNKNOWN).sum()) for rows in owners.values()))
    every = sum(map(len, tables.values()))
    parts: list[Trace] = []
    seen = 0
    for rank, process in process_of.items():
        own = {name: table.take(owners[name] == process) for name, table in tables.items()}
        own["counters"] = trace.counters.take(np.empty(0, np.int64))
        before, seen = seen, seen + sum(map(len, own.values()))
        losses = (Loss("read-merged-left-out", nobody),) if nobody and not parts else ()
        parts.append(_part(trace, rank, own, (before, seen, every), losses))
    return parts


def _part(
    trace: Trace,
    rank: int,
    own: Mapping[str, Any],
    of_file: tuple[int, int, int],
    losses: tuple[Loss, ...],
) -> Trace:
    """The trace of a rank, from its first event on, with its share of the bytes of the file."""
    info = trace.info
    filled = [table for table in own.values() if len(table)]
    first = min(int(table.start_ns[0]) for table in filled)
    end = max(int((table.start_ns + getattr(table, "dur_ns", 0)).max()) for table in filled)
    began = info.profiler_start_ns
    shifted: dict[str, Any] = {name: table.changed(start_ns=table.start_ns - first) for name, table in own.items()}
    facts = replace(
        _facts(info, rank, of_file),
        origin_ns=info.origin_ns + first,
        span_ns=end - first,
        profiler_start_ns=None if began is None else began - first,
        capture=None,  # of one process, and which one it is nobody knows
    )
    return replace(trace, info=facts, losses=losses, **shifted)
