"""Detects memory-near-limit: see pages/memory-near-limit.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import DeviceMemory, MemoryUse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("memory-near-limit")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    devices = facts.need("memory", MemoryUse).devices
    if program.serves(facts):
        raise Missing(_PAGE.text("on-purpose")())
    for device in devices:
        if device.capacity_bytes and not device.is_relative:
            yield from _judge(facts, device, device.capacity_bytes, limits["used_share"])


def _judge(facts: Facts, device: DeviceMemory, capacity: int, limit: float) -> Iterator[Draft]:
    used = device.peak_allocated_bytes
    if used is None or used <= limit * capacity:
        return
    where = (CodePlace("memory", device.device, value=used, unit="bytes"),)
    evidence = Evidence(_PAGE.text("allocated")(), used / capacity, limit, "share", where)
    params = {"device": device.device, "used": used, "capacity": capacity, "share": used / capacity}
    advice = None if program.may_train(facts) else _PAGE.text("advice-inference")
    yield Draft((evidence,), params=params, severity="high", advice=advice)


RULE = _PAGE.rule(trace=_trace)
