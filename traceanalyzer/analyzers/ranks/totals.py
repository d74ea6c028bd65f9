"""Sums up results of single ranks and their comparison, in the form that one trace's analyses have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.idle import Cause, DeviceIdle, Idle
from traceanalyzer.analyzers.kernels.classes import KernelClasses, KernelClassTime
from traceanalyzer.analyzers.ranks import typical
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import GroupRow, Ranks
from traceanalyzer.report.model import RecordingOptions, ReportDevice, ReportSource, TraceSummary
from traceanalyzer.structure.step_breakdown import StepBreakdown

FORMAT = "kineto-ranks"
"""Format in the source of a run's report."""


def results(members: Sequence[Member], ranks: Ranks, groups: Sequence[GroupRow]) -> dict[str, msgspec.Struct]:
    """Results that rules judge, by analysis: means over ranks; collectives count without the waiting.

    Args:
        members: The ranks.
        ranks: How they compare, in the steps that are judged.
        groups: Matched collectives of all steps.
    """
    known = [member.resources for member in members if member.resources is not None]
    classes = [member.kernel_classes for member in members if member.kernel_classes is not None]
    found: dict[str, msgspec.Struct] = {"ranks": ranks}
    if recording := typical.recording(members):
        found["recording"] = recording
    if known:
        found["resources"] = typical.mean_resources(known)
    if averages := [(m.average, m.resources.steps) for m in members if m.average is not None and m.resources]:
        found["step_breakdown"] = StepBreakdown(None, (), typical.mean_parts(averages), None, None, None, None)
    if classes:
        found["kernel_classes"] = _sum(classes)
    idle = _idle(members)
    if idle:
        found["idle"] = Idle((_join(idle),), (), ())
    if groups:
        found["communication"] = _transfers(groups)
    return found


def _idle(members: Sequence[Member]) -> list[DeviceIdle]:
    """The busiest device of each rank with its idle time."""
    own = [(member.idle, member.resources.device) for member in members if member.idle and member.resources]
    return [device for idle, busiest in own for device in idle.devices if device.device == busiest]


def _join(devices: Sequence[DeviceIdle]) -> DeviceIdle:
    window, idle = sum(device.window_ns for device in devices), sum(device.idle_ns for device in devices)
    causes: defaultdict[str, list[Cause]] = defaultdict(list)
    for device in devices:
        for cause in device.causes:
            causes[cause.cause].append(cause)
    times = {name: sum(cause.time_ns for cause in same) for name, same in causes.items()}
    return DeviceIdle(
        device=typical.DEVICE,
        window_ns=window,
        busy_ns=window - idle,
        idle_ns=idle,
        idle_share=idle / window if window else 0.0,
        gaps=sum(device.gaps for device in devices),
        causes=tuple(
            Cause(name, time, time / idle if idle else None, sum(cause.gaps for cause in causes[name]))
            for name, time in times.items()
        ),
    )


def _sum(classes: Sequence[KernelClasses]) -> KernelClasses:
    rows: defaultdict[str, list[KernelClassTime]] = defaultdict(list)
    for own in classes:
        for row in own.rows:
            rows[row.name].append(row)
    total = sum(own.total_ns for own in classes)
    unexplained = sum(own.unexplained_ns for own in classes)
    joined = [_class(name, same, total) for name, same in rows.items()]
    return KernelClasses(
        rows=tuple(sorted(joined, key=lambda row: (-row.total_ns, row.name))),
        total_ns=total,
        unexplained_calls=sum(own.unexplained_calls for own in classes),
        unexplained_ns=unexplained,
        unexplained_share=unexplained / total if total else None,
        unexplained=(),
    )


def _class(name: str, rows: Sequence[KernelClassTime], total: int) -> KernelClassTime:
    time = sum(row.total_ns for row in rows)
    return KernelClassTime(
        name=name,
        calls=sum(row.calls for row in rows),
        total_ns=time,
        share=time / total if total else None,
        kernels=max(row.kernels for row in rows),
        longest=max(rows, key=lambda row: row.total_ns).longest,
    )


def _transfers(groups: Sequence[GroupRow]) -> Communication:
    """Matched collectives without the waiting; each counts once per rank."""
    rows = tuple(_row(group) for group in groups)
    return Communication(
        rows=tuple(sorted(rows, key=lambda row: -row.total_ns)),
        devices=(),
        steps=(),
        calls=sum(row.calls for row in rows),
        calls_without_size=sum(row.calls for row in rows if row.message_bytes is None),
    )


def _row(group: GroupRow) -> CollectiveRow:
    calls, each = group.collectives * group.ranks, round(group.transfer_ns)
    return CollectiveRow(
        operation=group.operation,
        process_group=group.process_group,
        group_size=group.group_size,
        dtype=None,
        message_bytes=group.message_bytes,
        calls=calls,
        total_ns=round(group.transfer_ns * calls),
        mean_ns=group.transfer_ns,
        min_ns=each,
        max_ns=each,
        algorithm_gb_per_s=group.algorithm_gb_per_s,
        bus_gb_per_s=group.bus_gb_per_s,
    )


def source(name: str, members: Sequence[Member]) -> ReportSource:
    """Source of a run's report: all its files."""
    sizes = [member.source.size_bytes for member in members]
    known = [size for size in sizes if size is not None]
    return ReportSource(name, FORMAT, sum(known) if len(known) == len(sizes) else None)


def summary(members: Sequence[Member], world_size: int | None) -> TraceSummary:
    """Facts about all traces of a run: sums, and values on which the traces agree."""
    own = [member.summary for member in members]
    bases = [one.base_ns for one in own if one.base_ns is not None]
    devices: dict[ReportDevice, None] = dict.fromkeys(device for one in own for device in one.devices)
    options = {
        field: typical.common([getattr(one.options, field) for one in own])
        for field in RecordingOptions.__struct_fields__
    }
    return TraceSummary(
        events=sum(one.events for one in own),
        span_ns=max((one.span_ns for one in own), default=0),
        base_ns=min(bases, default=None),
        devices=tuple(devices),
        rank=None,
        world_size=world_size,
        options=RecordingOptions(**options),
        steps_from=typical.common([one.steps_from for one in own]),
        torch_version=typical.common([one.torch_version for one in own]),
    )
