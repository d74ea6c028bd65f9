"""What do collectives cost, how fast are they, and how much of them does computation hide?

Bandwidths are those of nccl-tests (doc/PERFORMANCE.md there): the algorithm bandwidth is size over time; the bus
bandwidth multiplies it by a factor of the operation, so that it compares with the speed of the hardware.

Collectives on the CPU, such as those of gloo, run in a thread of the library. They are exposed while no other thread of
the program runs an operator: then the program most likely waits for the result. Waiting for other ranks is part of
their duration.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import gpus
from traceanalyzer.knowledge.collectives import bus_factor, message_bytes, operation
from traceanalyzer.report.message import Text
from traceanalyzer.structure import recorded_collectives, typical
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.recorded_collectives import described_by, kernels_of_collectives, times_of
from traceanalyzer.structure.recording.frameworks import flat_bytes
from traceanalyzer.structure.sums import group, rows_by
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Collective
from traceanalyzer.trace.table import I64, UNKNOWN


class DescribedCollective(msgspec.Struct, frozen=True):
    """What collectives have in common that are one row."""

    operation: str | None
    """What the collective does: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `reduce`,
    `gather`, `scatter`, `send`, `recv`, `send_recv` or `barrier`; null if neither metadata nor names show it."""
    process_group: str | None
    """Name of the process group; null where it is not recorded."""
    group_size: int | None
    """Number of ranks in the group; null where it is not recorded."""
    dtype: str | None
    """Element type of the message as recorded; null where it is not recorded."""
    message_bytes: int | None
    """Size of one message in bytes: the input of a rank, for `all_gather` the output; null if unknown."""


class CollectiveRow(DescribedCollective, frozen=True):
    """All kernels of one operation in one process group with messages of one size."""

    calls: int
    """Number of kernels."""
    total_ns: int
    """Sum of the durations of the kernels in ns; the time in which they wait for other ranks is included."""
    mean_ns: float
    """Mean duration of a kernel in ns."""
    min_ns: int
    """Duration of the shortest kernel in ns."""
    max_ns: int
    """Duration of the longest kernel in ns."""
    algorithm_gb_per_s: float | None
    """Algorithm bandwidth: bytes of all messages over the total time, in 10^9 bytes per second; null if the size is
    unknown."""
    bus_gb_per_s: float | None
    """Bus bandwidth in 10^9 bytes per second: the algorithm bandwidth times 2(n-1)/n (all_reduce), (n-1)/n (all_gather,
    reduce_scatter, all_to_all, gather, scatter) or 1, for n ranks; null if the size, or a number of ranks that is
    needed, is unknown."""
    median_ns: float | None = None
    """Median duration of a kernel in ns; null for several ranks together, and in reports of old versions."""


class Overlap(msgspec.Struct, frozen=True):
    """Communication and computation as sets of times; `exposed_ns` and `overlapped_ns` sum to `communication_ns`."""

    communication_ns: int
    """Time in ns in which a collective kernel runs."""
    computation_ns: int
    """Time in ns in which any other kernel runs."""
    exposed_ns: int
    """Time in ns in which a collective kernel runs and no other kernel."""
    overlapped_ns: int
    """Time in ns in which a collective kernel and another kernel run."""
    overlap_share: float | None
    """Overlapped time over communication time (0 to 1); null without communication."""


class DeviceCommunication(msgspec.Struct, frozen=True):
    """Communication of one device."""

    device: int | None
    """Number of the device; null where the kernels name none."""
    whole: Overlap
    """Times over the whole trace, or over the chosen steps."""
    window: Overlap | None
    """Times from the start of the first to the end of the last step; null without steps."""


class StepCommunication(msgspec.Struct, frozen=True):
    """Communication within one step, over all devices."""

    name: str
    """Number of the step in its mark; counted from 0 if the profiler marked no steps."""
    calls: int
    """Number of collective kernels that start in the step."""
    communication_ns: int
    """Time of the step in which a collective kernel runs on some device, in ns."""
    exposed_ns: int
    """Part of that time in which no other kernel runs on any device, in ns."""


class GpuLink(msgspec.Struct, frozen=True):
    """The link between the GPUs of a machine of this kind, by the vendor's data sheet."""

    name: str
    """`NVLink`, `PCIe` or `Infinity Fabric`."""
    gb_per_s: float
    """Bandwidth of all links of one GPU in one direction, in 10^9 bytes per second. Between machines the network is
    the link, and slower."""
    source: str
    """Document with the figure."""


