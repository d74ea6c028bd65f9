"""What each resource is in use for, where the recording has no steps."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure import resources
from traceanalyzer.structure.context import Context


def test_calls_before_the_device_begins_are_the_hosts_part_of_a_recording_without_operators() -> None:
    """`activities=[CUDA]` records calls and device events alone; the step begins with the first of the latter."""
    trace = TraceBuilder()
    for number in range(4):
        trace.launch_kernel("gemm", 5000 + 1000 * number, 900, at=100 * number, call_dur=50)
    found = resources.analyze(Context(read_built(trace)))
    assert found.step_ns == 3_900_000
    assert found.host_ns == 350_000
