"""Sums that must be right for arbitrary recordings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.plans import Plan, plans
from traceanalyzer.analyzers import idle
from traceanalyzer.structure import recording
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.step_breakdown import PARTS
from traceanalyzer.structure.unrecorded_work import unrecorded_work


def check(trace: TraceBuilder) -> Recording:
    """Check everything that must be true of any recording."""
    context = Context(read_built(trace))
    found = recording.analyze(context)
    assert [row.start_ns for row in found.steps] == sorted(row.start_ns for row in found.steps)
    assert all(row.duration_ns >= 0 for row in found.steps)
    counted = [row.duration_ns for row in found.steps if row.is_typical]
    cut = found.steps[-1:] and found.steps[-1].reason == "recording-end" and not found.steps[-1].is_typical
    assert len(counted) + bool(cut) >= min(len(found.steps), 2)
    for device in idle.analyze(context).devices:
        assert all(row.time_ns >= 0 for row in device.causes)
        assert sum(row.time_ns for row in device.causes) == device.idle_ns
    typical = found.typical
    if typical is None:
        return found
    mean = sum(counted) / len(counted)
    assert typical.steps == len(counted)
    assert typical.parts.duration_ns == typical.resources.step_ns == pytest.approx(mean)
    assert sum(getattr(typical.parts, f"{part}_ns") for part in PARTS) == pytest.approx(mean)
    assert found.typical_step_ns in (None, typical.parts.duration_ns)
    assert all(row.ns_per_step >= 0 for row in typical.idle)
    if typical.resources.gpu_ns is not None:
        explained = sum(row.ns_per_step for row in typical.idle)
        assert explained == pytest.approx(mean - typical.resources.gpu_ns)
    return found


@given(plans)
def test_sums_of_recordings_with_everything_in_them(plan: Plan) -> None:
    check(plan.build())


@given(
    delay=st.integers(0, 9000),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    mark=st.sampled_from(["step[DECODE bs=2]", "train_step", "Optimizer.step#SGD.step", "ProfilerStep#{}", ""]),
    other=st.integers(0, 9000),
)
def test_sums_of_recordings_that_begin_late(delay: int, lengths: list[int], mark: str, other: int) -> None:
    trace, start = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        if mark:
            trace.annotation(mark.format(number), start, 100 * length)
        trace.op("aten::mm", start + 1, 20)
        begin = max(start, delay) + 40
        trace.launch_kernel("gemm", begin, 50 * length, at=start + 5, call_dur=5)
        start += 100 * length
        delay += 50 * length + 1
    trace.launch_kernel("beside", 60 + other, 7, at=50, call_dur=2, stream=9)
    check(trace)
    device = read_built(trace).device
    for times in unrecorded_work(Context(read_built(trace))).values():
        for begin, end in zip(times.start.tolist(), times.end.tolist(), strict=True):
            assert not ((device.start_ns < end) & (device.end_ns > begin)).any(), "while something recorded runs"
