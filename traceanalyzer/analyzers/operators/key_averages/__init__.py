"""What would `key_averages()` of torch.profiler return for this trace?

The rows are torch's, from the same events by the same rules: which events count, what nests in what, which
launches and kernels belong to which operator, where memory goes. docs/key_averages.md lists them, and where
the file does not contain what torch knew.

Times are microseconds in float64, computed in torch's order, because a table that agrees to the last digit
has to round what torch rounded: 0.5005 us may be 0.500 or 0.501. The sums in whole nanoseconds are
properties.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.analyzers.operators.key_averages.events import AveragedEvents, EventKind, collect
from traceanalyzer.analyzers.operators.key_averages.figures import Figures, add_up, measure
from traceanalyzer.analyzers.operators.key_averages.inputs import Shapes, flops, printed
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64


class EventAverage(msgspec.Struct, frozen=True):
    """All events of one name (and input shapes) on one kind of device, as torch averages them."""

    name: str
    calls: int
    on_device: bool
    """A row of kernels, copies or annotations on the device; its CPU times are 0."""
    is_user_annotation: bool
    self_cpu_us: float
    cpu_total_us: float
    self_device_us: float
    device_total_us: float
    cpu_mem_bytes: int
    """Allocated minus freed during the events, whatever thread did it; like all memory, no peak."""
    self_cpu_mem_bytes: int
    device_mem_bytes: int
    self_device_mem_bytes: int
    flops: int
    """Operations of the operators that torch has a formula for; 0 elsewhere, and without `with_flops`."""
    input_shapes: str | None
    """Input shapes as Python prints the list; None where rows are not divided by shapes."""
    is_async: bool = False
    """Started and ended on different threads: no trace says that, so it is always false."""

    @property
    def self_cpu_ns(self) -> int:
        """CPU time of the events without what is nested in them, in ns."""
        return round(self.self_cpu_us * 1000)

    @property
    def cpu_total_ns(self) -> int:
        """CPU time of the events, in ns."""
        return round(self.cpu_total_us * 1000)

    @property
    def self_device_ns(self) -> int:
        """Device time of what the events launched themselves, in ns."""
        return round(self.self_device_us * 1000)

    @property
    def device_total_ns(self) -> int:
        """Device time of what the events and all that is nested in them launched, in ns."""
        return round(self.device_total_us * 1000)

    @property
    def cpu_avg_us(self) -> float:
        """Mean CPU time of a call in us."""
        return self.cpu_total_us / self.calls

    @property
    def device_avg_us(self) -> float:
        """Mean device time of a call in us."""
        return self.device_total_us / self.calls


class KeyAverages(msgspec.Struct, frozen=True):
    """The rows in the order in which their first events started, and facts on which the columns depend."""

    rows: tuple[EventAverage, ...]
    device: str | None
    """The device as column headers name it (CUDA, also for AMD; XPU); None where nothing ran on one."""
    profile_memory: bool
    with_flops: bool


def analyze(context: Context, by_shape: bool = False, python_functions: bool = True) -> KeyAverages:
    """Average the events of a trace (of the chosen steps: those that start within them).

    Args:
        context: The trace; nesting is that of the whole trace, whatever steps are chosen.
        by_shape: Divide the rows by input shapes, as `group_by_input_shape` does.
        python_functions: Whether Python functions have rows, as they do by default until torch 2.13; in 2.14 they have
            them with `include_python_functions`.
    """
    trace = context.trace
    events = context.cached(collect)
    figures = context.cached(_figures)
    counted = np.flatnonzero(figures.counted & context.in_scope(events.start_ns))
    if not python_functions:
        counted = counted[events.kind[counted] != EventKind.FRAME]
    shapes = printed(trace.shapes, events.shapes) if by_shape else None
    with_flops = trace.info.options.with_flops is True
    costs = flops(trace, events) if with_flops else np.zeros(len(events), np.int64)
    rows = _averages(events, figures, costs, shapes, counted) if len(counted) else ()
    return KeyAverages(rows, _device(trace), _has_memory(trace), with_flops)


def _figures(context: Context) -> Figures:
    return measure(context.trace, context.cached(collect))


def _averages(
    events: AveragedEvents, figures: Figures, costs: I64, shapes: Shapes | None, counted: I64
) -> tuple[EventAverage, ...]:
    """One row per group, in the order in which their first events started."""
    keys = [events.name, events.on_device, events.is_user_annotation, *([shapes.row] if shapes else [])]
    first, groups = _in_order(*group(*(key[counted] for key in keys)))
    count = len(first)
    first = counted[first]
    columns = {
        "name": [events.names[code] for code in events.name[first].tolist()],
        "calls": count_by(groups, count).tolist(),
        "on_device": events.on_device[first].tolist(),
        "is_user_annotation": events.is_user_annotation[first].tolist(),
        "flops": sum_by(groups, costs[counted], count).tolist(),
        "input_shapes": [shapes.texts[row] for row in shapes.row[first].tolist()] if shapes else [None] * count,
    }
    for field, times in zip(_TIMES, figures.times, strict=True):
        columns[field] = add_up(groups, times[counted], count).tolist()
    for field, sizes in zip(_SIZES, figures.memory, strict=True):
        columns[field] = sum_by(groups, sizes[counted], count).tolist()
    rows = zip(*columns.values(), strict=True)
    return tuple(EventAverage(**dict(zip(columns, values, strict=True))) for values in rows)


_TIMES = ("self_cpu_us", "cpu_total_us", "self_device_us", "device_total_us")
"""Fields of an average, in the order of `Figures.times`."""
_SIZES = ("cpu_mem_bytes", "self_cpu_mem_bytes", "device_mem_bytes", "self_device_mem_bytes")
"""Fields of an average, in the order of `Figures.memory`."""


def _in_order(first: I64, groups: I64) -> tuple[I64, I64]:
    """Renumber groups in the order of their first rows."""
    appearance = np.argsort(first)
    number = np.empty(len(first), np.int64)
    number[appearance] = np.arange(len(first))
    return first[appearance], number[groups]


def _has_memory(trace: Trace) -> bool:
    said = trace.info.options.profile_memory
    return len(trace.memory) > 0 if said is None else said


def _device(trace: Trace) -> str | None:
    """Torch's name for the device in column titles: CUDA stands for AMD's devices, too."""
    used = any(len(table) for table in (trace.device, trace.gpu_annotations, trace.syncs))
    if not used:
        return None
    return "XPU" if any(device.vendor == "Intel" for device in trace.info.devices) else "CUDA"
