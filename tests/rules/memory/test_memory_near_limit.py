"""Tests of the rule `memory-near-limit`: numbers worked out by hand, and edges of thresholds.

The programs: levels of device memory.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

CAPACITY = A100.memory
"""Memory of the builder's default device, in bytes."""


def training(allocated: float, reserved: float, *, kernel: int = 2000) -> TraceBuilder:
    """Two records of memory, at shares of the device's capacity, and two kernels."""
    trace = TraceBuilder()
    trace.step(0, 0, 100 + 2 * kernel)
    trace.op("aten::empty", 10, 20)
    trace.launch_kernel("fill_kernel", 40, kernel, at=15)
    trace.launch_kernel("fill_kernel", 40 + kernel, kernel, at=25)
    size = int(allocated * CAPACITY)
    trace.memory(size, at=20, allocated=size, reserved=int(reserved * CAPACITY), device=0)
    return trace


def fires() -> TraceBuilder:
    """Nearly the whole device is in use."""
    return training(0.95, 0.97)


def quiet() -> TraceBuilder:
    """Half of the device is free."""
    return training(0.45, 0.50)


def trap_cpu_memory() -> TraceBuilder:
    """Much memory, but the host's: it has no limit that the trace knows."""
    trace = TraceBuilder()
    trace.step(0, 0, 100)
    trace.op("aten::empty", 10, 20)
    trace.memory(10 * CAPACITY, at=20, allocated=10 * CAPACITY)
    return trace


def trap_only_reserved() -> TraceBuilder:
    """The allocator has reserved nearly the whole memory, but half of that is its cache."""
    return training(0.50, 0.97)


def trap_a_server() -> TraceBuilder:
    """A server, whose caches take the memory on purpose."""
    trace = training(0.95, 0.97)
    trace.annotation("step[DECODE bs=8]", 5, 60)
    return trace


RULE = "memory-near-limit"


def test_is_a_risk_without_a_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None
    assert finding.severity == "high"
    assert [round(e.observed, 2) for e in finding.evidence] == [0.95], "what is allocated decides"


def test_a_recording_with_hardly_any_work_is_no_reason_to_worry_much() -> None:
    (finding,) = findings(training(0.95, 0.97, kernel=499), RULE)
    assert finding.severity == "medium"
    (finding,) = findings(training(0.95, 0.97, kernel=500), RULE)
    assert finding.severity == "high"


def test_edge_used_share() -> None:
    assert findings(training(0.9, 0.95), RULE) == []
    assert findings(training(0.9001, 0.95), RULE)


def test_a_table_cannot_tell() -> None:
    assert "does not show the peak" in (skipped(fires_in_a_table(), RULE) or "")


def test_inference_has_no_activations_to_checkpoint() -> None:
    (finding,) = findings(fires(), RULE)
    trained = fires()
    trained.op("Optimizer.step#SGD.step", 3000, 10)
    (other,) = findings(trained, RULE)
    assert ("checkpoint" in finding.advice.text, finding.code) == (False, None)
    assert "checkpoint" in other.advice.text
    assert "checkpoint" in (other.code or "")
