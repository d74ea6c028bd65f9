"""Detects communication that makes steps longer: here collectives, in `parallel` how trainings are made parallel.

The rules here are comm-inefficient, comm-exposed and collectives-many: collectives are slow, not hidden, or too many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import fsum

from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.optimizer.autograd_passes import Passes
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.knowledge.collectives import bus_factor
from traceanalyzer.report.message import Message
from traceanalyzer.rules.communication import parallel
from traceanalyzer.rules.engine import change as changes
from traceanalyzer.rules.engine import late_rank, program
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import COMMUNICATION
from traceanalyzer.structure.typical import rows_of

_INEFFICIENT = page("comm-inefficient")
_EXPOSED = page("comm-exposed")
_MANY = page("collectives-many")

_BUCKET_BYTES = 25 * 2**20
"""Default bucket of DistributedDataParallel (`bucket_cap_mb=25`)."""
_REACHED = 0.5
"""Share of a link's bandwidth that large messages reach (own choice, cautious: a good ring reaches more)."""

_CURES = {
    "all_reduce": _EXPOSED.text("advice-all-reduce"),
    "all_to_all": _EXPOSED.text("advice-all-to-all"),
    "all_gather": _EXPOSED.text("advice-shards"),
    "reduce_scatter": _EXPOSED.text("advice-shards"),
    **dict.fromkeys(("send", "recv", "send_recv"), _EXPOSED.text("advice-stages")),
    "broadcast": _EXPOSED.text("advice-broadcast"),
}
"""What helps against each kind of collective in a training."""
_OF_A_KIND = 0.2
"""Least share of the collectives' time for which a kind gets its own advice (own choice)."""
_NOTED, _SHOWN = 0.05, 3
"""Least share of a kind that is named, and how many are (own choice)."""
_MOSTLY = 0.5

_FEWER = 0.9
"""Own choice: a tenth of the messages still costs a tenth of the latency."""
_CODE_HOST = "model = DistributedDataParallel(model)  # without bucket_cap_mb"


def _inefficient(facts: Facts, limits: Limits) -> Drafts:
    measured = facts.need("communication", communication.Communication)
    total = facts.need_step_resources().communication_ns or 0.0
    if total < limits["share"] * facts.step_ns:
        return
    sized = [row for row in rows_of(measured) if row.message_bytes and (row.group_size or 2) > 1]
    if not sized:
        raise Missing(_INEFFICIENT.text("no-sizes")())
    large = [row for row in sized if _size(row) >= limits["large_bytes"]]
    below = list(_below_link(facts, measured, large, limits))
    yield from below or _slow(facts, large, limits)
    yield from _small(facts, measured, [row for row in sized if _size(row) < limits["small_bytes"]], limits)


def _slow(facts: Facts, large: list[communication.CollectiveRow], limits: Limits) -> Drafts:
    """Rows of large messages that are slow compared with the best row of the same operation and group size."""
    slow = _below_best(large, limits["of_best"])
    if not slow:
        return
    slow.sort(key=lambda entry: (-entry[0], _size(entry[2])))
    direct = facts.in_collectives(fsum(excess for excess, _, _ in slow))
    share = slow[0][1]
    where = tuple(_sized_place(facts, row) for _, _, row in slow)
    evidence = _INEFFICIENT.evidence(limits, "of_best", share, where, subject=_INEFFICIENT.text("slow")())
    change = _faster(facts, direct, _INEFFICIENT.text("basis")())
    params = {"share": share, "time": direct, "total": OfEvents(facts.resources.communication_ns or 0.0)}
    yield Draft((evidence,), change, params, ceiling="low", confidence="C", code="")  # may have waited


