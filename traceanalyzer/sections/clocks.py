"""At which clock do GPUs work, and what do power and temperature do meanwhile?"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from traceanalyzer.analyzers.kernels.clocks import ClockFigures, Clocks, DeviceClock
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, table

_TITLE = Text("clocks-title", "Clocks and power", "a section: clocks of a GPU, its power and temperature")
_FIGURES = (
    Column(Text("clocks-sm", "SM clock, MHz"), "number", "figures.sm_clock_mhz", if_any=known),
    Column(
        Text("clocks-of-highest", "Of the highest", "a clock as a share of the highest clock"),
        "share",
        lambda row: row.share,
        if_any=known,
        is_extra=True,
    ),
    Column(
        Text("clocks-memory", "Memory clock, MHz"), "number", "figures.memory_clock_mhz", if_any=known, is_extra=True
    ),
    Column(Text("clocks-power", "Power, W"), "number", "figures.power_w", if_any=known),
    Column(Text("clocks-temperature", "Temperature, °C"), "number", "figures.temperature_c", if_any=known),
    Column(Text("clocks-sm-active", "SM active"), "share", "figures.sm_active_share", if_any=known, is_extra=True),
    Column(
        Text("clocks-bandwidth", "Memory bandwidth", "share of the bandwidth of a GPU's memory that is used"),
        "share",
        "figures.memory_share",
        if_any=known,
        is_extra=True,
    ),
    Column(
        Text("clocks-nvlink-received", "NVLink, received"),
        "share",
        "figures.nvlink_received_share",
        if_any=known,
        is_extra=True,
    ),
    Column(
        Text("clocks-nvlink-sent", "NVLink, sent"), "share", "figures.nvlink_sent_share", if_any=known, is_extra=True
    ),
    Column(Text("clocks-pcie", "PCIe"), "share", "figures.pcie_share", if_any=known, is_extra=True),
)
_OF_STEPS = (columns.GPU.of("device"), columns.STEP, columns.DURATION, *_FIGURES)
_OF_DEVICES = (
    columns.GPU.of("device"),
    Column(Text("clocks-highest", "Highest SM clock, MHz"), "number", lambda row: row.clock.highest_mhz, if_any=known),
    *_FIGURES,
)
_WORKS = Text(
    "clocks-works",
    "GPU {device} works at {clock:number} MHz on average; its highest clock is {highest:number} MHz.",
)
_BANDWIDTH = Text(
    "clocks-bandwidth-say",
    "While it works, GPU {device} uses {share:share} of the bandwidth of its memory: {rate:number} of the "
    "{peak:number} GB/s of its data sheet.",
)
_TERMS = (
    Term(
        _TITLE,
        Text(
            "define-clocks-say",
            "Means of samples that the profiler took beside the events. The first table is about the time of the "
            "typical steps in which the GPU works, the second one about whole steps. The highest clock is that of the "
            "data sheet or the highest sample.",
        ),
    ),
)


class _Row(msgspec.Struct, frozen=True):
    """Figures of a device, over its work or over one step."""

    device: int
    clock: DeviceClock
    figures: ClockFigures
    name: str = ""
    duration_ns: int | None = None

    @property
    def share(self) -> float | None:
        """The clock as a share of the highest one."""
        clock, highest = self.figures.sm_clock_mhz, self.clock.highest_mhz
        return clock / highest if clock is not None and highest else None


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of GPUs, and one of their steps."""
    clocks = report.result("clocks", Clocks)
    if clocks is None or not clocks.devices:
        return
    devices = [_Row(clock.device, clock, clock.works) for clock in clocks.devices]
    steps = [
        _Row(clock.device, clock, step, step.name, step.duration_ns) for clock in clocks.devices for step in clock.steps
    ]
    yield detail(
        "clocks",
        _TITLE,
        Topic.GPU,
        (table("clocks", _OF_DEVICES, devices), table("clocks_steps", _OF_STEPS, steps, top)),
        messages=tuple(message for clock in clocks.devices for message in _said(report, clock)),
        terms=_TERMS,
    )


def _said(report: Report, clock: DeviceClock) -> Iterator[Message]:
    works, roofline = clock.works, report.result("roofline", Roofline)
    if works.sm_clock_mhz is not None and clock.highest_mhz:
        yield _WORKS(device=clock.device, clock=works.sm_clock_mhz, highest=clock.highest_mhz)
    peak = roofline.roof.bandwidth_gb_per_s if roofline is not None and roofline.roof else None
    if works.memory_share is not None and peak:
        share = works.memory_share
        yield _BANDWIDTH(device=clock.device, share=share, rate=share * peak, peak=peak)
