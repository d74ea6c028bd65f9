"""What autograd does on its own threads belongs to the mark that waits for it; times are microseconds."""

from __future__ import annotations

from tests.analyzers.phases.reading_phases import ENGINE, by_name, phases_of, tree_of, us
from tests.builders import TraceBuilder

EVALUATE = "autograd::engine::evaluate_function: "


def training() -> TraceBuilder:
    """Backward from 40 to 90: the thread of the program waits, autograd's launches."""
    trace = TraceBuilder()
    trace.step(0, 0, 120)
    trace.op("aten::mm", 5, 20, sequence=1)
    trace.op("aten::relu", 26, 4, sequence=2)
    trace.launch_kernel("forward", 10, 20, at=8)
    for number, start in ((2, 45), (1, 65)):
        trace.op(f"{EVALUATE}XBackward0", start, 15, sequence=number, fwd_thread=1, tid=ENGINE)
        trace.launch_kernel("backward", start + 5, 10, at=start + 2, tid=ENGINE)
    trace.annotation("Optimizer.step#SGD.step", 100, 15)
    trace.launch_kernel("step", 105, 5, at=102)
    return trace


def test_the_mark_that_waits_holds_what_autograd_launches() -> None:
    trace = training()
    trace.annotation("## backward ##", 40, 50)
    row = by_name(phases_of(trace))["## backward ##"]
    assert (us(row.host_ns), us(row.host_self_ns), row.threads) == (50, 50, 1)
    assert (us(row.device_ns), us(row.device_self_ns), us(row.device_ns_per_step)) == (20, 20, 20)
    assert us(row.idle_ns) == 50 - 20


def test_a_mark_of_another_thread_that_does_not_wait_holds_nothing() -> None:
    """Something runs beside the backward pass, on a thread that trains nothing."""
    trace = training()
    trace.annotation("beside", 40, 50, tid=77)
    found = phases_of(trace)
    assert by_name(found)["beside"].device_ns == 0
    assert us(found.unmarked_device_ns) == 40


def test_marks_on_autograds_thread_lie_in_the_mark_that_waits() -> None:
    trace = training()
    trace.annotation("## backward ##", 40, 50)
    trace.annotation("nccl:all_reduce", 66, 8, tid=ENGINE)  # around the second launch
    found = phases_of(trace)
    rows = by_name(found)
    assert tree_of(found) == [("## backward ##", 0, 1), ("nccl:all_reduce", 1, 1), ("Optimizer.step#SGD.step", 0, 1)]
    assert (rows["nccl:all_reduce"].depth, us(rows["nccl:all_reduce"].device_ns)) == (1, 10)
    assert (us(rows["## backward ##"].device_ns), us(rows["## backward ##"].device_self_ns)) == (20, 10)
    # another thread's time is not taken off
    assert us(rows["## backward ##"].host_self_ns) == 50
    # idle: 40 to 50, 60 to 70, 80 to 90, of which 66 to 70 is in the collective
    assert (us(rows["nccl:all_reduce"].idle_ns), us(rows["## backward ##"].idle_self_ns)) == (4, 26)


def test_a_mark_of_one_name_on_both_threads_counts_its_launches_once() -> None:
    trace = training()
    trace.annotation("## backward ##", 40, 50)
    trace.annotation("## backward ##", 42, 46, tid=ENGINE)
    found = phases_of(trace)
    row = by_name(found)["## backward ##"]
    assert (row.calls, row.recursive_calls, row.threads, us(row.host_ns)) == (2, 0, 2, 96)
    assert (us(row.device_ns), us(row.device_self_ns)) == (20, 20)
    assert us(row.idle_ns) == 30


def test_autograds_marks_are_blamed_where_the_program_marks_nothing() -> None:
    trace = training()
    trace.annotation("compiled backward", 44, 40, tid=ENGINE)
    trace.annotation("next", 70, 5)  # the program goes on before autograd's mark ends
    rows = by_name(phases_of(trace))
    assert us(rows["compiled backward"].idle_ns) == 6 + 10  # until 70
    assert us(rows["next"].idle_ns) == 0


def test_passes_without_marks_are_inferred() -> None:
    trace = training()
    rows = by_name(phases_of(trace))
    forward, backward = rows["forward"], rows["backward"]
    assert (forward.is_inferred, backward.is_inferred) == (True, True)
    assert not rows["Optimizer.step#SGD.step"].is_inferred
    assert (us(forward.host_ns), forward.calls, us(forward.device_ns), us(forward.idle_ns)) == (25, 1, 20, 5)
    assert (us(backward.host_ns), backward.calls, us(backward.device_ns), us(backward.idle_ns)) == (35, 1, 20, 15)
    assert forward.idle_self_ns is None
    assert {place.name for place in phases_of(trace).tree} == {"Optimizer.step#SGD.step"}


def test_what_is_inferred_excludes_the_marks_inside_from_its_own_time() -> None:
    trace = training()
    trace.annotation("attention", 6, 10)  # around the launch at 8
    forward = by_name(phases_of(trace))["forward"]
    assert (us(forward.host_ns), us(forward.host_self_ns)) == (25, 15)
    assert (us(forward.device_ns), us(forward.device_self_ns)) == (20, 0)


def test_passes_that_are_marked_are_not_inferred() -> None:
    trace = training()
    trace.annotation("## forward ##", 4, 30)
    found = phases_of(trace)
    assert [row.name for row in found.rows if row.is_inferred] == ["backward"]
    trace.annotation("model_bwd", 40, 50)
    assert not any(row.is_inferred for row in phases_of(trace).rows)


def test_each_pass_of_several_steps_is_one_call() -> None:
    trace = TraceBuilder()
    for step, start in enumerate((0, 100, 200)):
        trace.step(step, start, 100)
        trace.op("aten::mm", start + 5, 20, sequence=2 * step + 1)
        trace.op("aten::relu", start + 30, 10, sequence=2 * step + 2)
        trace.op(f"{EVALUATE}MmBackward0", start + 50, 20, sequence=2 * step + 1, fwd_thread=1, tid=ENGINE)
    rows = by_name(phases_of(trace))
    assert (rows["forward"].calls, us(rows["forward"].host_ns_per_step)) == (3, 35)
    assert (rows["backward"].calls, us(rows["backward"].host_ns_per_step)) == (3, 20)


def test_without_numbers_the_longest_run_of_operators_before_backward_is_the_forward_pass() -> None:
    """Events in the form of traces of 2021."""
    trace = TraceBuilder()
    for step, start in enumerate((0, 200)):
        trace.step(step, start, 200)
        trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start + 5, 30)
        trace.op("aten::stack", start + 6, 25)
        trace.op("aten::to", start + 40, 5)
        trace.op("aten::conv2d", start + 50, 20)
        trace.op("aten::nll_loss", start + 75, 5)
        trace.annotation("Optimizer.zero_grad#SGD.zero_grad", start + 85, 10)
        trace.op("aten::zero_", start + 86, 3)
        trace.op("aten::ones_like", start + 96, 2)
        trace.op("NllLossBackward", start + 110, 20, tid=ENGINE)
        trace.op(f"{EVALUATE}NllLossBackward", start + 105, 30, tid=ENGINE)
        trace.annotation("Optimizer.step#SGD.step", start + 150, 20)
        trace.op("aten::add_", start + 151, 10)
        trace.op("aten::item", start + 175, 4)
    forward = by_name(phases_of(trace))["forward"]
    assert (forward.calls, us(forward.host_ns), us(forward.host_ns_per_step)) == (2, 80, 40)  # 40 to 80
