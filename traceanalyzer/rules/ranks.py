"""Detects faults that only the ranks of a run together show: one that the others wait for (comm-straggler)."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from traceanalyzer.analyzers.ranks.model import Caused, Excess, Ranks
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.change import Interval
from traceanalyzer.rules.engine.late_rank import LateRank
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, TimeSaved, page
from traceanalyzer.simulation import variation
from traceanalyzer.structure.portions import Portion
from traceanalyzer.structure.typical import mean

_STRAGGLER = page("comm-straggler")
_EXPLAINS = 0.1
"""Least part of the waiting for which a finding names what takes longer on the late rank (own choice: less is
chance)."""
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
    if run.counted_steps < limits["steps"]:
        raise Missing(_STRAGGLER.text("few-steps")())
    if not run.mean_step_ns:
        return
    late = late_rank.find(facts, run)
    if late is None:
        return
    row = late.row
    share, in_steps = row.caused_ns / run.mean_step_ns, mean(row.steps, run.counted_steps)
    if share < limits["wait_share"] or in_steps < limits["step_share"] or row.share < limits["of_waiting"]:
        return
    if run.is_on_host and not _is_steady(late, run, limits):
        return
    steps = tuple(CodePlace("step", step.name, value=step.ns, unit="ns") for step in row.worst_steps)
    collectives = tuple(CodePlace("kernel", _name(part), value=part.ns, unit="ns") for part in row.worst_collectives)
    evidence = (
        Evidence(_STRAGGLER.text("subject")(), share, limits["wait_share"], "share", steps),
        Evidence(_STRAGGLER.text("steps")(), in_steps, limits["step_share"], "share", collectives),
    )
    reason = next((part for part in row.excess if part.ns >= _EXPLAINS * late.wait_ns), None)
    params: dict[str, float | None] = {
        "rank": row.rank,
        "wait": late.wait_ns,
        "share": late.wait_ns / run.mean_step_ns,
        "steps": row.steps,
        "counted": run.counted_steps,
        "excess": reason.ns if reason else None,
    }
    yield Draft(evidence, _change(late, run), params, summary=_summary(late, reason))


def _summary(late: LateRank, reason: Excess | None) -> Text | None:
    """Sentence on the card of the finding; None: the rule's own sentence."""
    if late.is_replayed:
        return _REPLAYED_SUMMARIES[reason.part] if reason else _STRAGGLER.text("longer")
    return _SUMMARIES[reason.part] if reason else None


def _comparison(facts: Facts) -> Ranks:
    run = facts.find("ranks", Ranks)
    if run is None or len(run.ranks) < 2:
        raise Missing(_STRAGGLER.text("one-rank")())
    if not run.matching.matched:
        raise Missing(_STRAGGLER.text("nothing-matched")())
    if run.exposed_wait_ns is None:
        raise Missing(_STRAGGLER.text("on-host")())
    return run


def _change(late: LateRank, run: Ranks) -> TimeSaved:
    """A step of the run is as long on the late rank, which does not wait, as on those that wait."""
    interval = late.gap_ns, late.wait_ns
    if run.is_on_host:
        times = late_rank.usual_waits(late, run)
        saved = min(times[0], late.gap_ns), times[-1]
        return TimeSaved(
            "host", saved, _STRAGGLER.text("basis-host")(), claims={Portion.other("waiting for ranks"): saved[1]}
        )
    interval = _varied(interval, late_rank.wait_by_step(late, run))
    one, two = (
        (_STRAGGLER.text("basis-replayed"), _STRAGGLER.text("basis-replayed-two"))
        if late.is_replayed
        else (_STRAGGLER.text("basis"), _STRAGGLER.text("basis-two"))
    )
    basis = one() if late.gap_ns > 0 else two()
    return TimeSaved("communication", interval, basis, interval, {Portion.other("waiting for ranks"): late.wait_ns})


def _varied(interval: Interval, times: Sequence[float]) -> Interval:
    """An interval with the standard error of the waiting, which differs from step to step."""
    middle = fsum(interval) / 2
    low, high = variation.combined(interval, middle, variation.COVERS * variation.of_mean(times) * middle)
    return max(0.0, low), high


def _is_steady(late: LateRank, run: Ranks, limits: Limits) -> bool:
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


RULES = (_STRAGGLER.rule(trace=_straggler, table=_by_sums),)
