"""Collectives move their bytes far more slowly than others or than the link allows, or are too small to be fast.

What it detects:
    Large messages whose bus bandwidth, in the fastest call, is below half of the best of the same operation in this
    trace; large messages that all stay below 5 % of the bandwidth of the link between these GPUs, by the vendor's data
    sheet; or many messages so small that latency takes most of their time.

Why it matters:
    A link that reached 100 GB/s once in this run can reach it again. Each small message takes the full latency.

What to do:
    Merge small messages: larger buckets (`bucket_cap_mb`), coalesced calls, fewer parameter groups. For large ones,
    check the path between the ranks (NVLink, PCIe, InfiniBand), `NCCL_ALGO`, and that the group does not span nodes
    unnecessarily.

How the saving is estimated:
    At most the time beyond the time of the bytes at the best bandwidth seen; such a finding has at most low severity,
    because the slow calls of one rank's trace may all have waited for another rank. If all large messages are slow,
    half of the link's bandwidth is used instead, with at most medium severity. For small messages, at most all their
    time except that of the few calls that buckets of 25 MB would need. At least nothing, for the same reason.

When it is wrong:
    Groups within a node and across nodes use different links: the link of the data sheet is the one within a node, and
    a network of 100 Gbit/s carries 12.5 GB/s. GPUs that are not in the table are not compared. FSDP sends small
    messages ahead of time on purpose.
    Traces from before torch 2.2 have no message sizes, so the rule is skipped.

References:
    https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_BUCKET_BYTES = 25 * 2**20
"""Default bucket of DistributedDataParallel (`bucket_cap_mb=25`)."""

_REACHED = 0.5
"""Share of a link's bandwidth that large messages reach (own choice, cautious: a good ring reaches more)."""

