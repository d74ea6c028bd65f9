"""Detects memory-growth: see pages/memory-growth.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("memory-growth")
_CPU = "CPU"
_RISING = 0.8
"""Share of the steps that must end above the one before (own choice: a sawtooth falls as often as it rises)."""
_SOON = 1000
"""Steps until the device is full that make the risk high (own choice: within an hour of most trainings)."""
_LEAST_ON_CPU = 1 << 20
"""Bytes per step (own choice): the peak of the host's memory is only of what was allocated during the recording."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    devices = facts.need("memory", MemoryUse).devices
    devices = tuple(device for device in devices if device.device != _CPU) or devices
    needed = int(limits["steps"])
    if all(len(device.steps) - 1 < needed for device in devices):
        raise Missing(_PAGE.text("few-steps")(count=needed + 1))
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
    evidence = Evidence(_PAGE.text("subject")(), slope / peak, limit, "share", where)
    if device.capacity_bytes is None or device.is_relative:
        yield Draft(
            (evidence,),
            params=params,
            severity="medium",
            advice=_PAGE.text("advice-cpu") if device.device == _CPU else None,
        )
        return
    left = max(0, int((device.capacity_bytes - peak) / slope))
    severity = "high" if left < _SOON else "medium"
    yield Draft((evidence,), params={**params, "left": left}, severity=severity, summary=_PAGE.text("summary-known"))


def _slope(values: Sequence[int]) -> float:
    """Slope of the least-squares line through the values, per position."""
    middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
    spread = sum((i - middle) ** 2 for i in range(len(values)))
    return sum((i - middle) * (value - mean) for i, value in enumerate(values)) / spread


RULE = _PAGE.rule(trace=_trace)
