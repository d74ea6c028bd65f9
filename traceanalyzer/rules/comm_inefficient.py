"""Detects comm-inefficient: see pages/comm-inefficient.md."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("comm-inefficient")
_BUCKET_BYTES = 25 * 2**20
"""Default bucket of DistributedDataParallel (`bucket_cap_mb=25`)."""
_REACHED = 0.5
"""Share of a link's bandwidth that large messages reach (own choice, cautious: a good ring reaches more)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("communication", Communication)
    total = facts.need_step_resources().communication_ns or 0.0
    if total < limits["share"] * facts.step_ns:
        return
    sized = [row for row in found.rows if row.message_bytes and (row.group_size or 2) > 1]
    if not sized:
        raise Missing(_PAGE.text("no-sizes")())
    below = list(_below_link(facts, found, sized, limits))
    yield from below or _slow(facts, sized, limits)
    yield from _small(facts, found, sized, limits)


def _slow(facts: Facts, sized: list[CollectiveRow], limits: Mapping[str, float]) -> Iterator[Draft]:
    """Rows of large messages that are slow compared with the best row of the same operation and group size."""
    groups: defaultdict[tuple[str | None, int | None], list[CollectiveRow]] = defaultdict(list)
    for row in sized:
        if (row.message_bytes or 0) >= limits["large_bytes"]:
            groups[row.operation, row.group_size].append(row)
    slow: list[tuple[float, float, CollectiveRow]] = []
    for rows in groups.values():
        best = max(map(_rate, rows))
        slow += [(_excess(row, best), _rate(row) / best, row) for row in rows if _rate(row) < limits["of_best"] * best]
    if not slow:
        return
    slow.sort(key=lambda entry: (-entry[0], entry[2].message_bytes or 0))
    direct = facts.communication_per_step(sum(excess for excess, _, _ in slow))
    where = tuple(_place(row) for _, _, row in slow)
    evidence = Evidence(_PAGE.text("slow")(), slow[0][1], limits["of_best"], "share", where)
    params = {"share": slow[0][1], "time": direct}
    yield Draft((evidence,), _change(facts, direct), params, ceiling="low", confidence="C")  # they may have waited


def _below_link(
    facts: Facts, found: Communication, sized: list[CollectiveRow], limits: Mapping[str, float]
) -> Iterator[Draft]:
    """All large messages, if even the fastest is slow for the link: then none of them is a reference for the others."""
    large = [row for row in sized if (row.message_bytes or 0) >= limits["large_bytes"]]
    moved = [(row, _bus_bytes(row)) for row in large if _bus_bytes(row)]
    link = found.link
    if link is None or not moved:
        return
    best = max(size / max(1, row.min_ns) for row, size in moved)  # bytes per ns are GB/s
    if best >= limits["of_link"] * link.gb_per_s:
        return
    reachable = _REACHED * link.gb_per_s
    direct = facts.communication_per_step(
        sum(max(0.0, row.total_ns - row.calls * size / reachable) for row, size in moved)
    )
    where = _places(sorted((row for row, _ in moved), key=lambda row: -row.total_ns))
    evidence = Evidence(_PAGE.text("of-link")(), best / link.gb_per_s, limits["of_link"], "share", where)
    params = {"rate": best, "link": link.name, "most": link.gb_per_s, "time": direct}
    change = _change(facts, direct, _PAGE.text("basis-link")(reached=_REACHED))
    yield Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="C",
        summary=_PAGE.text("summary-link"),
        advice=_PAGE.text("advice-link"),
        code="",
    )


def _bus_bytes(row: CollectiveRow) -> float:
    """Bytes that the slowest link of a GPU carries for one message; 0 where it is unknown."""
    return (row.message_bytes or 0) * (bus_factor(row.operation, row.group_size) or 0.0)


def _rate(row: CollectiveRow) -> float:
    """Bytes per ns of the fastest call, which has waited least."""
    return (row.message_bytes or 0) / max(1, row.min_ns)


def _excess(row: CollectiveRow, best: float) -> float:
    return max(0.0, row.total_ns - row.calls * (row.message_bytes or 0) / best)


def _small(
    facts: Facts, found: Communication, sized: list[CollectiveRow], limits: Mapping[str, float]
) -> Iterator[Draft]:
    small = [row for row in sized if (row.message_bytes or 0) < limits["small_bytes"]]
    calls, size = sum(row.calls for row in small), int(limits["small_bytes"])
    time, whole = sum(row.total_ns for row in small), sum(row.total_ns for row in found.rows)
    if calls <= limits["small_share"] * found.calls or time <= limits["small_share"] * whole:
        return
    payload = sum(row.calls * (row.message_bytes or 0) for row in small)
    buckets = -(-payload // _BUCKET_BYTES)
    latency = min(row.min_ns for row in small)
    direct = facts.communication_per_step(max(0, time - buckets * max(latency, time // calls)))
    ranked = sorted(small, key=lambda row: -row.total_ns)
    evidence = Evidence(
        _PAGE.text("small")(size=size), calls / found.calls, limits["small_share"], "share", _places(ranked)
    )
    params = {
        "small": calls,
        "calls": found.calls,
        "size": size,
        "time": facts.communication_per_step(time),
        "share": 0.0,
    }
    yield Draft(
        (evidence,),
        _change(facts, direct),
        params,
        summary=_PAGE.text("summary-small"),
        advice=_PAGE.text("advice-small"),
    )


def _change(facts: Facts, direct: float, basis: Message | None = None) -> TimeSaved:
    exposed = facts.need_step_resources().exposed_communication_ns or 0.0
    return TimeSaved(
        "gpu", (0.0, direct), basis or _PAGE.text("basis")(), (0.0, min(direct, exposed)), {"communication": direct}
    )


def _places(rows: list[CollectiveRow]) -> tuple[CodePlace, ...]:
    return tuple(_place(row) for row in rows[:5])


def _place(row: CollectiveRow) -> CodePlace:
    shapes = None if row.message_bytes is None else f"{row.message_bytes} B x {row.calls}"
    return CodePlace("kernel", row.operation or "unknown", shapes, row.total_ns, "ns")


RULE = _PAGE.rule(trace=_trace)
