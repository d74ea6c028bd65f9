"""Code is compiled, or loaded to the GPU, in the middle of the recorded steps.

What it detects:
    Compilation by TorchDynamo, Inductor or Triton, modules loaded by the driver, and launches that take a millisecond
    or longer for no other visible reason, if they take more than one percent of the steps from the second recorded one
    on. Or such set-up is a fifth or more of a recording that has only one step or no steps.

Why it matters:
    Compilation should happen once. If it happens again, shapes or values that a compiled function depends on have
    changed. If it dominates the recording, the other figures say little about the program.

What to do:
    Find out what is recompiled (`TORCH_LOGS=recompiles`), mark changing sizes as dynamic, or pad batches. Add warm-up
    steps to the profiler's schedule.

How the saving is estimated:
    At most the part of this time in which the GPU is idle, summed over the recording and divided by its steps. At least
    nothing: code that was compiled for the first time will not be compiled again. If something is compiled in at least
    three quarters of the steps after the first (and in at least three, two after a warm-up), compilation recurs: then
    the compile time of the typical steps is saved, on a GPU only while it is idle. At least 90 % of that time, because
    code for changing sizes is a little slower, and at most 3 % more, because new code is slower when it runs for the
    first time.

When it is wrong:
    Warm-up at the beginning of a recording is normal, so the first of several steps does not count. A launch may also
    take a millisecond because the operating system paused the program.

References:
    https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html
    https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.compilation import CompiledCode, Compiling
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.launches.runtime_calls import RuntimeCalls, SetUp
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.recording import Recording

_LATER = Text(
    "compile-or-load-in-step-later", "compiling and loading in the second recorded step or later, share of these"
)
_ONLY = Text("compile-or-load-in-step-only", "compiling and loading, share of the recording")
_BASIS = Text(
    "compile-or-load-in-step-basis",
    "at most the {total:ns} in total, divided by {steps:count} steps, where the GPU is idle meanwhile; at least "
    "nothing, because code that was compiled once need not be compiled again",
)
_EACH_STEP, _FEWEST = 0.75, 3
"""Share and number of later steps from which on compiling comes back in each (own choice)."""
_LEAST, _MOST = 0.9, 1.03
"""Own choice: code for sizes that change costs a little more than code for one size; new code costs more at first."""
_BASIS_EACH = Text(
    "compile-or-load-in-step-basis-each",
    "something is compiled in {compiling:count} of {steps:count} later steps: all of that time, less up to "
    "{kept:share}, because code for changing sizes is a little slower; at most {more:share} more, because new code is "
    "slower when it runs for the first time",
)
_NO_TABLE = Text(
    "compile-or-load-in-step-no-table", "a printed table does not show in which step something was compiled"
)


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
    evidence = Evidence(_LATER(), share, limits["later_share"], "share", tuple(map(_place, later)))
    direct = (0.0, facts.host_per_step(found.later_code_ns))
    exposed = (0.0, facts.host_per_step(total))
    basis = _BASIS(total=found.later_code_ns, steps=found.steps)
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
    yield Draft((evidence,), change, params, ceiling="high", confidence="A", summary=_SUMMARY_AGAIN)


def _fewest(facts: Facts) -> int:
    """Least number of later steps that compile; smaller if a capture shows that the recording began after a warm-up."""
    asked = facts.capture.facts.asked if facts.capture else None
    return _FEWEST - 1 if asked is not None and asked.wait + asked.warmup >= _FEWEST else _FEWEST


def _each_step(facts: Facts, found: RuntimeCalls) -> TimeSaved:
    """The time saved if something is compiled in each step."""
    time = found.usual_compiling_ns_per_step or 0.0
    idle = time if facts.resources.gpu_ns is None else min(time, facts.idle_per_step("compilation"))
    basis = _BASIS_EACH(compiling=found.later_compiling_steps, steps=found.steps - 1, kept=1 - _LEAST, more=_MOST - 1)
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
    evidence = Evidence(_ONLY(), share, limits["only_share"], "share", tuple(map(_place, rows)))
    params = {"time": code_ns, "share": share, "calls": sum(row.calls for row in rows), "what": rows[0].name}
    confidence = _confidence(rows)
    yield Draft(
        (evidence,),
        params=params,
        confidence=confidence,
        summary=_SUMMARY_ONLY,
        advice=_ADVICE_ONLY,
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


_SUMMARY_AGAIN = Text(
    "compile-or-load-in-step-summary-again",
    "After the first recorded step, {time:ns} in all ({share:share} of these steps) went into compiling and loading "
    "code. {function} was compiled again because of this: {reason}.",
    note="function is a name of the program; reason is torch's text about a condition that did not fit",
)
_SUMMARY_ONLY = Text(
    "compile-or-load-in-step-summary-only",
    "{time:ns} of the recording ({share:share}) is loading and compiling code, mostly in {what}, so the other figures "
    "say little about the program after its start.",
    note="what is a name such as hipLaunchKernel",
)
_ADVICE_ONLY = Text(
    "compile-or-load-in-step-advice-only",
    "Record again after a few steps of warm-up: give the profiler a schedule with wait and warmup.",
)
_SCHEDULE = "profile(schedule=torch.profiler.schedule(wait=2, warmup=3, active=5))"

RULE = Rule(
    id="compile-or-load-in-step",
    title=Text("compile-or-load-in-step-title", "Code is compiled or loaded while the program should run"),
    summary=Text(
        "compile-or-load-in-step-summary",
        "After the first recorded step, {time:ns} in all ({share:share} of these steps) went into compiling and "
        "loading code, in {calls:count} calls, mostly {what}.",
        note="what is a name such as cuModuleLoadData",
        one="After the first recorded step, {time:ns} in all ({share:share} of these steps) went into compiling and "
        "loading code, in {calls:count} call, {what}.",
    ),
    advice=Text(
        "compile-or-load-in-step-advice",
        "Find out what is compiled again with TORCH_LOGS=recompiles; pad batches to a few sizes or mark the size as "
        "dynamic. If it is only the first use of a kernel, warm up longer before recording.",
    ),
    not_when=Text(
        "compile-or-load-in-step-not-when",
        "The recording contains the first steps of the program, which always compile.",
    ),
    severity="info to high",
    confidence="A",
    tags=("host",),
    since="0.1",
    thresholds=(
        Threshold(
            "later_share",
            0.01,
            "share",
            "compiling and loading over the recorded steps but the first",
            "own choice, because less is within noise",
        ),
        Threshold(
            "only_share",
            0.2,
            "share",
            "the same over a recording of one step, or without steps",
            "own choice, because a recording may hold some set-up and still be typical",
        ),
    ),
    code="torch._dynamo.mark_dynamic(batch, 0)",
    links=(
        "https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html",
        "https://docs.pytorch.org/docs/stable/profiler.html#torch.profiler.schedule",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
