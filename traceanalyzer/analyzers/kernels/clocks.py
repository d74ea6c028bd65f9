"""At which clock does each GPU work, how much power does it draw, and how hot is it?

Counters are samples. A sample counts until the next one, but not for longer than three times the usual distance of
samples; what is beyond is unknown. Means are over time. The clock is low where it is below `_LOW` of the highest one,
which is that of the data sheet or the highest sample.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import gpu_clocks, gpus
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import F64, I64
from traceanalyzer.trace.tables import DeviceEvents

_LOW = 0.9
"""Share of the highest clock below which a clock is low (own choice: the clock varies by a few percent under load)."""
_LASTS = 3
"""How many usual distances of samples one sample counts at most (own choice: two may be lost)."""
_POINTS = 512
"""Most points of a curve (own choice: one per pixel column of a chart)."""
_MOST_STEPS = 1000
"""Most steps that are listed (own choice: as many as a chart shows)."""


class ClockFigures(msgspec.Struct, frozen=True):
    """Means of the counters of a GPU over some time; null where there are no samples."""

    sm_clock_mhz: float | None = None
    """Clock of the multiprocessors in MHz."""
    memory_clock_mhz: float | None = None
    """Clock of the memory in MHz."""
    power_w: float | None = None
    """Power in W."""
    temperature_c: float | None = None
    """Temperature in degrees Celsius."""
    sm_active_share: float | None = None
    """Share (0 to 1) of the cycles in which a multiprocessor has work."""
    memory_share: float | None = None
    """Share (0 to 1) of the bandwidth of the memory that is used."""
    nvlink_received_share: float | None = None
    """Share (0 to 1) of the bandwidth of NVLink that is used to receive."""
    nvlink_sent_share: float | None = None
    """Share (0 to 1) of the bandwidth of NVLink that is used to send."""
    pcie_share: float | None = None
    """Share (0 to 1) of the bandwidth of PCIe that is used."""


class StepCounters(ClockFigures, frozen=True):
    """Means of the counters over a step of the program."""

    name: str = ""
    """Name of the step, as in the analysis `recording`."""
    start_ns: int = 0
    """Start of the step in ns since the first event."""
    duration_ns: int = 0
    """Duration of the step in ns."""


class ClockCurve(msgspec.Struct, frozen=True):
    """Samples of a counter over time; of many, as many as a chart shows."""

    name: str
    """Name of the counter as recorded, with its unit."""
    time_ns: tuple[int, ...]
    """Times of the samples in ns since the first event."""
    values: tuple[float, ...]
    """The value of each sample."""


class LowClock(msgspec.Struct, frozen=True):
    """The time in which a GPU works at a low clock, in the typical steps."""

    share: float
    """Share (0 to 1) of the time in which it works and the clock is known."""
    clock_mhz: float
    """Mean clock of the multiprocessors in MHz in that time."""
    power_w: float | None
    """Mean power in W in that time; null if unknown."""
    temperature_c: float | None
    """Mean temperature in degrees Celsius in that time; null if unknown."""
    works_share: float
    """Share (0 to 1) of all time of a low clock in the typical steps in which it works."""
    work_ns: int
    """Sum in ns over the typical steps of the time in which it works at a low clock."""
    slow_ns: int
    """Sum in ns over the typical steps of what the work would take less if all of it ran in proportion to the clock."""


class DeviceClock(msgspec.Struct, frozen=True):
    """The counters of one GPU."""

    device: int
    """Number of the device as in the trace."""
    samples: int
    """Number of samples of all counters."""
    highest_mhz: float | None
    """The highest clock of the multiprocessors in MHz, of the data sheet or sampled; null without samples."""
    sheet_mhz: int | None
    """The highest clock in MHz of the data sheet; null if unknown."""
    highest_w: float | None
    """Highest power in W that was sampled; null without samples."""
    board_w: int | None
    """Power in W that the data sheet allows the board; null if unknown."""
    works: ClockFigures
    """Means over the time of the typical steps in which the device works."""
    low: LowClock | None
    """Where it works at a low clock; null if it does not, or if no clock is known."""
    steps: tuple[StepCounters, ...]
    """Steps of the program in the order of time."""
    curves: tuple[ClockCurve, ...]
    """Clocks, power and temperature over time."""


class Clocks(msgspec.Struct, frozen=True):
    """The counters of GPUs."""

    devices: tuple[DeviceClock, ...]
    """GPUs with samples, by their numbers."""


class _Counter:
    """The samples of one counter of a device, ascending; each counts for a while."""

    def __init__(self, time_ns: I64, values: F64) -> None:
        self.time_ns, self.values = time_ns, values
        between = np.diff(time_ns)
        usual = int(np.median(between)) if len(between) else 0
        until = np.append(time_ns[1:], time_ns[-1:] + usual)
        self.end_ns: I64 = np.minimum(until, time_ns + _LASTS * usual)
        length = self.end_ns - time_ns
        self._edges = np.column_stack((time_ns, self.end_ns)).ravel()
        self._known = _sums(length.astype(np.float64))
        self._product = _sums(length * values)

    def mean(self, times: Intervals) -> float | None:
        """The mean over some times; None where it is unknown in all of them."""
        known, product = (
            float((np.interp(times.end, self._edges, sums) - np.interp(times.start, self._edges, sums)).sum())
            for sums in (self._known, self._product)
        )
        return product / known if known > 0 else None

    def below(self, level: float) -> Intervals:
        """When its value is known and less than a level."""
        rows = self.values < level
        return Intervals.union(self.time_ns[rows], self.end_ns[rows])

    @property
    def known(self) -> Intervals:
        """When its value is known."""
        return Intervals.union(self.time_ns, self.end_ns)

    def curve(self, name: str) -> ClockCurve:
        """Its samples for a chart."""
        step = -(-len(self.values) // _POINTS)
        return ClockCurve(name, tuple(self.time_ns[::step].tolist()), tuple(self.values[::step].tolist()))


def _sums(parts: F64) -> F64:
    """What has been passed at each edge: nothing is added between the end of a sample and the next one."""
    ends = np.cumsum(parts)
    return np.column_stack((ends - parts, ends)).ravel()


_SHOWN = {
    "sm_clock_mhz": (gpu_clocks.SM_CLOCK,),
    "memory_clock_mhz": (gpu_clocks.MEMORY_CLOCK,),
    "power_w": (gpu_clocks.POWER,),
    "temperature_c": (gpu_clocks.TEMPERATURE,),
}
_SHARES = {
    "sm_active_share": (gpu_clocks.SM_ACTIVE,),
    "memory_share": gpu_clocks.BANDWIDTH,
    "nvlink_received_share": (gpu_clocks.NVLINK_RECEIVED,),
    "nvlink_sent_share": (gpu_clocks.NVLINK_SENT,),
    "pcie_share": (gpu_clocks.PCIE,),
}
"""By figure: the counters that have it, of which the first one counts; shares are in percent there."""

Counters = dict[str, _Counter]


def analyze(context: Context) -> Clocks:
    """The counters of all devices that have any."""
    found = _by_device(context)
    return Clocks(tuple(_device(context, number, found[number]) for number in sorted(found)))


def _by_device(context: Context) -> dict[int, Counters]:
    """By device and name its counters that any figure is made of."""
    trace, table = context.trace, context.trace.counters
    devices = [gpu_clocks.device_of(thread.pid) for thread in trace.threads]
    found: dict[int, Counters] = {}
    for code in distinct(table.name).tolist():
        if (name := trace.names[code]) not in gpu_clocks.NAMES:
            continue
        rows = np.flatnonzero(table.name == code)
        for thread in distinct(table.thread[rows]).tolist():
            number, own = devices[thread], rows[table.thread[rows] == thread]
            if number is not None:
                found.setdefault(number, {})[name] = _Counter(table.start_ns[own], table.value[own])
    return found


def _device(context: Context, number: int, counters: Counters) -> DeviceClock:
    model = next((gpus.find(device) for device in context.trace.info.devices if device.id == number), None)
    sheet = gpu_clocks.highest_clock(model.name if model else None)
    clock, power = counters.get(gpu_clocks.SM_CLOCK), counters.get(gpu_clocks.POWER)
    highest = max(float(clock.values.max()), sheet or 0.0) if clock else None
    busy = gaps.busy(context, number) & typical.times(context)
    return DeviceClock(
        device=number,
        samples=sum(len(counter.values) for counter in counters.values()),
        highest_mhz=highest,
        sheet_mhz=sheet,
        highest_w=float(power.values.max()) if power else None,
        board_w=gpu_clocks.board_power(model.name if model else None),
        works=ClockFigures(**_means(counters, busy)),
        low=_low(context, counters, busy, highest) if highest else None,
        steps=tuple(_steps(context, counters)),
        curves=tuple(counters[name].curve(name) for names in _SHOWN.values() for name in names if name in counters),
    )


def _means(counters: Counters, times: Intervals) -> dict[str, float | None]:
    """Each figure over some times."""
    means: dict[str, float | None] = {}
    for names, scale in ((_SHOWN, 1.0), (_SHARES, 100.0)):
        for figure, options in names.items():
            counter = next((counters[name] for name in options if name in counters), None)
            value = counter.mean(times) if counter else None
            means[figure] = None if value is None else value / scale
    return means


def _steps(context: Context, counters: Counters) -> Iterator[StepCounters]:
    steps = program_steps(context)
    times = zip(steps.names, steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    for name, start, end in list(times)[:_MOST_STEPS]:
        means = _means(counters, Intervals.union(np.array([start]), np.array([end])))
        yield StepCounters(name=name, start_ns=start, duration_ns=end - start, **means)


def _low(context: Context, counters: Counters, busy: Intervals, highest: float) -> LowClock | None:
    """The time in which the device works at a low clock."""
    clock = counters[gpu_clocks.SM_CLOCK]
    low = clock.below(_LOW * highest) & typical.times(context)
    works = low & busy
    mean = clock.mean(works)
    if mean is None:
        return None
    figures = _means(counters, works)
    return LowClock(
        share=works.length / (clock.known & busy).length,
        clock_mhz=mean,
        power_w=figures["power_w"],
        temperature_c=figures["temperature_c"],
        works_share=works.length / low.length,
        work_ns=works.length,
        slow_ns=round(works.length * (1 - mean / highest)),
    )


@event_set
def at_low_clock(context: Context, device: int, highest_mhz: float) -> Iterator[Occurrences]:
    """What a device does at a low clock: events of which at least half lies in such a time."""
    clock = _by_device(context)[device][gpu_clocks.SM_CLOCK]
    events, low = context.trace.device, clock.below(_LOW * highest_mhz)
    rows = np.flatnonzero((events.device == device) & (2 * low.within(events.start_ns, events.end_ns) >= events.dur_ns))
    if len(rows):
        yield Occurrences.on_device(context, context.trace.names[int(events.name[_longest(events, rows)])], rows)


def _longest(events: DeviceEvents, rows: I64) -> int:
    return int(rows[np.argmax(events.dur_ns[rows])])


ANALYSES = (
    Analysis(
        385,
        "clocks",
        Clocks,
        analyze,
        needs=(
            Need(
                Text("skip-no-counters", "the trace has no counters of clocks, power and temperature"),
                lambda context: bool(_by_device(context)),
            ),
        ),
    ),
)
