"""The collectives of one trace: kernels of libraries and of a program itself, or host ranges of libraries on the CPU.

Serving engines reduce directly over the memory of other GPUs (vLLM's `cross_device_reduce`, PyTorch's symmetric
memory), and exchange the tokens of experts without a library (DeepEP). The step breakdown, which follows the
TensorBoard plugin, does not count them; every other analysis counts them as communication.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import asdict

from traceanalyzer.knowledge import kernel_names
from traceanalyzer.knowledge.collectives import operation
from traceanalyzer.structure import gaps, host_activity
from traceanalyzer.structure.context import Context, cached, device_events_in_scope
from traceanalyzer.structure.step_breakdown import library_collectives
from traceanalyzer.structure.sums import rows_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Collective, Trace
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

HOST_NAMES = ("nccl:", "gloo:", "xccl:", "hccl:", "ucc:", "mpi:", "c10d::", "_c10d_functional::", "c10d_functional::")
"""Prefixes of host events that are named after a collective."""
_ON_HOST = ("gloo:", "mpi:", "ucc:")


@cached
def communication_kernels(context: Context) -> Bool:
    """Which device events are kernels that exchange data with other devices, by their metadata or their own name."""
    trace = context.trace
    by_name = trace.names.where(kernel_names.is_communication)[trace.device.name]
    communicates: Bool = library_collectives(trace) | ((trace.device.category == Category.KERNEL) & by_name)
    return communicates


def kernels_of_collectives(context: Context) -> Bool:
    """Which device events are collective kernels that start in the chosen steps (anywhere without a choice)."""
    return communication_kernels(context) & device_events_in_scope(context)


def described_by(context: Context, kernels: I64) -> tuple[I64, I64]:
    """For each kernel, the row of its collective (0: none) and the code of the host name that names it (-1: none).

    The kernel's own metadata have priority over those of the innermost host event around its launch that has any.
    """
    trace, host = context.trace, context.host
    tells = trace.names.where(lambda name: name.startswith(HOST_NAMES))
    described = trace.device.collective[kernels].astype(np.int64)
    node = context.links.device_node()[kernels]
    row = np.where(host.category == Category.FRAME, UNKNOWN, host.row)  # these rows are of the other table
    own = take_or(trace.host.collective, row, 0)
    described_by = take_or(host.tree.nearest(own > 0), node, NO_PARENT)
    named_by = take_or(host.tree.nearest(tells[host.name]), node, NO_PARENT)
    described = np.where(described > 0, described, take_or(own, described_by, 0))
    return described, take_or(host.name, named_by, -1).astype(np.int64)


def times_of(context: Context, rows: Bool) -> tuple[Intervals, Intervals]:
    """Times of the kernels of collectives, and of all other kernels, among some device events."""
    device, communicates = context.trace.device, communication_kernels(context)
    counted = rows & (device.category == Category.KERNEL) & device_events_in_scope(context)
    return gaps.times_of(device, counted & communicates), gaps.times_of(device, counted & ~communicates)


class RecordedCollectives(msgspec.Struct, frozen=True):
    """Collectives as columns, one row each; times are ns since the first event."""

    start: I64
    dur: I64
    called: I64
    """Start of the launching call; of the collective where that is unknown."""
    exposed: I64
    """Part of each duration in which no other kernel runs; on the host, in which no other thread runs an operator."""
    described: I64
    """Row of each collective in the table of descriptions; 0 is none."""
    names: list[str]
    """Name that shows the operation if the description does not."""
    sequence: I64
    shapes: I64
    """Codes of the input shapes of host ranges."""
    is_own: Bool
    """Which are a program's own kernels, of no library of collectives."""

    def take(self, rows: I64) -> RecordedCollectives:
        """Keep some of the collectives."""
        columns = {name: column[rows] for name, column in asdict(self).items() if name != "names"}
        return RecordedCollectives(names=[self.names[row] for row in rows.tolist()], **columns)


def of_libraries(context: Context) -> Bool:
    """Which device events are kernels of collective libraries and start in the chosen steps, or anywhere.

    A program's own kernels name no process group, and need not end everywhere at once.
    """
    return library_collectives(context.trace) & device_events_in_scope(context)


def on_device(context: Context, chosen: Bool) -> RecordedCollectives:
    """Collectives as kernels on the device, those that are chosen of all device events."""
    trace, device = context.trace, context.trace.device
    kernels = np.flatnonzero(chosen)
    described, host_name = described_by(context, kernels)
    sequence_of_launch, shapes = _sequences_and_shapes_of_launches(context, kernels)
    own_sequence = context.cached(_sequences)[described]
    start, duration = device.start_ns[kernels], device.dur_ns[kernels]
    launch = context.links.launch[kernels]
    _, computation = times_of(context, np.ones(len(device), np.bool_))
    return RecordedCollectives(
        start=start,
        dur=duration,
        called=np.where(launch == NO_PARENT, start, take_or(trace.launches.start_ns, launch, 0)),
        exposed=duration - computation.within(start, start + duration),
        described=described,
        names=_telling_names(trace, host_name, device.name[kernels]),
        sequence=np.where(own_sequence == UNKNOWN, sequence_of_launch, own_sequence),
        shapes=shapes,
        is_own=~library_collectives(trace)[kernels],
    )


def _telling_names(trace: Trace, host_name: I64, kernel_name: I32) -> list[str]:
    """For each kernel the name of its host event if it shows the operation, else its own name."""
    names = []
    for host, kernel in zip(host_name.tolist(), kernel_name.tolist(), strict=True):
        shows = host >= 0 and bool(operation(trace.names[host]))
        names.append(trace.names[host if shows else kernel])
    return names