_SLOW = Text("comm-inefficient-slow", "bus bandwidth of the fastest call over the best of the same operation")
_SMALL = Text("comm-inefficient-small", "collectives with less than {size:bytes}, share of all collectives")
_BASIS = Text(
    "comm-inefficient-basis",
    "at most the time beyond what the same bytes take at the best bandwidth seen, or in few large messages; at least "
    "nothing, because calls may have waited for a late rank",
)
_OF_LINK = Text("comm-inefficient-of-link", "bus bandwidth of the fastest call over that of the link between the GPUs")
_BASIS_LINK = Text(
    "comm-inefficient-basis-link",
    "at most the time beyond what the same bytes take at {reached:share} of the link's bandwidth; at least nothing, "
    "because calls may have waited for a late rank, or may have to use a network",
)
_SUMMARY_LINK = Text(
    "comm-inefficient-summary-link",
    "Even the fastest large collective moves {rate:number} GB/s; {link} between GPUs of this kind carries "
    "{most:number} GB/s in each direction. That costs up to {time:ns} per step.",
    note="link is NVLink, PCIe or Infinity Fabric",
)
_ADVICE_LINK = Text(
    "comm-inefficient-advice-link",
    "Check which path the messages take: run with NCCL_DEBUG=INFO and look at nvidia-smi topo -m (rocm-smi "
    "--showtopo). Within a machine, look for disabled peer-to-peer access (NCCL_P2P_DISABLE) and containers without "
    "enough shared memory; between machines, for a network interface that NCCL does not use (NCCL_SOCKET_IFNAME, "
    "NCCL_IB_DISABLE).",
    note="names in capitals and commands are code",
)
_NO_SIZES = Text("comm-inefficient-no-sizes", "the trace has no message sizes (torch before 2.2, or names only)")
_NO_TABLE = Text("comm-inefficient-no-table", "a printed table has no message sizes")
_SUMMARY_SMALL = Text(
    "comm-inefficient-summary-small",
    "{small:count} of {calls:count} collectives carry less than {size:bytes} each; together they take {time:ns} per "
    "step.",
    one="{small:count} of {calls:count} collectives carries less than {size:bytes}; it takes {time:ns} per step.",
)
_ADVICE_SMALL = Text(
    "comm-inefficient-advice-small",
    "Send fewer, larger messages: raise bucket_cap_mb, keep parameters in one group, coalesce calls of your own.",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("communication", Communication)
    total = facts.need_step_resources().communication_ns or 0.0
    if total < limits["share"] * facts.step_ns:
        return
    sized = [row for row in found.rows if row.message_bytes and (row.group_size or 2) > 1]
    if not sized:
        raise Missing(_NO_SIZES())
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
    evidence = Evidence(_SLOW(), slow[0][1], limits["of_best"], "share", where)
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
    evidence = Evidence(_OF_LINK(), best / link.gb_per_s, limits["of_link"], "share", where)
    params = {"rate": best, "link": link.name, "most": link.gb_per_s, "time": direct}
    change = _change(facts, direct, _BASIS_LINK(reached=_REACHED))
    yield Draft(
        (evidence,),
        change,
        params,
        ceiling="medium",
        confidence="C",
        summary=_SUMMARY_LINK,
        advice=_ADVICE_LINK,
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
    evidence = Evidence(_SMALL(size=size), calls / found.calls, limits["small_share"], "share", _places(ranked))
    params = {
        "small": calls,
        "calls": found.calls,
        "size": size,
        "time": facts.communication_per_step(time),
        "share": 0.0,
    }
    yield Draft((evidence,), _change(facts, direct), params, summary=_SUMMARY_SMALL, advice=_ADVICE_SMALL)


def _change(facts: Facts, direct: float, basis: Message | None = None) -> TimeSaved:
    exposed = facts.need_step_resources().exposed_communication_ns or 0.0
    return TimeSaved("gpu", (0.0, direct), basis or _BASIS(), (0.0, min(direct, exposed)), {"communication": direct})


def _places(rows: list[CollectiveRow]) -> tuple[CodePlace, ...]:
    return tuple(_place(row) for row in rows[:5])


def _place(row: CollectiveRow) -> CodePlace:
    shapes = None if row.message_bytes is None else f"{row.message_bytes} B x {row.calls}"
    return CodePlace("kernel", row.operation or "unknown", shapes, row.total_ns, "ns")


RULE = Rule(
    id="comm-inefficient",
    title=Text("comm-inefficient-title", "Collectives are slower than they could be"),
    summary=Text(
        "comm-inefficient-summary",
        "Large collectives reach {share:share} of the bandwidth that the same operation has elsewhere in this trace, "
        "which costs up to {time:ns} per step.",
    ),
    advice=Text(
        "comm-inefficient-advice",
        "Compare the traces of all ranks first: a late rank makes every message look slow. If none is, check the links "
        "that the slow group uses and what NCCL_DEBUG=INFO says about its algorithm.",
    ),
    not_when=Text(
        "comm-inefficient-not-when", "The slow group crosses nodes and the fast one does not: their links differ."
    ),
    severity="info to high",
    confidence="B",
    tags=("communication",),
    since="0.1",
    thresholds=(
        Threshold(
            "share",
            0.05,
            "share",
            "communication over the step",
            "own choice, as for comm-exposed: below, bandwidth does not matter",
        ),
        Threshold(
            "of_best",
            0.5,
            "share",
            "bandwidth of the fastest call over the best of the operation",
            "own choice, because links of one kind differ by less than half",
        ),
        Threshold(
            "of_link",
            0.05,
            "share",
            "bandwidth of the fastest large call over the link's, where all are slow",
            "own choice: a network of 200 Gbit/s per GPU is above a twentieth of NVLink, up to the H200's",
        ),
        Threshold(
            "large_bytes",
            4 * 2**20,
            "bytes",
            "messages from this size on should reach the bandwidth of the link",
            "own choice, because nccl-tests curves flatten between 4 and 32 MB on NVLink and InfiniBand",
        ),
        Threshold(
            "small_bytes",
            2**20,
            "bytes",
            "messages below this size are bound by latency",
            "own choice, because nccl-tests curves are below a quarter of the link's bandwidth there",
        ),
        Threshold(
            "small_share",
            0.5,
            "share",
            "small messages over all, in number and in time",
            "own choice: then they are what communication is made of",
        ),
    ),
    code="DistributedDataParallel(model, bucket_cap_mb=100)",
    links=(
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
        "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
