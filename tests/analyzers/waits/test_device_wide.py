"""Waits for whole devices."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers.waits import device_wide
from traceanalyzer.structure.context import Context

US = 1000


def trace_with(*waits: int) -> TraceBuilder:
    """One step from 0 to 100 that launches at 20 and at 60; the kernels run from 30 to 40 and from 70 to 80."""
    trace = TraceBuilder()
    trace.step(7, 0, 100)
    trace.launch_kernel("a", 30, 10, at=20, call_dur=5)
    trace.launch_kernel("b", 70, 10, at=60, call_dur=5)
    for start in waits:
        trace.launch("cudaDeviceSynchronize", start, 15)
    return trace


def test_a_wait_between_launches_counts() -> None:
    (row,) = device_wide.analyze(Context(read_built(trace_with(28)))).rows
    assert (row.call, row.calls, row.steps, row.waiting_ns) == ("cudaDeviceSynchronize", 1, 1, 15 * US)
    assert row.avoidable_ns == 15 * US, "the gap after it is 27 us long, the wait 15 us"
    assert (row.longest_start_ns, row.longest_step) == (28 * US, "7")


@pytest.mark.parametrize("start", [2, 82, 150])
def test_waits_at_the_edges_of_steps_and_outside_do_not(start: int) -> None:
    assert device_wide.analyze(Context(read_built(trace_with(start)))).rows == ()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("hipDeviceSynchronize", True),
        ("cuCtxSynchronize", True),
        ("cudaStreamSynchronize", False),
        ("cudaEventSynchronize", False),
    ],
)
def test_names(name: str, wanted: bool) -> None:
    assert device_wide.is_device_wide(name) is wanted
