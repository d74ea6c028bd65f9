"""Allocated memory grows from step to step.

What it detects:
    After the first step, allocated memory at the ends of steps rises nearly every time, by more than half a percent of
    the peak per step. In a program without a GPU, the host's memory is judged in the same way, if it grows by at least
    1 MiB per step.

Why it matters:
    The run ends with an out-of-memory error, often after hours.

What to do:
    Look for tensors that outlive their step: losses summed up without `.item()` or `.detach()`, outputs appended to a
    list, hooks and caches, graphs kept by `retain_graph=True`.

How the saving is estimated:
    Not at all: this is a risk. The finding says after how many steps the device would be full.

When it is wrong:
    Optimizers create their state in the first step, and caches fill during the first ones. A list that is emptied at
    the end of an epoch grows until then.

References:
    https://docs.pytorch.org/docs/stable/notes/faq.html
    https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold

_CPU = "CPU"
_RISING = 0.8
"""Share of the steps that must end above the one before (own choice: a sawtooth falls as often as it rises)."""
_SOON = 1000
"""Steps until the device is full that make the risk high (own choice: within an hour of most trainings)."""
_LEAST_ON_CPU = 1 << 20
"""Bytes per step (own choice): the peak of the host's memory is only of what was allocated during the recording."""

_SUBJECT = Text("memory-growth-subject", "growth per step, share of the peak")
_FEW_STEPS = Text(
    "memory-growth-few-steps", "too few steps to distinguish growth from warm-up: record at least {count:count}"
)
_NO_TABLE = Text("memory-growth-no-table", "a printed table has no memory levels over time")
_SUMMARY_KNOWN = Text(
    "memory-growth-summary-known",
    "{device} holds {growth:bytes} more after every step ({share:share} of the peak); at this rate it is full after "
    "{left:count} more steps.",
    note="device is GPU0 and the like",
    one="{device} holds {growth:bytes} more after every step ({share:share} of the peak); at this rate it is full "
    "after {left:count} more step.",
)

_ADVICE_CPU = Text(
    "memory-growth-advice-cpu",
    "Look for tensors that outlive their step: a running loss without .item() or .detach(), outputs appended to a "
    "list, a hook or cache that keeps its arguments, retain_graph=True. tracemalloc and gc.get_objects() help to find "
    "who holds them.",
    note="code: .item(), .detach(), retain_graph=True, tracemalloc, gc.get_objects()",
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    devices = facts.need("memory", MemoryUse).devices
    devices = tuple(device for device in devices if device.device != _CPU) or devices
    needed = int(limits["steps"])
    if all(len(device.steps) - 1 < needed for device in devices):
        raise Missing(_FEW_STEPS(count=needed + 1))
    for device in devices:
        if len(device.steps) - 1 >= needed:
            yield from _judge(device, limits["growth_share"])


def _judge(device: DeviceMemory, limit: float) -> Iterator[Draft]:
    steps = device.steps[1:]
    ends = [step.end_bytes for step in steps]
    rises = [after > before for before, after in pairwise(ends)]
    peak = device.peak_allocated_bytes or max(step.peak_bytes for step in steps)
    slope = _slope(ends)
    if peak <= 0 or slope / peak <= limit or sum(rises) < _RISING * len(rises):
        return
    if device.device == _CPU and slope < _LEAST_ON_CPU:
        return
    where = tuple(
        CodePlace("step", step.name, value=step.end_bytes, unit="bytes") for step in (*steps[:2], *steps[-3:])
    )
    params = {"device": device.device, "growth": round(slope), "share": slope / peak}
    evidence = Evidence(_SUBJECT(), slope / peak, limit, "share", where)
    if device.capacity_bytes is None or device.is_relative:
        yield Draft(
            (evidence,), params=params, severity="medium", advice=_ADVICE_CPU if device.device == _CPU else None
        )
        return
    left = max(0, int((device.capacity_bytes - peak) / slope))
    severity = "high" if left < _SOON else "medium"
    yield Draft((evidence,), params={**params, "left": left}, severity=severity, summary=_SUMMARY_KNOWN)


def _slope(values: Sequence[int]) -> float:
    """Slope of the least-squares line through the values, per position."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((i - middle) ** 2 for i in range(len(values)))
    return sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread


RULE = Rule(
    id="memory-growth",
    title=Text("memory-growth-title", "Memory grows from step to step"),
    summary=Text(
        "memory-growth-summary",
        "{device} holds {growth:bytes} more after every step ({share:share} of the peak).",
        note="device is GPU0 and the like",
    ),
    advice=Text(
        "memory-growth-advice",
        "Look for tensors that outlive their step: a running loss without .item() or .detach(), outputs appended to "
        "a list, a hook or cache that keeps its arguments, retain_graph=True. "
        "torch.cuda.memory._record_memory_history() shows where the memory that is still held was allocated.",
    ),
    not_when=Text(
        "memory-growth-not-when",
        "The run is still filling caches or creating the optimizer's state, or it releases the memory at the end of "
        "an epoch.",
    ),
    severity="medium to high",
    confidence="B",
    tags=("memory", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "growth_share",
            0.005,
            "share",
            "growth per step over the peak",
            "own choice: it fills a half-empty device within 200 steps, and rounding of the allocator is far below",
        ),
        Threshold(
            "steps",
            5,
            "count",
            "steps after the first that are needed",
            "own choice: fewer points make a line of anything",
        ),
    ),
    code="total += loss.detach()  # not: total += loss",
    links=(
        "https://docs.pytorch.org/docs/stable/notes/faq.html",
        "https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
