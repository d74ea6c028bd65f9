"""Collectives: their kinds, their speed, and how much of them overlaps with computation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import communication
from traceanalyzer.analyzers.communication import Communication, Overlap
from traceanalyzer.structure.context import Context

COMPUTE = "ampere_sgemm_128x64_nn"
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
SEND = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def analyze(trace: TraceBuilder) -> Communication:
    return communication.on_devices(Context(read_built(trace)))


def test_bandwidths_of_all_reduce() -> None:
    # 4 ranks, 10^6 floats: 4 MB in 1 and 3 ms are 8 MB in 4 ms, 2 GB/s; times 2 * 3 / 4
    trace = TraceBuilder()
    for at, dur in ((0, 1000), (5000, 3000)):
        trace.collective("all_reduce", at + 100, dur, at=at, nelems=10**6, ranks=(0, 1, 2, 3), group="dp")
    found = analyze(trace)
    (row,) = found.rows
    assert (row.operation, row.process_group, row.group_size, row.dtype) == ("all_reduce", "dp", 4, "Float")
    assert (row.message_bytes, row.calls, row.total_ns) == (4 * 10**6, 2, 4_000_000)
    assert (row.mean_ns, row.min_ns, row.max_ns) == (2_000_000, 1_000_000, 3_000_000)
    assert (row.algorithm_gb_per_s, row.bus_gb_per_s) == (2, 3)
    assert (found.calls, found.calls_without_size) == (2, 0)


def test_messages_of_different_groups_types_and_sizes_have_rows_of_their_own() -> None:
    trace = TraceBuilder()
    calls = [("dp", "Float", 100), ("tp", "Float", 100), ("dp", "BFloat16", 100), ("dp", "Float", 200)]
    for number, (name, dtype, nelems) in enumerate(calls):
        at = 1000 * number
        trace.collective("all_reduce", at + 100, 10 * (4 - number), at=at, nelems=nelems, dtype=dtype, group=name)
    rows = [(r.process_group, r.dtype, r.message_bytes) for r in analyze(trace).rows]
    assert rows == [("dp", "Float", 400), ("tp", "Float", 400), ("dp", "BFloat16", 200), ("dp", "Float", 800)]


def test_the_host_describes_what_the_kernel_does_not() -> None:
    trace = TraceBuilder()
    meta = {"Collective name": "_allgather_base", "dtype": "Half", "In msg nelems": 50, "Out msg nelems": 200}
    trace.op("record_param_comms", 0, 100, args=meta | {"Group size": 4, "Process Group Name": "fsdp"})
    trace.annotation("nccl:all_gather", 10, 80)
    trace.launch_kernel(SEND, 200, 100, at=20)
    (row,) = analyze(trace).rows
    assert (row.operation, row.process_group, row.group_size, row.message_bytes) == ("all_gather", "fsdp", 4, 400)
    assert (row.algorithm_gb_per_s, row.bus_gb_per_s) == (0.004, 0.003)


def test_names_tell_where_there_are_no_metadata() -> None:
    trace = TraceBuilder()
    trace.annotation("nccl:all_reduce", 0, 100)
    trace.launch_kernel(SEND, 200, 100, at=20)  # a fused kernel of another name
    trace.op("c10d::alltoall_base_", 400, 100)
    trace.op("record_param_comms", 410, 80)
    trace.launch_kernel(SEND, 600, 50, at=420)
    trace.kernel(SEND, 800, 20)
    trace.kernel("rcclGenericKernel_4(ncclDevKernelArgsStorage<4096ul>)", 900, 10)
    found = analyze(trace)
    assert [(r.operation, r.total_ns) for r in found.rows] == [
        ("all_reduce", 100_000),
        ("all_to_all", 50_000),
        ("send_recv", 20_000),
        (None, 10_000),
    ]
    assert all(r.message_bytes is r.group_size is r.algorithm_gb_per_s is r.bus_gb_per_s is None for r in found.rows)
    assert (found.calls, found.calls_without_size) == (4, 4)


def test_exposed_and_overlapped_time() -> None:
    trace = TraceBuilder()
    trace.kernel(NCCL, 0, 100, stream=24)
    trace.kernel(NCCL, 50, 100, stream=25)  # communication runs from 0 to 150
    trace.kernel(COMPUTE, 20, 30)
    trace.kernel(COMPUTE, 40, 30)  # computation from 20 to 70
    trace.kernel(COMPUTE, 140, 60)  # and from 140 to 200
    trace.memcpy("DtoD", 100, 90, 20)  # a copy hides nothing
    (device,) = analyze(trace).devices
    assert device.device == 0
    assert device.whole == Overlap(150_000, 110_000, 90_000, 60_000, 0.4)


def test_devices_do_not_hide_each_others_communication() -> None:
    trace = TraceBuilder()
    trace.kernel(NCCL, 0, 100, device=0, stream=24)
    trace.kernel(NCCL, 0, 50, device=1, stream=24)
    trace.kernel(COMPUTE, 0, 100, device=1)
    shares = [(d.device, d.whole.exposed_ns, d.whole.overlap_share) for d in analyze(trace).devices]
    assert shares == [(0, 100_000, 0), (1, 0, 1)]


def test_steps_and_their_window() -> None:
    trace = TraceBuilder()
    trace.kernel(NCCL, 0, 50, stream=24)  # before the first step
    for number in (1, 2):
        at = 1000 * number
        trace.step(number, at, 500)
        trace.launch_kernel(COMPUTE, at + 100, 100, at=at + 10)
        trace.collective("all_reduce", at + 150, 100 * number, at=at + 20, nelems=10)
    found = analyze(trace)
    assert [(s.name, s.calls, s.communication_ns, s.exposed_ns) for s in found.steps] == [
        ("1", 1, 100_000, 50_000),
        ("2", 1, 200_000, 150_000),
    ]
    (device,) = found.devices
    assert device.window is not None
    assert (device.whole.communication_ns, device.window.communication_ns) == (350_000, 300_000)
    assert device.window.exposed_ns == 200_000


def test_only_the_chosen_steps_count() -> None:
    trace = TraceBuilder()
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 500)
        trace.collective("all_reduce", at + 150, 100 + number, at=at + 20, nelems=10)
    read = read_built(trace)
    everything = Context(read)
    found = communication.on_devices(Context(read, everything.steps.take(slice(1, 2))))
    assert [(r.calls, r.total_ns) for r in found.rows] == [(1, 101_000)]
    assert [s.name for s in found.steps] == ["1"]


def test_kernels_without_length_have_no_bandwidth() -> None:
    trace = TraceBuilder()
    trace.collective("all_reduce", 100, 0, at=0, nelems=10)
    found = analyze(trace)
    (row,) = found.rows
    assert (row.message_bytes, row.algorithm_gb_per_s, row.bus_gb_per_s) == (40, None, None)
    assert found.devices[0].whole.overlap_share is None


def test_without_collectives_it_says_why() -> None:
    trace = TraceBuilder()
    trace.kernel(COMPUTE, 0, 100)
    reason = communication.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert reason.id == "skip-no-collectives"
    trace.kernel(NCCL, 200, 100)
    assert communication.ANALYSES[0].missing(Context(read_built(trace))) is None


SLICES = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 80), st.booleans()), min_size=1, max_size=12)


@given(SLICES)
def test_parts_sum_to_communication(slices: list[tuple[int, int, bool]]) -> None:
    trace = TraceBuilder()
    times: tuple[set[int], set[int]] = (set(), set())
    for number, (start, dur, communicates) in enumerate(slices):
        trace.kernel(NCCL if communicates else COMPUTE, start, dur, stream=number)
        times[communicates].update(range(start, start + dur))
    found = analyze(trace)
    assert len(found.devices) == any(communicates for _, _, communicates in slices)
    for device in found.devices:
        whole = device.whole
        assert whole.communication_ns == 1000 * len(times[True])
        assert whole.computation_ns == 1000 * len(times[False])
        assert whole.exposed_ns == 1000 * len(times[True] - times[False])
        assert whole.exposed_ns + whole.overlapped_ns == whole.communication_ns
        if times[True]:
            assert whole.overlap_share == pytest.approx(len(times[True] & times[False]) / len(times[True]))
