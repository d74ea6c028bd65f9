"""The figures of a side that was recorded as traces: one, or several captures and ranks of one run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from traceanalyzer.analyzers import memory, modules
from traceanalyzer.analyzers.idle import gpu
from traceanalyzer.analyzers.kernels import Kernels, KernelsByOperator
from traceanalyzer.analyzers.operators import Operators, OperatorsByShape
from traceanalyzer.comparison.measurement import (
    Key,
    MeasuredGpu,
    MeasuredMemory,
    Measurement,
    Ranked,
    StepRow,
    known_mean,
    mean,
)
from traceanalyzer.report.difference import Cost, Side
from traceanalyzer.report.model import Finding, RecordingOptions, Report, Resources
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown

_MARKED = "ProfilerStep"

Figures = tuple[Key, float, float | None, float | None]
"""Key of a row of one trace, with its calls, device time and host time in all steps, in ns."""


def measure(
    name: str,
    reports: Sequence[Report],
    ranks: frozenset[int] | None,
    ignored: tuple[str, ...],
    *,
    is_typical: bool = True,
) -> Measurement:
    """Bring the reports of one side together.

    Args:
        name: Name of the side.
        reports: Of traces, in a fixed order.
        ranks: The ranks that both sides have; None if ranks do not matter.
        ignored: Files that are not part of it.
        is_typical: Whether both sides know their typical steps; else all recorded steps count.
    """
    chosen = [r for r in reports if ranks is None or rank_of(r) in ranks]
    steps = [(_steps if is_typical else _recorded_steps)(report) for report in chosen]
    # Tables sum the whole recording. A trace is one step at the least, so that its figures are figures per step.
    recorded = sum(max(1, len(_recorded_steps(report)[1])) for report in chosen)
    return Measurement(
        side=_side(name, chosen, steps, _left_out(reports, chosen), ignored),
        runs=_runs(chosen, [rows for _, rows in steps]),
        total_ns=None,
        parts={},
        rankings={key: _ranked(rows, chosen, recorded) for key, rows in _RANKINGS.items()},
        memory=_memory(chosen),
        gpus=_gpus(chosen),
        resources=_resources(chosen),
        findings=_findings(chosen),
        options=_options(chosen),
        world_size=next((r.trace.world_size for r in chosen if r.trace and r.trace.world_size is not None), None),
    )


def rank_of(report: Report) -> int | None:
    """The rank that a trace names."""
    return report.trace.rank if report.trace is not None else None


def ranks_of(reports: Sequence[Report]) -> tuple[int, ...]:
    """The ranks that traces name."""
    return tuple(sorted({rank for report in reports if (rank := rank_of(report)) is not None}))


def _left_out(reports: Sequence[Report], chosen: Sequence[Report]) -> tuple[int, ...]:
    return tuple(rank for rank in ranks_of(reports) if rank not in ranks_of(chosen))


def _side(
    name: str,
    reports: Sequence[Report],
    steps: Sequence[tuple[str | None, tuple[Step, ...]]],
    left_out: tuple[int, ...],
    ignored: tuple[str, ...],
) -> Side:
    devices = {d.name for r in reports if r.trace is not None for d in r.trace.devices if d.name}
    found_by = {by for by, _ in steps}
    return Side(
        name=name,
        format="kineto",
        run=None,
        title=None,
        traces=len(reports),
        ranks=ranks_of(reports),
        ranks_left_out=left_out,
        steps=sum(max(1, len(rows)) for _, rows in steps),
        steps_from=found_by.pop() if len(found_by) == 1 else None,
        devices=tuple(sorted(devices)),
        ignored=ignored,
    )


def has_typical_steps(report: Report) -> bool:
    """Whether a report knows its typical steps, unlike reports of old versions."""
    recording = report.result("recording", Recording)
    return recording is not None and recording.typical is not None and bool(recording.typical.rows)


def _steps(report: Report) -> tuple[str | None, tuple[Step, ...]]:
    """The typical steps; in reports of old versions all recorded ones."""
    recording = report.result("recording", Recording)
    if recording is not None and recording.typical is not None and recording.typical.rows:
        return recording.steps_from, recording.typical.rows
    return _recorded_steps(report)


def _recorded_steps(report: Report) -> tuple[str | None, tuple[Step, ...]]:
    """The steps that the profiler marked; else those that annotations suggest, else the whole trace."""
    breakdown = report.result("step_breakdown", StepBreakdown)
    found_by = report.trace.steps_from if report.trace is not None else None
    if breakdown is None:
        return found_by, ()
    if found_by != _MARKED and breakdown.inferred is not None:
        return breakdown.inferred.steps_from, breakdown.inferred.steps
    return found_by, breakdown.steps


def _runs(reports: Sequence[Report], steps: Sequence[tuple[Step, ...]]) -> tuple[tuple[StepRow, ...], ...]:
    """Captures in order; the steps of one number of all ranks are one step, because ranks wait for each other."""
    captures: defaultdict[int, defaultdict[str, list[Step]]] = defaultdict(lambda: defaultdict(list))
    seen: defaultdict[int | None, int] = defaultdict(int)
    for report, rows in zip(reports, steps, strict=True):
        rank = rank_of(report)
        for step in rows:
            captures[seen[rank]][step.name].append(step)
        seen[rank] += 1
    return tuple(tuple(map(_joined, capture.values())) for capture in captures.values())


def _joined(steps: list[Step]) -> StepRow:
    parts = {part: mean(getattr(step, f"{part}_ns") for step in steps) for part in PARTS}
    return StepRow(mean(step.duration_ns for step in steps), parts)


def _ranked(rows: Callable[[Report], Iterable[Figures]], reports: Sequence[Report], steps: int) -> Ranked:
    """Sums over all traces, per step of a rank."""
    sums: dict[Key, list[float | None]] = {}
    for report in reports:
        for key, *values in rows(report):
            sums[key] = [_plus(a, b) for a, b in zip(sums.get(key, (None, None, None)), values, strict=True)]
    return Ranked({key: Cost(*(None if v is None else v / steps for v in values)) for key, values in sums.items()})


def _plus(a: float | None, b: float | None) -> float | None:
    return b if a is None else (a if b is None else a + b)


def _operators(report: Report) -> Iterator[Figures]:
    table = report.result("operators", Operators)
    for row in table.rows if table else ():
        yield Key(row.name), row.calls, row.device_self_ns, row.host_self_ns


def _operators_by_shape(report: Report) -> Iterator[Figures]:
    """Only where shapes were recorded: without them it is the table by name again."""
    table = report.result("operators_by_shape", OperatorsByShape)
    for row in table.rows if table and any(row.input_shapes for row in table.rows) else ():
        yield Key(row.name, row.input_shapes), row.calls, row.device_self_ns, row.host_self_ns


def _kernels(report: Report) -> Iterator[Figures]:
    table = report.result("kernels", Kernels)
    for row in table.rows if table else ():
        yield Key(row.name), row.calls, row.total_ns, None


def _kernels_by_operator(report: Report) -> Iterator[Figures]:
    table = report.result("kernels_by_operator", KernelsByOperator)
    for row in table.rows if table else ():
        yield Key(row.name, owner=row.operator), row.calls, row.total_ns, None


def _modules(report: Report) -> Iterator[Figures]:
    """Modules by the path that leads to each, forward and backward pass together."""
    table = report.result("modules", modules.Modules)
    paths: list[str] = []
    for place in table.tree if table else ():
        paths.append(place.name if place.parent is None else f"{paths[place.parent]} / {place.name}")
        device = place.device_self_ns + place.backward_device_self_ns
        yield Key(paths[-1]), place.calls, device, place.host_self_ns + place.backward_host_self_ns


_RANKINGS: dict[str, Callable[[Report], Iterable[Figures]]] = {
    "operators": _operators,
    "operators_by_shape": _operators_by_shape,
    "kernels": _kernels,
    "kernels_by_operator": _kernels_by_operator,
    "modules": _modules,
}


def _memory(reports: Sequence[Report]) -> dict[str, MeasuredMemory]:
    """The highest peak of each device over all traces."""
    by_device: defaultdict[str, list[memory.DeviceMemory]] = defaultdict(list)
    for report in reports:
        result = report.result("memory", memory.MemoryUse)
        for device in result.devices if result else ():
            by_device[device.device].append(device)
    return {
        name: MeasuredMemory(
            max((d.peak_allocated_bytes for d in devices if d.peak_allocated_bytes is not None), default=None),
            max((d.peak_reserved_bytes for d in devices if d.peak_reserved_bytes is not None), default=None),
        )
        for name, devices in by_device.items()
    }


def _gpus(reports: Sequence[Report]) -> dict[int, MeasuredGpu]:
    """Means over all traces."""
    by_device: defaultdict[int, list[gpu.DeviceUse]] = defaultdict(list)
    for report in reports:
        result = report.result("gpu", gpu.GpuMetrics)
        for device in result.devices if result else ():
            by_device[device.device].append(device)
    return {
        number: MeasuredGpu(*(known_mean(getattr(d, f) for d in devices) for f in MeasuredGpu.__dataclass_fields__))
        for number, devices in sorted(by_device.items())
    }


def _resources(reports: Sequence[Report]) -> Resources | None:
    resources = [headline.resources for report in reports for headline in report.headlines]
    if not resources:
        return None
    means: dict[str, Any] = {f: known_mean(getattr(r, f) for r in resources) for f in Resources.__struct_fields__}
    return Resources(**means)


def _findings(reports: Sequence[Report]) -> tuple[Finding, ...]:
    """Each finding of several traces once, with the texts of the trace in which it saves most."""
    best: dict[tuple[str, int], Finding] = {}
    for report in reports:
        count: defaultdict[str, int] = defaultdict(int)
        for finding in report.findings:
            key = finding.rule, count[finding.rule]
            count[finding.rule] += 1
            if key not in best or _worth(finding) > _worth(best[key]):
                best[key] = finding
    return tuple(best.values())


def _worth(finding: Finding) -> float:
    return finding.saving.wall_ns_per_step[1] if finding.saving else 0.0


def _options(reports: Sequence[Report]) -> RecordingOptions | None:
    """What all traces agree on; unknown where they do not."""
    all_options = [report.trace.options for report in reports if report.trace is not None]
    if not all_options:
        return None
    agreed = {f: {getattr(options, f) for options in all_options} for f in RecordingOptions.__struct_fields__}
    return msgspec.convert({f: v.pop() if len(v) == 1 else None for f, v in agreed.items()}, RecordingOptions)
