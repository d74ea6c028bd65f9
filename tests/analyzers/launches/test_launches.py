"""Launch delays, queues and graphs, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.builders import ROCM, TraceBuilder
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers import launches
from traceanalyzer.analyzers.launches import (
    Blocked,
    Delay,
    GraphCall,
    GraphRepetitions,
    KernelDelay,
    LaunchFigures,
    ShortKernels,
)
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.launch_calls import StreamQueue

US = 1000


def analyzed(trace: TraceBuilder) -> LaunchFigures:
    return launches.analyze(Context(read_built(trace)))


def test_the_delay_is_from_the_end_of_the_call_to_the_start_of_the_kernel() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 15, 10, at=0, call_dur=5)  # 10
    trace.launch_kernel("b", 30, 4, at=20, call_dur=8)  # 2, shorter than its call
    trace.launch_kernel("a", 42, 10, at=40, call_dur=5)  # starts before its call returns: 0
    trace.launch_kernel("b", 90, 6, at=60, call_dur=6)  # 24, as long as its call
    found = analyzed(trace)
    assert found.delay == Delay(median_ns=6000.0, p95_ns=24 * US, max_ns=24 * US, total_ns=36 * US)
    assert found.by_kernel == (
        KernelDelay("b", 2, 13000.0, 24 * US, 24 * US, 26 * US, 1),
        KernelDelay("a", 2, 5000.0, 10 * US, 10 * US, 10 * US, 0),
    )
    assert found.short_kernels == ShortKernels(1, 4 * US, 0.25, 4 / 30)
    assert found.median_call_ns == 5.5 * US


@pytest.mark.parametrize(("calls", "p95"), [(1, 0), (19, 18), (20, 18), (21, 19), (40, 37), (100, 94)])
def test_the_95th_percentile_is_a_delay_that_occurs(calls: int, p95: int) -> None:
    trace = TraceBuilder()
    for number in range(calls):
        trace.launch_kernel("k", 200 * number + 5 + number, 1, at=200 * number, call_dur=5)
    found = analyzed(trace)
    assert found.delay is not None
    assert found.delay.p95_ns == found.by_kernel[0].p95_ns == p95 * US


def test_equal_delays_are_in_the_order_of_names() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("b", 15, 10, at=0)
    trace.launch_kernel("a", 35, 10, at=20)
    assert [row.name for row in analyzed(trace).by_kernel] == ["a", "b"]


def test_kernels_without_launch_are_counted_apart() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 15, 10, at=0)
    trace.kernel("b", 30, 10)
    found = analyzed(trace)
    assert (found.kernels, found.launched_kernels, found.unlinked_kernels) == (2, 1, 1)
    assert [row.name for row in found.by_kernel] == ["a"]


def test_the_queue_grows_with_calls_and_shrinks_with_starts() -> None:
    trace = TraceBuilder()
    trace.annotation("begin", 0, 0)
    trace.step(1, 0, 100)
    trace.launch_kernel("a", 10, 20, at=0)
    trace.launch_kernel("b", 30, 20, at=4)
    trace.memset(64, 50, 5, at=8)
    trace.launch_kernel("c", 20, 10, at=12, stream=9)
    found = analyzed(trace).queues
    assert [(queue.device, queue.stream, queue.launches, queue.max_length) for queue in found] == [
        (0, 7, 3, 3),
        (0, 9, 1, 1),
    ]
    queue = found[0]
    # 1 for 4 us, 2 for 4, 3 for 2, 2 for 20, 1 for 20; after each change 1, 2, 3, 2, 1, 0.
    assert queue.mean_length == (4 + 8 + 6 + 40 + 20) / 50
    assert queue.mean_length_at_events == 9 / 6
    lengths = [point.max_length for point in queue.curve]
    assert len(lengths) == 100
    assert [point.start_ns for point in queue.curve[:3]] == [0, US, 2 * US]
    assert lengths[:11] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 2]
    assert lengths[29:32] == [2, 1, 1]
    assert lengths[50:] == [0] * 50


def test_a_kernel_that_starts_before_its_launch_leaves_no_negative_queue() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 10, at=8)
    (queue,) = analyzed(trace).queues
    assert (queue.max_length, queue.mean_length) == (0, 0)


def test_what_happens_at_one_time_has_no_mean_over_time() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("a", 5, 10, at=5)
    (queue,) = analyzed(trace).queues
    assert (queue.max_length, queue.mean_length, queue.mean_length_at_events) == (1, None, 0.5)


def filled(slow: int, lengths: int = 300) -> TraceBuilder:
    """A kernel of 10 ms, and launches of 1 us behind it, of which the last ones take 50 us."""
    trace = TraceBuilder()
    for number in range(lengths):
        late = number >= lengths - slow
        at = 2 * number if not late else 2 * lengths + 60 * (number - lengths + slow)
        trace.launch_kernel("k", 10_000 + 10 * number, 5, at=at, call_dur=50 if late else 1)
    return trace


def test_long_calls_at_a_full_queue_are_blocked() -> None:
    # 300 wait at most, so 294 are as good as full: the last three calls find 297, 298 and 299 before them.
    assert analyzed(filled(3)).blocked == Blocked(calls=3, time_ns=3 * 49 * US, full_length=294)


def test_a_short_queue_is_never_full() -> None:
    assert analyzed(filled(3, lengths=200)).blocked == Blocked(0, 0, None)


def test_long_calls_at_an_emptier_queue_are_slow_for_another_reason() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("slow", 60, 5, at=0, call_dur=50)
    for number in range(300):
        trace.launch_kernel("k", 10_000 + 10 * number, 5, at=100 + 2 * number, call_dur=1)
    assert analyzed(trace).blocked == Blocked(0, 0, None)


def test_copies_from_the_host_are_not_blocked_by_the_queue() -> None:
    trace = filled(0)
    trace.memcpy("HtoD", 1 << 20, 14_000, 5, at=700, call_dur=50)
    assert analyzed(trace).blocked == Blocked(0, 0, None)


def test_graphs_are_counted_apart() -> None:
    trace = TraceBuilder()
    trace.launch_kernel("single", 15, 10, at=0)
    trace.graph_launch(30, 20, [("a", 60, 10, {}), ("b", 75, 20, {})])
    trace.graph_launch(100, 20, [("a", 130, 10, {})])
    found = analyzed(trace)
    assert found.graphs.calls == (GraphCall("cudaGraphLaunch", 2, 3, 40 * US),)
    assert (found.graphs.launches, found.graphs.kernels, found.graphs.kernel_ns) == (2, 3, 40 * US)
    assert found.graphs.kernel_share == 40 / 50
    assert (found.kernels, found.launched_kernels) == (4, 1)
    assert [row.name for row in found.by_kernel] == ["single"]
    assert found.queues[0].launches == 3  # a graph waits once


def test_repetitions_of_a_graph() -> None:
    """Three repetitions of 40, 30 and 35 us with 5 us between them, and another graph once."""
    trace = TraceBuilder()
    trace.graph_launch(0, 90, [("a", 100, 10, {}), ("b", 115, 25, {})])
    trace.graph_launch(130, 20, [("a", 145, 10, {}), ("b", 165, 10, {})])
    trace.graph_launch(170, 20, [("a", 180, 10, {}), ("b", 190, 25, {})])
    trace.graph_launch(300, 20, [("c", 330, 5, {})])
    assert analyzed(trace).graphs.repeated == (
        GraphRepetitions("a", 2, 3, 35 * US, 30 * US, 40 * US, 5 * US, 90 * US, 20 * US),
        GraphRepetitions("c", 1, 1, 5 * US, 5 * US, 5 * US, None, 20 * US, None),
    )


def test_hip_graphs_are_graphs() -> None:
    trace = TraceBuilder(ROCM)
    trace.graph_launch(30, 20, [("a", 60, 10, {}), ("b", 75, 20, {})], call="hipGraphLaunch")
    found = analyzed(trace)
    assert found.graphs.calls == (GraphCall("hipGraphLaunch", 1, 2, 30 * US),)
    assert (found.delay, found.by_kernel, found.median_call_ns) == (None, (), None)
    assert found.short_kernels == ShortKernels(0, 0, None, None)


def test_only_what_starts_in_the_chosen_steps_counts() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 100 * number, 100)
        trace.launch_kernel(f"k{number}", 100 * number + 20, 50, at=100 * number + 10)
    whole = Context(read_built(trace))
    found = launches.analyze(Context(whole.trace, whole.steps.take(slice(1, 2))))
    assert [row.name for row in found.by_kernel] == ["k1"]
    assert [queue.launches for queue in found.queues] == [1]


def test_no_launch_is_a_reason_to_skip() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10)
    trace.launch("cudaDeviceSynchronize", 0, 10)
    skipped = launches.ANALYSES[0].missing(Context(read_built(trace)))
    assert skipped is not None
    assert skipped.id == "skip-no-launches"
    assert launches.ANALYSES[0].missing(Context(read_built(filled(0)))) is None


@given(plans)
def test_every_queue_is_empty_at_the_end_and_no_kernel_is_lost(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    found = launches.analyze(context)
    assert found.kernels == found.launched_kernels + found.unlinked_kernels + found.graphs.kernels
    assert sum(row.calls for row in found.by_kernel) == found.launched_kernels
    for queue in found.queues:
        assert isinstance(queue, StreamQueue)
        assert 0 <= queue.mean_length_at_events <= queue.max_length <= queue.launches
        assert queue.mean_length is None or queue.mean_length <= queue.max_length
        assert max((point.max_length for point in queue.curve), default=0) <= queue.max_length
    if found.delay is not None:
        assert sum(row.total_ns for row in found.by_kernel) == found.delay.total_ns
        assert max(row.max_ns for row in found.by_kernel) == found.delay.max_ns
        assert found.delay.median_ns <= found.delay.p95_ns <= found.delay.max_ns
