"""The figures of a side that was recorded as traces: one, or several captures and ranks of one run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from traceanalyzer.analyzers import memory, modules
from traceanalyzer.analyzers.host import HostOwners
from traceanalyzer.analyzers.idle import gpu
from traceanalyzer.analyzers.kernels import Kernel, Kernels, KernelsByOperator
from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.analyzers.operators import Operators, OperatorsByShape
from traceanalyzer.analyzers.phases.callers import Callers
from traceanalyzer.comparison import all_steps, clocks, runs, views
from traceanalyzer.comparison.measurement import (
    EARLIER,
    Key,
    LaunchedWork,
    MeasuredGpu,
    MeasuredMemory,
    Measurement,
    Path,
    Ranked,
    StepRow,
    known_mean,
    mean,
)
from traceanalyzer.config import Config
from traceanalyzer.report.difference import Cost, Side
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Finding, RecordingOptions, Report, Resources
from traceanalyzer.sections.in_steps import rows_of
from traceanalyzer.structure.operator_times import PRODUCTS
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown

_MARKED = "ProfilerStep"
_MUCH = 0.1
"""Own choice: share of the steps from which on something else than the program's work changes what they show."""
_KEPT_BY_COMPILERS = frozenset({"gemm", "moe", "convolution", "attention", "recurrent", "communication"})

Figures = tuple[Key, float, float | None, float | None]
"""Key of a row of one trace, with its calls, device time and host time in all steps, in ns."""


def measure(
    name: str,
    reports: Sequence[Report],
    ranks: frozenset[int] | None,
    ignored: tuple[str, ...],
    *,
    is_typical: bool = True,
    is_host_typical: bool = True,
    config: Config | None = None,
) -> Measurement:
    """Bring the reports of one side together.

    Args:
        name: Name of the side.
        reports: Of traces, in a fixed order.
        ranks: The ranks that both sides have; None if ranks do not matter.
        ignored: Files that are not part of it.
        is_typical: Whether both sides know their typical steps; else all recorded steps count.
        is_host_typical: Whether calls of the typical steps are in them; else figures of calls are means over all steps.
        config: Which rules judge several ranks together.
    """
    chosen = [r for r in reports if ranks is None or rank_of(r) in ranks]
    steps = [(_steps if is_typical else _recorded_steps)(report) for report in chosen]
    # A trace is one step at the least, so that its figures are figures per step.
    count = sum(max(1, len(rows)) for _, rows in steps)
    every = sum(map(_number_recorded, chosen))
    resources = _resources(chosen)
    run = runs.of_reports(name, chosen, config)
    measurement = Measurement(
        side=_side(name, chosen, steps, _left_out(reports, chosen), ignored),
        runs=_runs(chosen, [rows for _, rows in steps]),
        total_ns=None,
        parts={},
        rankings={
            **_rankings(_OF_DEVICES, chosen, count if is_typical else every, is_typical=is_typical),
            **_rankings(_OF_HOSTS, chosen, count if is_host_typical else every, is_typical=is_host_typical),
            "modules": _ranked(_modules, chosen, every, is_typical=False),
        },
        memory=_memory(chosen),
        gpus=_gpus(chosen, is_typical=is_typical),
        resources=resources,
        findings=tuple(run.findings(_findings(chosen)) if run else _findings(chosen)),
        options=_options(chosen),
        world_size=_world_size(chosen),
        subjects=run.times if run else {},
        once=tuple(_once(name, chosen)),
        run=run,
        view=views.of_traces(chosen, run.report if run else chosen[0], resources),
    )
    measurement = _with_all_steps(measurement, chosen)
    if not is_typical:
        return measurement
    return replace(
        measurement,
        work=_work(chosen, count),
        flops=_flops(chosen, count),
        subjects={**_subjects(chosen), **measurement.subjects},
        classes=_classes(chosen),
    )


def _with_all_steps(measurement: Measurement, reports: Sequence[Report]) -> Measurement:
    """Add what a change of steps is held against: all of them, and the clocks at which they ran."""
    return replace(
        measurement,
        clock_mhz=clocks.while_working(reports, "sm_clock_mhz"),
        power_w=clocks.while_working(reports, "power_w"),
        all_runs=all_steps.runs(reports),
        unlike=all_steps.unlike(reports),
    )


def _world_size(reports: Sequence[Report]) -> int | None:
    """The number of ranks that the first trace with one names."""
    for report in reports:
        if report.trace is not None and report.trace.world_size is not None:
            return report.trace.world_size
    return None


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
    versions = {r.trace.torch_version if r.trace is not None else None for r in reports}
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
        torch_version=versions.pop() if len(versions) == 1 else None,
    )


def _number_recorded(report: Report) -> int:
    """Number of steps of the program, typical or not; at least one."""
    recording = report.result("recording", Recording)
    return max(1, len(recording.steps) if recording is not None else 0, len(_recorded_steps(report)[1]))


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


def _rankings(
    tables: Mapping[str, _Rows], reports: Sequence[Report], steps: int, *, is_typical: bool
) -> dict[str, Ranked]:
    return {name: _ranked(rows, reports, steps, is_typical=is_typical) for name, rows in tables.items()}


