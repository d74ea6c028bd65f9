"""Waits of the host and the gaps after them, worked out by hand."""

from __future__ import annotations

from hypothesis import given

from tests.builders import ROCM, TraceBuilder
from tests.reading import read_built
from tests.structure.plans import Plan, plans
from traceanalyzer.analyzers import waits
from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.structure.context import Context

US = 1000
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def analyzed(trace: TraceBuilder) -> Synchronizations:
    return waits.analyze(Context(read_built(trace)))


def test_a_wait_costs_the_gap_that_follows_it() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 200)
    trace.python_function("train.py(3): main", 0, 200)
    trace.launch_kernel("a", 5, 15, at=0)
    trace.op("aten::item", 6, 20)
    trace.op("aten::_local_scalar_dense", 7, 18)
    trace.launch("cudaStreamSynchronize", 10, 14)  # until 24; the GPU is done at 20
    trace.launch_kernel("b", 60, 100, at=50)
    wanted = Synchronization(
        call="cudaStreamSynchronize",
        operators=("aten::item", "aten::_local_scalar_dense"),
        python_line="train.py(3): main",
        calls=1,
        calls_per_step=1.0,
        waiting_ns=14 * US,
        max_waiting_ns=14 * US,
        waiting_idle_ns=4 * US,
        drains=1,
        drained_ns=36 * US,
        drained_unexplained_ns=36 * US,
        avoidable_ns=14 * US,  # without the wait the host is 14 us earlier, not 36
        owner="train.py(3): main",
    )
    assert analyzed(trace) == Synchronizations(
        1, 1.0, 14 * US, 4 * US, 1, 36 * US, 36 * US, 14 * US, (wanted,), 0, 14.0 * US
    )


def test_a_wait_that_ends_while_the_gpu_works_costs_nothing() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    trace.launch_kernel("b", 22, 50, at=2, call_dur=1, stream=9)
    trace.launch("cudaStreamSynchronize", 8, 16)
    found = analyzed(trace)
    assert (found.waiting_ns, found.waiting_idle_ns, found.drains, found.drained_ns) == (16 * US, 2 * US, 0, 0)


def test_a_wait_for_an_idle_gpu_drains_nothing() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    trace.launch("cudaStreamSynchronize", 18, 4)
    trace.launch("cudaDeviceSynchronize", 30, 5)
    trace.launch_kernel("b", 60, 10, at=50)
    found = {row.call: row for row in analyzed(trace).rows}
    assert found["cudaStreamSynchronize"].drained_ns == 38 * US
    assert (found["cudaDeviceSynchronize"].drains, found["cudaDeviceSynchronize"].waiting_idle_ns) == (0, 5 * US)


def test_the_last_wait_is_followed_by_nothing() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    trace.launch("cudaDeviceSynchronize", 8, 20)
    found = analyzed(trace)
    assert (found.calls, found.drains, found.drained_ns) == (1, 0, 0)


def test_a_gap_after_two_waits_counts_once() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    trace.launch_kernel("b", 5, 10, at=0, tid=2, stream=9)
    trace.launch("cudaStreamSynchronize", 8, 16)  # until 24
    trace.launch("cudaDeviceSynchronize", 8, 22, tid=2)  # until 30
    trace.launch_kernel("c", 60, 10, at=50)
    found = analyzed(trace)
    assert (found.drains, found.drained_ns) == (2, 36 * US)
    assert {row.call: row.drained_ns for row in found.rows} == {
        "cudaStreamSynchronize": 6 * US,
        "cudaDeviceSynchronize": 30 * US,
    }


def test_time_in_a_loader_is_explained() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    trace.launch("cudaStreamSynchronize", 8, 16)
    trace.annotation(LOADER, 30, 20)
    trace.launch_kernel("b", 64, 10, at=55)
    found = analyzed(trace)
    assert (found.drained_ns, found.drained_unexplained_ns) == (40 * US, 20 * US)


