"""Results for all ranks of a run as one, in the form that one trace's analyses have.

A rank's typical step leaves out steps that are unlike its others. The typical step of the run is the mean over those
that the ranks keep; waiting for each other is judged over the steps that every rank keeps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from math import fsum
from typing import TypeVar

import msgspec

from traceanalyzer.analyzers.communication import CollectiveRow, Communication
from traceanalyzer.analyzers.idle import Cause, DeviceIdle, Idle
from traceanalyzer.analyzers.kernels.classes import KernelClasses, KernelClassTime
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.analyzers.ranks.model import GroupRow, Ranks
from traceanalyzer.report.model import RecordingOptions, ReportDevice, ReportSource, TraceSummary
from traceanalyzer.structure.recording import CauseInStep, Recording, TypicalStep
from traceanalyzer.structure.recording.frameworks import FrameworkEvidence
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown

T = TypeVar("T")
DEVICE = 0
"""Device number that stands for the busiest device of every rank."""


def joint_recording(members: Sequence[Member]) -> Recording | None:
    """The recording of all ranks together; None if a rank with steps has none, as in saved reports of old versions.

    Program and evidence are those of most ranks (of as many, the lowest), framework and marks of steps what all agree
    on, times of the typical step means over all their steps. Single steps and windows are each rank's own.
    """
    recordings = [member.recording for member in members if member.recording is not None]
    if not recordings or len(recordings) < sum(member.resources is not None for member in members):
        return None
    program = _of_most(recordings)
    typical = typical_step([recording.typical for recording in recordings if recording.typical is not None])
    return Recording(
        workload=program.workload,
        evidence=program.evidence,
        framework=common([recording.framework for recording in recordings]),
        frameworks=_shared_frameworks(recordings),
        window=None,
        steps_from=common([recording.steps_from for recording in recordings]),
        steps=(),
        all_steps_count=any(recording.all_steps_count for recording in recordings),
        typical_step_ns=_typical_step_ns(recordings, typical),
        typical=typical,
        has_hardly_any_work=all(recording.has_hardly_any_work for recording in recordings),
        device_busy_ns=sum(recording.device_busy_ns for recording in recordings),
        startup_ns=sum(recording.startup_ns for recording in recordings),
        is_device_alone=all(recording.is_device_alone for recording in recordings),
    )


def _of_most(recordings: Sequence[Recording]) -> Recording:
    """The first recording of the program that most ranks run; of as many, the first."""
    workloads = Counter(recording.workload for recording in recordings)
    most_common = workloads.most_common(1)[0][0]
    return next(recording for recording in recordings if recording.workload == most_common)


def _shared_frameworks(recordings: Sequence[Recording]) -> tuple[FrameworkEvidence, ...]:
    """Frameworks of which every rank shows signs, with those of the first."""
    shared = set.intersection(*({framework.id for framework in recording.frameworks} for recording in recordings))
    return tuple(framework for framework in recordings[0].frameworks if framework.id in shared)


def _typical_step_ns(recordings: Sequence[Recording], typical: TypicalStep | None) -> float | None:
    """The duration of the typical step; None if a rank has none."""
    if typical is None or any(recording.typical_step_ns is None for recording in recordings):
        return None
    return typical.parts.duration_ns


def typical_step(of_ranks: Sequence[TypicalStep]) -> TypicalStep | None:
    """The mean over the typical steps of all ranks; None without any."""
    if not of_ranks:
        return None
    times: defaultdict[str, float] = defaultdict(float)
    steps = sum(typical.steps for typical in of_ranks)
    for typical in of_ranks:
        for row in typical.idle:
            times[row.cause] += row.ns_per_step * typical.steps / steps
    return TypicalStep(
        steps=steps,
        parts=mean_parts([(typical.parts, typical.steps) for typical in of_ranks]),
        resources=mean_resources([typical.resources for typical in of_ranks]),
        idle=tuple(CauseInStep(cause, time) for cause, time in times.items()),
    )


def mean_parts(of_ranks: Sequence[tuple[Average, int]]) -> Average:
    """Parts of the mean step, from those of each rank and the number of its steps."""
    steps = sum(count for _, count in of_ranks)
    means = (
        fsum(getattr(average, field) * count for average, count in of_ranks) / steps
        for field in Average.__struct_fields__
    )
    return Average(*means)


def mean_resources(resources: Sequence[StepResources]) -> StepResources:
    """Means over the steps of all ranks (null if unknown on every rank); sums of fields that are sums in a rank."""
    steps = sum(own.steps for own in resources)

    def over(field: str) -> float | None:
        values = [(v, own.steps) for own in resources if (v := getattr(own, field)) is not None]
        return fsum(v * n for v, n in values) / sum(n for _, n in values) if values else None

    means = {f: over(f) for f in StepResources.__struct_fields__ if f.endswith("_ns")}
    summed = ("recorded_device_ns", "outside_device_ns", "steps_device_ns")
    sums = {f: sum(int(getattr(own, f) or 0) for own in resources) for f in summed}
    unread = next((own.unread_device for own in resources if own.unread_device), None)
    fields = {**means, **sums, "steps": steps, "device": DEVICE, "unread_device": unread}
    return msgspec.convert(fields, StepResources)


def common(values: Sequence[T]) -> T | None:
    """The value that all have; null if they differ."""
    return values[0] if values and all(value == values[0] for value in values) else None


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
    results: dict[str, msgspec.Struct] = {"ranks": ranks}
    if recording := joint_recording(members):
        results["recording"] = recording
    if known:
        results["resources"] = mean_resources(known)
    if averages := [(m.average, m.resources.steps) for m in members if m.average is not None and m.resources]:
        results["step_breakdown"] = StepBreakdown(None, (), mean_parts(averages), None, None, None, None)
    if classes:
        results["kernel_classes"] = _sum(classes)
    idle = _idle(members)
    if idle:
        results["idle"] = Idle((_join(idle),), (), ())
    if groups:
        results["communication"] = _transfers(groups)
    return results


def _idle(members: Sequence[Member]) -> list[DeviceIdle]:
    """The busiest device of each rank with its idle time."""
    own = [(member.idle, member.resources.device) for member in members if member.idle and member.resources]
    return [device for idle, busiest in own for device in idle.devices if device.device == busiest]


def _join(devices: Sequence[DeviceIdle]) -> DeviceIdle:
    window = sum(device.window_ns for device in devices)
    idle = sum(device.idle_ns for device in devices)
    causes: defaultdict[str, list[Cause]] = defaultdict(list)
    for device in devices:
        for cause in device.causes:
            causes[cause.cause].append(cause)
    times = {name: sum(cause.time_ns for cause in same) for name, same in causes.items()}
    return DeviceIdle(
        device=DEVICE,
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
    joined = [
        KernelClassTime(
            name=name,
            calls=sum(row.calls for row in same),
            total_ns=(time := sum(row.total_ns for row in same)),
            share=time / total if total else None,
            kernels=max(row.kernels for row in same),
            longest=max(same, key=lambda row: row.total_ns).longest,
        )
        for name, same in rows.items()
    ]
    return KernelClasses(
        rows=tuple(sorted(joined, key=lambda row: (-row.total_ns, row.name))),
        total_ns=total,
        unexplained_calls=sum(own.unexplained_calls for own in classes),
        unexplained_ns=unexplained,
        unexplained_share=unexplained / total if total else None,
        unexplained=(),
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
    calls = group.collectives * group.ranks
    each = round(group.transfer_ns)
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
        field: common([getattr(one.options, field) for one in own]) for field in RecordingOptions.__struct_fields__
    }
    return TraceSummary(
        events=sum(one.events for one in own),
        span_ns=max((one.span_ns for one in own), default=0),
        base_ns=min(bases, default=None),
        devices=tuple(devices),
        rank=None,
        world_size=world_size,
        options=RecordingOptions(**options),
        steps_from=common([one.steps_from for one in own]),
        torch_version=common([one.torch_version for one in own]),
        writer=common([one.writer for one in own]),
    )
