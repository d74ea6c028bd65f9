"""Detects activations-recomputed: see pages/activations-recomputed.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.optimizer.backward_pass import Recomputation
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._place_labels import BACKWARD
from traceanalyzer.rules.engine import host_work
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("activations-recomputed")
_ON_CPU = 0.95, 1.55
"""Least and most that goes away, as a multiple of the recomputation (measured in the lab, explained on the page)."""
_ON_GPU = 0.9
"""Least part of the kernels that goes away (own choice)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.find("recomputation", Recomputation)
    if found is None or not found.steps:
        facts.need("operators", object)
        return
    on_device = facts.resources.gpu_ns is not None and found.device_ns is not None
    if not on_device:
        host_work.need_cpu_steps(facts)
    time = (found.device_ns or 0 if on_device else found.host_ns) / found.steps
    share = time / facts.step_ns
    if share <= limits["share"]:
        return
    if on_device and _used(facts) >= limits["used_share"]:
        return
    label = BACKWARD()
    where = CodePlace("time", "backward", None, found.host_ns / found.steps, "ns", found.start_ns, label)
    evidence = Evidence(_PAGE.text("subject")(), share, limits["share"], "share", (where,))
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
        raise Missing(_PAGE.text("no-memory")())
    return max(known)


def _change(facts: Facts, time: float, *, on_device: bool) -> TimeSaved:
    if on_device:
        return TimeSaved("gpu", (_ON_GPU * time, time), _PAGE.text("basis-gpu")(least=_ON_GPU))
    least, most = _ON_CPU
    return TimeSaved(
        "host", (least * time, min(most * time, facts.step_ns)), _PAGE.text("basis-cpu")(least=least, more=most - 1)
    )


RULE = _PAGE.rule(trace=_trace)
