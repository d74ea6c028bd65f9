"""Copies and fills, worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.builders import ROCM, TraceBuilder
from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers import copies
from traceanalyzer.analyzers.copies import Copies, Copy
from traceanalyzer.structure.context import Context

US = 1000
KIB = 1024


def analyzed(trace: TraceBuilder) -> Copies:
    return copies.analyze(Context(read_built(trace)))


def only(trace: TraceBuilder) -> Copy:
    (row,) = analyzed(trace).rows
    return row


def test_copies_are_summed_by_name() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64 * KIB, 10, 8, at=0, call_dur=5)  # 8.192 GB/s
    trace.memcpy("HtoD", 128 * KIB, 30, 32, at=20, call_dur=5)  # 4.096 GB/s
    trace.memcpy("HtoD", 64 * KIB - 1, 70, 1, at=65, call_dur=4)  # fast, but small
    assert only(trace) == Copy(
        name="Memcpy HtoD (Pageable -> Device)",
        kind="HtoD",
        host_memory="pageable",
        calls=3,
        small_calls=1,
        bytes=256 * KIB - 1,
        time_ns=41 * US,
        bandwidth_gb_per_s=(256 * KIB - 1) / 41_000,
        max_bandwidth_gb_per_s=8.192,
        unlinked_calls=0,
        blocking_calls=0,
        blocking_ns=0,
        synchronized_calls=0,
        synchronized_ns=0,
        avoidable_ns=0,
        exposed_ns=41 * US,
        overlapped_ns=0,
    )


def test_kinds_come_from_names_and_the_longest_is_first() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64, 0, 1, pinned=True)
    trace.memcpy("DtoH", 64, 10, 2)
    trace.memcpy("DtoD", 64, 20, 3)
    trace.memcpy("PtoP", 64, 30, 3)
    trace.memset(64, 40, 4)
    found = [(row.kind, row.host_memory) for row in analyzed(trace).rows]
    assert found == [("Memset", None), ("DtoD", None), ("PtoP", None), ("DtoH", "pageable"), ("HtoD", "pinned")]


def test_rocm_does_not_say_whether_memory_is_pinned() -> None:
    trace = TraceBuilder(ROCM)
    trace.memcpy("HtoD", 64, 0, 1)
    assert (only(trace).kind, only(trace).host_memory) == ("HtoD", None)


def test_a_name_that_tells_nothing_is_of_unknown_kind() -> None:
    trace = TraceBuilder()
    trace.on_device("gpu_memcpy", "copy", (0, 5), (0, 7), {"device": 0, "stream": 7})
    assert (only(trace).kind, only(trace).host_memory) == ("unknown", None)


def test_time_under_kernels_of_the_device_is_overlapped() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64, 10, 20)
    trace.memcpy("HtoD", 64, 50, 10)
    trace.kernel("a", 0, 15, stream=9)
    trace.kernel("b", 12, 8, stream=10)
    trace.kernel("c", 25, 30, device=1)
    found = analyzed(trace)
    assert (found.time_ns, found.overlapped_ns, found.exposed_ns) == (30 * US, 10 * US, 20 * US)


def test_a_copy_that_holds_its_call_blocks() -> None:
    trace = TraceBuilder()
    trace.memcpy("DtoH", 64, 10, 20, at=0, call_dur=30)  # until the end exactly
    trace.memcpy("DtoH", 64, 50, 20, at=40, call_dur=29)
    assert (only(trace).blocking_calls, only(trace).blocking_ns) == (1, 30 * US)


@pytest.mark.parametrize(("call", "blocks"), [("cudaMemcpyAsync", 0), ("cudaMemcpy", 1), ("hipMemcpyWithStream", 1)])
def test_pinned_copies_block_only_by_contract(call: str, blocks: int) -> None:
    trace = TraceBuilder()
    trace.memcpy("DtoH", 64, 10, 1, at=0, call=call, call_dur=30, pinned=True)
    assert only(trace).blocking_calls == blocks


def test_a_copy_can_be_waited_for_by_the_next_call() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64, 10, 20, at=0, call_dur=5)
    trace.launch("cudaStreamSynchronize", 6, 26)
    trace.memcpy("HtoD", 64, 50, 20, at=40, call_dur=5)
    trace.launch("cudaEventRecord", 46, 1)
    trace.launch("cudaStreamSynchronize", 48, 26)
    trace.memcpy("HtoD", 64, 90, 20, at=80, call_dur=5, tid=9)
    trace.launch("cudaStreamSynchronize", 86, 26)  # of another thread
    trace.memcpy("HtoD", 64, 130, 20, at=120, call_dur=40)  # blocks, so the wait after it is for nothing
    trace.launch("cudaStreamSynchronize", 161, 1)
    found = only(trace)
    assert (found.synchronized_calls, found.synchronized_ns, found.blocking_calls) == (1, 26 * US, 1)


def test_copies_without_launch_say_nothing_about_the_host() -> None:
    trace = TraceBuilder()
    trace.memcpy("HtoD", 64, 10, 20)
    found = only(trace)
    assert found.unlinked_calls == 1
    assert (found.blocking_calls, found.blocking_ns) == (None, None)
    assert (found.synchronized_calls, found.synchronized_ns) == (None, None)


def test_an_unknown_size_is_no_size() -> None:
    trace = TraceBuilder()
    name, where = "Memcpy HtoD (Pageable -> Device)", {"device": 0, "stream": 7}
    trace.on_device("gpu_memcpy", name, (0, 10), (0, 7), where)
    assert (only(trace).bytes, only(trace).bandwidth_gb_per_s, only(trace).small_calls) == (None, None, 0)
    trace.on_device("gpu_memcpy", name, (20, 4), (0, 7), where | {"bytes": 8000})
    assert (only(trace).bytes, only(trace).bandwidth_gb_per_s) == (8000, 2.0)


def test_a_copy_without_duration_has_no_bandwidth() -> None:
    trace = TraceBuilder()
    trace.memcpy("DtoD", 1 << 20, 10, 0)
    assert (only(trace).bandwidth_gb_per_s, only(trace).max_bandwidth_gb_per_s) == (None, None)


def test_only_what_starts_in_the_chosen_steps_counts() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 100 * number, 100)
        trace.memcpy("HtoD", 1000 * (number + 1), 100 * number + 20, 5, at=100 * number + 10)
    whole = Context(read_built(trace))
    (row,) = copies.analyze(Context(whole.trace, whole.steps.take(slice(1, 2)))).rows
    assert (row.calls, row.bytes) == (1, 2000)


def test_no_copies_are_a_reason_to_skip() -> None:
    trace = TraceBuilder()
    trace.kernel("k", 0, 10)
    context = Context(read_built(trace))
    skipped = copies.ANALYSES[0].missing(context)
    assert skipped is not None
    assert skipped.id == "skip-no-copies"
    assert copies.analyze(context) == Copies((), 0, 0, 0, 0)
    trace.memset(64, 20, 1)
    assert copies.ANALYSES[0].missing(Context(read_built(trace))) is None


@given(plans)
def test_exposed_and_overlapped_time_sum_to_the_time(plan: Plan) -> None:
    found = analyzed(plan.build())
    assert found.exposed_ns + found.overlapped_ns == found.time_ns == sum(row.time_ns for row in found.rows)
    assert found.calls == len(plan.copies) == sum(row.calls for row in found.rows)
    for row in found.rows:
        assert row.exposed_ns + row.overlapped_ns == row.time_ns
        assert min(row.exposed_ns, row.overlapped_ns) >= 0
