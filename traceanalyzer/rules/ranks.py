"""Detects faults that only the ranks of a run together show: comm-straggler, experts-uneven."""

from __future__ import annotations

from collections import defaultdict
from math import fsum
from typing import Any

from traceanalyzer.analyzers.ranks import model
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import change as changes
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, page
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
    late = None if run is None or not run.mean_step_ns else late_rank.find(facts, run)
    if run is None or late is None or not _explains(late, run, limits):
        return
    evidence = _evidence(late, run, limits)
    params = _figures(late, run)
    advice = _STRAGGLER.text("advice-several") if len(late.rows) > 1 else None
    if run.has_partial_groups:
        params["missing"] = late_rank.missing(run)
        summary_of = _STRAGGLER.text("summary-missing")
        yield Draft(evidence, None, params, severity="low", summary=summary_of, advice=advice)
        return
    summary = _summary(late, is_short=run.counted_steps < limits["steps"])
    yield Draft(evidence, _change(late, run), params, summary=summary, advice=advice)


def _explains(late: late_rank.LateRanks, run: model.Ranks, limits: Limits) -> bool:
    """Whether the late ranks cause enough waiting, again and again.

    Raises:
        Missing: They cause enough, but too few steps were recorded to say that they do it again and again.
    """
    share = late.caused_ns / (run.mean_step_ns or 1.0)
    if share < limits["wait_share"] or late.share < limits["of_waiting"]:
        return False
    if not late_rank.is_recurrent(late, run, limits["step_share"], limits["steps"], limits["collectives"]):
        if run.counted_steps < limits["steps"]:
            raise Missing(_STRAGGLER.text("few-steps")())
        return False
    return not run.is_on_host or _is_steady(late, run, limits)


def _reason(late: late_rank.LateRanks) -> model.Excess | None:
    """What the rank does longer than others, if that explains the waiting."""
    excess = late.excess
    return excess if excess is not None and excess.ns >= late_rank.EXPLAINS * late.wait_ns else None


def _figures(late: late_rank.LateRanks, run: model.Ranks) -> dict[str, Any]:
    """The quantities of the sentences."""
    reason = _reason(late)
    return {
        "rank": late.rows[0].rank,
        "wait": late.wait_ns,
        "share": late.wait_ns / (run.mean_step_ns or 1.0),
        "steps": sum(row.steps for row in late.rows),
        "counted": run.counted_steps,
        "excess": reason.ns if reason else None,
        "ranks": late.names,
        "last": sum(row.last for row in late.rows),
        "matched": max(row.matched for row in late.rows),
    }


def _evidence(late: late_rank.LateRanks, run: model.Ranks, limits: Limits) -> tuple[Evidence, ...]:
    """The waiting, and in how many steps, or collectives of few steps, the ranks cause it."""
    where = tuple(CodePlace("step", step.name, value=step.ns, unit="ns") for step in late.rows[0].worst_steps)
    if len(late.rows) > 1:
        where = tuple(CodePlace("rank", str(row.rank), value=row.caused_ns, unit="ns") for row in late.rows)
    waiting = _STRAGGLER.evidence(limits, "wait_share", late.caused_ns / (run.mean_step_ns or 1.0), where)
    collectives = _worst_collectives(late)
    if run.counted_steps < limits["steps"]:
        led = sum(row.collectives for row in late.rows)
        subject = _STRAGGLER.text("collectives")()
        return waiting, _STRAGGLER.evidence(limits, "collectives", led, collectives, subject=subject)
    in_steps = mean(sum(row.steps for row in late.rows), run.counted_steps)
    subject = _STRAGGLER.text("steps")()
    return waiting, _STRAGGLER.evidence(limits, "step_share", in_steps, collectives, subject=subject)


def _worst_collectives(late: late_rank.LateRanks) -> tuple[CodePlace, ...]:
    """The collectives for which others wait longest, with that time."""
    caused: defaultdict[str, float] = defaultdict(float)
    for row in late.rows:
        for part in row.worst_collectives:
            caused[_name(part)] += part.ns
    longest = sorted(caused.items(), key=lambda each: (-each[1], each[0]))
    return tuple(CodePlace("kernel", name, value=ns, unit="ns") for name, ns in longest)


def _summary(late: late_rank.LateRanks, *, is_short: bool) -> Text | None:
    """Sentence on the card of the finding; None: the rule's own sentence."""
    reason = _reason(late)
    if len(late.rows) > 1:
        return _STRAGGLER.text("summary-several")
    if is_short:
        return _STRAGGLER.text("summary-few")
    if late.is_replayed:
        return _REPLAYED_SUMMARIES[reason.part] if reason else _STRAGGLER.text("longer")
    return _SUMMARIES[reason.part] if reason else None


