"""Between operators the host is busy with something else, and the GPU waits.

What it detects:
    Gaps longer than ten launches take at the program's usual pace (at least 50 us) in which the host runs Python code,
    operators that launch nothing, or something that left no event; where stacks were recorded, Python code outside of
    operators in any gap of 50 us or more. More than two percent of the typical step. The owners of that time are
    named: functions, marks and modules of the program before operators.

Why it matters:
    The GPU has nothing to do while the host computes, logs, converts, or collects garbage.

What to do:
    Look at the named owners. Move their work out of the step or behind the launches of the next one. Log less often,
    write checkpoints in a thread, compile the model's own code; only where garbage collection was recorded, turn it
    off in the loop.

How the saving is estimated:
    At most all of these gaps in the typical step (the median of the steps except the first), and at least half of them.
    Recording Python stacks makes the host two to five times slower: then at most half and at least a fifth. If a
    capture timed steps without the profiler, these times decide how much of the gaps remains.

When it is wrong:
    The first of several steps, the time after the last kernel, and what happens in fewer than half of the steps do not
    count, because recordings begin and end slowly, and logs are written now and then. The time before the very first
    kernel counts only if recorded events show what happens in it. Input preprocessing and DDP's broadcast of buffers
    have separate rules. Without stacks it is unknown what ran.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    https://docs.python.org/3/library/gc.html#gc.freeze
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.idle.gap_details import OF_OTHER_RULES
from traceanalyzer.analyzers.idle.step_idle import MOST_OWNERS, DeviceInSteps, GapOwner, HostGap
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _idle, _owners, _settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_SUBJECT = Text("host-python-gap-subject", "long gaps in which the host launches nothing, share of the typical step")
_SUBJECT_LISTED = Text(
    "host-python-gap-subject-listed",
    "long gaps in which the host launches nothing, share of the typical step; {shown:ns} of {time:ns} are "
    "listed, by what the host does in them",
)
_BASIS_ALL = Text(
    "host-python-gap-basis-all",
    "at most all of these gaps in the typical step; at least {least:share}, because some of this work is needed",
)
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
    if device is None or not device.time_ns or not device.typical_other_gap_ns:
        return
    step, time = device.time_ns / found.steps, device.typical_other_gap_ns
    measured = _settings.gaps_without_profiler(facts, device)
    least, most = measured or ((1 / _idle.STACKS, 0.5) if facts.is_host_inflated else (0.5, 1.0))
    share = most * time / step
    if share <= limits["gap_share"]:
        return
    if measured and facts.is_replayed:
        least, most = 0.5, 1.0  # a replay takes what recording cost off all of the host's time
    interval = (least * time, most * time)
    text = _BASIS_MEASURED if measured else _BASIS
    basis = _BASIS_ALL(least=least) if most == 1 else text(least=least, most=most)
    change = TimeSaved("host", interval, basis, interval, _claims(device, interval[1]))
    owners = [row for row in device.gap_owners if row.role not in OF_OTHER_RULES]
    where = _owners.of_gaps(owners, found.steps)
    shown = _owners.total(where)
    subject = _SUBJECT_LISTED(shown=shown, time=time) if 0 < shown < time else _SUBJECT()
    evidence = Evidence(subject, share, limits["gap_share"], "share", where or tuple(map(_place, device.host_gaps[:5])))
    first = owners[0] if owners and _is_largest(owners[0], device, time) else None
    yield Draft(
        (evidence,),
        change,
        {
            "time": time,
            "step": step,
            "share": time / step,
            "what": _UNKNOWN() if first is None else _owners.name(first),
        },
        ceiling="high",
        confidence="C" if first is None or first.kind in ("operator", "call", "autograd") else None,
        advice=_advice(first),
        code=_CODE_GC if first is not None and first.role == "garbage-collection" else "",
    )


def _is_largest(owner: GapOwner, device: DeviceInSteps, time: float) -> bool:
    """Whether an owner has no less of the gaps than the time in which nothing was recorded.

    What ten owners leave may belong to further ones and is not known to be unrecorded.
    """
    listed = sum(row.time_ns for row in device.gap_owners if row.role not in OF_OTHER_RULES)
    is_complete = len(device.gap_owners) < MOST_OWNERS
    return not is_complete or owner.time_ns >= time * max(1, device.owner_steps) - listed


def _advice(owner: GapOwner | None) -> Text | None:
    """Advice about an owner, by its role or else by its kind."""
    if owner is None:
        return _ADVICE_UNKNOWN
    if owner.role in _BY_ROLE:
        return _BY_ROLE[owner.role]
    if owner.kind in ("module", "backward", "autograd"):
        return _ADVICE_MODEL
    return _ADVICE_UNKNOWN if owner.kind in ("operator", "call") else None


def _claims(device: DeviceInSteps, time: float) -> dict[str, float]:
    """Claims on the gaps; gaps after a wait that emptied the queue are also claimed by the rules about waits."""
    own = {row.cause: row.time_ns for row in device.causes if row.cause in ("host_code", "synchronization")}
    total = sum(own.values())
    return {f"idle:{cause}": time * ns / total for cause, ns in own.items() if ns}


def _place(row: HostGap) -> CodePlace:
    kinds = {"python": row.python_line, "operator": row.operator, "time": row.annotation or _UNKNOWN().text}
    kind, name = next((kind, name) for kind, name in kinds.items() if name)
    return CodePlace(kind, name, value=row.time_ns, unit="ns", start_ns=row.longest_start_ns)


_CODE_GC = "gc.collect(); gc.freeze(); gc.disable()  # before the loop; collect by hand now and then"

_BY_ROLE: Mapping[str | None, Text] = {
    "sampling": Text(
        "host-python-gap-advice-sampling",
        "Choose the next tokens on the GPU without reading values back, and prepare the next step while the GPU works "
        "on this one.",
        note="advice to a server of language models",
    ),
    "garbage-collection": Text(
        "host-python-gap-advice-garbage-collection",
        "Turn automatic garbage collection off in the loop, freeze what is alive before it, and collect by hand now "
        "and then.",
    ),
    "guards": Text(
        "host-python-gap-advice-guards",
        "Compiled code checks its guards at each call: compile larger parts at once, so that there are fewer of them, "
        "and keep objects that do not change out of the arguments.",
    ),
    "checkpointing": Text(
        "host-python-gap-advice-checkpointing",
        "Save checkpoints less often, or copy the state and let a thread or process write it "
        "(torch.distributed.checkpoint.async_save).",
    ),
    "logging": Text(
        "host-python-gap-advice-logging",
        "Log every hundred steps instead of each, keep the values on the GPU until then, and let a thread write them.",
    ),
    "sleep": Text("host-python-gap-advice-sleep", "Remove the sleep, or wait for what it is meant to wait for."),
}
_ADVICE_MODEL = Text(
    "host-python-gap-advice-model",
    "The model's own Python code takes longer than the GPU needs for its kernels. Compile it (torch.compile), move "
    "what does not change out of the forward pass, or give the GPU more to do at once with a larger batch.",
)
_ADVICE_UNKNOWN = Text(
    "host-python-gap-advice-unknown",
    "Find out what the host does there: record again with with_stack=True, or put record_function marks around the "
    "parts of the step. Then move it out of the step, behind the launches of the next one, or remove it.",
)

RULE = Rule(
    id="host-python-gap",
    title=Text("host-python-gap-title", "The GPU waits while the host does other work"),
    summary=Text(
        "host-python-gap-summary",
        "For {time:ns} of a step of {step:ns} ({share:share}), in long gaps, the host launches nothing. The largest "
        "part of that: {what}.",
        note="what is a function, mark, module or operator, or the text that nothing was recorded",
    ),
    advice=Text(
        "host-python-gap-advice",
        "Move what the host does there out of the step, behind the launches of the next one or into a thread, do it "
        "less often, or remove it.",
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
    code="",
    links=(
        "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",
        "https://docs.python.org/3/library/gc.html#gc.freeze",
    ),
    trace=_trace,
    is_rest=True,
)
