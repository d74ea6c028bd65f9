"""Says in one sentence what bounds the typical step of a trace: what the device does, and what causes the rest.

A resource bounds the step if the device works nearly all the time, or else if nothing else keeps the device waiting for
longer, and for at least a fifth of the step. What cannot contradict the page is said only once: all figures are of the
typical step.
"""

from __future__ import annotations

from dataclasses import dataclass

from traceanalyzer.analyzers.recording import Recording, TypicalStep
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.gpu_bound import UNNAMED, gpu_bound

_BUSY = 0.8
"""Share of a step from which on a working device bounds it (own choice: four fifths)."""
_WORTH = 0.2
"""Least share of a step that must be lost to something to name it, known or not."""
_FEW_TOKENS = 100
"""Tokens of a step below which its products read weights for longer than they compute.

A product of n tokens with weights of 16 bits does n operations for each byte; the GPUs of servers (A100, H100, MI300X)
do 150 to 300 dense 16-bit operations in the time in which they read one byte, by their data sheets."""
_OF_HOST = frozenset({"profiler_overhead", "synchronization", "launch_bound", "host_code"})

_COMPUTES = Text("headline-device-computes", "computes {share:percent}", note="part of a list: the GPU computes 65 %")
_COMMUNICATES = Text("headline-device-communicates", "communicates {share:percent}", note="part of a list: the GPU ...")
_IDLE = Text("headline-device-idle", "is idle {share:percent}", note="part of a list: the GPU is idle 16 %")
_DEVICE = Text("headline-device", "the GPU {doing}", note="doing is a list: computes 65 %, is idle 35 %")

_INPUT = Text(
    "headline-typical-input",
    "Bound by input: for {part:part} of a typical step the GPU waits while the program waits for its DataLoader; "
    "{device}.",
    note="device says what the GPU does: the GPU computes 65 %, is idle 35 %",
)
_HOST = Text(
    "headline-typical-host",
    "Bound by the host: for {part:part} of a typical step the GPU does nothing because the CPU gives it no work, "
    "mostly because {cause}; {device}.",
    note="cause is a clause; device says what the GPU does: the GPU computes 65 %, is idle 35 %",
)
_COMMUNICATION = Text(
    "headline-typical-communication",
    "Bound by communication: for {part:part} of a typical step the GPU only communicates, or waits for other ranks; "
    "{device}.",
    note="device says what the GPU does: the GPU computes 65 %, communicates 19 %, is idle 16 %",
)
_COMPUTE = Text(
    "headline-typical-gpu-compute",
    "Bound by GPU compute: the GPU works for {part:part} of a typical step, mostly on matrix products, convolutions "
    "and attention.",
)
_MEMORY = Text(
    "headline-typical-gpu-memory",
    "Bound by GPU memory: the GPU works for {part:part} of a typical step, mostly on operations that move data.",
)
_DECODE = Text(
    "headline-typical-decode",
    "Bound by GPU memory: the GPU works for {part:part} of a typical step. A decode step of {tokens:count} tokens "
    "reads all weights and caches for little arithmetic.",
    note="a server generates one token for each of its requests",
    one="Bound by GPU memory: the GPU works for {part:part} of a typical step. A decode step of one token reads all "
    "weights and caches for little arithmetic.",
)
_SOME_GPU = Text(
    "headline-typical-gpu",
    "Bound by the GPU: it works for {part:part} of a typical step. The names of its kernels do not tell what most of "
    "this time goes into.",
)
_NOTHING = Text(
    "headline-typical-none",
    "Nothing dominates a typical step of {step:ns}: {device}, and no single cause explains the rest.",
    note="device says what the GPU does: the GPU computes 65 %, is idle 35 %",
)
_UNEXPLAINED = Text(
    "headline-typical-unexplained",
    "Why the GPU does nothing for {part:part} of a typical step, the recording does not show; {device}.",
    note="device says what the GPU does: the GPU computes 65 %, is idle 35 %",
)
_ALSO_UNEXPLAINED = Text(
    "headline-also-unexplained",
    "{headline} Nothing recorded explains {part:part}.",
    note="headline is a sentence; part is idle time of the GPU of a step",
)
_CAUSES = {
    "profiler_overhead": Text("headline-cause-profiler", "the profiler itself works", note="after: mostly because"),
    "synchronization": Text(
        "headline-cause-synchronization",
        "it waited for the GPU and let its queue run empty",
        note="it is the CPU; after: mostly because",
    ),
    "launch_bound": Text(
        "headline-cause-launches", "it launches kernels more slowly than the GPU runs them", note="it is the CPU"
    ),
    "host_code": Text(
        "headline-cause-host-code", "it runs code between the operators", note="it is the CPU; Python code, mostly"
    ),
}


