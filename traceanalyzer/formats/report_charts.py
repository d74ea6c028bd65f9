"""The charts of a report: its steps, idle time and memory, and those of its ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import fsum

from traceanalyzer.analyzers.idle import DeviceIdle, Idle
from traceanalyzer.analyzers.kernels.clocks import Clocks, DeviceClock
from traceanalyzer.analyzers.memory import DeviceMemoryUse, MemoryUse
from traceanalyzer.analyzers.memory.levels import Curve
from traceanalyzer.analyzers.memory.peak_picture import HeldOverTime, MemorySpan
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse, SnapshotDevice
from traceanalyzer.formats import hang_charts, rank_charts
from traceanalyzer.formats.charts import Bars, Chart, Curves, LaneBox, Series, StackedBars
from traceanalyzer.formats.language import Language
from traceanalyzer.knowledge import gpu_clocks
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, word
from traceanalyzer.sections.idle import CAUSE_LABELS
from traceanalyzer.sections.memory_snapshot import KIND_LABELS
from traceanalyzer.sections.overview import named
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown

_STEPS = Text("figure-steps", "Time of each step and its parts")
_STEPS_SAY = Text(
    "figure-steps-description",
    "{count:count} steps, from {low:ns} to {high:ns}; the dashed line is the median, {median:ns}. Outliers, more than "
    "{limit:share} above it: {outliers:count}.",
)
_IDLE = Text("figure-idle", "GPU {device}: idle time by cause")
_IDLE_SAY = Text("figure-idle-description", "GPU {device} is idle for {idle:ns}, mostly for this reason: {cause}.")
_VALUE = Text("figure-idle-value", "{time:ns} ({share:share})")
_MEMORY = Text("figure-memory", "Memory of {device} over time")
_MEMORY_SAY = Text(
    "figure-memory-description",
    "Allocated memory of {device}: {first:bytes} at first, {high:bytes} at most, {last:bytes} at last.",
)
_CLOCK = Text("figure-clock", "SM clock of GPU {device} over time, MHz")
_POWER = Text("figure-power", "Power of GPU {device} over time, W")
_HEAT = Text("figure-temperature", "Temperature of GPU {device} over time, °C")
_CLOCK_SAY = Text("figure-clock-description", "GPU {device}: from {low:number} to {high:number}.")
_COUNTERS = {gpu_clocks.SM_CLOCK: _CLOCK, gpu_clocks.POWER: _POWER, gpu_clocks.TEMPERATURE: _HEAT}
"""Titles of counters over time."""
_BY_KIND_SAY = Text(
    "figure-memory-kinds-description",
    "Memory of {device} by what holds it: {first:bytes} at first, {high:bytes} at most, {last:bytes} at last. The "
    "dashed line is the peak; most of it is {kind}, {held:bytes}.",
    note="device is CPU or GPU and a number, kind is what memory holds: gradients, activations",
)
_PEAK = Text("figure-memory-peak", "Peak: {held:bytes}", "above a dashed line")
_ABOVE = Text("figure-memory-above", "Above: when parts of the program ran.", "below a picture of memory over time")
_SPAN = Text("figure-memory-span", "{name}: {time:ns}", "name is a part of a program")
_RUNNING = {
    "setup": ("cpu_exec", Text("figure-memory-setup", "setup", "a part of a training: modules are made")),
    "forward": ("kernel", Text("figure-memory-forward", "forward", "a pass of a training")),
    "backward": ("communication", Text("figure-memory-backward", "backward", "a pass of a training")),
    "optimizer": ("memcpy", Text("figure-memory-optimizer", "optimizer", "a part of a training: its update")),
}
"""Parts of a program: the colours of what they make, and their names."""
_MOST_ROWS = 3
"""Rows of parts within parts that the program annotated (own choice); what is deeper is left out."""
KIND_ROLES = {
    "parameters": "cpu_exec",
    "optimizer": "memcpy",
    "gradients": "communication",
    "activations": "kernel",
    "temporary": "runtime",
    "unknown": "other",
}
"""Colours of what memory holds."""
_ALLOCATED = Text("figure-memory-allocated", "Allocated")
_REQUESTED = Text("figure-memory-requested", "Requested by the program")
_RESERVED = Text("figure-memory-reserved", "Reserved by the allocator")

OUTLIER_SHARE = 0.2
"""Least excess over the median, as a share, of a step that stands out (own choice; q-warmup-included uses 0.5)."""

_MOST_STEPS = 1000
_MOST_DEVICES = 4
_LEAST_BYTES = 10_000
"""Least peak of memory that is worth a picture (own choice)."""


def of_report(report: Report, language: Language) -> Iterator[tuple[str, Chart]]:
    """Prepare each chart, with the id of its section."""
    for ranks in rank_charts.of_report(report, language):
        yield "ranks", ranks
    for hang in hang_charts.of_report(report, language):
        yield "hangs", hang
    yield from _of_steps(report, language)
    idle = report.result("idle", Idle)
    if idle is not None:
        for device in idle.devices[:_MOST_DEVICES]:
            yield from _of_idle_device(device, language)
    clocks = report.result("clocks", Clocks)
    if clocks is not None:
        for clock in clocks.devices[:_MOST_DEVICES]:
            yield from _of_clock(clock, language)
    memory = report.result("memory", MemoryUse)
    if memory is not None:
        for level in memory.devices[: 2 * _MOST_DEVICES]:
            yield from _of_memory(level, language)
    snapshot = report.result("memory_snapshot", MemorySnapshotUse)
    if snapshot is not None:
        for held in snapshot.devices[:_MOST_DEVICES]:
            yield from _of_snapshot(held, language)


def _of_steps(report: Report, language: Language) -> Iterator[tuple[str, Chart]]:
    """The chart of the recorded steps, or of the inferred ones where there are no two recorded."""
    breakdown = report.result("step_breakdown", StepBreakdown)
    if breakdown is None:
        return
    section, steps = "steps", breakdown.steps
    if len(steps) <= 1:
        section = "inferred-steps"
        steps = breakdown.inferred.steps if breakdown.inferred else ()
    if len(steps) > 1 and any(step.duration_ns for step in steps[:_MOST_STEPS]):
        yield section, _steps(report, steps, language)


def _of_idle_device(device: DeviceIdle, language: Language) -> Iterator[tuple[str, Chart]]:
    """The causes of a device's idle time, the longest first."""
    causes = [cause for cause in device.causes if cause.time_ns]
    causes.sort(key=lambda cause: -cause.time_ns)
    if not causes:
        return
    labels = tuple(language.text(word(CAUSE_LABELS, cause.cause)) for cause in causes)
    times = tuple(float(cause.time_ns) for cause in causes)
    texts = tuple(language.text(_VALUE, time=cause.time_ns, share=cause.share) for cause in causes)
    title = language.text(_IDLE, device=device.device)
    description = language.text(_IDLE_SAY, device=device.device, idle=fsum(times), cause=labels[0])
    series = Series(labels[0], "runtime", times)
    yield "idle", Bars(f"chart-idle-{device.device}", title, description, labels, texts, series)


