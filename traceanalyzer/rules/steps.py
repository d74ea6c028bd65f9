"""Detects steps unlike the others, and threads that stall in them: step-time-outliers and host-stalls."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import fsum
from statistics import correlation, median

from msgspec.structs import replace

from traceanalyzer.analyzers.host.stalls import HostStalls, is_view, stalls_at
from traceanalyzer.analyzers.loader import DataLoader
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import host_owners, program
from traceanalyzer.rules.engine.change import HostTime, RanksTogether
from traceanalyzer.rules.engine.places import longest_steps
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, EventSet, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.recording import RecordedStep, Recording

_OUTLIERS = page("step-time-outliers")
_STALLS = page("host-stalls")
_EDGES = ("earlier-work", "recording-end")
"""Reasons that have to do with the recording alone."""
_WAITS = 0.1
"""Share of a step in waits for a loader or for other ranks from which on these may make steps uneven (own choice)."""
_MUCH_ON_CPU = 0.5
"""The same as `excess_share` in a program without a device (own choice: other programs took up to a third of the time,
in slices of 8 to 20 ms)."""
_MOST_LONG = 0.6
"""Part of the steps above which what is longer than the mean is no exception, but most of the program (own choice)."""
_TENTH = 10
_LEAST_GROWING, _QUARTERS = 12, 4
"""Least steps that show growth (own choice: three for each quarter, of which the median counts)."""
_IN_ORDER = 0.7
"""Rank correlation of durations with time from which on steps grow (own choice; by chance 1 in 150 of 12 steps)."""
_MANY_STALLS, _STALLS_SHOWN = 3, 8
_LEAST_STALLED = 0.8
"""Own choice: a part of what stalls is work."""
_CACHED = "model.generate(input_ids, use_cache=True)"
_REASONS = {
    "loading": _OUTLIERS.text("loading"),
    "allocation": _OUTLIERS.text("allocation"),
    "loader": _OUTLIERS.text("loader"),
    "other-phase": _OUTLIERS.text("phase"),
    "communication": _OUTLIERS.text("communication"),
}


def _outliers(facts: Facts, limits: Limits) -> Drafts:
    recording = facts.need("recording", Recording)
    typical = recording.typical_step_ns
    if typical is None or recording.steps_from == "whole-trace" or len(recording.steps) < limits["steps"]:
        raise Missing(_OUTLIERS.text("few")())
    if host_owners.waits_for_requests(facts):
        return  # which come when they come
    inner = [step for step in recording.steps if step.reason not in _EDGES]
    alike = _alike(facts, inner)
    if len(alike) >= limits["steps"] and _ratio(alike) > limits["uneven"]:
        yield _of_the_same_work(alike, limits)
        return
    if (ends := _growth(facts, inner)) and ends[1] / ends[0] > limits["ratio"]:
        yield _of_growing_work(facts, ends, inner, limits)
        return
    long = [step for step in inner if typical and step.duration_ns / typical > limits["ratio"]]
    if _is_jitter(facts, long, len(inner), typical, limits):  # or there are none
        return
    longest = max(long, key=lambda step: (step.duration_ns, -step.start_ns))
    ratio = longest.duration_ns / typical
    evidence = _OUTLIERS.evidence(limits, "ratio", ratio, longest_steps(long))
    params = {
        "long": len(long),
        "steps": len(inner),
        "typical": typical,
        "name": longest.name,
        "longest": longest.duration_ns,
        "reason": _reason(facts, recording, longest)(),
    }
    yield Draft((evidence,), params=params, severity="info")


def _is_jitter(facts: Facts, long: Sequence[RecordedStep], steps: int, typical: float, limits: Limits) -> bool:
    """Whether nothing recorded tells long steps apart, and they add little: other programs hold them up.

    Nor are most of all steps unlike the others: then a loop has several kinds of step.
    """
    if len(long) > _MOST_LONG * steps:
        return True
    if any(step.reason in _REASONS for step in long):
        return False
    excess = fsum(step.duration_ns - typical for step in long)
    least = _MUCH_ON_CPU if facts.resources.gpu_ns is None else limits["excess_share"]
    return excess <= least * facts.recorded_steps_ns


def _reason(facts: Facts, recording: Recording, longest: RecordedStep) -> Text:
    """Why the longest step is longer than the others."""
    if longest.reason == "loader" and longest == recording.steps[0] and _may_start_workers(facts, recording):
        return _OUTLIERS.text("first-batch")
    return _REASONS.get(longest.reason or "", _OUTLIERS.text("unknown"))


def _may_start_workers(facts: Facts, recording: Recording) -> bool:
    """Whether some loader may have worker processes that start in the first step: no marks tell of others before."""
    if recording.steps_from == "ProfilerStep" and recording.steps[0].name != "0":
        return False
    loaders = facts.find("dataloader", DataLoader)
    return loaders is not None and any(loader.in_process is False for loader in loaders.loaders)


def _alike(facts: Facts, steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Steps of the same work that nothing recorded makes longer, by duration, without the tenth at either end.

    None where steps wait for a loader or for other ranks. The first step does not count, which may be cold.
    """
    same = [step for step in _unexplained(facts, steps) if step.has_usual_work]
    same.sort(key=lambda step: (step.duration_ns, step.start_ns))
    edge = max(1, len(same) // _TENTH)
    return same[edge:-edge]


def _unexplained(facts: Facts, steps: Sequence[RecordedStep]) -> list[RecordedStep]:
    """Steps after the first that nothing recorded makes longer; none where steps wait for a loader or other ranks."""
    own = facts.step_resources
    waits = own.exposed_loader_ns + (own.exposed_communication_ns or 0.0) if own else 0.0
    if facts.step_share(waits) > _WAITS:
        return []
    return [step for step in steps[1:] if step.reason in (None, "unknown")]


def _growth(facts: Facts, steps: Sequence[RecordedStep]) -> tuple[float, float] | None:
    """Median duration in ns of the first and of the last quarter of steps that take longer and longer; else None.

    None also where all do the same work.
    """
    times = [step.duration_ns for step in _unexplained(facts, steps)]
    if len(times) < _LEAST_GROWING or all(step.has_usual_work for step in steps[1:]):
        return None
    edges = [len(times) * quarter // _QUARTERS for quarter in range(_QUARTERS + 1)]
    medians = [float(median(times[start:end])) for start, end in pairwise(edges)]
    if any(later <= earlier for earlier, later in pairwise(medians)):
        return None
    return (medians[0], medians[-1]) if medians[0] and _rank_correlation(times) > _IN_ORDER else None


def _rank_correlation(times: Sequence[int]) -> float:
    """How nearly durations are in the order of time, -1 to 1; of equal ones each has their mean rank."""
    in_order = sorted(times)
    ranks = [bisect_left(in_order, time) + bisect_right(in_order, time) for time in times]
    return correlation(range(len(times)), ranks)


def _of_growing_work(facts: Facts, ends: tuple[float, float], steps: Sequence[RecordedStep], limits: Limits) -> Draft:
    """The finding about steps that take longer and longer, as passes do that compute a growing sequence again."""
    subject = _OUTLIERS.text("subject-growing")()
    draft = Draft(
        (_OUTLIERS.evidence(limits, "ratio", ends[1] / ends[0], longest_steps(steps), subject=subject),),
        params={"steps": len(steps), "first": ends[0], "last": ends[1]},
        severity="low",
        title=_OUTLIERS.text("title-growing"),
        summary=_OUTLIERS.text("summary-growing"),
        advice=_OUTLIERS.text("advice-growing"),
    )
    if program.workload(facts) != "inference":
        return draft
    summary, advice = _OUTLIERS.text("summary-generation"), _OUTLIERS.text("advice-generation")
    return replace(draft, severity="medium", confidence="C", summary=summary, advice=advice, code=_CACHED)


def _ratio(alike: Sequence[RecordedStep]) -> float:
    """The longest over the shortest of some steps, which are in the order of their durations."""
    return alike[-1].duration_ns / max(1, alike[0].duration_ns)


def _of_the_same_work(alike: Sequence[RecordedStep], limits: Limits) -> Draft:
    """The finding about steps that take different times for the same work."""
    shortest, longest = alike[0].duration_ns, alike[-1].duration_ns
    subject = _OUTLIERS.text("subject-uneven")()
    evidence = _OUTLIERS.evidence(limits, "uneven", _ratio(alike), longest_steps(alike), subject=subject)
    params = {"steps": len(alike), "shortest": shortest, "longest": longest}
    texts = (_OUTLIERS.text("title-uneven"), _OUTLIERS.text("summary-uneven"), _OUTLIERS.text("advice-uneven"))
    title, summary, advice = texts
    return Draft((evidence,), None, params, "low", title=title, summary=summary, advice=advice)


def _stalls(facts: Facts, limits: Limits) -> Drafts:
    """Stalls of a trace, or of the ranks of a run, where one that stalls makes all wait."""
    run = facts.find("ranks", Ranks)
    if run is not None:
        yield from _stalls_of_ranks(facts, run, limits)
    else:
        yield from _stalls_of_trace(facts, facts.need("host_stalls", HostStalls), limits)


def _stalls_of_trace(facts: Facts, stalls: HostStalls, limits: Limits) -> Drafts:
    time = facts.per_step(stalls.time_ns)
    share = time / facts.step_ns
    is_alone = stalls.stalls < limits["stalls"]
    decisive = "alone_share" if is_alone else "share"
    if share < limits[decisive] or not stalls.rows or (is_alone and not all(is_view(row.name) for row in stalls.rows)):
        return
    evidence = _STALLS.evidence(limits, decisive, share, _stalled_places(facts, stalls))
    change = HostTime((_LEAST_STALLED * time, time), _STALLS.text("basis")(), at=stalls_at())
    params = {
        "stalls": _rounded(facts.per_step(stalls.stalls)),
        "longest": stalls.longest_ns,
        "time": OfEvents(time),
        "step": facts.step_ns,
        "operator": stalls.rows[0].name,
    }
    draft = Draft((evidence,), change, params, is_of_machine=True)
    if is_alone:
        draft = replace(
            draft,
            confidence="C",
            summary=_STALLS.text("summary-alone"),
            advice=_STALLS.text("advice-alone"),
        )
    yield draft


def _rounded(count: float) -> float:
    """A number of stalls per step as it is told: few of them, which do not come in each step, with a decimal."""
    return round(count) if count >= _MANY_STALLS else round(count, 1)


def _stalled_places(facts: Facts, stalls: HostStalls) -> tuple[CodePlace, ...]:
    """The operators and calls with the longest stalls."""
    times = [(row, facts.per_step(row.time_ns)) for row in stalls.rows[:_STALLS_SHOWN]]
    return tuple(CodePlace(row.kind, row.name, None, ns, "ns", row.longest_start_ns) for row, ns in times)


def _stalls_of_ranks(facts: Facts, run: Ranks, limits: Limits) -> Drafts:
    rows = [row for row in run.ranks if (row.stalls or 0.0) * row.steps >= limits["stalls"]]
    if not rows or not run.mean_step_ns:
        return
    stalled = _mean_stalled_ns(run)
    share = stalled / run.mean_step_ns
    if share < limits["share"]:
        return
    where = tuple(CodePlace("rank", str(row.rank), None, row.stalled_ns, "ns") for row in rows)
    evidence = _STALLS.evidence(limits, "share", share, where, subject=_STALLS.text("subject-ranks")())
    change = _without_stalls(facts, stalled, run.mean_step_ns)
    params = {
        "ranks": len(rows),
        "all": len(run.ranks),
        "stalls": round(fsum(row.stalls or 0.0 for row in rows) / len(rows)),
        "longest": max(row.longest_stall_ns or 0.0 for row in rows),
        "time": stalled,
        "step": run.mean_step_ns,
        "wait": run.exposed_wait_ns or 0.0,
        "transfer": run.transfer_ns or 0.0,
    }
    summary = _STALLS.text("summary-ranks-missing") if run.has_partial_groups else _STALLS.text("summary-ranks")
    yield Draft((evidence,), change, params, summary=summary)


def _mean_stalled_ns(run: Ranks) -> float:
    """Time per step in ns in which threads of a rank stand still, mean over all ranks."""
    return fsum(row.stalled_ns or 0.0 for row in run.ranks) / len(run.ranks)


def _without_stalls(facts: Facts, stalled: float, step: float) -> RanksTogether | None:
    """The change in which no host is late: at most what a replay of all ranks saves; None if it saves nothing."""
    replayed = facts.find("stragglers", Stragglers)
    slowdowns = (row.slowdown for row in replayed.by_kind if row.kind == "host") if replayed else ()
    most = step - step / next(iter(slowdowns), 1.0)
    if not most:
        return None
    interval = min(stalled, most), most
    claims = {EventSet.other("waiting for ranks"): most}
    return RanksTogether(interval, _STALLS.text("basis-ranks")(), interval, claims)


RULES = (_STALLS.rule(trace=_stalls), _OUTLIERS.rule(trace=_outliers))
