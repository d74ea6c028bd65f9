"""The line of a headline about what lies outside of the typical steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import takewhile
from math import fsum

from msgspec.structs import replace

from traceanalyzer.analyzers.steps.outside import NO_STEP
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.warnings import OUTSIDE_KINDS, STEP_REASONS
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.step_bound import StepBound
from traceanalyzer.structure.recording import Outside, Recording, requests
from traceanalyzer.structure.recording.left_out import ALLOCATION, LOADING, OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.recording.workload import PASSES_ALONE

_WORTH_OUTSIDE = 0.2
"""Share of the recording from which on the headline mentions what lies outside of the typical steps."""
_WAITS = 0.05
"""The device waits if it works for less than this share of the time (own choice: copies of results remain)."""
_NEARLY_ALL = 2 / 3
"""Share of the recording from which on what the host does outside of the typical steps comes first (own choice)."""
_HARDLY_ANY = 0.1
"""Share of a time below which the host was hardly recorded in it (own choice)."""
_NO_REASON = frozenset({NO_STEP, OTHER_PHASE, UNKNOWN})
"""Reasons that say less than what the host does."""
_STARTS = frozenset({LOADING, ALLOCATION})
"""Reasons of steps that belong to the start of a program."""
_MOVES = frozenset({"aten::to", "aten::_to_copy", "aten::copy_"})
"""Operators that bring tensors to another device or type, as a program does with a model before its first step."""
_ALSO_OUTSIDE = Text(
    "detail-outside-2",
    "Not counted, outside of the typical steps: {time:rounded_ns} {when}, {what}.",
    note="of the trace; when: before the first step; what is a clause, such as: in which the GPU waits",
)
_OUTSIDE_TIME = Text(
    "detail-outside-time-2",
    "Not counted, outside of the typical steps: {time:rounded_ns} {when}.",
    note="of the trace; when: before the first step",
)
_MOSTLY_OUTSIDE = Text(
    "headline-mostly-outside",
    "Most of the trace, {part:part}, is outside typical steps: {reason}.",
    note="part reads: 26 of the 27 s; reason is a noun, such as: loading or compilation of code",
)
_MOSTLY_OUTSIDE_IN = Text(
    "headline-mostly-outside-in",
    "Most of the trace, {part:part}, is outside typical steps, longest in {owner}.",
    note="part reads: 26 of the 27 s; owner is a function, mark, module or operator",
)
_START_UP = Text(
    "headline-mostly-start-up",
    "Most of the trace, {part:part}, is start-up: {work}.",
    note="part reads: 26 of the 27 s; work is a noun, such as: loading or compilation of code",
)
_BEFORE_IN = Text(
    "headline-before-steps-in",
    "Most of the trace, {part:part}, is before the first step, longest in {owner}.",
    note="part reads: 26 of the 27 s; owner is a function, mark, module or operator",
)
_MOVING = Text(
    "start-up-moving",
    "moving or casting tensors ({owner})",
    note="owner is an operator, such as aten::to; work of a start-up, as where a model is loaded",
)
WARM_FIRST = Text("detail-warm-first", "This happens only once: record a few steps after a warm-up.")
_TYPICAL = Text("detail-typical-steps", "A typical step: {headline}", note="headline is a sentence")
_BETWEEN_REQUESTS = Text(
    "detail-between-requests",
    "Not counted: {part:part} between the steps, in which nothing was recorded, as where a service waits for requests.",
    note="part reads: 35 of the 152 ms",
)
_SEVERAL = Text(
    "outside-left-out-steps",
    "in {count:count} steps unlike the others",
    one="in a step unlike the others",
    note="after a time",
)
_TIMES = Text(
    "outside-times",
    "in {count:count} stretches",
    one="in one stretch",
    note="after a time: 250 ms in 2 stretches of the recording, which are added up",
)
_OF_PHASE = Text(
    "outside-steps-of-another-phase",
    "in {count:count} steps of another phase",
    one="in a step of another phase",
    note="after a time",
)
_NO_TRAINING = Text("detail-passes-alone", "These steps do not train: they have no backward pass.")
_BECAUSE = Text(
    "outside-because", "because of {reason}", note="reason is a noun, such as: allocation of memory; ends a sentence"
)
_HOST_IN = Text(
    "outside-cpu-2",
    "in which the CPU is longest in {owner}",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WAITS = Text(
    "outside-cpu-waits-2",
    "in which the CPU is longest in {owner}, while the GPU waits",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WORKS = Text(
    "outside-cpu-works-2",
    "in which the CPU is longest in {owner}, and the GPU works {busy:percent}",
    note="after a time; owner is a function, mark, module or operator; busy is a share of the time; ends a sentence",
)
_GPU_WAITS = Text("outside-gpu-waits", "in which the GPU waits", note="after a time; ends a sentence")
_GPU_WORKS = Text(
    "outside-gpu-works",
    "in which the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)
_SILENT = Text(
    "outside-silent", "in which hardly anything of the CPU was recorded", note="after a time; ends a sentence"
)
_SILENT_WAITS = Text(
    "outside-silent-waits",
    "in which hardly anything of the CPU was recorded and the GPU waits",
    note="after a time; ends a sentence",
)
_SILENT_WORKS = Text(
    "outside-silent-works",
    "in which hardly anything of the CPU was recorded and the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)


def with_outside(facts: Facts, found: StepBound) -> StepBound:
    """Add the largest time outside of the typical steps, by what it is, if all are a fifth of the recording."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.summary is None or recording.steps_from == WHOLE or not recording.outside:
        return found
    if any(evidence.kind == PASSES_ALONE for evidence in recording.evidence):
        found = found.and_says(_NO_TRAINING)
    if (recording.outside_ns or 0) < _WORTH_OUTSIDE * facts.summary.span_ns:
        return found
    # a step that is only shorter than others says nothing of what the program does besides
    worth = [part for part in recording.outside if not _is_short_step(recording, part)]
    if not worth:
        return found
    if (silent := _between_requests(recording)) > MOST * fsum(part.duration_ns for part in worth):
        return found.qualified(_BETWEEN_REQUESTS, part=(silent, facts.summary.span_ns))
    return _with_largest(recording, found, worth, facts.summary.span_ns)