def _of_memory(level: DeviceMemoryUse, language: Language) -> Iterator[tuple[str, Chart]]:
    """The memory of a device over time, where it is worth a picture."""
    allocated = _whole(level.allocated)
    if _lasts(allocated) and max(allocated.level_bytes) >= _LEAST_BYTES:
        device = clean(level.device)
        curves = _memory(device, allocated, _whole(level.reserved), language)
        yield "memory", _by_kind(curves, level.over_time, device, language)


def _of_clock(device: DeviceClock, language: Language) -> Iterator[tuple[str, Chart]]:
    """Clock, power and temperature of a device over time."""
    for number, curve in enumerate(device.curves):
        title, values = _COUNTERS.get(curve.name), tuple(map(float, curve.values))
        if title is None or len(values) != len(curve.time_ns) or len(values) < 2:
            continue
        said = language.text(_CLOCK_SAY, device=device.device, low=min(values), high=max(values))
        shown = language.text(title, device=device.device)
        times = tuple(max(0.0, float(time)) for time in curve.time_ns)
        chart = f"chart-clocks-{device.device}-{number}"
        yield "clocks", Curves(chart, shown, said, "number", (times,), (Series(curve.name, "kernel", values),))


def _of_snapshot(device: SnapshotDevice, language: Language) -> Iterator[tuple[str, Chart]]:
    """What the program held of a device over the history of a snapshot."""
    requested = _whole(device.requested)
    if _lasts(requested) and max(requested.level_bytes) >= _LEAST_BYTES:
        curves = _memory(f"GPU{device.device}", requested, _whole(device.reserved), language, _REQUESTED)
        curves = _by_kind(curves, device.over_time, f"GPU{device.device}", language)
        yield "memory-snapshot", _with_parts(curves, device, language)


def _with_parts(curves: Curves, device: SnapshotDevice, language: Language) -> Curves:
    """The curves below the parts of the program that ran: by stacks in the first row, annotated ones below it."""
    boxes = []
    for span in device.running:
        if span.name in _RUNNING:
            role, text = _RUNNING[span.name]
            boxes.append(_box(span, 0, role, language.text(text), language))
    first, ends = min(1, len(boxes)), [-1] * _MOST_ROWS
    for span in device.annotated:
        row = next((row for row, end in enumerate(ends) if end <= span.start_ns), None)
        if row is not None:
            ends[row] = span.end_ns
            boxes.append(_box(span, first + row, "muted", clean(span.name), language))
    if not boxes:
        return curves
    said = language.chain(" ", (curves.description, language.text(_ABOVE)))
    return replace(curves, above=tuple(boxes), description=said)


