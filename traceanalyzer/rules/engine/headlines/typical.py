"""The headline of a trace: what bounds its typical step, what the device does, and why it is idle for the rest.

The device bounds the step if it works nearly all the time. Otherwise the resource that it waits for longest does, if
that is at least a fifth of the step. All figures are of the typical step, so they agree with the rest of the report.
"""

from __future__ import annotations

from math import fsum
from statistics import median
from typing import Any

import msgspec

from traceanalyzer.analyzers.copies import Copies
from traceanalyzer.analyzers.launches import LaunchFigures
from traceanalyzer.analyzers.steps.outside import NO_STEP
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.warnings import OUTSIDE_KINDS, STEP_REASONS
from traceanalyzer.rules.engine import host_owners, idle_time
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.headlines import causes
from traceanalyzer.rules.engine.headlines.causes import UNNAMED, gpu_bound
from traceanalyzer.structure.recording import Outside, Recording, TypicalStep
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.resources import StepResources

_BUSY = 0.8
"""Share of a step that the device must work to bound it (own choice: four fifths)."""
_COMPUTING = 0.7
"""Share of a step from which on a device that computes bounds it rather than the host (own choice)."""
_WORTH = 0.2
"""Least share of a step that must be lost to a cause, known or unknown, before it is named."""
_WORTH_OF_REST = 0.1
"""Least share of a step that the host must cost beside a busy device before it is named (own choice)."""
_MOSTLY = 0.5
_FEW_TOKENS = 100
"""Number of tokens per step below which products spend more time reading weights than computing.

A product of n tokens with weights of 16 bits does n operations for each byte; the GPUs of servers (A100, H100, MI300X)
do 150 to 300 dense 16-bit operations in the time in which they read one byte, by their data sheets."""
_OF_HOST = frozenset({"allocation", "profiler_overhead", "synchronization", "launch_bound", "host_code"})

_COMPUTES = Text("headline-device-computes", "computes {share:percent}", note="part of a list: the GPU computes 65 %")
_COPIES = Text("headline-device-copies", "copies {share:percent}", note="part of a list: the GPU copies 4 %")
_COMMUNICATES = Text("headline-device-communicates", "communicates {share:percent}", note="part of a list: the GPU ...")
_EARLIER_SHARE = Text(
    "headline-device-earlier",
    "finishes earlier work {share:percent}",
    note="part of a list: the GPU ...; work that was launched before the recording began",
)
_IDLE = Text("headline-device-idle", "is idle {share:percent}", note="part of a list: the GPU is idle 16 %")
_DEVICE = Text("headline-device", "The GPU {doing}", note="a sentence; doing is a list: computes 65 %, is idle 35 %")

_REST = Text(
    "headline-device-rest",
    "In the rest it {doing}",
    note="a sentence; it is the GPU; doing is a list: communicates 26 %, is idle 5 %",
)
_REST_BECAUSE = Text(
    "headline-device-rest-because",
    "In the rest it {doing}, mostly because {cause}",
    note="a sentence; it is the GPU; doing is a list: communicates 26 %, is idle 5 %; cause: the CPU runs code",
)

