"""Tests of the rule `h2d-pageable`: numbers worked out by hand, and edges of thresholds.

The programs: copies to the device from memory of both kinds.
"""

from __future__ import annotations

import pytest

from tests.builders import T4, Device, TraceBuilder
from tests.builders.dialects import MODERN, ROCM, Dialect
from tests.builders.timeline import Host, Stream
from tests.builders.values import Time
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped, table
from traceanalyzer.report.model import Saving

BATCH = 24_000_000
"""Bytes: 4 ms at 6 GB/s, 2 ms at 12 GB/s."""


def copying(
    nbytes: int, dur: Time, *, times: int = 1, pinned: bool = False, gpu: Time = 20_000, dialect: Dialect = MODERN
) -> TraceBuilder:
    """Each step copies its batch, in one or more copies, and computes."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(times):
            with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_"):
                host.copy("HtoD", nbytes, stream, dur=dur, pinned=pinned)
        compute(host, stream, gpu)
        host.wait(stream)

    return looping(step, dialect=dialect)


def fires() -> TraceBuilder:
    """A batch of 24 MB takes 4 ms of a step of 24 ms."""
    return copying(BATCH, 4000)


def offloaded(shape: tuple[int, int] = (4096, 4096)) -> TraceBuilder:
    """Before each of two layers its weight of 32 MB is copied to the GPU, or something of another shape."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(2):
            sizes = [list(shape), list(shape), []]
            with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", shapes=sizes):
                host.copy("HtoD", 32 << 20, stream, dur=5600)
            with host.op("aten::linear", shapes=[[1, 4096], [4096, 4096], []]):
                compute(host, stream, 500)
        host.wait(stream)

    return looping(step)


def fires_in_a_table() -> str:
    """Ten copies of 4 ms each."""
    return printed("Memcpy HtoD (Pageable -> Device)", "40.000ms", 10)


def quiet() -> TraceBuilder:
    """The copies from pinned memory."""
    return copying(BATCH, 2000, pinned=True)


def quiet_in_a_table() -> str:
    """The same program in a printed table."""
    return printed("Memcpy HtoD (Pinned -> Device)", "40.000ms", 10)


def trap_small_copies() -> TraceBuilder:
    """Forty copies of 32 KB, which the driver stages anyway."""
    return copying(32_000, 10, times=40)


def trap_small_copies_in_a_table() -> str:
    """4000 copies of 10 us."""
    return printed("Memcpy HtoD (Pageable -> Device)", "40.000ms", 4000)


def trap_rocm_does_not_say() -> TraceBuilder:
    """Names of copies do not show the kind of memory."""
    return copying(BATCH, 4000, dialect=ROCM)


def printed(copy: str, time: str, calls: int, cpu: str = "200.000ms") -> str:
    """A table of ten steps with one kind of copies."""
    rows = [
        {
            "Name": "ProfilerStep*",
            "Self CPU": "100.000ms",
            "CPU total": "400.000ms",
            "Self CUDA": "0.000us",
            "# of Calls": 10,
        },
        {
            "Name": "aten::mm",
            "Self CPU": "100.000ms",
            "CPU total": "100.000ms",
            "Self CUDA": "260.000ms",
            "# of Calls": 10,
        },
        {"Name": copy, "Self CPU": "0.000us", "CPU total": "0.000us", "Self CUDA": time, "# of Calls": calls},
    ]
    return table(rows, cpu=cpu, device="300.000ms")


RULE = "h2d-pageable"


def saving(situation: TraceBuilder, device: Device | None = None) -> Saving:
    """The saving of the only finding, on another device than the usual one (PCIe 4 x16) if one is named."""
    if device is not None:
        situation.devices = (device,)
    (finding,) = findings(situation, RULE)
    assert finding.saving is not None
    return finding.saving


def test_pinned_memory_is_as_fast_as_the_slot_of_the_gpu_and_pcie_3_at_least() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    # 4 ms less 24 MB at 12 or at 0.86 of 32 GB/s
    assert finding.saving.direct_ns_per_step == pytest.approx((2_000_000, 4_000_000 - 24e6 / 27.52), rel=0.001)
    assert finding.confidence == "B"
    assert finding.evidence[0].observed == pytest.approx(4 / 24, rel=0.01)