def _with_largest(recording: Recording, found: StepBound, worth: Iterable[Outside], span_ns: int) -> StepBound:
    """Add what takes most of some times outside of the typical steps, first of all if it is most of the recording."""
    if (before := _before_steps(recording, span_ns)) is not None and found.bound != "start-up":
        return _led_by(found, before[0], *before[1:])
    parts = max(_by_what(worth), key=lambda parts: fsum(part.duration_ns for part in parts))
    whole = _together(parts)
    message = _mostly_outside(whole, span_ns, len(parts))
    if message is not None and found.bound != "start-up":
        return _led_by(found, message)
    said = {"time": whole.duration_ns, "when": _when(recording, parts)}
    what = _what(whole)
    return found.qualified(_OUTSIDE_TIME, **said) if what is None else found.qualified(_ALSO_OUTSIDE, **said, what=what)


def _led_by(found: StepBound, message: Message, *details: Message) -> StepBound:
    """What is said of a typical step, after a sentence about most of the recording and its details."""
    others = () if found.qualifier is None else (found.qualifier,)
    led = replace(found, message=message, qualifier=_TYPICAL(headline=found.message))
    return replace(led, details=(*details, *others, *found.details))


def _before_steps(recording: Recording, span_ns: int) -> tuple[Message, ...] | None:
    """The sentence about what the host does before the first step that counts, if it is most of the recording.

    Steps that load code or take memory belong to it. It counts only where the host was recorded all the while, and no
    device works on what was launched before.
    """
    first = min(step.start_ns for step in recording.steps if step.is_typical)
    parts = list(takewhile(lambda part: part.start_ns < first and _is_before(part), recording.outside))
    whole = _together(parts) if parts else None
    if whole is None or whole.duration_ns < MOST * span_ns or whole.host_ns < MOST * whole.duration_ns:
        return None
    has_device = recording.typical is not None and recording.typical.resources.gpu_ns is not None
    if has_device and whole.device_busy_ns is None:
        return None
    part = (whole.duration_ns, span_ns)
    if whole.reason not in _NO_REASON:
        return _START_UP(part=part, work=STEP_REASONS[whole.reason]()), WARM_FIRST()
    if whole.owner is None:
        return None
    owner = host_owners.name(whole.owner)
    if whole.owner.name in _MOVES:
        return _START_UP(part=part, work=_MOVING(owner=owner)), WARM_FIRST()
    return (_BEFORE_IN(part=part, owner=owner),)


def _is_before(part: Outside) -> bool:
    """Whether a time is before the first step, or a step that loads code or takes memory."""
    return part.kind == "before" or (part.kind == "left-out-step" and part.reason in _STARTS)