def _ranked(rows: _Rows, reports: Sequence[Report], steps: int, *, is_typical: bool) -> Ranked:
    """Sums over all traces, per step of a rank."""
    sums: dict[Key, list[float | None]] = {}
    for report in reports:
        for key, *values in rows(report, is_typical):
            sums[key] = [_plus(a, b) for a, b in zip(sums.get(key, (None, None, None)), values, strict=True)]
    return Ranked({key: Cost(*(None if v is None else v / steps for v in values)) for key, values in sums.items()})


def _plus(a: float | None, b: float | None) -> float | None:
    return b if a is None else (a if b is None else a + b)


def _operators(report: Report, is_typical: bool) -> Iterator[Figures]:
    for row in rows_of(report.result("operators", Operators), is_typical=is_typical):
        yield Key(row.name), row.calls, row.device_self_ns, row.host_self_ns


def _operators_by_shape(report: Report, is_typical: bool) -> Iterator[Figures]:
    """Only where shapes were recorded: without them it is the table by name again."""
    rows = rows_of(report.result("operators_by_shape", OperatorsByShape), is_typical=is_typical)
    for row in rows if any(row.input_shapes for row in rows) else ():
        yield Key(row.name, row.input_shapes), row.calls, row.device_self_ns, row.host_self_ns


def _kernels(report: Report, is_typical: bool) -> Iterator[Figures]:
    for row in rows_of(report.result("kernels", Kernels), is_typical=is_typical):
        yield Key(row.name), row.calls, row.total_ns, None


def _kernels_by_operator(report: Report, is_typical: bool) -> Iterator[Figures]:
    callers = report.result("callers", Callers) if is_typical else None
    if callers is not None:
        for caller in callers.rows:
            for name, calls, total_ns in caller.launched:
                yield Key(callers.name(name), owner=caller.name or None), calls, total_ns, None
        return
    table = report.result("kernels_by_operator", KernelsByOperator)
    for row in table.rows if table else ():
        yield Key(row.name, owner=row.operator), row.calls, row.total_ns, None


def _modules(report: Report, _: bool) -> Iterator[Figures]:
    """Modules by the path that leads to each, forward and backward pass together; of the whole recording."""
    table = report.result("modules", modules.Modules)
    paths: list[str] = []
    for place in table.tree if table else ():
        paths.append(place.name if place.parent is None else f"{paths[place.parent]} / {place.name}")
        device = place.device_self_ns + place.backward_device_self_ns
        yield Key(paths[-1]), place.calls, device, place.host_self_ns + place.backward_host_self_ns


_Rows = Callable[[Report, bool], Iterator[Figures]]
_OF_HOSTS: dict[str, _Rows] = {
    "operators": _operators,
    "operators_by_shape": _operators_by_shape,
}
_OF_DEVICES: dict[str, _Rows] = {"kernels": _kernels, "kernels_by_operator": _kernels_by_operator}