_INPUT = Text(
    "headline-typical-input",
    "Bound by input: for {part:part} of {unit} the GPU waits while the program waits for its DataLoader. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_HOST = Text(
    "headline-typical-host",
    "Bound by the host: for {part:part} of {unit} the GPU does nothing, mostly because {cause}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COMMUNICATION = Text(
    "headline-typical-communication",
    "Bound by communication: for {part:part} of {unit} the GPU only communicates, or waits for other ranks. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COMMUNICATION_OF_HOST = Text(
    "headline-typical-communication-host",
    "Bound by communication: for {part:part} of {unit} the GPU does nothing while the host communicates. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_COMPUTE = Text(
    "headline-typical-gpu-compute",
    "Bound by GPU compute: for {part:part} of {unit} the GPU computes, mostly matrix products, convolutions and "
    "attention. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_MEMORY = Text(
    "headline-typical-gpu-memory",
    "Bound by GPU memory: for {part:part} of {unit} the GPU computes, mostly operations that move data. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_ONLY_COPIES = Text(
    "headline-typical-copies",
    "Bound by copies: for {part:part} of {unit} the GPU only copies, mostly {copy}. {device}.",
    note="unit is in the genitive: a typical step; copy is a name: Memcpy HtoD (Pageable -> Device)",
)
_DECODE = Text(
    "headline-typical-decode",
    "Bound by GPU memory: for {part:part} of {unit} the GPU computes. A decode step of {tokens:count} tokens reads all "
    "weights and caches for little arithmetic.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
    one="Bound by GPU memory: for {part:part} of {unit} the GPU computes. A decode step of one token reads all weights "
    "and caches for little arithmetic.",
)
_SOME_GPU = Text(
    "headline-typical-gpu",
    "Bound by the GPU: for {part:part} of {unit} it computes, but the names of its kernels do not show what. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_NOTHING = Text(
    "headline-typical-none-2",
    "No single cause dominates the {step:rounded_ns} of {unit}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_UNEXPLAINED = Text(
    "headline-typical-unexplained",
    "The recording does not show why the GPU does nothing for {part:part} of {unit}. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_LOADING = Text(
    "headline-typical-start-up",
    "Bound by start-up: for {part:part} of {unit} the GPU waits while code is loaded or compiled. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_EARLIER = Text(
    "headline-typical-earlier-work",
    "For {part:part} of {unit} the GPU most likely finished work from before the recording. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_PAUSES = Text(
    "headline-typical-pauses",
    "For {part:part} of {unit} the GPU pauses between kernels that are already queued. {device}.",
    note="unit is in the genitive: a typical step; device is a sentence, cause a clause",
)
_ALSO_UNEXPLAINED = Text(
    "headline-also-unexplained",
    "{headline} The recording does not explain {part:part}.",
    note="headline is a sentence; part is idle time of the GPU of a step",
)
_ALSO_PENDING = Text(
    "headline-also-pending",
    "{headline} For {part:part} it does nothing while work that was launched long before waits for something that is "
    "not in the recording.",
    note="headline is a sentence; it is the GPU; part is idle time of the GPU of a step",
)
_GRAPHS = Text(
    "headline-graphs",
    "{headline} {kernels:count} of {all:count} recorded kernels were launched by graphs, so launching them is not what "
    "takes the time.",
    note="headline is a sentence; graphs are CUDA graphs or HIP graphs",
)
_TYPICAL_STEP = Text("headline-unit-typical", "a typical step", note="in the genitive: 35 of the 152 ms of ...")
_ONE_STEP = Text("headline-unit-step", "the step", note="in the genitive: 35 of the 152 ms of ...")
_RECORDING = Text("headline-unit-recording", "the recording", note="in the genitive: 35 of the 152 ms of ...")
_WORK = Text("headline-unit-work", "recorded work", note="in the genitive: 35 of the 152 ms of ...; a part of a trace")
_OF_LOSS = {"input": _INPUT, "host": _HOST, "communication": _COMMUNICATION, "start-up": _LOADING}
_WITHOUT_BOUND = ((_EARLIER, ("unrecorded_work",)), (_PAUSES, ("device_gap",)), (_UNEXPLAINED, ("unknown", "pending")))
"""Texts about idle time that no resource causes."""
_CAUSES = {
    "allocation": Text("headline-cause-allocation", "the CPU allocates or frees memory", note="after: mostly because"),
    "profiler_overhead": Text("headline-cause-profiler", "the profiler itself works", note="after: mostly because"),
    "synchronization": Text(
        "headline-cause-synchronization",
        "waits let its queue run empty",
        note="after: mostly because",
    ),
    "launch_bound": Text(
        "headline-cause-launches",
        "the CPU launches kernels too slowly",
        note="after: mostly because",
    ),
    "host_code": Text(
        "headline-cause-host-code",
        "the CPU runs code between operators",
        note="Python code, mostly; after: mostly because",
    ),
}