def _mostly_outside(whole: Outside, span_ns: int, stretches: int) -> Message | None:
    """The sentence about a time outside of the typical steps that is most of the recording; None if none leads there.

    Without a reason it counts where it comes again: a single stretch may be a set-up, or wait for earlier work.
    """
    part = (whole.duration_ns, span_ns)
    if whole.reason not in _NO_REASON:
        return _MOSTLY_OUTSIDE(part=part, reason=STEP_REASONS[whole.reason]()) if part[0] >= MOST * span_ns else None
    if stretches == 1 or whole.owner is None or part[0] < _NEARLY_ALL * span_ns:
        return None
    return _MOSTLY_OUTSIDE_IN(part=part, owner=host_owners.name(whole.owner))


def _by_what(outside: Iterable[Outside]) -> Iterable[Sequence[Outside]]:
    """Times outside of the typical steps, those together that have the same reason, or in which the host does the same.

    What comes a few times in a recording may be most of it, although no single time is.
    """
    found: defaultdict[Hashable, list[Outside]] = defaultdict(list)
    for part in outside:
        owner = part.owner
        same = part.start_ns if owner is None else (owner.kind, owner.name, owner.file, owner.role)
        found[part.reason if part.reason not in _NO_REASON else same].append(part)
    return found.values()


def _together(parts: Sequence[Outside]) -> Outside:
    """Several times outside of the typical steps as one: with their sums."""
    longest = max(parts, key=lambda part: part.duration_ns)
    busy = [part.device_busy_ns for part in parts if part.device_busy_ns is not None]
    owner = longest.owner
    return replace(
        longest,
        duration_ns=sum(part.duration_ns for part in parts),
        host_ns=sum(part.host_ns for part in parts),
        device_busy_ns=sum(busy) if len(busy) == len(parts) else None,
        owner=owner and replace(owner, time_ns=sum(part.owner.time_ns for part in parts if part.owner)),
    )


def _between_requests(recording: Recording) -> float:
    """Time between marked steps of an inference in which nothing was recorded; 0 where there are few such pauses."""
    silent = [part.duration_ns for part in recording.outside if _is_pause(part)]
    is_of_requests = recording.workload == "inference" and len(silent) >= requests.FEWEST
    return fsum(silent) if is_of_requests else 0.0


def _is_pause(part: Outside) -> bool:
    return part.kind == "between" and part.reason == NO_STEP and not part.host_ns and not part.device_busy_ns


def _is_short_step(recording: Recording, part: Outside) -> bool:
    """Whether a time is a step unlike the others for no known reason, and shorter than them."""
    is_alone = part.kind == "left-out-step" and part.reason == UNKNOWN
    return is_alone and part.duration_ns < (recording.typical_step_ns or 0.0)


def _when(recording: Recording, parts: Sequence[Outside]) -> Message:
    """Where times lie that are outside of the typical steps, with how many steps or times it is if it is several."""
    kinds = {part.kind for part in parts}
    if kinds != {"left-out-step"}:
        return OUTSIDE_KINDS[parts[0].kind]() if len(parts) == 1 else _TIMES(count=len(parts))
    is_phase = all(part.reason == OTHER_PHASE for part in parts)
    return (_OF_PHASE if is_phase else _SEVERAL)(count=sum(_left_out(recording, part) for part in parts))


def _left_out(recording: Recording, part: Outside) -> int:
    """Number of steps in a time outside of the typical steps."""
    end = part.start_ns + part.duration_ns
    return sum(not step.is_typical and part.start_ns <= step.start_ns < end for step in recording.steps)


def _what(part: Outside) -> Message | None:
    """Why a time is outside, or what host and device do in it; None if nothing leads."""
    if part.reason not in _NO_REASON:
        return _BECAUSE(reason=STEP_REASONS[part.reason]())
    busy = None if part.device_busy_ns is None else part.device_busy_ns / part.duration_ns
    if part.owner is None and part.host_ns >= _HARDLY_ANY * part.duration_ns:
        return None if busy is None else _GPU_WAITS() if busy < _WAITS else _GPU_WORKS(busy=busy)
    said = {} if part.owner is None else {"owner": host_owners.name(part.owner)}
    if busy is None:
        return _HOST_IN(**said) if said else _SILENT()
    if busy < _WAITS:
        return _HOST_WAITS(**said) if said else _SILENT_WAITS()
    return _HOST_WORKS(**said, busy=busy) if said else _SILENT_WORKS(busy=busy)