def _below_best(
    large: list[communication.CollectiveRow], most: float
) -> list[tuple[float, float, communication.CollectiveRow]]:
    """Rows that reach no more than a share of the best rate of their kind: time beyond that in ns, share, row."""
    groups: defaultdict[tuple[str | None, int | None], list[communication.CollectiveRow]] = defaultdict(list)
    for row in large:
        groups[row.operation, row.group_size].append(row)
    slow = []
    for rows in groups.values():
        best = max(map(_rate, rows))
        shares = ((row, _rate(row) / best) for row in rows if best)
        slow += [(_excess(row, best), share, row) for row, share in shares if share < most]
    return slow


def _below_link(
    facts: Facts, measured: communication.Communication, large: list[communication.CollectiveRow], limits: Limits
) -> Drafts:
    """All large messages, if even the fastest is slow for the link: then none of them is a reference for the others."""
    moved = [(row, _bus_bytes(row)) for row in large if _bus_bytes(row)]
    link = measured.link
    if link is None or not moved:
        return
    best = max(size / max(1, row.min_ns) for row, size in moved)  # bytes per ns are GB/s
    if best / link.gb_per_s >= limits["of_link"]:
        return
    reachable = _REACHED * link.gb_per_s
    excess = fsum(max(0.0, row.total_ns - row.calls * size / reachable) for row, size in moved)
    direct = facts.in_collectives(excess)
    where = _longest(facts, [row for row, _ in moved])
    subject = _INEFFICIENT.text("of-link")()
    yield Draft(
        (_INEFFICIENT.evidence(limits, "of_link", best / link.gb_per_s, where, subject=subject),),
        _faster(facts, direct, _INEFFICIENT.text("basis-link")(reached=_REACHED)),
        {
            "rate": best,
            "link": link.name,
            "most": link.gb_per_s,
            "time": direct,
            "total": OfEvents(facts.resources.communication_ns or 0.0),
        },
        ceiling="medium",
        confidence="C",
        summary=_INEFFICIENT.text("summary-link"),
        advice=_INEFFICIENT.text("advice-link"),
        code="",
    )


def _small(
    facts: Facts, measured: communication.Communication, small: list[communication.CollectiveRow], limits: Limits
) -> Drafts:
    """Many small messages, which fewer buckets could carry."""
    rows: tuple[communication.CollectiveRow, ...] = rows_of(measured)
    calls, time = _sums(small)
    every, whole = _sums(rows)
    share = min(calls / every, time / max(1, whole))
    if share <= limits["small_share"]:
        return
    size = int(limits["small_bytes"])
    subject = _INEFFICIENT.text("small") if share == calls / every else _INEFFICIENT.text("small-time")
    where = _longest(facts, small)
    params = {
        "small": calls,
        "calls": every,
        "size": size,
        "time": facts.in_collectives(time),
        "share": 0.0,
        "total": OfEvents(facts.resources.communication_ns or 0.0),
    }
    yield Draft(
        (_INEFFICIENT.evidence(limits, "small_share", share, where, subject=subject(size=size)),),
        _faster(facts, facts.in_collectives(_beyond_buckets(small)), _INEFFICIENT.text("basis")()),
        params,
        summary=_INEFFICIENT.text("summary-small"),
        advice=_INEFFICIENT.text("advice-small"),
    )


def _sums(rows: Iterable[communication.CollectiveRow]) -> tuple[int, int]:
    """Calls, and their time in ns."""
    calls = time = 0
    for row in rows:
        calls += row.calls
        time += row.total_ns
    return calls, time


