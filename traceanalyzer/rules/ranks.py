"""Detects faults that only the ranks of a run together show: comm-straggler, experts-uneven."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Any

from traceanalyzer.analyzers.ranks.model import Caused, Excess, Ranks
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.change import CollectivesShorter, HostTime, Interval, RanksTogether, StepChange
from traceanalyzer.rules.engine.late_rank import LateRanks
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, page
from traceanalyzer.simulation import variation
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.typical import mean

_STRAGGLER = page("comm-straggler")
_EXPERTS = page("experts-uneven")
_LEAST_OF_WAITING = 0.5
"""Least part of the waiting for the busiest experts that balance saves (own choice: tokens vary from batch to
batch)."""
_SHOWN = 5
_SUMMARIES = {
    "computation": _STRAGGLER.text("computes"),
    "loader": _STRAGGLER.text("loads"),
    "idle": _STRAGGLER.text("idles"),
}
_REPLAYED_SUMMARIES = {
    "computation": _STRAGGLER.text("longer-computes"),
    "loader": _STRAGGLER.text("longer-loads"),
    "idle": _STRAGGLER.text("longer-idles"),
}


def _straggler(facts: Facts, limits: Limits) -> Drafts:
    run = _comparison(facts)
    if run is None or not run.mean_step_ns:
        return
    late = late_rank.find(facts, run)
    if late is None:
        return
    share = late.caused_ns / run.mean_step_ns
    if share < limits["wait_share"] or late.share < limits["of_waiting"]:
        return
    if not late_rank.is_recurrent(late, run, limits["step_share"], limits["steps"], limits["collectives"]):
        if run.counted_steps < limits["steps"]:
            raise Missing(_STRAGGLER.text("few-steps")())
        return
    if run.is_on_host and not _is_steady(late, run, limits):
        return
    rows = late.rows
    last, matched = sum(row.last for row in rows), max(row.matched for row in rows)
    excess = late.excess
    reason = excess if excess is not None and excess.ns >= late_rank.EXPLAINS * late.wait_ns else None
    params: dict[str, Any] = {
        "rank": rows[0].rank,
        "wait": late.wait_ns,
        "share": late.wait_ns / run.mean_step_ns,
        "steps": sum(row.steps for row in rows),
        "counted": run.counted_steps,
        "excess": reason.ns if reason else None,
        "ranks": late.names,
        "last": last,
        "matched": matched,
    }
    advice = _STRAGGLER.text("advice-several") if len(rows) > 1 else None
    if missing := late_rank.missing(run):
        told = {**params, "missing": missing}
        summary_of = _STRAGGLER.text("summary-missing")
        yield Draft(_evidence(late, run, limits), None, told, severity="low", summary=summary_of, advice=advice)
        return
    summary = _summary(late, reason, is_short=run.counted_steps < limits["steps"])
    yield Draft(_evidence(late, run, limits), _change(late, run), params, summary=summary, advice=advice)


def _evidence(late: LateRanks, run: Ranks, limits: Limits) -> tuple[Evidence, ...]:
    """The waiting, and in how many steps, or collectives of few steps, the ranks cause it."""
    share = late.caused_ns / (run.mean_step_ns or 1.0)
    where = tuple(CodePlace("step", step.name, value=step.ns, unit="ns") for step in late.rows[0].worst_steps)
    if len(late.rows) > 1:
        where = tuple(CodePlace("rank", str(row.rank), value=row.caused_ns, unit="ns") for row in late.rows)
    caused: defaultdict[str, float] = defaultdict(float)
    for part in (part for row in late.rows for part in row.worst_collectives):
        caused[_name(part)] += part.ns
    longest = sorted(caused.items(), key=lambda each: (-each[1], each[0]))
    collectives = tuple(CodePlace("kernel", name, value=ns, unit="ns") for name, ns in longest)
    waiting = Evidence(_STRAGGLER.text("subject")(), share, limits["wait_share"], "share", where)
    if run.counted_steps < limits["steps"]:
        led = sum(row.collectives for row in late.rows)
        return waiting, Evidence(_STRAGGLER.text("collectives")(), led, limits["collectives"], "count", collectives)
    in_steps = mean(sum(row.steps for row in late.rows), run.counted_steps)
    return waiting, Evidence(_STRAGGLER.text("steps")(), in_steps, limits["step_share"], "share", collectives)


def _summary(late: LateRanks, reason: Excess | None, *, is_short: bool) -> Text | None:
    """Sentence on the card of the finding; None: the rule's own sentence."""
    if len(late.rows) > 1:
        return _STRAGGLER.text("summary-several")
    if is_short:
        return _STRAGGLER.text("summary-few")
    if late.is_replayed:
        return _REPLAYED_SUMMARIES[reason.part] if reason else _STRAGGLER.text("longer")
    return _SUMMARIES[reason.part] if reason else None


def _comparison(facts: Facts) -> Ranks | None:
    """What the ranks do together; None for a program that meets no other rank, of which there is nothing to ask.

    Raises:
        Missing: There are other ranks, but they are not known or cannot be compared.
    """
    run, alone = facts.find("ranks", Ranks), facts.find("rank_facts", RankFacts)
    if run is None and (alone is None or not alone.collectives.kind):
        return None
    if run is None or len(run.ranks) < 2:
        raise Missing(_STRAGGLER.text("one-rank")())
    if not run.matching.matched:
        raise Missing(_STRAGGLER.text("nothing-matched")())
    if run.exposed_wait_ns is None:
        raise Missing(_STRAGGLER.text("on-host")())
    return run