@dataclass(frozen=True)
class Verdict:
    """What bounds a typical step."""

    bound: str
    message: Message
    share: float | None
    """Share of the step that the bound takes; None if nothing bounds it."""


def verdict(facts: Facts, recording: Recording) -> Verdict | None:
    """What bounds the typical step; None where no device event was understood."""
    typical = recording.typical
    if typical is None or typical.resources.gpu_ns is None or not typical.resources.step_ns:
        return None
    step, gpu = typical.resources.step_ns, typical.resources.gpu_ns
    communication = typical.resources.exposed_communication_ns or 0.0
    device = _device(typical)
    if gpu - communication >= _BUSY * step:
        return _of_gpu(facts, recording, gpu - communication, step)
    losses = _losses(facts, typical)
    bound = max(losses, key=lambda name: losses[name])
    unknown = _idle(typical, "unknown", "pending")
    if losses[bound] < _WORTH * step:
        if unknown >= _WORTH * step:
            return Verdict("none", _UNEXPLAINED(part=(unknown, step), device=device), None)
        return Verdict("none", _NOTHING(step=step, device=device), losses[bound] / step)
    part = (losses[bound], step)
    if bound == "host":
        message = _HOST(part=part, cause=_cause(typical), device=device)
    else:
        message = {"input": _INPUT, "communication": _COMMUNICATION}[bound](part=part, device=device)
    if unknown >= _WORTH * step:
        message = _ALSO_UNEXPLAINED(headline=message, part=(unknown, step))
    return Verdict(bound, message, losses[bound] / step)


def _of_gpu(facts: Facts, recording: Recording, time: float, step: float) -> Verdict:
    tokens = _decoded_tokens(recording)
    if tokens is not None and tokens < _FEW_TOKENS:
        return Verdict("gpu-memory", _DECODE(part=(time, step), tokens=tokens), time / step)
    bound = gpu_bound(facts)
    text = {"gpu-compute": _COMPUTE, "gpu-memory": _MEMORY}.get(bound, _SOME_GPU)
    return Verdict("gpu-compute" if bound == UNNAMED else bound, text(part=(time, step)), time / step)


def _decoded_tokens(recording: Recording) -> int | None:
    """Most tokens of a step, if all steps are decode steps whose tokens are known."""
    tokens = [step.tokens if step.phase == "decode" else None for step in recording.steps]
    known = [number for number in tokens if number is not None]
    return max(known) if known and len(known) == len(tokens) else None


def _losses(facts: Facts, typical: TypicalStep) -> dict[str, float]:
    """Time of a typical step in which the device does not compute, by what would end it."""
    own = typical.resources
    host = _idle(typical, *_OF_HOST)
    # Where events are missing, what the host did is chance.
    known = 0.0 if facts.resources.host_ns is None else min(host, own.host_ns)
    return {
        "input": own.exposed_loader_ns,
        "host": known,
        "communication": (own.exposed_communication_ns or 0.0) + _idle(typical, "communication"),
    }


def _idle(typical: TypicalStep, *causes: str) -> float:
    return sum(row.ns_per_step for row in typical.idle if row.cause in causes)


def _cause(typical: TypicalStep) -> Message:
    """The largest of the causes that are the host's."""
    largest = max((row for row in typical.idle if row.cause in _OF_HOST), key=lambda row: row.ns_per_step)
    return _CAUSES[largest.cause]()


def _device(typical: TypicalStep) -> Message:
    """What the device does in a typical step, in shares of it."""
    own = typical.resources
    busy, communication = own.gpu_ns or 0.0, own.exposed_communication_ns or 0.0
    shares = ((_COMPUTES, busy - communication), (_COMMUNICATES, communication), (_IDLE, own.step_ns - busy))
    shown = [(text, time / own.step_ns) for text, time in shares]
    return _DEVICE(doing=tuple(text(share=share) for text, share in shown if round(100 * share) or text is _COMPUTES))