class StepBound(msgspec.Struct, frozen=True):
    """What bounds a typical step."""

    bound: str
    message: Message
    share: float | None
    """Share of the step that the bound takes; None if nothing bounds it."""


def verdict(facts: Facts, recording: Recording) -> StepBound | None:
    """What bounds the typical step; None if no device event was understood."""
    typical = recording.typical
    if typical is None or typical.resources.gpu_ns is None or not typical.resources.step_ns:
        return None
    if (copied := _of_copies(facts, recording, typical)) is not None:
        return copied
    if typical.resources.gpu_ns >= _BUSY * typical.resources.step_ns:
        return _of_busy_gpu(facts, recording, typical)
    return _of_waiting_gpu(facts, recording, typical)


def _of_copies(facts: Facts, recording: Recording, typical: TypicalStep) -> StepBound | None:
    """The headline of a step in which copies beside which nothing runs take more than anything else; else None."""
    own, copies = typical.resources, facts.find("copies", Copies)
    step, time = own.step_ns, own.only_copies_ns or 0.0
    most = max(_computing_ns(own), own.exposed_communication_ns or 0.0, *_losses(facts, typical).values())
    if copies is None or not copies.rows or time < _WORTH * step or time < most:
        return None
    copy = max(copies.rows, key=lambda each: each.exposed_ns).name
    said: dict[str, Any] = {"unit": unit(recording), "device": _device(typical), "copy": copy}
    return StepBound("gpu-memory", _ONLY_COPIES(part=(time, step), **said), time / step)


def _of_waiting_gpu(facts: Facts, recording: Recording, typical: TypicalStep) -> StepBound:
    """The headline of a waiting device: the largest loss, and unexplained time, if they are large enough to name."""
    step, losses = typical.resources.step_ns, _losses(facts, typical)
    said: dict[str, Any] = {"unit": unit(recording), "device": _device(typical)}
    bound = max(losses, key=lambda name: losses[name])
    if bound == "host" and losses[bound] >= _WORTH * step and _computing_ns(typical.resources) >= _COMPUTING * step:
        return _of_busy_gpu(facts, recording, typical)
    if losses[bound] < _WORTH * step:
        time, text = max(((_idle_ns(typical, *of), text) for text, of in _WITHOUT_BOUND), key=lambda row: row[0])
        if time >= _WORTH * step:
            return StepBound("none", text(part=(time, step), **said), None)
        return StepBound("none", _NOTHING(step=step, **said), losses[bound] / step)
    time, text = losses[bound], _OF_LOSS[bound]
    if bound == "communication":  # as the shares say: the device communicates, or is idle
        own, idle = typical.resources.exposed_communication_ns or 0.0, _idle_ns(typical, "communication")
        time, text = (own, _COMMUNICATION) if own >= idle else (idle, _COMMUNICATION_OF_HOST)
    said |= {"cause": _cause(facts, typical)} if bound == "host" else {}
    message = text(part=(time, step), **said)
    if bound in ("host", "input"):
        message = (causes.of_host if bound == "host" else causes.of_input)(facts, message, step)
    unknown = _idle_ns(typical, "unknown", "pending")
    if unknown >= _WORTH * step:
        is_pending = 2 * _idle_ns(typical, "pending") > unknown
        message = (_ALSO_PENDING if is_pending else _ALSO_UNEXPLAINED)(headline=message, part=(unknown, step))
    return StepBound(bound, message, time / step)


def _computing_ns(own: StepResources) -> float:
    """Time in ns of a typical step in which the device neither only copies nor only communicates."""
    return (own.gpu_ns or 0.0) - (own.exposed_communication_ns or 0.0) - (own.only_copies_ns or 0.0)