def test_waits_are_grouped_by_place() -> None:
    trace = TraceBuilder()
    for number in range(2):
        at = 100 * number
        trace.step(number, at, 100)
        trace.python_function("train.py(5): loss", at, 50)
        trace.op("aten::to", at, 40)
        trace.op("aten::copy_", at + 1, 38)
        trace.op("aten::copy_", at + 2, 36)  # calls itself through the dispatcher: one operator
        trace.launch("cudaStreamSynchronize", at + 10, 5 + number)
        trace.python_function("train.py(9): log", at + 50, 50)
        trace.module("Linear_0", at + 55, 40)
        trace.op("aten::to", at + 60, 30)
        trace.op("aten::copy_", at + 61, 28)
        trace.launch("cudaStreamSynchronize", at + 70, 3)
    trace.launch("cudaDeviceSynchronize", 300, 10)
    trace.step(2, 200, 50)
    found = analyzed(trace)
    assert [(row.call, row.operators, row.python_line, row.calls, row.max_waiting_ns // US) for row in found.rows] == [
        ("cudaStreamSynchronize", ("aten::to", "aten::copy_"), "train.py(5): loss", 2, 6),
        ("cudaDeviceSynchronize", (), None, 1, 10),
        ("cudaStreamSynchronize", ("aten::to", "aten::copy_"), "train.py(9): log", 2, 3),
    ]
    # four waits in the two steps that are alike; the last one is after them
    assert (found.calls, found.calls_per_step) == (5, 2)


def test_modules_divide_groups_as_owners_but_are_no_operators() -> None:
    trace = TraceBuilder()
    for number in range(2):
        at = 100 * number
        trace.op("outer", at, 80)
        if number:
            trace.module("Linear_0", at + 5, 70)
        trace.op("aten::item", at + 10, 50)
        trace.launch("cudaStreamSynchronize", at + 20, 5)
    rows = analyzed(trace).rows
    assert {(row.operators, row.owner, row.calls) for row in rows} == {
        (("outer", "aten::item"), None, 1),
        (("outer", "aten::item"), "Linear", 1),
    }


def test_groups_tell_chains_of_different_length_apart() -> None:
    trace = TraceBuilder()
    trace.op("outer", 0, 90)
    trace.op("aten::item", 10, 50)
    trace.launch("cudaStreamSynchronize", 20, 5)
    trace.op("aten::item", 110, 50)
    trace.launch("cudaStreamSynchronize", 120, 5)
    assert {row.operators for row in analyzed(trace).rows} == {("outer", "aten::item"), ("aten::item",)}


def test_copies_that_block_are_waits() -> None:
    trace = TraceBuilder()
    trace.memcpy("DtoH", 4, 10, 5, at=0, call_dur=20)  # returns after the end
    trace.memcpy("HtoD", 4, 40, 5, at=30, call_dur=5)  # returns before
    trace.memcpy("DtoH", 4, 60, 1, at=55, call_dur=10, pinned=True)  # the copy was just short
    trace.memcpy("DtoD", 4, 80, 1, at=75, call_dur=10)
    trace.memcpy("HtoD", 4, 120, 5, at=100, call="cudaMemcpy", call_dur=10)  # by contract
    found = analyzed(trace)
    assert {row.call: row.waiting_ns // US for row in found.rows} == {"cudaMemcpyAsync": 20, "cudaMemcpy": 10}


def test_a_wait_within_a_wait_counts_once() -> None:
    trace = TraceBuilder()
    trace.launch("cudaDeviceSynchronize", 0, 20)
    trace.launch("cuCtxSynchronize", 1, 18)
    assert [(row.call, row.waiting_ns // US) for row in analyzed(trace).rows] == [("cudaDeviceSynchronize", 20)]


def test_hip_waits_are_waits() -> None:
    trace = TraceBuilder(ROCM)
    trace.launch("hipStreamSynchronize", 0, 20)
    trace.launch("hipMemcpyWithStream", 30, 10)
    trace.launch("hipStreamWaitEvent", 50, 10)  # the stream waits, not the host
    assert {row.call for row in analyzed(trace).rows} == {"hipStreamSynchronize", "hipMemcpyWithStream"}


def test_a_wait_is_for_the_device_that_its_thread_uses() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0, tid=1, device=0)
    trace.launch_kernel("b", 5, 95, at=0, tid=2, device=1)
    trace.launch("cudaStreamSynchronize", 8, 16, tid=1)  # until 24
    trace.launch_kernel("c", 60, 10, at=50, tid=1, device=0)
    trace.launch("cudaStreamSynchronize", 70, 40, tid=2)  # until 110
    trace.launch_kernel("d", 130, 10, at=120, tid=2, device=1)
    trace.launch("cudaDeviceSynchronize", 90, 5, tid=3)  # launched nothing: for device 0, which has as many events
    found = {(row.call, row.drained_ns // US) for row in analyzed(trace).rows}
    assert found == {("cudaStreamSynchronize", 36 + 20), ("cudaDeviceSynchronize", 0)}


def test_without_device_events_the_gaps_are_unknown() -> None:
    trace = TraceBuilder()
    trace.launch("cudaDeviceSynchronize", 0, 20)
    found = analyzed(trace)
    assert (found.waiting_ns, found.waiting_idle_ns, found.drains, found.drained_ns) == (20 * US, None, None, None)
    assert found.rows[0].drained_unexplained_ns is None


def test_a_trace_with_calls_but_without_waits_has_no_rows() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 15, at=0)
    context = Context(read_built(trace))
    assert waits.ANALYSES[0].missing(context) is None
    assert waits.analyze(context) == Synchronizations(0, 0.0, 0, 0, 0, 0, 0, 0, (), 0, 0.0)


def test_no_calls_are_a_reason_to_skip() -> None:
    trace = TraceBuilder()
    trace.kernel("a", 5, 15)
    skipped = waits.ANALYSES[0].missing(Context(read_built(trace)))
    assert skipped is not None
    assert skipped.id == "skip-no-runtime-calls"


def test_only_waits_in_the_chosen_steps_count() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 100 * number, 100)
        trace.launch("cudaStreamSynchronize", 100 * number + 10, 5 + number)
    whole = Context(read_built(trace))
    found = waits.analyze(Context(whole.trace, whole.steps.take(slice(1, 2))))
    assert (found.calls, found.calls_per_step, found.waiting_ns) == (1, 1.0, 6 * US)


@given(plans)
def test_rows_sum_to_the_whole(plan: Plan) -> None:
    found = waits.analyze(Context(read_built(plan.build())))
    fields = ("calls", "waiting_ns", "waiting_idle_ns", "drains", "drained_ns", "drained_unexplained_ns")
    for field in fields:
        assert sum(getattr(row, field) for row in found.rows) == getattr(found, field)
    places = [(row.call, row.operators, row.python_line, row.owner) for row in found.rows]
    assert len(set(places)) == len(places)
    for row in found.rows:
        assert 0 <= (row.waiting_idle_ns or 0) <= row.waiting_ns
        assert 0 <= (row.drained_unexplained_ns or 0) <= (row.drained_ns or 0)
