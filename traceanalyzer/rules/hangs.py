"""Detects why a run stands still, by the dumps of its flight recorders: hang-rank-missing, hang-mismatch and others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from traceanalyzer.analyzers.hangs import Hangs, RankWait
from traceanalyzer.report.names import in_ranges
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page

_MISSING = page("hang-rank-missing")
_STOPPED = page("hang-device-stopped")
_MISMATCH = page("hang-mismatch")
_ALL_WAITING = page("hang-all-waiting")
_NO_DUMP = page("dump-missing")
_SLOW = page("slow-collective")
_SHOWN = 5


def _places(ranks: Iterable[int]) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("rank", str(rank)) for rank in list(ranks)[:_SHOWN])


def _figures(found: Hangs, ranks: Iterable[int], wait: RankWait | None) -> dict[str, Any]:
    """The quantities of the sentences: ranks, those that wait, and the operation that shows it best."""
    told = {"ranks": in_ranges(ranks), "waiting": found.waiting}
    if wait is None:
        return told
    called = wait.called
    return told | {"operation": called.operation or "?", "group": called.title, "passed": len(wait.passed)}


def _missing(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    named = found.never_came
    if not named or found.verdict not in ("missing", "stopped") or found.waiting < limits["waiting"]:
        return
    wait = found.for_ranks(named)
    by_number = wait is not None and wait.called.sequence is not None
    confidence = "C" if len(named) > found.waiting else "A" if by_number else "B"
    evidence = _MISSING.evidence(limits, "waiting", found.waiting, _places(named))
    yield Draft((evidence,), None, _figures(found, named, wait), severity="critical", confidence=confidence)


def _stopped(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.verdict != "stopped" or len(found.stopped) < limits["ranks"]:
        return
    evidence = _STOPPED.evidence(limits, "ranks", len(found.stopped), _places(found.stopped))
    yield Draft((evidence,), None, _figures(found, found.stopped, found.decisive), severity="critical")


def _mismatch(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.verdict not in ("mismatch", "circle") or len(found.ranks) < limits["ranks"]:
        return
    evidence = _MISMATCH.evidence(limits, "ranks", len(found.ranks), _places(found.ranks))
    if found.verdict == "circle":
        circle = {"ranks": " > ".join(map(str, (*found.ranks, found.ranks[0])))}
        title, summary = _MISMATCH.text("title-circle"), _MISMATCH.text("circle")
        yield Draft((evidence,), None, circle, severity="critical", confidence="B", title=title, summary=summary)
        return
    calls = tuple(
        _MISMATCH.text("call")(
            ranks=in_ranges(row.ranks), operation=row.called.operation, shape=row.called.shape, dtype=row.called.dtype
        )
        for row in found.disagreements[:_SHOWN]
    )
    called = found.disagreements[0].called
    params: dict[str, Any] = {"group": called.title, "sequence": str(called.sequence), "calls": calls}
    yield Draft((evidence,), None, params, severity="critical")


def _all_waiting(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.verdict != "all-waiting" or found.waiting < limits["waiting"]:
        return
    wait = found.waits[0]
    evidence = _ALL_WAITING.evidence(limits, "waiting", found.waiting, _places(wait.waiting))
    yield Draft((evidence,), None, _figures(found, wait.waiting, wait), severity="high")


def _without_dump(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if not found.without_dump or len(found.without_dump) < limits["ranks"]:
        return
    is_awaited = found.verdict == "no-dump"
    ranks = found.ranks if is_awaited else found.without_dump
    evidence = _NO_DUMP.evidence(limits, "ranks", len(found.without_dump), _places(ranks))
    params = {"ranks": in_ranges(ranks), "world": found.world_size, "waiting": found.waiting}
    summary = _NO_DUMP.text("awaited") if is_awaited else None
    confidence = "A" if not is_awaited else "B" if len(ranks) == 1 else "C"
    severity = "high" if is_awaited else "low"
    yield Draft((evidence,), None, params, severity=severity, confidence=confidence, summary=summary)


def _slow(facts: Facts, limits: Limits) -> Drafts:
    late = facts.need("hangs", Hangs).late
    share = late.late_ns / late.interval_ns if late is not None and late.interval_ns > 0 else 0.0
    if late is None or share < limits["late_share"]:
        return
    evidence = _SLOW.evidence(limits, "late_share", share, _places((late.rank,)))
    params = {
        "rank": str(late.rank),
        "last": late.last,
        "collectives": late.collectives,
        "group": late.title,
        "late": late.late_ns,
        "interval": late.interval_ns,
    }
    yield Draft((evidence,), None, params, severity="medium", confidence="B" if late.has_ends else "C")


RULES = (
    _MISSING.rule(dumps=_missing),
    _STOPPED.rule(dumps=_stopped),
    _MISMATCH.rule(dumps=_mismatch),
    _ALL_WAITING.rule(dumps=_all_waiting),
    _NO_DUMP.rule(dumps=_without_dump),
    _SLOW.rule(dumps=_slow),
)