def _change(late: LateRanks, run: Ranks) -> StepChange:
    """A step of the run is as long on the late rank, which does not wait, as on those that wait."""
    interval = late.gap_ns, late.wait_ns
    if run.is_on_host:
        times = late_rank.usual_waits(late, run)
        saved = min(times[0], late.gap_ns), times[-1]
        return HostTime(saved, _STRAGGLER.text("basis-host")(), claims={EventSet.other("waiting for ranks"): saved[1]})
    interval = _varied(interval, late_rank.wait_by_step(late, run))
    one, two = (
        (_STRAGGLER.text("basis-replayed"), _STRAGGLER.text("basis-replayed-two"))
        if late.is_replayed
        else (_STRAGGLER.text("basis"), _STRAGGLER.text("basis-two"))
    )
    told = {}
    if len(late.rows) > 1:  # only a replay names several
        one, two, told = _STRAGGLER.text("basis-several"), _STRAGGLER.text("basis-several-two"), {"ranks": late.names}
    basis = (one if late.gap_ns > 0 else two)(**told)
    claims = {EventSet.other("waiting for ranks"): late.wait_ns}
    kind = RanksTogether if late.is_replayed else CollectivesShorter
    return kind(interval, basis, interval, claims)


def _varied(interval: Interval, times: Sequence[float]) -> Interval:
    """An interval with the standard error of the waiting, which differs from step to step."""
    middle = fsum(interval) / 2
    low, high = variation.combined(interval, middle, variation.COVERS * variation.of_mean(times) * middle)
    return max(0.0, low), high


def _is_steady(late: LateRanks, run: Ranks, limits: Limits) -> bool:
    """Whether the rank is about equally late in all usual steps, and there are enough of them."""
    least = min(late_rank.usual_waits(late, run)[0], late.gap_ns)
    return run.counted_steps >= limits["host_steps"] and least >= limits["host_least"] * late.wait_ns


def _by_sums(facts: Facts, limits: Limits) -> Drafts:
    """A rank that the sums of all ranks show: the others spend longer in the same collectives."""
    groups = facts.find("printed_ranks", tuple) or ()
    found = next((group for group in groups if facts.run in {row.run for row in group.ranks}), None)
    if found is None or not found.is_named:
        raise Missing(_STRAGGLER.text("no-table")())
    if found.last != facts.run:
        return
    waits = sorted(row.waits_ns for row in found.ranks if row.run != facts.run)
    own = next(row.waits_ns for row in found.ranks if row.run == facts.run)
    wait = facts.per_step(fsum(waits) / len(waits) - own)
    share = wait / facts.step_ns if facts.step_ns else 0.0
    if share < limits["wait_share"] or waits[0] - own < limits["of_waiting"] * (fsum(waits) / len(waits) - own):
        return
    where = tuple(CodePlace("row", name) for name in found.collectives[:_SHOWN])
    evidence = (Evidence(_STRAGGLER.text("subject-sums")(), share, limits["wait_share"], "share", where),)
    rank = (facts.run or "").rpartition("-")[2]
    params = {"rank": rank, "wait": wait, "share": share, "ranks": len(found.ranks)}
    yield Draft(evidence, None, params, severity="medium", confidence="B", summary=_STRAGGLER.text("sums"))


def _name(row: Caused) -> str:
    return row.name if row.process_group is None else f"{row.name} ({row.process_group})"


def _experts(facts: Facts, limits: Limits) -> Drafts:
    """Exchanges of tokens between experts for which now one rank makes the others wait, now another."""
    run = _comparison(facts)
    if run is None:
        return
    rows = [row for row in run.groups if row.is_own and row.operation == "all_to_all"]
    if not rows or not run.mean_step_ns or late_rank.again(facts, run) is not None:
        return
    collectives = sum(row.collectives for row in rows)
    waiting = mean(fsum(row.wait_ns * row.collectives for row in rows), len(run.steps))
    transfer = mean(fsum((row.rank_transfer_ns or 0.0) * row.collectives for row in rows), len(run.steps))
    share = waiting / run.mean_step_ns
    if share < limits["wait_share"]:
        return
    last = sorted((row for row in run.ranks if row.last), key=lambda row: (-row.last, row.rank))
    where = tuple(CodePlace("rank", str(row.rank), value=row.last, unit="count") for row in last)
    evidence = Evidence(_EXPERTS.text("subject")(), share, limits["wait_share"], "share", where)
    saved = _LEAST_OF_WAITING * waiting, waiting
    claims = {EventSet.other("waiting for ranks"): waiting}
    change = CollectivesShorter(saved, _EXPERTS.text("basis")(), saved, claims)
    params = {
        "collectives": collectives,
        "wait": waiting,
        "whole": waiting + transfer,
        "ranks": len(last),
        "last": last[0].last if last else 0,
    }
    yield Draft((evidence,), change, params)


RULES = (
    _EXPERTS.rule(trace=_experts),
    _STRAGGLER.rule(trace=_straggler, table=_by_sums),
)