def _comparison(facts: Facts) -> model.Ranks | None:
    """What the ranks do together; None for a program that meets no other rank, of which there is nothing to ask.

    Raises:
        Missing: There are other ranks, but they are not known or cannot be compared.
    """
    run, alone = facts.find("ranks", model.Ranks), facts.find("rank_facts", RankFacts)
    if run is None and (alone is None or not alone.collectives.kind):
        return None
    if run is None or len(run.ranks) < 2:
        raise Missing(_STRAGGLER.text("one-rank")())
    if not run.matching.matched:
        raise Missing(_STRAGGLER.text("nothing-matched")())
    if run.exposed_wait_ns is None:
        raise Missing(_STRAGGLER.text("on-host")())
    return run


def _change(late: late_rank.LateRanks, run: model.Ranks) -> changes.StepChange:
    """A step of the run is as long on the late rank, which does not wait, as on those that wait."""
    if run.is_on_host:
        times = late_rank.usual_waits(late, run)
        saved = min(times[0], late.gap_ns), times[-1]
        claims = {EventSet.other("waiting for ranks"): saved[1]}
        return changes.HostTime(saved, _STRAGGLER.text("basis-host")(), claims=claims)
    interval = late_rank.varied(late, run)
    claims = {EventSet.other("waiting for ranks"): late.wait_ns}
    kind = changes.RanksTogether if late.is_replayed else changes.CollectivesShorter
    told = {"ranks": late.names} if len(late.rows) > 1 else {}
    return kind(interval, _basis(late)(**told), interval, claims)


def _basis(late: late_rank.LateRanks) -> Text:
    """How the saving was estimated: by a replay or by the waiting, as an interval or as a bound."""
    if len(late.rows) > 1:  # only a replay names several
        return _STRAGGLER.text("basis-several") if late.gap_ns > 0 else _STRAGGLER.text("basis-several-two")
    if late.is_replayed:
        return _STRAGGLER.text("basis-replayed") if late.gap_ns > 0 else _STRAGGLER.text("basis-replayed-two")
    return _STRAGGLER.text("basis") if late.gap_ns > 0 else _STRAGGLER.text("basis-two")


def _is_steady(late: late_rank.LateRanks, run: model.Ranks, limits: Limits) -> bool:
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
    others = {row.run: row.waits_ns for row in found.ranks}
    own = others.pop(facts.run)
    longer = fsum(others.values()) / len(others) - own
    share = facts.step_share(facts.per_step(longer))
    if share < limits["wait_share"] or min(others.values()) - own < limits["of_waiting"] * longer:
        return
    where = tuple(CodePlace("row", name) for name in found.collectives[:_SHOWN])
    params = {
        "rank": (facts.run or "").rpartition("-")[2],
        "wait": facts.per_step(longer),
        "share": share,
        "ranks": len(found.ranks),
    }
    evidence = _STRAGGLER.evidence(limits, "wait_share", share, where, subject=_STRAGGLER.text("subject-sums")())
    yield Draft((evidence,), None, params, severity="medium", confidence="B", summary=_STRAGGLER.text("sums"))


def _name(row: model.Caused) -> str:
    return row.name if row.process_group is None else f"{row.name} ({row.process_group})"


def _experts(facts: Facts, limits: Limits) -> Drafts:
    """Exchanges of tokens between experts for which now one rank makes the others wait, now another."""
    run = _comparison(facts)
    if run is None:
        return
    rows = [row for row in run.groups if row.is_own and row.operation == "all_to_all"]
    if not rows or not run.mean_step_ns or late_rank.again(facts, run) is not None:
        return
    waiting = mean(fsum(row.wait_ns * row.collectives for row in rows), len(run.steps))
    share = waiting / run.mean_step_ns
    if share < limits["wait_share"]:
        return
    transfer = mean(fsum((row.rank_transfer_ns or 0.0) * row.collectives for row in rows), len(run.steps))
    saved = _LEAST_OF_WAITING * waiting, waiting
    claims = {EventSet.other("waiting for ranks"): waiting}
    last = _last_ranks(run)
    params = {
        "collectives": sum(row.collectives for row in rows),
        "wait": waiting,
        "whole": waiting + transfer,
        "ranks": len(last),
        "last": max(row.last for row in run.ranks),
    }
    change = changes.CollectivesShorter(saved, _EXPERTS.text("basis")(), saved, claims)
    yield Draft((_EXPERTS.evidence(limits, "wait_share", share, last),), change, params)


def _last_ranks(run: model.Ranks) -> tuple[CodePlace, ...]:
    """The ranks that come last, with how often they do."""
    last = sorted((row for row in run.ranks if row.last), key=lambda row: (-row.last, row.rank))
    return tuple(CodePlace("rank", str(row.rank), value=row.last, unit="count") for row in last)


RULES = (
    _EXPERTS.rule(trace=_experts),
    _STRAGGLER.rule(trace=_straggler, table=_by_sums),
)
