"""Savings are those of a program that repeats its steps; times in microseconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.random_programs import Program
from tests.random_traces import Plan, plans
from tests.simulation.replaying import model_of, modelled, saved
from traceanalyzer.simulation import replay_error, what_if
from traceanalyzer.simulation.edits import Edit, HostEdit, RelaunchEdit, ScaleEdit, UnblockEdit
from traceanalyzer.simulation.model import ABSTAINS_ABOVE, Model

ALWAYS = 1 << 50


def free_host(found: Model) -> HostEdit:
    threads = np.unique(found.graph.host.thread)
    return HostEdit(threads, np.full(len(threads), -ALWAYS), np.full(len(threads), ALWAYS), 0.0)


def free_device(found: Model) -> ScaleEdit:
    return ScaleEdit(np.arange(len(found.context.trace.device)), 0.0)


def steps(host: int, kernel: int, period: int, count: int = 4) -> TraceBuilder:
    """Steps that the host starts one after another, each with a kernel that starts later the longer the queue is."""
    trace = TraceBuilder()
    free = 0
    for number in range(count):
        begin = number * period
        trace.step(number, begin, host)
        trace.op("aten::mm", begin + 1, host - 2)
        free = max(free, begin + 10)
        trace.launch_kernel("sgemm", free, kernel, at=begin + 5, call_dur=3)
        free += kernel
    return trace


def test_a_host_that_is_ahead_saves_nothing_in_the_first_or_last_step() -> None:
    found = model_of(steps(20, 100, 20))
    assert saved(found, free_host(found)) == 0
    assert saved(found, free_device(found)) == 100 - 20


def test_a_step_that_finds_the_device_idle_does_so_when_it_repeats() -> None:
    found = model_of(steps(20, 100, 120, count=1))
    assert saved(found, free_device(found)) == 110 - 20
    assert saved(found, free_host(found)) == 5  # the time until the launch


def test_work_from_before_the_recording_counts_once() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.op("aten::copy_", 10, 50)
    # the first kernel waits for work of 5 ms that was launched before the recording
    trace.graph_launch(20, 30, [("sgemm", 5_000 + 200 * place, 190, {}) for place in range(10)])
    found = model_of(trace)
    assert found.graph.inputs.unrecorded_starts == 1
    assert saved(found, free_device(found)) == 1_990 - 100
    assert saved(found, free_host(found)) == 0
    assert replay_error.analyze(found.context).pinned_share == 0


def test_work_that_nothing_explains_is_pinned() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1_000)
    trace.op("aten::mm", 0, 1_000)
    trace.launch_kernel("sgemm", 20, 100, at=10)
    trace.kernel("triton", 122, 100)  # follows at once: it was queued behind the first
    queued = model_of(trace)
    assert (queued.pinned_share, queued.abstains) == (0, False)
    trace.kernel("late", 500, 100)
    found = model_of(trace)
    assert found.error_share == 0
    assert (found.pinned_share, found.abstains) == (1 / 3, True)


def test_a_step_whose_work_queues_up_has_the_pace_of_the_device() -> None:
    # each step ends with a wait for one stream, while the other falls behind: it needs four times 454 us
    queues = model_of(Program((("reduce", 454, 4),), is_marked=False).build())
    assert queues.error_share < ABSTAINS_ABOVE
    assert (queues.pinned_share, queues.doubt) == (0, None)
    result = what_if.ask(queues.context, [])
    assert result.step_ns == pytest.approx(4 * 454_000, rel=0.01)
    communication = next(row for row in result.helps if row.selector == "communication")
    assert communication.free_ns[1] == pytest.approx(result.step_ns, rel=0.1)


GEMM = "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn"
WAITS_AT_ITS_START = Plan(
    steps=(1, 177),
    ranges=(),
    launches=(
        ("my_kernel", 0, 0, 4201, 3, 1, 9),
        ("my_kernel", 0, 3, 4201, 0, 0, 7),
        (GEMM, 0, 0, 4201, 0, 0, 7),
        (GEMM, 0, 0, 4201, 0, 67, 9),
        ("my_kernel", 9, 0, 4201, 0, 86, 9),
        ("my_kernel", 3, 1, 4201, 3, 5, 9),
        ("my_kernel", 1, 1, 4201, 0, 99, 9),
    ),
    copies=(),
)
"""The first work of one stream waits for that of the other, and does not begin before its own of the last step."""

only_host = st.lists(st.integers(0, 2), min_size=1, max_size=3)


@given(plans, only_host)
@example(WAITS_AT_ITS_START, [0])
def test_a_change_of_the_host_leaves_each_stream_its_work(plan: Plan, numbers: list[int]) -> None:
    found = modelled(plan)
    rows, calls = np.arange(len(found.context.trace.device)), np.arange(len(found.context.trace.launches))
    known: list[Edit] = [free_host(found), UnblockEdit(calls), RelaunchEdit(rows, 2_000)]
    device, changes = found.graph.device, [known[number] for number in numbers]
    for number in np.unique(device.stream):
        own = (device.stream == number) & (device.part >= 0)
        work = int((device.dur_ns + np.minimum(device.gap_ns, 0))[own].sum()) / len(found.bounds.part)
        for keeps in (True, False):
            assert found.elapsed_ns(changes, keep_residuals=keeps) >= work


@given(plans, st.sampled_from([0.0, 0.5]))
def test_a_faster_device_leaves_the_host_its_work(plan: Plan, factor: float) -> None:
    found = modelled(plan)
    host = found.graph.host
    main = (host.chain == host.chain[found.bounds.start_point[0]]) & (host.part >= 0)
    main[found.bounds.start_point[0]] = False
    work = int(host.cost_ns[main].sum()) / len(found.bounds.part)
    rows = np.arange(len(found.context.trace.device))
    assert found.elapsed_ns([ScaleEdit(rows, factor)], keep_residuals=False) >= work


def test_what_is_in_no_typical_step_takes_time_once() -> None:
    trace = steps(20, 10, 40, count=5)
    trace.op("aten::first", 10_000, 3_000)
    rows = {row.selector: row for row in what_if.ask(model_of(trace).context).helps}
    assert rows["operator:aten::first"].once_ns == 3_000_000
    assert rows["operator:aten::mm"].once_ns is None


def test_rounds_go_on_until_each_stream_takes_as_long_as_before() -> None:
    """The slowest stream takes 113 in two rounds, which is not yet the 106 of all that follow."""
    launches = tuple(
        ("kernel", at, call, 0, delay, dur, stream)
        for at, call, delay, dur, stream in ((14, 6, 50, 22, 7), (39, 3, 56, 48, 8), (92, 5, 43, 41, 7))
    )
    found = model_of(Plan((0, 30, 106), (), launches, ()).build())
    assert found.elapsed_ns([], keep_residuals=False) == 106_000 / 2
