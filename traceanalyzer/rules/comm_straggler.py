"""Detects comm-straggler: see pages/comm-straggler.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.ranks.model import Caused, Excess, Ranks, Straggler
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.late_rank import LateRank
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.simulation import variation

_PAGE = page("comm-straggler")
_EXPLAINS = 0.1
"""Least part of the waiting for which a finding names what takes longer on the late rank (own choice: less is
chance)."""
_SUMMARIES = {"computation": _PAGE.text("computes"), "loader": _PAGE.text("loads"), "idle": _PAGE.text("idles")}
_REPLAYED_SUMMARIES = {
    "computation": _PAGE.text("longer-computes"),
    "loader": _PAGE.text("longer-loads"),
    "idle": _PAGE.text("longer-idles"),
}


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _comparison(facts)
    if found.counted_steps < limits["steps"]:
        raise Missing(_PAGE.text("few-steps")())
    if not found.mean_step_ns:
        return
    late = late_rank.find(facts, found)
    if late is None:
        return
    row = late.row
    share, in_steps = row.caused_ns / found.mean_step_ns, row.steps / found.counted_steps
    if share < limits["wait_share"] or in_steps < limits["step_share"] or row.share < limits["of_waiting"]:
        return
    if found.is_on_host and not _is_steady(late, found, limits):
        return
    evidence = (
        Evidence(_PAGE.text("subject")(), share, limits["wait_share"], "share", _places(row)),
        Evidence(_PAGE.text("steps")(), in_steps, limits["step_share"], "share", _collectives(row)),
    )
    reason = next((part for part in row.excess if part.ns >= _EXPLAINS * late.wait_ns), None)
    params = {
        "rank": row.rank,
        "wait": late.wait_ns,
        "share": late.wait_ns / found.mean_step_ns,
        "steps": row.steps,
        "counted": found.counted_steps,
        "excess": reason.ns if reason else None,
    }
    yield Draft(evidence, _change(late, found), params, summary=_summary(late, reason))


def _summary(late: LateRank, reason: Excess | None) -> Text | None:
    """Sentence on the card of the finding; None: the rule's own sentence."""
    if late.is_replayed:
        return _REPLAYED_SUMMARIES[reason.part] if reason else _PAGE.text("longer")
    return _SUMMARIES[reason.part] if reason else None


def _comparison(facts: Facts) -> Ranks:
    found = facts.find("ranks", Ranks)
    if found is None or len(found.ranks) < 2:
        raise Missing(_PAGE.text("one-rank")())
    if not found.matching.matched:
        raise Missing(_PAGE.text("nothing-matched")())
    if found.exposed_wait_ns is None:
        raise Missing(_PAGE.text("on-host")())
    return found


def _change(late: LateRank, found: Ranks) -> TimeSaved:
    """A step of the run is as long on the late rank, which does not wait, as on those that wait."""
    interval = late.gap_ns, late.wait_ns
    if found.is_on_host:
        times = late_rank.usual_waits(late, found)
        saved = min(times[0], late.gap_ns), times[-1]
        return TimeSaved("host", saved, _PAGE.text("basis-host")(), claims={"communication:waiting": saved[1]})
    interval = _varied(interval, late_rank.wait_by_step(late, found))
    one, two = (
        (_PAGE.text("basis-replayed"), _PAGE.text("basis-replayed-two"))
        if late.is_replayed
        else (_PAGE.text("basis"), _PAGE.text("basis-two"))
    )
    basis = one() if late.gap_ns > 0 else two()
    return TimeSaved("communication", interval, basis, interval, {"communication:waiting": late.wait_ns})


def _varied(interval: Interval, times: Sequence[float]) -> Interval:
    """An interval with the standard error of the waiting, which differs from step to step."""
    middle = sum(interval) / 2
    low, high = variation.combined(interval, middle, variation.COVERS * variation.of_mean(times) * middle)
    return max(0.0, low), high


def _is_steady(late: LateRank, found: Ranks, limits: Mapping[str, float]) -> bool:
    """Whether the rank is about equally late in all usual steps, and there are enough of them."""
    least = min(late_rank.usual_waits(late, found)[0], late.gap_ns)
    return found.counted_steps >= limits["host_steps"] and least >= limits["host_least"] * late.wait_ns


def _places(late: Straggler) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("step", step.name, value=step.ns, unit="ns") for step in late.worst_steps)


def _collectives(late: Straggler) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("kernel", _name(row), value=row.ns, unit="ns") for row in late.worst_collectives)


def _name(row: Caused) -> str:
    return row.name if row.process_group is None else f"{row.name} ({row.process_group})"


RULE = _PAGE.rule(trace=_trace)