def test_an_older_slot_leaves_less_to_save() -> None:
    # 4 ms less 24 MB at 12 or at 0.86 of 16 GB/s
    found = saving(fires(), T4)
    assert found.direct_ns_per_step == pytest.approx((2_000_000, 4_000_000 - 24e6 / 13.76), rel=0.001)


def test_of_an_unknown_slot_the_fastest_copy_tells_at_least() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for dur in (3000, 5000):
            with host.op("aten::copy_"):
                host.copy("HtoD", BATCH, stream, dur=dur)
        compute(host, stream, 20_000)
        host.wait(stream)

    # at least both as fast as the faster one (8 GB/s), at most as over PCIe 3
    found = saving(looping(step), Device("Unknown", 2**34))
    assert found.direct_ns_per_step == pytest.approx((2_000_000, 4_000_000), rel=0.001)


def test_what_the_next_kernel_needs_still_crosses_the_bus() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::copy_"):
            host.copy("HtoD", BATCH, stream, dur=4000, wait=True)
        host.work(500)
        compute(host, stream, 20_000)
        host.wait(stream)

    # The copy takes 24 MB / 13.76 GB/s, so 2.26 ms less, beside the 0.5 ms of the host after it.
    found = saving(looping(step), T4)
    assert found.direct_ns_per_step[1] == pytest.approx(2_256_000 + 500_000, rel=0.03)
    assert found.wall_ns_per_step[1] == pytest.approx(2_256_000 + 500_000, rel=0.03)


def test_a_saving_above_the_time_of_the_copies_says_what_else_it_counts() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 10_000)
        with host.op("aten::copy_"):
            host.copy("HtoD", BATCH, stream, dur=4000, wait=True)
        host.work(6000)
        compute(host, stream, 20_000)
        host.wait(stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.point_ns_per_step is not None
    # Without the wait, the host's 6 ms pass behind the first kernel; 24 MB at 27.52 GB/s are still copied.
    later = finding.saving.point_ns_per_step - 4_000_000
    assert later == pytest.approx(6_000_000 - 24e6 / 27.52, rel=0.01)
    assert finding.summary.params["later"] == pytest.approx(later)
    assert "launches what follows" in finding.summary.text
    (plain,) = findings(fires(), RULE)
    assert "launches what follows" not in plain.summary.text


def test_pinned_copies_of_the_trace_tell_the_bandwidth() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for pinned, dur in ((False, 4000), (True, 1000)):
            with host.op("aten::copy_"):
                host.copy("HtoD", BATCH, stream, dur=dur, pinned=pinned)
        compute(host, stream, 20_000)
        host.wait(stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3_000_000, 3_000_000), rel=0.01)
    assert finding.confidence == "A"


def test_a_table_prints_no_sizes() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 4_000_000)


def test_in_a_table_such_copies_hold_up_the_host_as_well() -> None:
    (finding,) = findings(printed("Memcpy HtoD (Pageable -> Device)", "40.000ms", 10, cpu="900.000ms"), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 4_000_000)
    assert finding.saving.resource == "host"


def test_rocm_is_skipped_with_the_reason() -> None:
    assert "pageable or pinned" in (skipped(trap_rocm_does_not_say(), RULE) or "")


def test_edge_call_ns() -> None:
    assert findings(fires_in_a_table(), RULE, {"call_ns": 4_000_000}) == []
    assert findings(fires_in_a_table(), RULE, {"call_ns": 3_999_999})


def test_weights_that_are_copied_in_each_pass_should_stay_on_the_gpu() -> None:
    (finding,) = findings(offloaded(), RULE)
    assert finding.action is not None
    assert finding.action.text == "Keep the weights on the GPU"
    assert finding.code is None
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert high == pytest.approx(2 * 5_600_000, rel=0.02), "all copies, at most"
    assert low == pytest.approx(0.8 * high, rel=0.05), "they fit into the memory of the GPU"
    assert finding.severity == "critical", "the cure of most of a step"
    (other,) = findings(offloaded((64, 131072)), RULE)
    assert other.action is not None
    assert "weights" not in other.action.text
