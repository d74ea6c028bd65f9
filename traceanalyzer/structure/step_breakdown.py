"""How long is a step, and where does it go?

Every nanosecond of a step belongs to exactly one part: the first in the order of `PARTS` that is active
at that time. So the parts of a step sum to the step, and a part counts only where nothing before it in the
order runs ("exclusive" time).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import msgspec
import numpy as np

from traceanalyzer.knowledge import kernel_names, marks
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.gaps import times_of
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.intervals import Intervals, LabelledTime
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import Bool
from traceanalyzer.trace.tables import Category

PARTS = ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other")


class Window(msgspec.Struct, frozen=True):
    """The time from the start of the first step to the end of the last."""

    start_ns: int
    """Start of the first step in ns since the first event."""
    end_ns: int
    """End of the last step in ns since the first event."""


class Step(msgspec.Struct, frozen=True):
    """One step; its parts sum to its duration."""

    name: str
    """Number of the step as the profiler counted it; counted from 0 where it marked none."""
    start_ns: int
    """Start of the step in ns since the first event."""
    duration_ns: int
    """Duration of the step in ns, until the device has done its work."""
    kernel_ns: int
    """Time in ns in which a kernel runs on some device, except kernels of collective libraries."""
    memcpy_ns: int
    """Time in ns in which a copy runs on some device, and no kernel."""
    memset_ns: int
    """Time in ns in which a fill runs on some device, and nothing of the above."""
    communication_ns: int
    """Time in ns in which a collective of a library runs, on a device or the host, and nothing of the above."""
    runtime_ns: int
    """Time in ns in which a call of the device runtime or driver is open, and nothing of the above."""
    dataloader_ns: int
    """Time in ns in which something waits for the loader, and nothing of the above."""
    cpu_exec_ns: int
    """Time in ns in which other operators or annotations are open on the host, and nothing of the above."""
    other_ns: int
    """Time in ns in which nothing of the above is active."""
    dataloader_full_ns: int
    """All waiting for the loader within the step in ns, hidden behind other work or not."""


class Average(msgspec.Struct, frozen=True):
    """Arithmetic means over the steps, in ns; the parts are those of a step."""

    duration_ns: float
    """Mean duration of a step in ns."""
    kernel_ns: float
    """Mean time per step in ns in which a kernel runs, collectives excepted."""
    memcpy_ns: float
    """Mean time per step in ns in which a copy runs on a device, and no kernel."""
    memset_ns: float
    """Mean time per step in ns in which a fill runs on a device, and nothing of the above."""
    communication_ns: float
    """Mean time per step in ns in which a collective runs, and nothing of the above."""
    runtime_ns: float
    """Mean time per step in ns in which a runtime call is open, and nothing of the above."""
    dataloader_ns: float
    """Mean time per step in ns in which something waits for the loader, and nothing of the above."""
    cpu_exec_ns: float
    """Mean time per step in ns in which other host work is open, and nothing of the above."""
    other_ns: float
    """Mean time per step in ns in which nothing of the above is active."""
    dataloader_full_ns: float
    """Mean waiting for the loader per step in ns, hidden behind other work or not."""


class Inferred(msgspec.Struct, frozen=True):
    """Steps that annotations suggest where the profiler marked none."""

    steps_from: str
    """Which annotations suggest the steps."""
    median_duration_ns: float
    """Median duration of these steps in ns."""
    steps: tuple[Step, ...]
    """The inferred steps in the order of time."""
    average: Average
    """Means over the inferred steps."""


class StepBreakdown(msgspec.Struct, frozen=True):
    """How long each step is and where its time goes."""

    window: Window | None
    """Time from the first to the last step; null without steps."""
    steps: tuple[Step, ...]
    """The steps in the order of time; the whole trace is one where the profiler marked none."""
    average: Average | None
    """Means over the steps; null without steps."""
    median_duration_ns: float | None
    """Median duration of a step in ns; null without steps."""
    dataloader_share: float | None
    """Exclusive loader time over step time (0 to 1): what nothing else hides; null without steps."""
    dataloader_full_share: float | None
    """Full loader time over step time (0 to 1): what it would cost if nothing hid it; null without steps."""
    inferred: Inferred | None
    """Steps that annotations suggest where the profiler marked none; null otherwise."""


def analyze(context: Context) -> StepBreakdown:
    """Divide the steps of a trace into parts."""
    roles = context.cached(_roles)
    steps = context.steps
    rows = _divide(steps, roles)
    mean = average(rows) if rows else None
    window = steps.window
    return StepBreakdown(
        window=Window(*window) if window else None,
        steps=rows,
        average=mean,
        median_duration_ns=_median(rows) if rows else None,
        dataloader_share=_share(mean, "dataloader_ns"),
        dataloader_full_share=_share(mean, "dataloader_full_ns"),
        inferred=_inferred(context.inferred_steps, roles),
    )


def divide(context: Context, steps: Steps) -> tuple[Step, ...]:
    """Divide some steps into parts."""
    return _divide(steps, context.cached(_roles))


def average(rows: Sequence[Step]) -> Average:
    """The means over some steps, at least one."""
    return Average(*(fsum(getattr(r, f) for r in rows) / len(rows) for f in Average.__struct_fields__))


def library_collectives(trace: Trace) -> Bool:
    """Which device events are kernels of a collective library, by their metadata or their own name.

    A program's own collectives are not among them: a step is divided as the TensorBoard plugin divides it.
    """
    by_name = trace.names.where(kernel_names.is_library_collective)[trace.device.name]
    is_collective: Bool = (trace.device.category == Category.KERNEL) & (by_name | (trace.device.collective > 0))
    return is_collective


class _Roles(msgspec.Struct, frozen=True):
    """The parts of the time of steps."""

    shown: LabelledTime
    """Intervals with the position in `PARTS` of the part to which each belongs."""
    dataloader: Intervals
    """When something waits for the loader, hidden or not."""


def _roles(context: Context) -> _Roles:
    trace, kind = context.trace, context.kind
    host, device, launches = trace.host, trace.device, trace.launches
    communicates = library_collectives(trace)
    collective = trace.names.where(marks.is_collective)[host.name]
    loader = kind == NodeKind.DATALOADER
    active = {
        "kernel": times_of(device, (device.category == Category.KERNEL) & ~communicates),
        "memcpy": times_of(device, device.category == Category.MEMCPY),
        "memset": times_of(device, device.category == Category.MEMSET),
        "communication": times_of(device, communicates) | times_of(host, collective),
        "runtime": Intervals.union(launches.start_ns, launches.end_ns),
        "dataloader": times_of(host, loader),
        "cpu_exec": times_of(host, ~loader & ~collective & (kind != NodeKind.STEP)),
    }
    shown = LabelledTime.build([(PARTS.index(part), times) for part, times in active.items()], PARTS.index("other"))
    return _Roles(shown, active["dataloader"])


def _divide(steps: Steps, roles: _Roles) -> tuple[Step, ...]:
    columns = roles.shown.within(steps.start_ns, steps.end_ns, range(len(PARTS)))
    columns.append(roles.dataloader.within(steps.start_ns, steps.end_ns))
    parts = np.column_stack(columns).tolist()
    bounds = zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)
    return tuple(
        Step(name, start, end - start, *values)
        for name, (start, end), values in zip(steps.names, bounds, parts, strict=True)
    )


def _median(rows: tuple[Step, ...]) -> float:
    return float(np.median([row.duration_ns for row in rows]))


def _share(mean: Average | None, part: str) -> float | None:
    return getattr(mean, part) / mean.duration_ns if mean and mean.duration_ns else None


def _inferred(steps: Steps | None, roles: _Roles) -> Inferred | None:
    if steps is None or steps.found_by is None or not len(steps):
        return None
    rows = _divide(steps, roles)
    return Inferred(steps.found_by, _median(rows), rows, average(rows))
