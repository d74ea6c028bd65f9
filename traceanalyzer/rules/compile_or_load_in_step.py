"""Detects compile-or-load-in-step: see pages/compile-or-load-in-step.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.compilation import CompiledCode, Compiling
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls, SetUp
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.recording import Recording

_PAGE = page("compile-or-load-in-step")
_EACH_STEP, _FEWEST = 0.75, 3
"""Share and number of later steps from which on compiling comes back in each (own choice)."""
_LEAST, _MOST = 0.9, 1.03
"""Own choice: code for sizes that change costs a little more than code for one size; new code costs more at first."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("runtime_calls", RuntimeCalls)
    rows = [row for row in found.rows if row.kind != "allocation"]
    if not rows:
        return
    time = facts.recorded_steps_ns
    if found.steps == 1:
        yield from _only(_code_of_steps(facts, found), rows, time, limits)
        return
    later = [row for row in rows if row.later_calls]
    share = found.later_code_ns / (time * (found.steps - 1) / found.steps)
    if share <= limits["later_share"]:
        return
    total = min(found.later_code_ns, _idle_of(facts))
    evidence = Evidence(_PAGE.text("later")(), share, limits["later_share"], "share", tuple(map(_place, later)))
    direct = (0.0, facts.host_per_step(found.later_code_ns))
    exposed = (0.0, facts.host_per_step(total))
    basis = _PAGE.text("basis")(total=found.later_code_ns, steps=found.steps)
    change = TimeSaved("host", direct, basis, exposed, {"idle:compilation": exposed[1]})
    if found.later_compiling_steps >= max(_fewest(facts), _EACH_STEP * (found.steps - 1)):
        change = _each_step(facts, found)
    params: dict[str, object] = {
        "time": found.later_code_ns,
        "share": share,
        "calls": sum(row.later_calls for row in later),
    }
    params["what"] = later[0].name
    again = _again(facts)
    if again is None:
        yield Draft((evidence,), change, params, ceiling="high", confidence=_confidence(later))
        return
    params |= {"function": again.function or again.compilation, "reason": again.reasons[0].rstrip(".")}
    yield Draft((evidence,), change, params, ceiling="high", confidence="A", summary=_PAGE.text("summary-again"))


def _fewest(facts: Facts) -> int:
    """Least number of later steps that compile; smaller if a capture shows that the recording began after a warm-up."""
    asked = facts.capture.facts.asked if facts.capture else None
    return _FEWEST - 1 if asked is not None and asked.wait + asked.warmup >= _FEWEST else _FEWEST


def _each_step(facts: Facts, found: RuntimeCalls) -> TimeSaved:
    """The time saved if something is compiled in each step."""
    time = found.usual_compiling_ns_per_step or 0.0
    idle = time if facts.resources.gpu_ns is None else min(time, facts.idle_per_step("compilation"))
    basis = _PAGE.text("basis-each")(
        compiling=found.later_compiling_steps, steps=found.steps - 1, kept=1 - _LEAST, more=_MOST - 1
    )
    direct, exposed = ((_LEAST * part, min(_MOST * part, facts.step_ns)) for part in (time, idle))
    return TimeSaved("host", direct, basis, exposed, {"idle:compilation": exposed[1]})


def _again(facts: Facts) -> Compiling | None:
    """The longest recompilation of the recording whose reason is in the compile log."""
    found = facts.find("compilation", CompiledCode)
    rows = [] if found is None else [row for row in found.compilations if row.reasons and row.start_ns is not None]
    return max(rows, key=lambda row: row.time_ns or 0, default=None)


def _code_of_steps(facts: Facts, found: RuntimeCalls) -> int:
    """Compiling and loading within the steps of the program, in ns; what came before them is in no figure.

    Where the profiler marked no steps, the program's may begin after most of the recording.
    """
    recording = facts.find("recording", Recording)
    return found.code_ns if recording is None else min(found.code_ns, recording.startup_ns)


def _only(code_ns: int, rows: list[SetUp], time: float, limits: Mapping[str, float]) -> Iterator[Draft]:
    """A recording that is mostly set-up."""
    share = code_ns / time if time else 0.0
    if share < limits["only_share"]:
        return
    rows = sorted(rows, key=lambda row: (-row.time_ns, row.name))
    evidence = Evidence(_PAGE.text("only")(), share, limits["only_share"], "share", tuple(map(_place, rows)))
    params = {"time": code_ns, "share": share, "calls": sum(row.calls for row in rows), "what": rows[0].name}
    confidence = _confidence(rows)
    yield Draft(
        (evidence,),
        params=params,
        confidence=confidence,
        summary=_PAGE.text("summary-only"),
        advice=_PAGE.text("advice-only"),
        code=_SCHEDULE,
    )


def _idle_of(facts: Facts) -> float:
    """Idle time of the device that is idle longest for this reason; infinite if no device was recorded."""
    found = facts.find("idle", Idle)
    if found is None or not found.devices:
        return float("inf")
    return max(row.time_ns for device in found.devices for row in device.causes if row.cause == "compilation")


def _confidence(rows: list[SetUp]) -> str:
    """Lower if there are only slow launches, which may be slow for another reason."""
    return "C" if all(row.is_inferred for row in rows) else "A"


def _place(row: SetUp) -> CodePlace:
    kind = "python" if row.python_line is not None else "call"
    time = row.later_ns or row.time_ns
    return CodePlace(kind, row.python_line or row.name, value=time, unit="ns", start_ns=row.longest_start_ns)


_SCHEDULE = "profile(schedule=torch.profiler.schedule(wait=2, warmup=3, active=5))"

RULE = _PAGE.rule(trace=_trace)