def _of_busy_gpu(facts: Facts, recording: Recording, typical: TypicalStep) -> StepBound:
    """The headline of a device that works nearly all the time: it mostly computes, or it mostly communicates."""
    step, communication = typical.resources.step_ns, typical.resources.exposed_communication_ns or 0.0
    compute = _computing_ns(typical.resources)
    said: dict[str, Any] = {"unit": unit(recording), "device": _device(typical)}
    if communication > compute:
        message = _COMMUNICATION(part=(communication, step), **said)
        return StepBound("communication", message, communication / step)
    said |= {"part": (compute, step), "device": _rest(facts, typical)}
    tokens = _decoded_tokens(recording)
    if tokens and max(tokens) < _FEW_TOKENS:
        message = _DECODE(part=(compute, step), unit=said["unit"], tokens=round(median(tokens)))
        return StepBound("gpu-memory", _with_graphs(facts, message), compute / step)
    bound = gpu_bound(facts)
    text = {"gpu-compute": _COMPUTE, "gpu-memory": _MEMORY}.get(bound, _SOME_GPU)
    return StepBound("gpu-compute" if bound == UNNAMED else bound, _with_graphs(facts, text(**said)), compute / step)


def _with_graphs(facts: Facts, message: Message) -> Message:
    """With what spares a busy device the launches."""
    figures = facts.find("launches", LaunchFigures)
    if figures is None or (figures.graphs.kernel_share or 0.0) < _MOSTLY:
        return message
    return _GRAPHS(headline=message, kernels=figures.graphs.kernels, all=figures.kernels)


def unit(recording: Recording) -> Message:
    """The unit of the figures: a typical step, the only step, or what was recorded of no marked step."""
    if recording.steps_from == "whole-trace":
        return _WORK() if recording.has_more else _RECORDING()
    return _ONE_STEP() if len(recording.steps) == 1 else _TYPICAL_STEP()


def _decoded_tokens(recording: Recording) -> list[int]:
    """The tokens of each step that counts, if all steps are decode steps with known numbers of tokens; else none."""
    if any(step.phase != "decode" or step.tokens is None for step in recording.steps):
        return []
    return [step.tokens for step in recording.steps if step.is_typical and step.tokens is not None]


def _losses(facts: Facts, typical: TypicalStep) -> dict[str, float]:
    """Time of a typical step in which the device does not compute, by cause."""
    own = typical.resources
    host = _idle_ns(typical, *_OF_HOST)
    # If events are missing, the recorded work of the host is not representative.
    known = 0.0 if facts.resources.host_ns is None else min(host, own.host_ns)
    return {
        "input": own.exposed_loader_ns,
        "host": known,
        "communication": (own.exposed_communication_ns or 0.0) + _idle_ns(typical, "communication"),
        "start-up": _idle_ns(typical, "compilation"),
    }


def _idle_ns(typical: TypicalStep, *causes: str) -> float:
    return fsum(row.ns_per_step for row in typical.idle if row.cause in causes)


def _cause(facts: Facts, typical: TypicalStep) -> Message:
    """The largest of the causes that are the host's."""
    largest = max((row for row in typical.idle if row.cause in _OF_HOST), key=lambda row: row.ns_per_step)
    is_after_waits = largest.cause == "launch_bound" and idle_time.is_after_waits(facts, ("launch_bound",))
    return _CAUSES["synchronization" if is_after_waits else largest.cause]()


def _device(typical: TypicalStep) -> Message:
    """The device's activities in a typical step, as shares of the step."""
    own = typical.resources
    computes = _COMPUTES(share=_computing_ns(own) / own.step_ns)
    return _DEVICE(doing=(computes, *_beside_computing(typical)))


