"""Counters of clocks, power and temperature: numbers worked out by hand."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.clocks import HIGHEST, clocked
from tests.builders.hardware import H100
from tests.reading import read_built
from traceanalyzer.analyzers.kernels.clocks import Clocks, DeviceClock
from traceanalyzer.pipeline import analyze
from traceanalyzer.sections import build


def clock_of(trace: TraceBuilder) -> DeviceClock:
    result = analyze(read_built(trace)).result("clocks", Clocks)
    assert result is not None
    (device,) = result.devices
    return device


def by_hand(*samples: tuple[str, float, float]) -> TraceBuilder:
    """Two steps of 1000 us; the GPU works in the first half of each."""
    trace = TraceBuilder(devices=(H100,))
    for number in range(2):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::mm", 1000 * number, 10)
        trace.launch_kernel("gemm", 1000 * number + 10, 500, at=1000 * number + 2)
    for name, at, value in samples:
        trace.counter(name, at, value)
    return trace


def test_means_over_time() -> None:
    """A sample counts until the next one."""
    samples = [("SM Clock (MHz)", at, 1980 if at < 1250 else 990) for at in range(0, 2000, 250)]
    device = clock_of(by_hand(*samples))
    assert [step.sm_clock_mhz for step in device.steps] == [1980, pytest.approx(1980 / 4 + 990 * 3 / 4)]
    # it works from 10 to 510 and from 1010 to 1510 us, and the clock falls at 1250 us
    assert device.works.sm_clock_mhz == pytest.approx((740 * 1980 + 260 * 990) / 1000)
    assert device.low is not None
    assert device.low.share == pytest.approx(0.26)
    assert device.low.clock_mhz == 990
    assert device.low.works_share == pytest.approx(260 / 750)
    assert device.low.slow_ns == 130_000
    assert (device.samples, device.highest_mhz, device.sheet_mhz, device.board_w) == (8, 1980, 1980, 700)


def test_samples_that_are_missing_are_unknown() -> None:
    """A sample counts for three distances at most: to 1150 us here."""
    samples = [("Power (W)", at, 300 + at) for at in (0, 50, 100, 150, 200, 250, 1000)]
    device = clock_of(by_hand(*samples))
    first, second = device.steps
    assert first.power_w == pytest.approx((300 * 50 + 350 * 50 + 400 * 50 + 450 * 50 + 500 * 50 + 550 * 150) / 400)
    assert second.power_w == 1300
    assert second.sm_clock_mhz is None
    assert device.low is None


def test_shares_and_the_names_of_bandwidth() -> None:
    samples = [(name, at, 40) for name in ("HBM BW (%)", "PCIe (%)", "NVLink RX (%)") for at in (0, 1000)]
    works = clock_of(by_hand(*samples)).works
    assert (works.memory_share, works.pcie_share, works.nvlink_received_share) == (0.4, 0.4, 0.4)
    assert works.nvlink_sent_share is None


def test_other_counters_say_nothing() -> None:
    report = analyze(read_built(by_hand(("Cycles (Current Kernel)", 10, 5), ("Fan Speed (%)", 10, 5))))
    assert report.result("clocks", Clocks) is None
    assert "clocks" not in {section.id for section in build(report, 10)}


def test_a_section_has_gpus_and_steps() -> None:
    report = analyze(read_built(clocked([HIGHEST] * 3 + [990] * 3, power=350, memory_bandwidth=50)))
    (section,) = (section for section in build(report, 10) if section.id == "clocks")
    devices, steps = section.tables
    assert [column.title.english for column in devices.columns][:4] == [  # type: ignore[union-attr]
        "GPU",
        "Highest SM clock, MHz",
        "SM clock, MHz",
        "Of the highest",
    ]
    assert [row[3] for row in steps.rows] == pytest.approx([1980, 1980, 1980, 990, 990, 990], rel=0.1)
    said = [message.id for message in section.messages]
    assert said[0] == "clocks-works"
