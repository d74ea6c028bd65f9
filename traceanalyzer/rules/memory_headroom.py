"""Detects memory-headroom: see pages/memory-headroom.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.resources import StepResources

_PAGE = page("memory-headroom")
_GROWING = 0.5
"""Share of the idle time that host code outside of operators may have (own choice): what prepares samples there takes
longer for more of them."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if program.serves(facts):
        raise Missing(_PAGE.text("serving")())
    memory, resources = facts.need("memory", MemoryUse), facts.need_step_resources()
    if resources.gpu_ns is None:
        raise Missing(_PAGE.text("no-gpu")())
    known = [d for d in memory.devices if d.peak_allocated_bytes and d.capacity_bytes and not d.is_relative]
    if not known:
        raise Missing(_PAGE.text("no-peak")())
    busy, loader = resources.gpu_ns / resources.step_ns, resources.exposed_loader_ns / resources.step_ns
    if facts.is_startup or busy >= limits["busy_share"] or loader > limits["loader_share"]:
        return
    if facts.idle_per_step("host_code") > _GROWING * (1 - busy) * resources.step_ns:
        return
    for device in known:
        yield from _judge(device, busy, resources, limits)


def _judge(device: DeviceMemory, busy: float, resources: StepResources, limits: Mapping[str, float]) -> Iterator[Draft]:
    peak, capacity = device.peak_allocated_bytes or 0, device.capacity_bytes or 0
    used = peak / capacity
    if used >= limits["used_share"]:
        return
    where = (CodePlace("memory", device.device, value=peak, unit="bytes"),)
    yield Draft(
        (
            Evidence(_PAGE.text("peak")(), used, limits["used_share"], "share", where),
            Evidence(_PAGE.text("busy")(), busy, limits["busy_share"], "share", ()),
        ),
        params={
            "device": device.device,
            "peak": peak,
            "capacity": capacity,
            "used": used,
            "busy": busy,
            "idle": resources.step_ns * (1 - busy),
        },
        severity="info",
    )


RULE = _PAGE.rule(trace=_trace)