class Communication(msgspec.Struct, frozen=True):
    """Cost of collectives on devices. Only kernels that start in the chosen steps count, or all without a choice."""

    rows: tuple[CollectiveRow, ...]
    """Collective kernels by operation, group, type and message size, the most time first."""
    devices: tuple[DeviceCommunication, ...]
    """Communication and computation of each device that ran a collective kernel."""
    steps: tuple[StepCommunication, ...]
    """Communication within each step, in the order of time."""
    calls: int
    """Number of collective kernels."""
    calls_without_size: int
    """Number of collective kernels whose message size is unknown: no metadata (torch before 2.2), or a type without a
    known size."""
    link: GpuLink | None = None
    """The link between the GPUs of a machine; null if it is unknown for these devices, or the devices differ."""
    in_steps: tuple[CollectiveRow, ...] | None = None
    """The rows of what starts in typical steps; null where everything does, and in reports of old versions."""


def on_devices(context: Context) -> Communication:
    """All collectives of a trace that run on a device."""
    device = context.trace.device
    collective = context.cached(kernels_of_collectives)
    numbers = distinct(device.device[collective]).tolist()
    rows, in_steps = typical.beside(context, _rows)
    return Communication(
        rows=rows,
        devices=tuple(_device(context, number) for number in numbers),
        steps=_steps(context),
        calls=sum(row.calls for row in rows),
        calls_without_size=sum(row.calls for row in rows if row.message_bytes is None),
        link=_link(context),
        in_steps=in_steps,
    )


def _link(context: Context) -> GpuLink | None:
    found = gpus.link_between(context.trace.info.devices)
    return None if found is None else GpuLink(found.name, found.bandwidth, found.source)


@event_set
def collectives_at(context: Context, rows: tuple[CollectiveRow, ...]) -> Iterator[Occurrences]:
    """When the kernels of some rows run."""
    kernels = np.flatnonzero(context.cached(kernels_of_collectives))
    wanted = {(row.operation, row.process_group, row.group_size, row.dtype, row.message_bytes) for row in rows}
    kinds, groups = _kinds(context, kernels)
    own = np.array([msgspec.structs.astuple(kind) in wanted for kind in kinds], np.bool_)
    yield Occurrences.on_device(context, "communication", kernels[own[groups]])


def _rows(context: Context) -> tuple[CollectiveRow, ...]:
    kernels = np.flatnonzero(context.cached(kernels_of_collectives))
    kinds, groups = _kinds(context, kernels)
    joined: dict[DescribedCollective, int] = {}
    numbers = np.array([joined.setdefault(kind, len(joined)) for kind in kinds], np.int64)
    duration, own = context.trace.device.dur_ns[kernels], rows_by(numbers[groups])
    return tuple(sorted((_row(kind, duration[own(number)]) for kind, number in joined.items()), key=_order))


def _kinds(context: Context, kernels: I64) -> tuple[list[DescribedCollective], I64]:
    """What some kernels have in common, and for each kernel the position there; what is alike may be there twice."""
    trace, device = context.trace, context.trace.device
    described, host_name = described_by(context, kernels)
    first, groups = group(described, host_name, device.name[kernels])
    kinds = []
    for row in first.tolist():
        host = trace.names[host_name[row]] if host_name[row] >= 0 else ""
        kernel = trace.names[device.name[kernels[row]]]
        kinds.append(_described(trace.collectives[described[row]], host, kernel))
    return kinds, groups


def _described(facts: Collective, host: str, kernel: str) -> DescribedCollective:
    """A collective from its description, the name of the range that called it, and the name of its kernel."""
    operations = (operation(name) for name in (facts.name, host, kernel))
    what = next((known for known in operations if known is not None), None)
    size = message_bytes(what, facts)
    return DescribedCollective(what, facts.group or None, facts.group_size, facts.dtype or None, size)


def _row(kind: DescribedCollective, durations: I64) -> CollectiveRow:
    """A row of calls of one kind, by their durations."""
    calls, total = len(durations), int(durations.sum())
    rate = kind.message_bytes * calls / total if kind.message_bytes is not None and total else None
    factor = bus_factor(kind.operation, kind.group_size)
    return CollectiveRow(
        **msgspec.structs.asdict(kind),
        calls=calls,
        total_ns=total,
        mean_ns=total / calls,
        min_ns=int(durations.min()),
        max_ns=int(durations.max()),
        algorithm_gb_per_s=rate,  # bytes per ns are 10^9 per second
        bus_gb_per_s=None if rate is None or factor is None else rate * factor,
        median_ns=float(np.median(durations)),
    )


def _order(row: CollectiveRow) -> tuple[object, ...]:
    size = -1 if row.message_bytes is None else row.message_bytes
    return (-row.total_ns, row.operation or "", row.process_group or "", row.group_size or 0, row.dtype or "", size)