def _sequences_and_shapes_of_launches(context: Context, kernels: I64) -> tuple[I64, I64]:
    """Sequence number and input shapes of the host events around the launch; of the innermost that has them."""
    trace, host = context.trace, context.host
    tells = trace.names.where(lambda name: name.startswith(HOST_NAMES))
    sequences = context.cached(_sequences)
    node = context.links.device_node()[kernels]
    row = np.where(host.category == Category.FRAME, UNKNOWN, host.row)  # rows of another table
    told = sequences[take_or(trace.host.collective, row, 0)]
    shaped = np.where(tells[host.name], take_or(trace.host.shapes, row, 0), 0)
    by_sequence = take_or(host.tree.nearest(told != UNKNOWN), node, NO_PARENT)
    by_shapes = take_or(host.tree.nearest(shaped != 0), node, NO_PARENT)
    return take_or(told, by_sequence, UNKNOWN), take_or(shaped, by_shapes, 0)


def _sequences(context: Context) -> I64:
    """What tells each row of the table of descriptions from others of its operation and group, on all ranks; or -1.

    That is the id that all ranks share, where torch wrote one, else the number of the operation within its group.
    """
    return np.array([_sequence(collective) for collective in context.trace.collectives], np.int64)


def _sequence(collective: Collective) -> int:
    if collective.comms_id:
        import hashlib  # noqa: PLC0415 - hardly any trace has these ids, and it loads a library

        digest = hashlib.blake2b(collective.comms_id.encode("utf-8", "replace"), digest_size=8).digest()
        return int.from_bytes(digest) >> 1  # ids are 64 bits without a sign
    return UNKNOWN if collective.sequence is None else collective.sequence


def host_ranges(context: Context) -> Bool:
    """Which host events are collectives that a library on the CPU carries out, in the chosen steps (or anywhere)."""
    is_collective: Bool = context.cached(_all_host_ranges) & context.in_scope(context.trace.host.start_ns)
    return is_collective


def _all_host_ranges(context: Context) -> Bool:
    trace, host = context.trace, context.trace.host
    named = trace.names.where(lambda name: name.startswith(_ON_HOST) and operation(name) is not None)
    is_collective: Bool = (host.category == Category.ANNOTATION) & named[host.name]
    return is_collective


def computing(context: Context) -> Intervals:
    """When some thread runs an operator that is not part of a collective."""
    host = context.trace.host
    communicates = context.trace.names.where(lambda name: name.startswith(HOST_NAMES))
    rows = host_activity.operator_rows(context) & ~communicates[host.name] & ~_inside_collectives(context)
    return gaps.times_of(host, rows)


def _inside_collectives(context: Context) -> Bool:
    """Which host events are on threads that do nothing but communicate: those of the library.

    Sends and receives of gloo are ranges on the thread that calls them, which goes on computing meanwhile.
    """
    host, ranges = context.trace.host, context.cached(_all_host_ranges)
    of_library = np.zeros(len(host), np.bool_)
    if not ranges.any():
        return of_library
    is_operator = host_activity.operator_rows(context)
    of_thread = rows_by(host.thread)
    for thread in distinct(host.thread[ranges]).tolist():
        rows = of_thread(thread)
        collectives = gaps.times_of(host, rows[ranges[rows]])
        operator_starts = host.start_ns[rows[is_operator[rows]]]
        if collectives.contains(operator_starts).all():
            of_library[rows] = True
    return of_library


def running_on_host(context: Context) -> Intervals:
    """When collectives run on the CPU; never in a trace in which a device carries out collectives."""
    if context.cached(of_libraries).any():
        return Intervals.none()
    return gaps.times_of(context.trace.host, context.cached(host_ranges))


def exposed_anywhere(context: Context) -> Intervals:
    """When collectives run and nothing else computes, on devices or else on the CPU, whichever steps are chosen."""
    device, rows = context.trace.device, communication_kernels(context)
    if rows.any():
        return gaps.times_of(device, rows) - gaps.times_of(device, ~rows & (device.category == Category.KERNEL))
    found = gaps.times_of(context.trace.host, context.cached(_all_host_ranges))
    return found - context.cached(computing) if found else found


def exposed_on_host(context: Context) -> Intervals:
    """When collectives run on the CPU, and no operator of the program does."""
    found = context.cached(running_on_host)
    return found - context.cached(computing) if found else found


def _exposed_on_host(context: Context, start_ns: I64, end_ns: I64) -> I64:
    """For each collective the part in which nothing computes; what several have in common counts for the first one."""
    order = np.argsort(start_ns, kind="stable")
    reach = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end_ns[order]))[:-1]
    own = np.empty(len(order), np.int64)
    own[order] = np.minimum(np.maximum(start_ns[order], reach), end_ns[order])
    return end_ns - own - context.cached(computing).within(own, end_ns)


def on_host(context: Context) -> RecordedCollectives:
    """Collectives as host ranges, for traces without such kernels."""
    trace, host = context.trace, context.trace.host
    rows = np.flatnonzero(context.cached(host_ranges))
    start, dur, nothing = host.start_ns[rows], host.dur_ns[rows], np.zeros(len(rows), np.int64)
    return RecordedCollectives(
        start=start,
        dur=dur,
        called=start,
        exposed=_exposed_on_host(context, start, start + dur),
        described=nothing,
        names=[trace.names[name] for name in host.name[rows].tolist()],
        sequence=nothing + UNKNOWN,
        shapes=host.shapes[rows].astype(np.int64),
        is_own=np.zeros(len(rows), np.bool_),
    )