def _beyond_buckets(small: list[communication.CollectiveRow]) -> int:
    """Time in ns that small messages take beyond the latency of as few buckets as could carry them."""
    calls, time = _sums(small)
    payload = sum(row.calls * _size(row) for row in small)
    buckets = -(-payload // _BUCKET_BYTES)
    latency = min(row.min_ns for row in small)
    return max(0, time - buckets * max(latency, time // calls))


def _size(row: communication.CollectiveRow) -> int:
    """Size of a message in bytes; 0 where it is unknown."""
    return row.message_bytes or 0


def _bus_bytes(row: communication.CollectiveRow) -> float:
    """Bytes that the slowest link of a GPU carries for one message; 0 where it is unknown."""
    return _size(row) * (bus_factor(row.operation, row.group_size) or 0.0)


def _rate(row: communication.CollectiveRow) -> float:
    """Bytes per ns of the fastest call, which has waited least."""
    return _size(row) / max(1, row.min_ns)


def _excess(row: communication.CollectiveRow, best: float) -> float:
    """Time in ns that calls take beyond what they would take at the best rate."""
    return max(0.0, row.total_ns - row.calls * _size(row) / best)


def _faster(facts: Facts, direct: float, basis: Message) -> changes.DeviceWork:
    """The saving of collectives that are shorter by some time per step, of which a part may be hidden."""
    exposed = facts.need_step_resources().exposed_communication_ns or 0.0
    return changes.DeviceWork((0.0, direct), basis, (0.0, min(direct, exposed)), {COMMUNICATION: direct})


def _longest(facts: Facts, rows: list[communication.CollectiveRow]) -> tuple[CodePlace, ...]:
    return tuple(_sized_place(facts, row) for row in sorted(rows, key=lambda row: -row.total_ns)[:5])


def _sized_place(facts: Facts, row: communication.CollectiveRow) -> CodePlace:
    shapes = None if row.message_bytes is None else f"{row.message_bytes} B x {row.calls}"
    return CodePlace("kernel", row.operation or "unknown", shapes, facts.in_collectives(row.total_ns), "ns")


def _exposed(facts: Facts, limits: Limits) -> Drafts:
    rows = rows_of(facts.need("communication", communication.Communication))
    resources = facts.need_step_resources()
    ranks = facts.find("ranks", Ranks)
    exposed, total = _without_waiting(facts, ranks)
    if not exposed or not total or not resources.gpu_ns or exposed / resources.step_ns < limits["exposed_share"]:
        return
    if ranks is not None and _is_waiting(facts, ranks, exposed):
        raise Missing(_EXPOSED.text("waiting")())
    where = tuple(_named_place(facts, row) for row in rows[:5])
    params = {
        "exposed": exposed,
        "total": total,
        "step": resources.step_ns,
        "share": exposed / resources.step_ns,
    }
    evidence = _EXPOSED.evidence(limits, "exposed_share", params["share"], where)
    if ranks is not None and ranks.has_partial_groups:
        yield Draft(
            (evidence,),
            None,
            {**params, "missing": late_rank.missing(ranks)},
            severity="low",
            summary=_EXPOSED.text("summary-missing"),
            advice=_EXPOSED.text("advice-missing"),
            code="",
        )
        return
    change = _shorter(facts, ranks, rows, exposed)
    yield _hideable(facts, Draft((evidence,), change, params), _kinds(rows), may_wait=change.may_wait)


def _shorter(
    facts: Facts, ranks: Ranks | None, rows: Iterable[communication.CollectiveRow], exposed: float
) -> changes.CollectivesShorter:
    """The change without this much exposed communication in ns, of which something must hide what is no waiting."""
    may_wait, own = ranks is None and not late_rank.last_equally_long(facts, rows), facts.need_step_resources()
    hideable = max(0.0, (own.gpu_ns or 0.0) - (own.communication_ns or 0.0))
    waited = late_rank.waited_ns(facts) if may_wait else 0.0
    basis = _EXPOSED.text("basis-late")() if waited > hideable else _basis(facts, ranks, may_wait=may_wait)
    gone = (0.0, min(exposed, max(hideable, waited)))
    return changes.CollectivesShorter((0.0, exposed), basis, gone, {COMMUNICATION: exposed}, may_wait=may_wait)


def _basis(facts: Facts, ranks: Ranks | None, *, may_wait: bool) -> Message:
    if ranks is not None:
        return _EXPOSED.text("basis-ranks")()
    if program.is_one_process_of_several_gpus(facts):
        return _EXPOSED.text("basis-process")()
    return (_EXPOSED.text("basis") if may_wait else _EXPOSED.text("basis-regular"))()


def _is_waiting(facts: Facts, ranks: Ranks, exposed: float) -> bool:
    """Whether waiting for a rank that is named as late is most of what is exposed."""
    if exposed > (ranks.exposed_wait_ns or 0.0):
        return False
    return bool(late_rank.named(facts, ranks, facts.need_step_resources().exposed_communication_ns or 0.0))


def _named_place(facts: Facts, row: communication.CollectiveRow) -> CodePlace:
    """Collectives by their operation, else by who takes part."""
    name = row.operation or row.process_group or "unknown"
    return CodePlace("kernel", name, value=facts.in_collectives(row.total_ns), unit="ns")


def _hideable(facts: Facts, draft: Draft, kinds: Mapping[str, int], *, may_wait: bool) -> Draft:
    """The finding with what each kind of collective takes, and with what helps against it."""
    params, summary = dict(draft.params), None
    if len(kinds) > 1:
        shown = list(kinds.items())[:_SHOWN]
        params["kinds"] = tuple(_EXPOSED.text("kind")(kind=kind, time=facts.in_collectives(ns)) for kind, ns in shown)
        summary = _EXPOSED.text("summary-kinds")
    cure = _cure(facts, kinds)
    if program.is_one_process_of_several_gpus(facts):
        advice = _EXPOSED.text("advice-process") if program.trains(facts) else _EXPOSED.text("advice-inference-ranks")
    elif cure is None:  # no gradients to exchange
        advice = _EXPOSED.text("advice-inference") if may_wait else _EXPOSED.text("advice-inference-ranks")
    else:
        advice = _EXPOSED.text("advice-late") if may_wait else _EXPOSED.text("advice")
        params["advice"] = cure
    is_of_buckets = program.may_train(facts) and _mostly(kinds, "all_reduce") and not may_wait
    code = None if is_of_buckets else ""
    return Draft(draft.evidence, draft.change, params, summary=summary, advice=advice, code=code)


def _mostly(kinds: Mapping[str, int], kind: str) -> bool:
    """Whether one kind of collective takes most of the time; true of any if none is known."""
    return kinds.get(kind, 0) >= _MOSTLY * fsum(kinds.values())


def _cure(facts: Facts, kinds: Mapping[str, int]) -> Message | None:
    """What helps in a training, or between experts; None for other inference."""
    if program.may_train(facts):
        return _cures(kinds)
    return _EXPOSED.text("advice-experts")() if any(kinds.values()) and _mostly(kinds, "all_to_all") else None


def _without_waiting(facts: Facts, ranks: Ranks | None) -> tuple[float, float]:
    """Exposed and all communication; where all ranks of a group are known, without the waiting for each other."""
    own = facts.need_step_resources()
    exposed, total = own.exposed_communication_ns or 0.0, own.communication_ns or 0.0
    if ranks is None or ranks.has_partial_groups:
        return exposed, total
    return max(0.0, exposed - (ranks.exposed_wait_ns or 0.0)), max(0.0, total - (ranks.wait_ns or 0.0))


def _kinds(rows: Iterable[communication.CollectiveRow]) -> dict[str, int]:
    """Time of the collectives by kind, if it is known, the most first."""
    times: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        if row.operation:
            times[row.operation] += row.total_ns
    total = sum(times.values())
    shown = [item for item in times.items() if item[1] >= _NOTED * total]
    return dict(sorted(shown, key=lambda item: (-item[1], item[0])))


def _cures(kinds: Mapping[str, int]) -> Message:
    """One sentence for each kind of collective that takes a large part of the time.

    If no kind is known, it is the sentence about gradients. If other kinds take most of the time, gradients do not
    come first.
    """
    total = fsum(kinds.values())
    chosen = dict.fromkeys(_CURES[kind] for kind, ns in kinds.items() if kind in _CURES and ns >= _OF_A_KIND * total)
    advice, *others = list(chosen) or [_EXPOSED.text("advice-all-reduce")]
    message = advice()
    for other in others:
        message = _EXPOSED.text("advice-also")(advice=message, more=other())
    return message


def _many(facts: Facts, limits: Limits) -> Drafts:
    on_host = facts.find("host_collectives", communication.HostCollectives)
    if on_host is not None:
        yield from _many_on_host(facts, on_host, limits)
    else:
        yield from _many_on_devices(facts, limits)


def _many_on_devices(facts: Facts, limits: Limits) -> Drafts:
    all_rows = late_rank.collectives(facts)
    if not program.may_train(facts):
        raise Missing(_MANY.text("inference")())
    rows = tuple(row for row in all_rows if row.mean_ns < limits["mean_ns"])
    every, time = _sums(rows)
    calls = facts.per_step(every)
    exposed = facts.need_step_resources().exposed_communication_ns or 0.0
    exposed *= time / max(1, _sums(all_rows)[1])
    if calls <= limits["calls"] or exposed <= limits["exposed_share"] * facts.step_ns:
        return
    where = tuple(CodePlace("kernel", row.operation or "unknown", value=row.calls, unit="count") for row in rows[:5])
    saved = 0.0, _FEWER * exposed
    params = {
        "calls": round(calls),
        "mean": time / every,
        "total": OfEvents(facts.in_collectives(time)),
        "exposed": exposed,
    }
    change = changes.CollectivesShorter(
        saved,
        _MANY.text("basis")(most=_FEWER),
        saved,
        {COMMUNICATION: saved[1]},
        at=communication.collectives_at(rows=rows),
        may_wait=not late_rank.last_equally_long(facts, all_rows),
    )
    evidence = Evidence(_MANY.text("subject")(), calls, limits["calls"], "number", where)
    yield Draft((evidence,), change, params, ceiling="high")


def _many_on_host(facts: Facts, collectives: communication.HostCollectives, limits: Limits) -> Drafts:
    """All-reduces of the CPU that would fit into fewer buckets."""
    found = facts.find("passes", Passes)
    passes = found.backward_passes if found else 0
    row = next((row for row in collectives.rows if row.operation == "all_reduce"), None)
    if row is None or row.total_bytes is None or not passes:
        return
    calls, size = row.calls / passes, row.total_bytes / passes
    surplus = calls - max(1.0, -(-size // _BUCKET_BYTES)) - 1  # the first bucket of DDP is small by design
    exposed = facts.per_step(row.exposed_ns)
    if surplus < limits["surplus"] or size >= calls * limits["bytes"]:
        return
    if exposed <= limits["exposed_share"] * facts.step_ns:
        return
    where = (CodePlace("operator", f"gloo: {row.operation}", value=row.calls, unit="count"),)
    params = {
        "calls": round(facts.per_step(row.calls)),
        "mean": row.total_ns / row.calls,
        "exposed": exposed,
        "total": OfEvents(facts.per_step(row.total_ns)),
    }
    yield Draft(
        (Evidence(_MANY.text("surplus")(), surplus, limits["surplus"], "number", where),),
        _fewer_on_host(row, facts.per_step(surplus * passes), exposed),
        params,
        advice=_MANY.text("advice-host"),
        code=_CODE_HOST,
    )


def _fewer_on_host(row: communication.HostCollectiveRow, fewer: float, exposed: float) -> changes.HostTime:
    """So many calls fewer per step: each takes at least as long as the shortest, and one of them remains."""
    shortest = float(row.min_ns)
    most = max(0.0, exposed - shortest)
    return changes.HostTime(
        (min(fewer * shortest, most), most),
        _MANY.text("basis-host")(),
        claims={COMMUNICATION: most},
        at=communication.host_collectives_at(kind=row.operation),
    )


RULES = (
    _INEFFICIENT.rule(trace=_inefficient),
    _EXPOSED.rule(trace=_exposed),
    _MANY.rule(trace=_many),
    *parallel.RULES,
)