def _device(context: Context, number: int) -> DeviceCommunication:
    communication, computation = times_of(context, context.trace.device.device == number)
    window = context.steps.window
    clipped = None if window is None else _overlap(communication.clip(*window), computation.clip(*window))
    return DeviceCommunication(
        None if number == UNKNOWN else number, whole=_overlap(communication, computation), window=clipped
    )


def _overlap(communication: Intervals, computation: Intervals) -> Overlap:
    total = communication.length
    exposed = (communication - computation).length
    hidden = total - exposed
    return Overlap(total, computation.length, exposed, hidden, hidden / total if total else None)


def _steps(context: Context) -> tuple[StepCommunication, ...]:
    steps, device = context.steps, context.trace.device
    communication, computation = times_of(context, np.ones(len(device), np.bool_))
    start = ascending(device.start_ns[context.cached(kernels_of_collectives)])
    calls = np.searchsorted(start, steps.end_ns) - np.searchsorted(start, steps.start_ns)
    busy = communication.within(steps.start_ns, steps.end_ns)
    exposed = (communication - computation).within(steps.start_ns, steps.end_ns)
    columns = (calls.tolist(), busy.tolist(), exposed.tolist())
    return tuple(StepCommunication(*values) for values in zip(steps.names, *columns, strict=True))


class HostCollectiveRow(msgspec.Struct, frozen=True):
    """All collectives of one operation."""

    operation: str
    """What the collectives do, such as `all_reduce` or `broadcast`."""
    calls: int
    """Number of collectives in the steps."""
    total_ns: int
    """Sum of their durations in ns; waiting for other ranks is included."""
    exposed_ns: int
    """Time in ns in which one of these collectives runs and no other thread runs an operator."""
    min_ns: int
    """Duration of the shortest collective in ns."""
    total_bytes: int | None
    """Size of all messages together in bytes; null where some size was not recorded."""


class HostCollectives(msgspec.Struct, frozen=True):
    """Collectives that run on the CPU and start within steps."""

    rows: tuple[HostCollectiveRow, ...]
    """Collectives by operation, the most exposed first."""


@event_set
def host_collectives_at(context: Context, kind: str) -> Iterator[Occurrences]:
    """When collectives of one operation run on the CPU."""
    trace = context.trace
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges))
    own = trace.names.where(lambda name: operation(name) == kind)[trace.host.name[rows]]
    yield Occurrences.of_host(context, "communication", rows[own])


def on_host(context: Context) -> HostCollectives:
    """Collectives of the steps, by operation."""
    trace, host = context.trace, context.trace.host
    rows = np.flatnonzero(context.cached(recorded_collectives.host_ranges))
    rows = rows[context.steps.at(host.start_ns[rows]) >= 0]
    kinds = [operation(trace.names[name]) or "" for name in host.name[rows].tolist()]
    found = [_host_row(context, kind, rows[np.array([own == kind for own in kinds])]) for kind in sorted(set(kinds))]
    return HostCollectives(tuple(sorted(found, key=lambda row: (-row.exposed_ns, row.operation))))


def _host_row(context: Context, kind: str, rows: I64) -> HostCollectiveRow:
    host = context.trace.host
    sizes = [flat_bytes(context.trace, row) for row in rows.tolist()]
    known = [size for size in sizes if size is not None]
    return HostCollectiveRow(
        operation=kind,
        calls=len(rows),
        total_ns=int(host.dur_ns[rows].sum()),
        exposed_ns=exposed(context, rows).length,
        min_ns=int(host.dur_ns[rows].min()),
        total_bytes=sum(known) if len(known) == len(sizes) else None,
    )


def exposed(context: Context, rows: I64) -> Intervals:
    """When some collectives of the host run while the program runs no operator."""
    host = context.trace.host
    return Intervals.union(host.start_ns[rows], host.end_ns[rows]) - context.cached(recorded_collectives.computing)


_COLLECTIVES = Need(
    Text(
        "skip-no-collectives",
        "the trace has no kernels that communicate, neither of a collective library (NCCL, RCCL, oneCCL, HCCL) nor of "
        "the program's own",
    ),
    lambda context: context.cached(kernels_of_collectives).any(),
)
_NEEDED = Need(
    Text("skip-no-host-collectives", "the trace has no collectives that run on the CPU"),
    lambda context: (
        not context.cached(recorded_collectives.of_libraries).any()
        and context.cached(recorded_collectives.host_ranges).any()
    ),
)
_HOST_COLLECTIVES_QUESTION = "What do collectives cost that run on the CPU, such as those of gloo?"
ANALYSES = (
    Analysis(290, "communication", Communication, on_devices, needs=(_COLLECTIVES,)),
    Analysis(
        300,
        "host_collectives",
        HostCollectives,
        on_host,
        needs=(_NEEDED,),
        is_of_steps=True,
        question=_HOST_COLLECTIVES_QUESTION,
    ),
)
