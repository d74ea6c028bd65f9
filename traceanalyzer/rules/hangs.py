"""Detects why a run stands still, by the dumps of its flight recorders: hang-rank-missing, hang-mismatch and others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from traceanalyzer.analyzers.hangs import Hangs, RankWait
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence
from traceanalyzer.report.names import in_ranges
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page

_MISSING = page("hang-rank-missing")
_STOPPED = page("hang-device-stopped")
_MISMATCH = page("hang-mismatch")
_ALL_WAITING = page("hang-all-waiting")
_NO_DUMP = page("dump-missing")
_SLOW = page("slow-collective")
_SHORT = page("timeout-too-short")
_SHOWN = 5


def _places(ranks: Iterable[int]) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("rank", str(rank)) for rank in list(ranks)[:_SHOWN])


def _figures(found: Hangs, ranks: Iterable[int], wait: RankWait | None) -> dict[str, Any]:
    """The quantities of the sentences: ranks, those that wait, and the operation that shows it best."""
    told = {"ranks": in_ranges(ranks), "waiting": found.waiting}
    if wait is None:
        return told
    called = wait.called
    passed = len(wait.passed)
    return told | {
        "operation": called.operation or "?",
        "group": called.title,
        "passed": passed,
        "sequence": str(called.sequence),
    }


def _missing(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    named = found.never_came
    if not named or found.verdict not in ("missing", "stopped") or found.waiting < limits["waiting"]:
        return
    wait = found.for_ranks(named)
    by_number = wait is not None and wait.called.sequence is not None
    confidence = "C" if len(named) > found.waiting or found.hides_p2p else "A" if by_number else "B"
    said: tuple[Text | None, Text | None] = (None, None)
    if found.hides_p2p:
        said = (_MISSING.text("title-hidden"), _MISSING.text("hidden"))
    elif wait is not None and wait.is_of_peers:
        said = (_MISSING.text("title-peer"), _MISSING.text("peer"))
    evidence = _MISSING.evidence(limits, "waiting", found.waiting, _places(named))
    yield Draft((evidence,), None, _figures(found, named, wait), "critical", None, confidence, *said)


def _stopped(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    named = found.stopped if found.verdict == "stopped" else found.ranks
    if found.verdict not in ("stopped", "unfinished", "not-begun") or len(named) < limits["ranks"]:
        return
    evidence = (_STOPPED.evidence(limits, "ranks", len(named), _places(named)),)
    told = _figures(found, named, found.decisive)
    if found.verdict == "unfinished":
        said = (_STOPPED.text("title-open"), _STOPPED.text("open"), _STOPPED.text("advice-open"))
        yield Draft(evidence, None, told, "low", None, "C", *said)
    elif found.verdict == "not-begun":
        said = (_STOPPED.text("title-busy"), _STOPPED.text("busy"), _STOPPED.text("advice-busy"))
        yield Draft(evidence, None, told, "critical", None, "B", *said)
    elif found.is_logged:
        yield Draft(evidence, None, told, "critical", None, "C", _STOPPED.text("title-logged"), _STOPPED.text("logged"))
    else:
        yield Draft(evidence, None, told, severity="critical")


def _mismatch(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.verdict not in ("mismatch", "circle") or len(found.ranks) < limits["ranks"]:
        return
    evidence = _MISMATCH.evidence(limits, "ranks", len(found.ranks), _places(found.ranks))
    if found.verdict == "circle":
        yield _of_circle(found, evidence)
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


def _of_circle(found: Hangs, evidence: Evidence) -> Draft:
    """Ranks that wait for each other, in sends, in receives, or in operations of several groups."""
    circle = (*found.circle, found.circle[0])
    params = {"ranks": in_ranges(found.ranks), "circle": " > ".join(map(str, circle))}
    ways = {found.way_of(rank, other) for rank, other in pairwise(circle)}
    title, summary, advice = _MISMATCH.text("title-circle"), _MISMATCH.text("circle-2"), None
    if ways in ({"send"}, {"recv"}):
        summary = _MISMATCH.text("circle-sends") if ways == {"send"} else _MISMATCH.text("circle-recvs")
        advice = _MISMATCH.text("advice-peers")
    return Draft((evidence,), None, params, "critical", None, "B", title, summary, advice)


def _all_waiting(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.verdict not in ("all-waiting", "unknown") or found.waiting < limits["waiting"]:
        return
    wait = found.waits[0]
    evidence = _ALL_WAITING.evidence(limits, "waiting", found.waiting, _places(wait.waiting))
    told = _figures(found, wait.waiting, wait)
    if found.verdict == "unknown":
        said = (_ALL_WAITING.text("title-unknown"), _ALL_WAITING.text("unknown"), _ALL_WAITING.text("advice-unknown"))
        told["ranks"] = in_ranges(wait.waiting)
        yield Draft((evidence,), None, told, "high", None, None, *said)
        return
    summary = _ALL_WAITING.text("logged") if found.is_logged else None
    yield Draft((evidence,), None, told, severity="high", summary=summary)


def _too_short(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    near = found.near_limit
    if near is None or near.share < limits["share"]:
        return
    evidence = _SHORT.evidence(limits, "share", near.share, _places(near.ranks))
    params = {
        "operation": near.called.operation or "?",
        "group": near.called.title,
        "ranks": in_ranges(near.ranks),
        "taken": near.taken_ns,
        "limit": near.limit_ns,
    }
    summary = None if near.is_finished else _SHORT.text("late")
    yield Draft((evidence,), None, params, severity="low" if near.is_finished else "high", summary=summary)


def _without_dump(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("hangs", Hangs)
    if found.is_logged:
        yield from _without_dumps(found, limits)
        return
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


def _without_dumps(found: Hangs, limits: Limits) -> Drafts:
    """A log takes the place of dumps: what it does not show, and how the next hang leaves dumps."""
    if found.world_size < limits["ranks"]:
        return
    is_awaited = found.verdict == "no-dump"
    evidence = _NO_DUMP.evidence(limits, "ranks", found.world_size, _places(found.ranks if is_awaited else ()))
    params = {"ranks": in_ranges(found.ranks), "waiting": found.waiting}
    summary = _NO_DUMP.text("logged-awaited") if is_awaited else _NO_DUMP.text("logged")
    confidence, severity = ("C", "high") if is_awaited else ("A", "low")
    said = (_NO_DUMP.text("title-logged"), summary, _NO_DUMP.text("advice-logged"))
    yield Draft((evidence,), None, params, severity, None, confidence, *said)


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
    _SHORT.rule(dumps=_too_short),
    _NO_DUMP.rule(dumps=_without_dump),
    _SLOW.rule(dumps=_slow),
)
