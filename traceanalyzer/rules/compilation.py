"""Detects code that is compiled or loaded within steps, in too many parts, again, or although it could be cached.

The rules are compile-or-load-in-step, graph-breaks, recompilations and compile-cache-missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers import compilation
from traceanalyzer.analyzers.compilation import regions
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.launches import runtime_calls
from traceanalyzer.report.names import code_place, named_code
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.places import of_set_up
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.recording import Recording

_IN_STEP = page("compile-or-load-in-step")
_BREAKS = page("graph-breaks")
_AGAIN = page("recompilations")
_MISSED = page("compile-cache-missed")
_SHOWN = 5

_EACH_STEP, _FEWEST = 0.5, 3
"""Share and number of later steps from which on compiling comes back in each (own choice)."""
_MOST_AGAIN = 0.5
"""Share of compiling and loading from which on that of functions which were compiled before is the problem."""
_LEAST, _MOST = 0.9, 1.03
"""Own choice: code for sizes that change costs a little more than code for one size; new code costs more at first."""
_SCHEDULE = "profile(schedule=torch.profiler.schedule(wait=2, warmup=3, active=5))"
_JOINED = 2.0
"""Greatest saving as a multiple of the time at the breaks (measured in the lab, explained on the page)."""


def _in_step(facts: Facts, limits: Limits) -> Drafts:
    calls = facts.need("runtime_calls", runtime_calls.RuntimeCalls)
    rows = [row for row in calls.rows if row.kind != "allocation"]
    if not rows:
        return
    if calls.steps == 1:
        yield from _only_set_up(facts, calls, rows, limits)
        return
    later = [row for row in rows if row.later_calls]
    recording = facts.find("recording", Recording)
    steps = () if recording is None else recording.steps
    later_ns = fsum(step.duration_ns for step in steps[1:])
    share = calls.later_code_ns / later_ns if later_ns else 0.0
    if share <= limits["later_share"]:
        return
    evidence = _IN_STEP.evidence(limits, "later_share", share, _places(later), subject=_IN_STEP.text("later")())
    comes_back = calls.later_compiling_steps >= max(_fewest(facts), _EACH_STEP * (calls.steps - 1))
    change = _each_step(facts, calls) if comes_back else _now_and_then(facts, calls)
    params: dict[str, object] = {
        "time": calls.later_code_ns,
        "share": share,
        "calls": sum(row.later_calls for row in later),
        "what": later[0].name,
        "each": OfEvents(facts.spread(calls.later_code_ns)),
    }
    again = _again(facts)
    if again is None:
        yield Draft((evidence,), change, params, ceiling="high", confidence=_confidence(later))
        return
    params |= {"function": again.function or again.compilation, "reason": again.reasons[0].rstrip(".")}
    summary = _IN_STEP.text("summary-again")
    yield Draft((evidence,), change, params, ceiling="high", confidence="A", summary=summary)


def _fewest(facts: Facts) -> int:
    """Least number of later steps that compile; smaller if a capture shows that the recording began after a warm-up."""
    asked = facts.capture.facts.asked if facts.capture else None
    return _FEWEST - 1 if asked is not None and asked.wait + asked.warmup >= _FEWEST else _FEWEST


def _now_and_then(facts: Facts, calls: runtime_calls.RuntimeCalls) -> HostTime:
    """The time saved if something is compiled in some steps."""
    exposed = facts.spread(min(calls.later_code_ns, _idle_of(facts)))
    basis = _IN_STEP.text("basis")(total=calls.later_code_ns, steps=calls.steps)
    direct = 0.0, facts.spread(calls.later_code_ns)
    claims = {EventSet.idle("compilation"): exposed}
    return HostTime(direct, basis, (0.0, exposed), claims, at=runtime_calls.code_at())


def _each_step(facts: Facts, calls: runtime_calls.RuntimeCalls) -> HostTime:
    """The time saved if something is compiled in each step."""
    time = calls.usual_compiling_ns_per_step or 0.0
    idle = time if facts.resources.gpu_ns is None else min(time, facts.idle_per_step("compilation"))
    basis = _IN_STEP.text("basis-each")(
        compiling=calls.later_compiling_steps, steps=calls.steps - 1, kept=1 - _LEAST, more=_MOST - 1
    )
    direct, exposed = ((_LEAST * part, min(_MOST * part, facts.step_ns)) for part in (time, idle))
    claims = {EventSet.idle("compilation"): exposed[1]}
    return HostTime(direct, basis, exposed, claims, at=runtime_calls.code_at())


def _again(facts: Facts) -> compilation.Compiling | None:
    """The longest recompilation of the recording whose reason is in the compile log."""
    code = facts.find("compilation", compilation.CompiledCode)
    rows = [] if code is None else [row for row in code.compilations if row.reasons and row.start_ns is not None]
    return max(rows, key=lambda row: row.time_ns or 0, default=None)


def _only_set_up(
    facts: Facts, calls: runtime_calls.RuntimeCalls, rows: Sequence[runtime_calls.SetUp], limits: Limits
) -> Drafts:
    """A recording that is mostly set-up: within its steps, or, where only one is whole, in all of it."""
    code_ns, time = program.start_up(facts) or program.set_up_of_steps(facts, calls)
    share = code_ns / time if time else 0.0
    if share < limits["only_share"]:
        return
    rows = sorted(rows, key=lambda row: (-row.time_ns, row.name))
    is_apart = program.has_warm_steps(facts)
    draft = Draft(
        (_IN_STEP.evidence(limits, "only_share", share, _places(rows), subject=_IN_STEP.text("only")()),),
        params={"time": code_ns, "share": share, "calls": sum(row.calls for row in rows), "what": rows[0].name},
        confidence=_confidence(rows),
        summary=_IN_STEP.text("summary-apart") if is_apart else _IN_STEP.text("summary-only"),
        advice=_IN_STEP.text("advice-only"),
        code=_SCHEDULE,
        severity="info" if is_apart else "low",
        is_of_recording=not is_apart,
    )
    numbers, time_ns = _recorded_again(facts)
    yield _for_sizes(draft, numbers) if time_ns >= _MOST_AGAIN * code_ns else draft


def _recorded_again(facts: Facts) -> tuple[list[str], int]:
    """Numbers of the compilations of functions that were compiled before, and the time of these in ns."""
    code = facts.find("compilation", compilation.CompiledCode)
    rows = [row for row in (code.compilations if code else ()) if row.is_again and row.start_ns is not None]
    return sorted({row.compilation or "?" for row in rows}), sum(row.time_ns or 0 for row in rows)


def _for_sizes(draft: Draft, numbers: Sequence[str]) -> Draft:
    """The draft about a recording that is mostly compilations of functions that were compiled before."""
    return replace(
        draft,
        params={**draft.params, "count": len(numbers), "compilations": ", ".join(numbers[:_SHOWN])},
        severity="medium",
        summary=_IN_STEP.text("summary-sizes"),
        advice=_IN_STEP.text("advice-sizes"),
        code=None,
    )


def _idle_of(facts: Facts) -> float:
    """Idle time of the device that is idle longest for this reason; infinite if no device was recorded."""
    idle = facts.find("idle", Idle)
    if idle is None or not idle.devices:
        return float("inf")
    return max(row.time_ns for device in idle.devices for row in device.causes if row.cause == "compilation")


def _confidence(rows: Sequence[runtime_calls.SetUp]) -> str:
    """Lower if there are only slow launches, which may be slow for another reason."""
    return "C" if all(row.is_inferred for row in rows) else "A"


def _places(rows: Sequence[runtime_calls.SetUp]) -> tuple[CodePlace, ...]:
    return tuple(of_set_up(row, row.later_ns or row.time_ns) for row in rows)


def _breaks(facts: Facts, limits: Limits) -> Drafts:
    code = facts.need("compilation", compilation.CompiledCode)
    breaks, between = code.breaks_per_step, code.between_ns_per_step
    if breaks is None or between is None or breaks < limits["breaks"] or between < limits["share"] * facts.step_ns:
        return
    interval = _saved_by_joining(facts, code, between)
    claims = {EventSet.other("breaks of graphs"): interval[1]}
    basis = _BREAKS.text("basis-cpu")(most=_JOINED)
    change = HostTime(interval, basis, interval, claims, at=regions.breaks_at())
    params: dict[str, object] = {"breaks": breaks, "time": OfEvents(between)}
    summary = None
    place = _line(code.breaks[0])
    if place is not None:
        params["place"] = place
        summary = _BREAKS.text("summary-place")
    if place is not None and code.breaks[0].reason is not None:
        params["reason"] = code.breaks[0].reason.rstrip(".")
        summary = _BREAKS.text("summary-cause")
    evidence = _BREAKS.evidence(limits, "breaks", breaks, tuple(map(_break, code.breaks[:_SHOWN])))
    yield Draft((evidence,), change, params, ceiling="medium", summary=summary)


def _break(row: regions.GraphBreak) -> CodePlace:
    """Where a graph ends, with the time until the next one."""
    return CodePlace("python", _line(row) or f"{row.before} > {row.behind}", value=row.between_ns, unit="ns")


def _saved_by_joining(facts: Facts, code: compilation.CompiledCode, between: float) -> tuple[float, float]:
    """Least and most time of a step that fewer regions save, in ns."""
    count = code.regions_per_step or 0.0
    entering, behind = code.entering_ns_per_step or 0.0, code.entering_behind_ns_per_step or 0.0
    # The guards of a region after a break are checked between the two regions.
    guards = max(0.0, (code.guards_ns_per_step or 0.0) * (1 - (code.breaks_per_step or 0.0) / max(1.0, count)))
    all_but_one = (entering + guards) * (1 - 1 / max(1.0, count))
    most = between + all_but_one
    return min(behind, most), min(_JOINED * most, facts.step_ns)


def _line(row: regions.GraphBreak) -> str | None:
    """File and line of a break, as in `model.py:12`; None if they are unknown."""
    if row.file is None:
        return None
    name = row.file.replace("\\", "/").rpartition("/")[2]
    return name if row.line is None else f"{name}:{row.line}"


def _logged_breaks(facts: Facts, limits: Limits) -> Drafts:
    found = facts.need("compilation", compilation.CompiledCode).logged_breaks
    if len(found) < max(1, limits["breaks"]):
        return
    places = (code_place(row.file, row.line) or row.function or row.compilation for row in found[:_SHOWN])
    where = tuple(CodePlace("python", place) for place in places)
    evidence = Evidence(_BREAKS.text("subject-log")(), len(found), limits["breaks"], "count", where)
    params = {"breaks": len(found), "place": where[0].name, "reason": found[0].reason.rstrip(".")}
    summary, advice = _BREAKS.text("summary-log"), _BREAKS.text("advice-log")
    yield Draft((evidence,), None, params, severity="low", confidence="A", summary=summary, advice=advice)


def _recompiled(facts: Facts, limits: Limits) -> Drafts:
    """Recompilations of a log, as far as a trace did not record them."""
    code = facts.need("compilation", compilation.CompiledCode)
    rows = _logged_again(code)
    if code.log is None or len(rows) < max(1, limits["count"]):
        return
    time = sum(row.time_ns or 0 for row in rows)
    share = _compiling_share(code, time)
    told = next((row for row in rows if row.reasons), rows[0])
    where = tuple(_compiled(row, row.compilation or "?") for row in rows[:_SHOWN])
    params = {
        "count": len(rows),
        "time": time,
        "share": share,
        "reason": told.reasons[0].rstrip(".") if told.reasons else _AGAIN.text("unknown")(),
        "function": named_code(told.function, *told.place),
    }
    yield Draft(
        (_AGAIN.evidence(limits, "count", len(rows), where),),
        None,
        params,
        severity="medium" if share >= limits["share"] else "low",
        summary=None if time and told is rows[0] else _AGAIN.text("summary-untimed"),
    )


def _logged_again(code: compilation.CompiledCode) -> list[compilation.Compiling]:
    """Recompilations that only the log has, the longest first."""
    rows = [row for row in code.compilations if row.is_again and row.start_ns is None]
    return sorted(rows, key=lambda row: -(row.time_ns or 0))


def _compiled(row: compilation.Compiling, unnamed: str) -> CodePlace:
    """Code that was compiled, with the time of that."""
    name = code_place(*row.place) or row.function or unnamed
    return CodePlace("python", name, value=row.time_ns, unit="ns")


def _compiling_share(code: compilation.CompiledCode, time_ns: float) -> float:
    """Part of all time of compiling in a log; 0 where there is none."""
    whole = code.log.compiling_ns if code.log else None
    return time_ns / whole if whole else 0.0


def _missed(facts: Facts, limits: Limits) -> Drafts:
    """Graphs that a cache did not have, or could not have; of two caches of one graph, those of Inductor's count."""
    code = facts.need("compilation", compilation.CompiledCode)
    cache = min(code.caches, key=lambda use: use.cache != "fx_graph", default=None)
    if cache is None:
        return
    misses = cache.misses or cache.bypasses
    rows = _not_cached(code, have_missed=bool(cache.misses))
    time = (cache.missed_ns if cache.misses else None) or _inductor_ns(rows)
    share = _compiling_share(code, time)
    if not misses or not time or share < limits["share"]:
        return
    where = tuple(_compiled(row, "?") for row in rows[:_SHOWN])
    params = {
        "cache": cache.cache,
        "misses": misses,
        "time": time,
        "share": share,
        "lookups": cache.hits + cache.misses + cache.bypasses,
        "reason": "; ".join(cache.bypass_reasons).rstrip(".") or "?",
    }
    yield Draft(
        (_MISSED.evidence(limits, "share", share, where),),
        None,
        params,
        severity="medium" if share >= limits["severe"] else "low",
        summary=None if cache.misses else _MISSED.text("summary-bypassed"),
    )


def _not_cached(code: compilation.CompiledCode, *, have_missed: bool) -> list[compilation.Compiling]:
    """What a cache did not have, or else could not have."""
    return [row for row in code.compilations if (row.cache_misses if have_missed else row.cache_bypasses)]


def _inductor_ns(rows: Iterable[compilation.Compiling]) -> int:
    """Time in which Inductor compiled, in ns."""
    return sum(row.phases.inductor_ns or 0 for row in rows if row.phases is not None)


RULES = (
    _IN_STEP.rule(trace=_in_step),
    _BREAKS.rule(trace=_breaks, log=_logged_breaks),
    _AGAIN.rule(trace=_recompiled, log=_recompiled),
    _MISSED.rule(trace=_missed, log=_missed),
)
