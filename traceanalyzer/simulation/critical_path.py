"""What decides how long the typical step takes, and what could take longer without delaying it?

The critical path is the chain of causes that ends with the step: at each time, the one activity that the end of the
step waits for. Its parts sum to the step. All other work has slack: it can take longer without delaying the step.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.simulation import back_pointers, model, path_parts, step_times, window
from traceanalyzer.simulation.back_pointers import Pieces, Why
from traceanalyzer.simulation.edits import Edits
from traceanalyzer.simulation.graph import Graph
from traceanalyzer.simulation.longest_path import Times
from traceanalyzer.simulation.model import Model
from traceanalyzer.simulation.path_parts import CriticalOperator, KernelWithSlack
from traceanalyzer.simulation.step_times import StepBounds
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.recording import shown_step
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category

RESOURCES = (
    "loader",
    "host",
    "launch",
    "compute",
    "copy",
    "communication",
    "device_gap",
    "wake_up",
    "unrecorded",
    "asleep",
)
"""Resources of parts of the path: waiting for the loader, host time, launch latency, kernels, copies and fills,
collectives, gaps between device events, return to the waiting host, unrecorded work, and a host that sleeps or waits in
a Python function."""
(LOADER, HOST, LAUNCH, COMPUTE, COPY, COMMUNICATION, GAP, WAKE_UP, UNRECORDED, ASLEEP) = range(len(RESOURCES))
_OF_REASON = {Why.HOST: HOST, Why.WAKE_UP: WAKE_UP, Why.GAP: GAP, Why.LAUNCH: LAUNCH, Why.EVENT_WAIT: GAP}
_CHAINS = {"loader": "loader", "host": "host", "launch": "host", "wake_up": "host", "communication": "communication"}
"""The resources that are grouped as `loader`, `host` or `communication`; all others count as that of the device."""
_OWNERS = 30
_BUSY = 0.8
"""Share of a step that a device must work to bound it, as in headlines."""


class CriticalPart(msgspec.Struct, frozen=True):
    """Time of the path in one resource."""

    resource: str
    """`loader`, `host`, `launch`, `compute`, `copy`, `communication` (on the CPU: collectives while no operator runs),
    `device_gap`, `wake_up`, `unrecorded`, or `asleep` (the host sleeps, or waits for a lock, a process, a file or the
    network, as far as Python stacks tell)."""
    ns_per_step: float
    """Time in ns per step."""
    share: float
    """Share of the step (0 to 1)."""


class CriticalKernelClass(msgspec.Struct, frozen=True):
    """Time of the path in kernels of one class."""

    kernel_class: str | None
    """Class of the kernels, as in the analysis `kernel_classes`; null if the name does not show it."""
    ns_per_step: float
    """Time in ns per step."""


class CriticalOwner(msgspec.Struct, frozen=True):
    """Host time of the path in one owner, the innermost part of the program that contains it."""

    ns_per_step: float
    """Time in ns per step, including waits for the loader."""
    name: str | None
    """Name of the mark, class of the module, or name of the function, operator or call, as in the analysis
    `host_owners`; null for time in which nothing was recorded."""
    kind: str | None
    """Kind of the owner, as in `host_owners`; null without an owner."""
    role: str | None
    """Purpose of the work, as in `host_owners`; null if no name shows it."""
    file: str | None
    """File of the function, or of the forward function of a module; null without a recorded stack."""
    line: int | None
    """Line of the function in the file; null without a recorded stack."""


class CriticalStretch(msgspec.Struct, frozen=True):
    """A stretch of the path in one resource."""

    resource: str
    """Resource, as in the parts; short stretches are merged into the one before them."""
    start_ns: int
    """Start in ns since the start of the step."""
    duration_ns: int
    """Duration in ns."""
    mostly: str | None = None
    """Name of the kernel, copy or fill, or of the owner of host time, that takes at least half of it; null if none
    does."""


class CriticalPath(msgspec.Struct, frozen=True):
    """The critical path of the typical step."""

    steps: int
    """Number of steps in the means."""
    step_ns: float
    """Mean duration of these steps in ns."""
    parts: tuple[CriticalPart, ...]
    """Time by resource; all resources are listed and sum to the step."""
    kernel_classes: tuple[CriticalKernelClass, ...]
    """Time of kernels by class, largest first."""
    operators: tuple[CriticalOperator, ...]
    """Time by operator, the 30 largest."""
    stretches: tuple[CriticalStretch, ...]
    """The path of the step that is most like the mean, in the order of time; they sum to the step, and are at most
    100."""
    device_slack_ns_per_step: float | None
    """Time in ns per step of device events each of which, alone, could take twice as long without lengthening the step;
    null without device events."""
    owners: tuple[CriticalOwner, ...] = ()
    """Host time of the path by owner, the 30 largest."""
    kernels_with_slack: tuple[KernelWithSlack, ...] = ()
    """Device events that could take twice as long, by name, the 10 with most such time."""
    device_ns_per_step: float | None = None
    """Time in ns per step of all device events, each in full; null without device events."""
    stretches_start_ns: int | None = None
    """Start of the step of the stretches, in ns since the first event; it is the step of the analysis `timeline`."""


def analyze(context: Context) -> CriticalPath:
    """The critical path of the typical step as recorded."""
    causal = model.require(context)
    pieces = back_pointers.critical(causal.with_residuals, causal.recorded, causal.bounds)
    parts, resource = _recorded(causal, pieces)
    durations = causal.durations_ns(causal.recorded)
    steps, total = len(durations), int(durations.sum())
    within = _times_of_steps(causal.bounds, causal.recorded)
    times = within.within(parts.start_ns, parts.end_ns)
    is_free = path_parts.with_slack(causal)
    device_ns = causal.graph.device.dur_ns
    shown_ns, stretches = _of_one_step(causal, parts, resource)
    return CriticalPath(
        steps=steps,
        step_ns=total / steps,
        parts=_parts(resource, times, steps, total),
        kernel_classes=_classes(causal, parts, times, resource),
        operators=path_parts.operators(causal, pieces, within, is_free),
        stretches=stretches,
        device_slack_ns_per_step=float(device_ns[is_free].sum()) / steps if len(device_ns) else None,
        owners=_owners(causal, _of_the_program(parts, resource), within),
        kernels_with_slack=path_parts.kernels_with_slack(causal, is_free),
        device_ns_per_step=float(device_ns[path_parts.judged(causal)].sum()) / steps if len(device_ns) else None,
        stretches_start_ns=shown_ns,
    )


def _times_of_steps(bounds: StepBounds, times: Times) -> Intervals:
    """When the steps run in a replay."""
    return Intervals.union(step_times.starts(bounds, times), step_times.ends(bounds, times))


def _parts(resource: I64, times: I64, steps: int, total_ns: int) -> tuple[CriticalPart, ...]:
    """Time of the path by resource; what no piece of it takes is unrecorded."""
    sums = sum_by(resource, times, len(RESOURCES))
    sums[UNRECORDED] += total_ns - sums.sum()
    return tuple(
        CriticalPart(name, ns / steps, ns / total_ns if total_ns else 0.0)
        for name, ns in zip(RESOURCES, sums.tolist(), strict=True)
    )


def bottleneck(causal: Model, edits: Edits) -> str:
    """The resource with most time on the path with some edits: `loader`, `host`, `gpu` or `communication`.

    A host that stands in a wait while the device works nearly all the time is on the path, but does not bound the step.
    """
    times = chains(causal, edits)
    most = max(times, key=lambda name: times[name])
    return "gpu" if most == "host" and _device_share(causal, edits) >= _BUSY else most


def _device_share(causal: Model, edits: Edits) -> float:
    """Part of the time of all steps in which the device works, with some edits."""
    _, times, bounds = causal.changed(edits)
    within = _times_of_steps(bounds, times)
    works = Intervals.union(times.start_ns, times.end_ns) & within
    return works.length / within.length if within.length else 0.0


def chains(causal: Model, edits: Edits) -> dict[str, int]:
    """Time of the path in ns over all steps, with some edits, by `gpu`, `host`, `loader` and `communication`."""
    graph, times, bounds = causal.changed(edits)
    pieces = back_pointers.critical(graph, times, bounds)
    within = _times_of_steps(bounds, times)
    length = within.within(pieces.start_ns, pieces.end_ns)
    sums = sum_by(_resources(causal, graph, pieces), length, len(RESOURCES)).tolist()
    chain_ns = dict.fromkeys(("gpu", "host", "loader", "communication"), 0)
    for name, ns in zip(RESOURCES, sums, strict=True):
        chain_ns[_CHAINS.get(name, "gpu")] += ns
    if sums[GAP] > sums[COMPUTE] + sums[COPY]:  # then the device is not slow, but has many things to start
        chain_ns["gpu"] -= sums[GAP]
        chain_ns["host"] += sums[GAP]
    return chain_ns


def _recorded(causal: Model, pieces: Pieces) -> tuple[Pieces, I64]:
    """The recorded path, cut where the host begins or ends to work, and the resource of each piece."""
    parts, wait = path_parts.label_waits(causal, pieces)
    resource = _resources(causal, causal.with_residuals, parts)
    of_wait = np.array([HOST, ASLEEP, COMMUNICATION, UNRECORDED])
    is_host = resource == HOST
    resource[is_host] = of_wait[wait[is_host]]
    return parts, resource


def _resources(causal: Model, graph: Graph, pieces: Pieces) -> I64:
    """The resource of each piece of the path of a graph."""
    trace = causal.context.trace
    of_reason = np.array([_OF_REASON.get(why, COMPUTE) for why in Why])
    resource = of_reason[pieces.why]
    is_host = resource == HOST
    resource[is_host] = np.where(graph.host.in_loader[pieces.point[is_host]], LOADER, HOST)
    runs = np.flatnonzero(pieces.why == Why.RUNS)
    rows = graph.device.row[pieces.event[runs]]
    kind = np.where(trace.device.category[rows] == Category.KERNEL, COMPUTE, COPY)
    resource[runs] = np.where(communication_kernels(causal.context)[rows], COMMUNICATION, kind)
    return resource


def _classes(causal: Model, pieces: Pieces, times: I64, resource: I64) -> tuple[CriticalKernelClass, ...]:
    trace = causal.context.trace
    runs = np.flatnonzero(resource == COMPUTE)
    row_of_event = causal.graph.device.row[pieces.event[runs]]
    names, name_of_piece = np.unique(trace.device.name[row_of_event], return_inverse=True)
    ns_by_name = sum_by(name_of_piece, times[runs], len(names))
    ns_by_class: dict[str | None, int] = {}
    for code, ns in zip(names.tolist(), ns_by_name.tolist(), strict=True):
        of_name = kernel_class(trace.names[code])
        name = of_name.value if of_name else None
        ns_by_class[name] = ns_by_class.get(name, 0) + ns
    steps = len(causal.bounds.part)
    rows = [CriticalKernelClass(name, ns / steps) for name, ns in ns_by_class.items() if ns]
    return tuple(sorted(rows, key=lambda row: (-row.ns_per_step, row.kernel_class or "")))


def _of_one_step(causal: Model, pieces: Pieces, resource: I64) -> tuple[int, tuple[CriticalStretch, ...]]:
    """Start in ns of the step in the timeline, and its stretches; from a separate model if it is not modelled."""
    context = causal.context
    row = shown_step(context)
    number = _number_of(causal, row)
    if number is None:
        number = 0
        causal = model.over(context, (window.of_steps(context, np.array([row])),))
        pieces = back_pointers.critical(causal.with_residuals, causal.recorded, causal.bounds)
        pieces, resource = _recorded(causal, pieces)
    start = int(step_times.starts(causal.bounds, causal.recorded)[number])
    end = int(step_times.ends(causal.bounds, causal.recorded)[number])
    return start, _stretches(causal, pieces, resource, (start, end))


def _stretches(causal: Model, pieces: Pieces, resource: I64, step: tuple[int, int]) -> tuple[CriticalStretch, ...]:
    """The stretches of the path from the start to the end of a step."""
    start, end = step
    begins, label = path_parts.merge_stretches(pieces, resource, step, UNRECORDED)
    mostly = path_parts.main_labels(causal, pieces, path_parts.owned_time(causal, pieces), begins, end)
    since_start = (begins - start).tolist()
    length = (np.append(begins[1:], end) - begins).tolist()
    columns = zip(label.tolist(), since_start, length, mostly, strict=True)
    return tuple(CriticalStretch(RESOURCES[kind], *others) for kind, *others in columns)


def _number_of(causal: Model, row: int) -> int | None:
    """The number of a step among the modelled ones, given by its row; None if it is not modelled."""
    starts = np.concatenate([part.step_start_ns for part in causal.windows])
    numbers = np.flatnonzero(starts == program_steps(causal.context).start_ns[row])
    return int(numbers[0]) if len(numbers) else None


def _of_the_program(parts: Pieces, resource: I64) -> Pieces:
    """The pieces without host time that no part of the program takes: collectives on the CPU, and removed events."""
    kept = (parts.why != Why.HOST) | ~np.isin(resource, (COMMUNICATION, UNRECORDED))
    return parts.take(kept)


def _owners(causal: Model, pieces: Pieces, within: Intervals) -> tuple[CriticalOwner, ...]:
    """Host time of the path by owner, largest first."""
    owned = path_parts.owned_time(causal, pieces)
    numbers, owner_of_time = ranked(owned.owner)
    times = within.within(owned.start_ns, owned.end_ns)
    ns_per_step = sum_by(owner_of_time, times, len(numbers)) / len(causal.bounds.part)
    rows = []
    for number, ns in zip(numbers.tolist(), ns_per_step.tolist(), strict=True):
        owner = path_parts.owner(causal, number)
        if owner:
            rows.append(CriticalOwner(ns, owner.name, owner.kind, owner.role, owner.file, owner.line))
        else:
            rows.append(CriticalOwner(ns, None, None, None, None, None))
    rows.sort(key=lambda row: (-row.ns_per_step, row.name or "", row.kind or "", row.role or ""))
    return tuple(row for row in rows[:_OWNERS] if row.ns_per_step > 0)