def _rest(facts: Facts, typical: TypicalStep) -> Message:
    """The device's activities while it does not compute, and why it is idle if that is much."""
    doing, own = _beside_computing(typical) or (_IDLE(share=0.0),), typical.resources
    if _losses(facts, typical)["host"] < _WORTH_OF_REST * own.step_ns:
        return _REST(doing=doing)
    return _REST_BECAUSE(doing=doing, cause=_cause(facts, typical))


def _beside_computing(typical: TypicalStep) -> tuple[Message, ...]:
    own = typical.resources
    earlier = _idle_ns(typical, "unrecorded_work")
    shares = (
        (_COPIES, own.only_copies_ns or 0.0),
        (_COMMUNICATES, own.exposed_communication_ns or 0.0),
        (_EARLIER_SHARE, earlier),
        (_IDLE, own.step_ns - (own.gpu_ns or 0.0) - earlier),
    )
    return tuple(text(share=time / own.step_ns) for text, time in shares if round(100 * time / own.step_ns))


_WORTH_OUTSIDE = 0.2
"""Share of the recording from which on the headline mentions what lies outside of the typical steps."""
_WAITS = 0.05
"""The device waits if it works for less than this share of the time (own choice: copies of results remain)."""
_NO_REASON = frozenset({NO_STEP, OTHER_PHASE, UNKNOWN})
"""Reasons that say less than what the host does."""

_ALSO_OUTSIDE = Text(
    "headline-also-outside-2",
    "{headline} Outside of the typical steps: {time:rounded_ns} {when}, {what}.",
    note="headline is a sentence; when: before the first step; what is a clause, such as: the GPU waits",
)
_BECAUSE = Text(
    "outside-because", "because of {reason}", note="reason is a noun, such as: allocation of memory; ends a sentence"
)
_HOST_IN = Text(
    "outside-host-2",
    "for {part:rounded_ns} of it the host is in {owner}",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WAITS = Text(
    "outside-host-waits-2",
    "for {part:rounded_ns} of it the host is in {owner}, while the GPU waits",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WORKS = Text(
    "outside-host-works-2",
    "for {part:rounded_ns} of it the host is in {owner}, and the GPU works for {busy:percent}",
    note="after a time; owner is a function, mark, module or operator; busy is a share of the time; ends a sentence",
)
_SILENT = Text(
    "outside-silent", "in which hardly anything of the host was recorded", note="after a time; ends a sentence"
)
_SILENT_WAITS = Text(
    "outside-silent-waits",
    "in which hardly anything of the host was recorded and the GPU waits",
    note="after a time; ends a sentence",
)
_SILENT_WORKS = Text(
    "outside-silent-works",
    "in which hardly anything of the host was recorded and the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)


def with_outside(facts: Facts, message: Message) -> Message:
    """The headline, with the largest time outside of the typical steps if all of them are a fifth of the recording."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.summary is None or recording.steps_from == WHOLE or not recording.outside:
        return message
    if (recording.outside_ns or 0) < _WORTH_OUTSIDE * facts.summary.span_ns:
        return message
    largest = max(recording.outside, key=lambda part: part.duration_ns)
    return _ALSO_OUTSIDE(
        headline=message, time=largest.duration_ns, when=OUTSIDE_KINDS[largest.kind](), what=_what(largest)
    )


def _what(part: Outside) -> Message:
    """Why a time is outside, or what host and device do in it."""
    if part.reason not in _NO_REASON:
        return _BECAUSE(reason=STEP_REASONS[part.reason]())
    busy = None if part.device_busy_ns is None else part.device_busy_ns / part.duration_ns
    said = {} if part.owner is None else {"owner": host_owners.name(part.owner), "part": part.owner.time_ns}
    if busy is None:
        return _HOST_IN(**said) if said else _SILENT()
    if busy < _WAITS:
        return _HOST_WAITS(**said) if said else _SILENT_WAITS()
    return _HOST_WORKS(**said, busy=busy) if said else _SILENT_WORKS(busy=busy)
