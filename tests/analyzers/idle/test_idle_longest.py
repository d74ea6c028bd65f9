"""What the host did during the longest gaps."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import LongGap
from traceanalyzer.structure.context import Context

US = 1000


def longest(trace: TraceBuilder) -> tuple[LongGap, ...]:
    return idle.analyze(Context(read_built(trace))).longest_gaps


def step() -> TraceBuilder:
    trace = TraceBuilder()
    trace.step(7, 0, 400)
    trace.launch_kernel("first", 0, 20, at=0)
    return trace


def test_a_gap_says_what_the_host_did_in_the_middle_of_its_longest_piece() -> None:
    trace = step()
    trace.python_function("train.py(1): main", 0, 400)
    trace.python_function("train.py(9): load", 20, 20)
    trace.python_function("train.py(12): prepare", 50, 100)
    trace.python_function("torch/nn/functional.py(7): pad", 55, 80)
    trace.python_function("<built-in method pad>", 60, 70)
    trace.annotation("prepare", 45, 110)
    trace.op("aten::pad", 60, 80)
    trace.op("aten::copy_", 70, 60)
    trace.launch("cudaEventRecord", 80, 40)
    trace.launch_kernel("second", 200, 200, at=190)
    (gap,) = longest(trace)
    assert gap == LongGap(
        device=0,
        start_ns=20 * US,
        duration_ns=180 * US,
        cause="launch_bound",
        cause_ns=90 * US,  # 80 in the operator, and 10 from the launch on
        step="7",
        thread="4201",
        operator="aten::copy_",
        annotation="prepare",
        call="cudaEventRecord",
        python_line="train.py(12): prepare",
        drained_by=None,
        next_event="second",
        owner="train.py(12): prepare",
    )


def test_host_code_outside_of_everything_has_only_its_python_line() -> None:
    trace = step()
    trace.python_function("torch/utils/data.py(1): main", 0, 400)
    trace.launch_kernel("second", 200, 200, at=190)
    (gap,) = longest(trace)
    assert (gap.cause, gap.cause_ns) == ("host_code", 170 * US)
    assert (gap.operator, gap.annotation, gap.call) == (None, None, None)
    assert gap.python_line == "torch/utils/data.py(1): main"


def test_a_drained_queue_names_the_wait() -> None:
    trace = step()
    trace.op("aten::item", 8, 40)
    trace.launch("cudaStreamSynchronize", 10, 30)
    trace.launch_kernel("second", 200, 200, at=190)
    (gap,) = longest(trace)
    assert (gap.cause, gap.cause_ns, gap.drained_by) == ("host_code", 142 * US, "cudaStreamSynchronize")


def test_a_queued_kernel_was_held_up_by_no_wait() -> None:
    trace = step()
    trace.launch("cudaStreamSynchronize", 10, 30)
    trace.launch_kernel("second", 200, 200, at=6, call_dur=2)
    (gap,) = longest(trace)
    assert (gap.cause, gap.drained_by) == ("pending", None)


def test_what_another_launching_thread_did_is_told_with_its_number() -> None:
    trace = step()
    trace.op("aten::forward", 20, 160)
    trace.launch_kernel("second", 200, 200, at=190, tid=77)
    (gap,) = longest(trace)
    assert (gap.thread, gap.operator) == ("4201", "aten::forward")


def test_the_longest_come_first_and_the_earlier_of_equal_ones() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 2000)
    time = 0
    for number in range(30):
        trace.launch_kernel(f"k{number}", time, 10, at=time, call_dur=1)
        time += 10 + (5 if number % 2 else 20)
    gaps = longest(trace)
    assert len(gaps) == 20
    assert gaps[0].next_event is None  # after the last kernel
    assert [gap.duration_ns // US for gap in gaps[1:]] == [20] * 15 + [5] * 4
    starts = [gap.start_ns for gap in gaps[1:]]
    assert starts[:15] == sorted(starts[:15])
    assert starts[15:] == sorted(starts[15:])


def test_between_steps_there_is_no_step() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 20)
    trace.launch_kernel("a", 5, 15, at=0)
    trace.step(2, 100, 50)
    trace.launch_kernel("b", 110, 40, at=100)
    gaps = longest(trace)
    assert [(gap.start_ns // US, gap.step) for gap in gaps] == [(20, None), (0, "1")]


def test_a_trace_without_launches_has_no_thread_to_ask() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.kernel("k", 50, 10)
    assert {gap.thread for gap in longest(trace)} == {None}