def _box(span: MemorySpan, row: int, role: str, name: str, language: Language) -> LaneBox:
    title = language.text(_SPAN, name=name, time=span.end_ns - span.start_ns)
    return LaneBox(row, 0.0, 1.0, float(span.start_ns), float(span.end_ns), role, text=name, title=title)


def _by_kind(curves: Curves, held: HeldOverTime | None, device: str, language: Language) -> Curves:
    """The memory of a device over time with its parts, where anything is known of them."""
    kinds = [kind for kind in held.kinds if kind.kind in KIND_ROLES] if held is not None else []
    levels = curves.series[0].values
    if held is None or not kinds or any(len(kind.level_bytes) != len(held.time_ns) for kind in kinds):
        return curves
    if all(kind.kind == "unknown" for kind in kinds):
        return curves
    totals = [fsum(parts) for parts in zip(*(kind.level_bytes for kind in kinds), strict=True)]
    place = totals.index(max(totals))
    largest = max(kinds, key=lambda kind: kind.level_bytes[place])
    said = language.text(
        _BY_KIND_SAY,
        device=device,
        first=levels[0],
        high=max(levels),
        last=levels[-1],
        kind=language.text(KIND_LABELS[largest.kind]),
        held=largest.level_bytes[place],
    )
    whole, *others = curves.series
    return replace(
        curves,
        description=said,
        series=(replace(whole, role="ink"), *(replace(part, role="muted") for part in others)),
        stacked_ns=tuple(map(float, held.time_ns)),
        stacked=tuple(
            Series(language.text(KIND_LABELS[kind.kind]), KIND_ROLES[kind.kind], tuple(map(float, kind.level_bytes)))
            for kind in kinds
        ),
        mark_ns=float(held.time_ns[place]),
        mark=language.text(_PEAK, held=max(totals)),
    )


def outliers(steps: tuple[Step, ...]) -> tuple[int, ...]:
    """Positions of the steps that are at least `OUTLIER_SHARE` longer than the median."""
    limit = _median(steps) * (1 + OUTLIER_SHARE)
    return tuple(i for i, step in enumerate(steps) if step.duration_ns > limit)


def _median(steps: tuple[Step, ...]) -> float:
    ordered = sorted(step.duration_ns for step in steps)
    middle = len(ordered) // 2
    return (ordered[middle] + ordered[~middle]) / 2


def _steps(report: Report, steps: tuple[Step, ...], language: Language) -> StackedBars:
    shown = steps[:_MOST_STEPS]
    series = []
    for part in PARTS:
        times = tuple(float(getattr(step, f"{part}_ns")) for step in shown)
        if any(times):
            role, label = named(report, part)
            series.append(Series(language.text(label), role, times))
    median = _median(steps)
    marked = outliers(steps)
    description = language.text(
        _STEPS_SAY,
        count=len(steps),
        low=min(step.duration_ns for step in steps),
        high=max(step.duration_ns for step in steps),
        median=median,
        limit=OUTLIER_SHARE,
        outliers=len(marked),
    )
    return StackedBars(
        id="chart-steps",
        title=language.text(_STEPS),
        description=description,
        unit="ns",
        labels=tuple(clean(step.name) for step in shown),
        series=tuple(series),
        level=median,
        marked=tuple(position for position in marked if position < len(shown)),
    )


def _whole(curve: Curve | None) -> Curve:
    """The points with known time and level, because a saved report may have been edited by hand."""
    if curve is None:
        return Curve((), ())
    count = min(len(curve.time_ns), len(curve.level_bytes))
    return Curve(curve.time_ns[:count], curve.level_bytes[:count])


def _lasts(curve: Curve) -> bool:
    """Whether a curve covers any time; records of a single time are a point, not a curve."""
    return len(curve.time_ns) > 1 and curve.time_ns[0] < curve.time_ns[-1]


def _memory(device: str, allocated: Curve, reserved: Curve, language: Language, label: Text = _ALLOCATED) -> Curves:
    curves = [(language.text(label), "cpu_exec", allocated)]
    if _lasts(reserved):
        curves.append((language.text(_RESERVED), "other", reserved))
    levels = allocated.level_bytes
    return Curves(
        f"chart-memory-{device.lower()}",
        language.text(_MEMORY, device=device),
        language.text(_MEMORY_SAY, device=device, first=levels[0], high=max(levels), last=levels[-1]),
        "bytes",
        tuple(tuple(map(float, curve.time_ns)) for _, _, curve in curves),
        tuple(Series(label, role, tuple(map(float, curve.level_bytes))) for label, role, curve in curves),
    )