def _work(reports: Sequence[Report], steps: int) -> dict[Path, LaunchedWork]:
    """What devices do per step, by the calls around each launch."""
    sums: defaultdict[Path, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for report in reports:
        callers = report.result("callers", Callers)
        paths: list[Path] = []
        for caller in callers.rows if callers else ():
            around = paths[caller.parent] if caller.parent is not None and 0 <= caller.parent < len(paths) else ()
            paths.append(() if caller.parent is None else (*around, caller.name))
            sums[paths[-1]] = [
                sums[paths[-1]][0] + caller.calls,
                sums[paths[-1]][1] + sum(events for _, events, _ in caller.launched),
                sums[paths[-1]][2] + sum(ns for *_, ns in caller.launched),
            ]
    return {path: LaunchedWork(*(value / steps for value in values)) for path, values in sums.items()}


def _subjects(reports: Sequence[Report]) -> dict[tuple[str, str], float]:
    """Time per typical step in ns of what selections name: operators, kernels, owners, causes, resources."""
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for report in reports:
        recording = report.result("recording", Recording)
        owners = report.result("host_owners", HostOwners)
        if recording is None or recording.typical is None:
            continue
        typical = recording.typical
        count = recording.typical.steps * len(reports)
        for kernel in rows_of(report.result("kernels", Kernels), is_typical=True):
            times["device", kernel.name] += kernel.total_ns / count
            for kind in _kinds_of_work(kernel):
                times["class", kind] += kernel.total_ns / count
        for row in owners.rows if owners else ():
            times["host", row.name] += row.host_ns_per_step / len(reports)
        for row in rows_of(report.result("operators", Operators), is_typical=True):
            times["device", row.name] += row.device_self_ns / count
            times["call", row.name] += row.host_total_ns / count
            if ("host", row.name) not in times:
                times["host", row.name] = row.host_total_ns / count
        for cause in typical.idle:
            times["idle", cause.cause] += cause.ns_per_step / len(reports)
        for subject, ns in _whole_subjects(typical.resources).items():
            times[subject] += (ns or 0.0) / len(reports)
    return dict(times)


def _whole_subjects(resources: StepResources) -> dict[tuple[str, str], float | None]:
    """Time per step of the selections that are a whole resource."""
    return {
        ("device", "gpu"): resources.gpu_ns,
        ("device", "communication"): resources.communication_ns,
        ("host", "communication"): resources.communication_ns,
        ("host", "DataLoader"): resources.exposed_loader_ns,
        ("host", "host"): resources.host_ns,
        ("call", "synchronization"): resources.waiting_ns,
    }


def _kinds_of_work(kernel: Kernel) -> Iterable[str]:
    """What a kernel may do: its class where a compiler keeps it, else "others"; of generated code any of them."""
    if kernel.kernel_class == "triton" and kernel.generated_kind in (None, "template"):
        return ("others", *sorted(_KEPT_BY_COMPILERS))
    return (kernel.kernel_class if kernel.kernel_class in _KEPT_BY_COMPILERS else "others",)


def _classes(reports: Sequence[Report]) -> dict[str, str]:
    """The kind of work of each kernel, and of most of the kernels of each operator."""
    kinds = {
        kernel.name: next(iter(_kinds_of_work(kernel)))
        for report in reports
        for kernel in rows_of(report.result("kernels", Kernels), is_typical=True)
    }
    times: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for report in reports:
        callers = report.result("callers", Callers) or Callers((), ())
        for caller in callers.rows:
            for name, _, ns in caller.launched:
                times[caller.name][kinds.get(callers.name(name), "others")] += ns
    return {**{name: each.most_common(1)[0][0] for name, each in times.items()}, **kinds}


_STARTUP = Text(
    "diff-startup",
    "{name}: {startup:ns} of its steps are start-up (code is loaded or compiled, memory is taken), which happens once.",
)


def _once(name: str, reports: Sequence[Report]) -> Iterator[Message]:
    """What happens once, and is a large part of the steps."""
    recordings = [recording for report in reports if (recording := report.result("recording", Recording))]
    whole = sum(step.duration_ns for recording in recordings for step in recording.steps)
    startup = sum(recording.startup_ns for recording in recordings)
    earlier = sum(recording.window.unrecorded_work_ns for recording in recordings if recording.window)
    if startup > _MUCH * whole:  # of a run, the mean of its ranks
        yield _STARTUP(name=name, startup=startup / len(recordings))
    if earlier > _MUCH * whole:
        yield EARLIER(name=name, time=earlier / len(recordings))


def _flops(reports: Sequence[Report], steps: int) -> float | None:
    """Operations of products per step; None where a report does not know them."""
    tables = [report.result("roofline", Roofline) for report in reports]
    if any(table is None for table in tables):
        return None
    families = {family.value for family in PRODUCTS}
    products = (row.flops for table in tables if table for row in table.rows if row.family in families)
    return sum(products) / steps


def _memory(reports: Sequence[Report]) -> dict[str, MeasuredMemory]:
    """The highest peak of each device over all traces."""
    by_device: defaultdict[str, list[memory.DeviceMemoryUse]] = defaultdict(list)
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


def _gpus(reports: Sequence[Report], *, is_typical: bool) -> dict[int, MeasuredGpu]:
    """Means over all traces, in the typical steps or in the whole recording."""
    by_device: defaultdict[int, list[gpu.DeviceUse | gpu.UseInSteps]] = defaultdict(list)
    for report in reports:
        result = report.result("gpu", gpu.GpuMetrics)
        for device in result.devices if result else ():
            by_device[device.device].append((device.typical if is_typical else None) or device)
    return {
        number: MeasuredGpu(*(known_mean(getattr(d, f) for d in devices) for f in MeasuredGpu.__dataclass_fields__))
        for number, devices in sorted(by_device.items())
    }


def _resources(reports: Sequence[Report]) -> Resources | None:
    resources = [headline.resources for report in reports for headline in report.headlines if headline.resources]
    if not resources:
        return None
    means: dict[str, Any] = {f: known_mean(getattr(r, f) for r in resources) for f in Resources.__struct_fields__}
    return Resources(**means)


def _findings(reports: Sequence[Report]) -> Iterable[Finding]:
    """Each finding of several traces once, with the texts of the trace in which it saves most."""
    best: dict[tuple[str, int], Finding] = {}
    for report in reports:
        count: defaultdict[str, int] = defaultdict(int)
        for finding in report.findings:
            key = finding.rule, count[finding.rule]
            count[finding.rule] += 1
            if key not in best or _worth(finding) > _worth(best[key]):
                best[key] = finding
    return best.values()


def _worth(finding: Finding) -> float:
    return finding.saving.wall_ns_per_step[1] if finding.saving else 0.0


def _options(reports: Sequence[Report]) -> RecordingOptions | None:
    """What all traces agree on; unknown where they do not."""
    all_options = [report.trace.options for report in reports if report.trace is not None]
    if not all_options:
        return None
    agreed = {f: {getattr(options, f) for options in all_options} for f in RecordingOptions.__struct_fields__}
    return msgspec.convert({f: v.pop() if len(v) == 1 else None for f, v in agreed.items()}, RecordingOptions)
