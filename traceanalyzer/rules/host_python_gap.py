"""Between operators the host is busy with something else, and the GPU waits.

What it detects:
    Gaps longer than ten launches at the program's usual pace (at least 50 us), in which the host runs Python code,
    operators that launch nothing, or something that left no event. If stacks were recorded, also Python code outside of
    operators in any gap of 50 us or more. Together more than two percent of the typical step.

Why it matters:
    The GPU has nothing to do while the host computes, logs, converts, or collects garbage.

What to do:
    Look at the named lines. Move work out of the step or into the loader's workers, log less often, keep data as
    tensors, and turn off automatic garbage collection in the loop.

How the saving is estimated:
    At most all of these gaps in the typical step (the median of the steps except the first), and at least half of them.
    Recording Python stacks makes the host two to five times slower: then at most half and at least a fifth. If a
    capture timed steps without the profiler, those decide how much of the gaps remains.

When it is wrong:
    The first step, the time before the first and after the last kernel, and what happens in fewer than half of the
    steps do not count: recordings begin and end slowly, and some work, such as logging, is done only in some steps.
    Without stacks it is unknown what code ran.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.repeated_steps import DeviceInSteps, HostGap
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _settings
from traceanalyzer.rules.change import TimeSaved
from traceanalyzer.rules.facts import Facts, Missing
from traceanalyzer.rules.rule import Draft, Rule, Threshold

_SUBJECT = Text("host-python-gap-subject", "long gaps in which the host launches nothing, share of the typical step")
_BASIS = Text(
    "host-python-gap-basis",
    "at most {most:share} of these gaps in the typical step; at least {least:share}, because some of this work is "
    "needed",
)
_BASIS_MEASURED = Text(
    "host-python-gap-basis-measured",
    "at most {most:share} of these gaps in the typical step, by how much shorter steps are without the profiler; at "
    "least {least:share}, because some of this work is needed",
)
_NO_STEPS = Text(
    "host-python-gap-no-steps", "no steps are marked, so recurring gaps cannot be recognized: call prof.step()"
)
_UNKNOWN = Text("host-python-gap-unknown", "nothing recorded", note="what the host did in a gap: no event tells")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _idle.enough(facts, limits["events"])
    device = _idle.busiest(facts, found)
    if found.steps_from in ("whole-trace", "device-events", "host-annotations"):
        raise Missing(_NO_STEPS())
    if device is None or not device.time_ns or not device.typical_host_gap_ns or not device.host_gaps:
        return
    step = device.time_ns / found.steps
    measured = _settings.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / _idle.STACKS, 0.5) if facts.is_host_inflated else (0.5, 1.0))
    share = most * device.typical_host_gap_ns / step
    if share <= limits["gap_share"]:
        return
    interval = (least * device.typical_host_gap_ns, most * device.typical_host_gap_ns)
    basis = (_BASIS_MEASURED if measured else _BASIS)(least=least, most=most)
    change = TimeSaved("host", interval, basis, interval, _claims(device, interval[1]))
    evidence = Evidence(_SUBJECT(), share, limits["gap_share"], "share", tuple(map(_place, device.host_gaps)))
    longest = device.host_gaps[0]
    params = {
        "time": device.typical_host_gap_ns,
        "step": step,
        "share": device.typical_host_gap_ns / step,
        "what": longest.python_line or longest.operator or longest.annotation or _UNKNOWN(),
    }
    known = any(row.python_line for row in device.host_gaps)
    yield Draft((evidence,), change, params, ceiling="high", confidence=None if known else "C")


def _claims(device: DeviceInSteps, time: float) -> dict[str, float]:
    """Claims on the gaps; gaps after a wait that emptied the queue are also claimed by the rules about waits."""
    own = {row.cause: row.time_ns for row in device.causes if row.cause in ("host_code", "synchronization")}
    total = sum(own.values())
    return {f"idle:{cause}": time * ns / total for cause, ns in own.items() if ns}


def _place(row: HostGap) -> CodePlace:
    kinds = {"python": row.python_line, "operator": row.operator, "time": row.annotation or _UNKNOWN().text}
    kind, name = next((kind, name) for kind, name in kinds.items() if name)
    return CodePlace(kind, name, value=row.time_ns, unit="ns", start_ns=row.longest_start_ns)


RULE = Rule(
    id="host-python-gap",
    title=Text("host-python-gap-title", "The GPU waits while the host does other work"),
    summary=Text(
        "host-python-gap-summary",
        "For {time:ns} of a step of {step:ns} ({share:share}), in long gaps, the host launches nothing. Most of "
        "that: {what}.",
        note="what is a Python line, an operator, or the text that nothing was recorded",
    ),
    advice=Text(
        "host-python-gap-advice",
        "Move what the host does there out of the step: into the loader's workers or behind the launches of the next "
        "step, or remove it. If nothing is named, record again with with_stack=True.",
    ),
    not_when=Text(
        "host-python-gap-not-when",
        "The gap is logging, evaluation or a checkpoint that happens only now and then, or the profiler itself.",
    ),
    severity="low to high",
    confidence="B",
    tags=("host",),
    since="0.1",
    thresholds=(
        _idle.EVENTS,
        Threshold(
            "gap_share",
            0.02,
            "share",
            "long gaps over the step, in the typical step; half of them where stacks were recorded",
            "own choice, because a step varies by 1 to 2 % from run to run",
        ),
    ),
    code="gc.collect(); gc.freeze(); gc.disable()  # before the loop; collect by hand now and then",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        "https://docs.python.org/3/library/gc.html#gc.freeze",
    ),
    trace=_trace,
)
