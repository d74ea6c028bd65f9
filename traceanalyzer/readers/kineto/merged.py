"""A file that scripts merged the traces of several ranks into: its events, apart again.

torch.profiler records one process. Where several processes launch work, or communicate in a trace without a device,
somebody merged files: with processes that were made unique by an offset or by a label such as `[TP00]` or `rank 3`,
with the number of the rank as their process, or as they were.

Events of the host tell their process. Those of a device have the device as their process, which is told apart in the
same way: by the label, by the offset (what it has beyond its device), or by nothing. So a device is that of the process
with its name or label; of the process in the same place of their order, where both have offsets; and else of the one
whose launches come before its kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.model import Loss, Trace, all_tables
from traceanalyzer.trace.table import I64, UNKNOWN

_NUMBERED = re.compile(r"rank[\s_.:=#-]*(\d{1,7})", re.IGNORECASE)
_LABELLED = re.compile(r"\A(?:\[(?P<bracket>[^\]]+)\]|(?P<word>[A-Za-z]+[_ -]?\d+))[\s_.:/-]+\d+\Z")
"""Labels before the number of a process: `[TP00] 1234`, `TP0_1234`, `r3-1234`."""
_ON_HOST = ("gloo:", "mpi:", "ucc:")
"""Beginnings of the names of collectives on the CPU."""
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
    trace: Trace, rank: int, own: Mapping[str, Any], of_file: tuple[int, int, int], losses: tuple[Loss, ...]
) -> Trace:
    """The trace of a rank, from its first event on, with its share of the bytes of the file."""
    info = trace.info
    filled = [table for table in own.values() if len(table)]
    first = min(int(table.start_ns[0]) for table in filled)
    end = max(int((table.start_ns + getattr(table, "dur_ns", 0)).max()) for table in filled)
    before, after, every = of_file
    began = info.profiler_start_ns
    size = info.size_bytes
    shifted: dict[str, Any] = {name: table.changed(start_ns=table.start_ns - first) for name, table in own.items()}
    facts = replace(
        info,
        size_bytes=None if size is None else size * after // every - size * before // every,
        origin_ns=info.origin_ns + first,
        span_ns=end - first,
        profiler_start_ns=None if began is None else began - first,
        rank=rank,
        capture=None,  # of one process, and which one it is nobody knows
    )
    return replace(trace, info=facts, losses=losses, **shifted)
