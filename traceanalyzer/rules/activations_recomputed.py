"""Activations are computed again in the backward pass, although memory may be free.

What it detects:
    Evaluations of autograd within which a part of the forward pass runs once more: the same operators on inputs of the
    same shapes, in the same order. Their host time, or on a GPU their device time, is more than five percent of the
    step. On a GPU only if the recording shows that the peak of allocated memory is below half of the device's memory.

Why it matters:
    Activation checkpointing (`torch.utils.checkpoint`, `gradient_checkpointing_enable()`) trades time for memory: the
    forward pass of the wrapped parts runs twice. If memory is free, this time is wasted.

What to do:
    Try without it, or wrap fewer layers: every second one, or only the largest.

How the saving is estimated:
    On a CPU at least 95 % of the host time from the start of each such evaluation to the end of the repeated operators,
    and at most 55 % more than that time: checkpointing also keeps and restores the state of random generators and runs
    a hook for each tensor that is not kept, in both passes (in the lab 1.0 to 1.5 times this time was saved). On a GPU
    at most the device time of the repeated operators, and at least 90 % of that.

When it is wrong:
    Without checkpointing the activations may not fit into memory. A recording on a CPU does not show how much memory is
    free, so the finding is only information there.

References:
    https://docs.pytorch.org/docs/stable/checkpoint.html
    https://arxiv.org/abs/1604.06174
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.optimizer.backward_pass import Recomputation
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _host_work
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_ON_CPU = 0.95, 1.55
"""Least and most that goes away, as a multiple of the recomputation (measured in the lab, explained on the page)."""
_ON_GPU = 0.9
"""Least part of the kernels that goes away (own choice)."""

_SUBJECT = Text("activations-recomputed-subject", "computing parts of the forward pass again, share of the step")
_BASIS_CPU = Text(
    "activations-recomputed-basis-cpu",
    "at least {least:share} of the host time of what is computed again; at most {more:share} more than that time, "
    "because checkpointing also keeps the state of random generators and runs a hook for each tensor",
)
_BASIS_GPU = Text(
    "activations-recomputed-basis-gpu",
    "at most the device time of what is computed again, at least {least:share} of it",
)
_NO_MEMORY = Text(
    "activations-recomputed-no-memory", "whether memory is free on the device is not known: use profile_memory=True"
)
_NO_TABLE = Text("activations-recomputed-no-table", "a printed table does not show what runs within the backward pass")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.find("recomputation", Recomputation)
    if found is None or not found.steps:
        facts.need("operators", object)
        return
    on_device = facts.resources.gpu_ns is not None and found.device_ns is not None
    if not on_device:
        _host_work.need_cpu_steps(facts)
    time = (found.device_ns or 0 if on_device else found.host_ns) / found.steps
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    if on_device and _used(facts) >= limits["used_share"]:
        return
    label = BACKWARD()
    where = CodePlace("time", "backward", None, found.host_ns / found.steps, "ns", found.start_ns, label)
    evidence = Evidence(_SUBJECT(), share, limits["share"], "share", (where,))
    params = {
        "segments": found.segments / found.steps,
        "time": time,
        "share": share,
        "operators": ", ".join(found.names[:3]),
    }
    yield Draft(
        (evidence,), _change(facts, time, on_device=on_device), params, ceiling="medium" if on_device else "info"
    )


def _used(facts: Facts) -> float:
    """Peak of allocated memory over the device's memory, of the device that uses most.

    Raises:
        Missing: It is not known.
    """
    memory = facts.need("memory", MemoryUse)
    known = [
        device.peak_allocated_bytes / device.capacity_bytes
        for device in memory.devices
        if device.peak_allocated_bytes and device.capacity_bytes and not device.is_relative
    ]
    if not known:
        raise Missing(_NO_MEMORY())
    return max(known)


def _change(facts: Facts, time: float, *, on_device: bool) -> TimeSaved:
    if on_device:
        return TimeSaved("gpu", (_ON_GPU * time, time), _BASIS_GPU(least=_ON_GPU))
    least, most = _ON_CPU
    return TimeSaved("host", (least * time, min(most * time, facts.step_ns)), _BASIS_CPU(least=least, more=most - 1))


RULE = Rule(
    id="activations-recomputed",
    title=Text("activations-recomputed-title", "Activations are computed again in the backward pass"),
    summary=Text(
        "activations-recomputed-summary",
        "Parts of the forward pass that the backward pass runs again: {segments:number} per step ({operators}), which "
        "takes {time:ns} ({share:share} of the step).",
        note="operators is a list of names such as aten::conv2d",
    ),
    advice=Text(
        "activations-recomputed-advice",
        "If memory is free, train without activation checkpointing, or wrap fewer layers.",
    ),
    not_when=Text("activations-recomputed-not-when", "Without it the activations do not fit into memory."),
    severity="info to medium",
    confidence="A",
    tags=("training", "memory"),
    since="0.2",
    thresholds=(
        Threshold(
            "share",
            0.05,
            "share",
            "time of what is computed again, over the step",
            "own choice: for less nobody gives up memory",
        ),
        Threshold(
            "used_share",
            0.5,
            "share",
            "peak of allocated memory over the device's memory",
            "own choice, as for memory-headroom: below half, the activations probably fit",
        ),
    ),
    code="",
    links=("https://docs.pytorch.org/docs/stable/checkpoint.html",),
    trace=_trace,
    no_table=_NO_TABLE(),
)
