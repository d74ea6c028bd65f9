"""How long does a step use each resource that could bound it: the host, the loader, the device, the links?

Resources work at the same time, so their times do not sum to the step. No change of one resource makes a step
shorter than what the others take; this is what bounds every saving.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.structure import gaps, host_activity, recorded_collectives, unrecorded_work
from traceanalyzer.structure.context import Context, cached, device_events_in_scope
from traceanalyzer.structure.host_activity import HostWaits
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.launch_calls import blocked_calls
from traceanalyzer.structure.recorded_collectives import communication_kernels
from traceanalyzer.structure.steps import Steps, host_part
from traceanalyzer.trace.distinct import distinct, is_among
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_RETURN_NS = 20_000
"""Longest time in which a call that waits returns after the device is done (own choice: most take 2 to 5 us)."""


class StepResources(msgspec.Struct, frozen=True):
    """Time of each resource per step: means over the steps, in ns."""

    steps: int
    """Number of steps that the means are over."""
    step_ns: float
    """Mean duration of a step in ns."""
    device: int | None
    """Number of the device that works longest; null without device events."""
    gpu_ns: float | None
    """Time per step in ns in which a kernel, copy or fill runs on that device; null without device events."""
    communication_ns: float | None
    """Time per step in ns in which a collective kernel runs on that device; without device events, in which a
    collective runs on the CPU; null where there are neither."""
    exposed_communication_ns: float | None
    """Part of the communication in ns in which no other kernel runs on that device, or no operator on the CPU; null as
    above."""
    host_ns: float
    """Time per step in ns in which the host waits neither for a device nor for the loader nor, without device events,
    for a collective: what threads do, and what no event shows. Where it works ahead of the device, its part of these
    steps may have been done before."""
    waiting_ns: float
    """Time per step in ns in which a thread that launches work waits for a device, or for room in its queue."""
    loader_ns: float
    """Time per step in ns in which something waits for the loader."""
    exposed_loader_ns: float
    """Part of the time of waiting for the loader in ns in which that device does not work."""
    recorded_device_ns: int
    """Sum of the durations in ns of the device events of the whole recording, or of the chosen steps: of those whose
    launch was recorded, because others belong to earlier work; of all where most have no launch."""
    outside_device_ns: int = 0
    """Part of the device's time in ns outside of the steps."""
    unread_device: str | None = None
    """Sign of an accelerator where no device event was understood: a category of events, a call, a name or a device;
    null if there is none."""
    unused_device: str | None = None
    """Name of a device that nothing was put on although calls of its runtime were recorded; null if there is none."""
    steps_device_ns: int | None = None
    """The same sum in ns of those that start in the steps; null in reports of old versions."""
    only_copies_ns: float | None = None
    """Part of the time of the device in ns in which copies run, and no fill and no kernel that computes; null without
    device events."""


@cached
def analyze(context: Context) -> StepResources:
    """Compute the time per step of each resource, over the busiest device."""
    return over(context, context.steps)


def over(context: Context, steps: Steps, among: Steps | None = None) -> StepResources:
    """Compute the time of each resource per step of some steps, which need not be consecutive.

    Args:
        context: The trace.
        steps: The steps.
        among: All steps, if these are some of them: what runs in any of these runs in no time outside of the steps.
    """
    events = context.trace.device
    within = Intervals.union(steps.start_ns, steps.end_ns)
    inside = within if among is None else Intervals.union(among.start_ns, among.end_ns)
    device, busy = busiest(context, within)
    collectives, exposed = _communication(context, device)
    loads = gaps.times_of(context.trace.host, context.kind == NodeKind.DATALOADER)
    waits = waits_of_host(context, steps.window)
    loader = loads & within
    waiting = (waits & within) - loader
    communicates = device is not None or bool(collectives)
    # collectives on the CPU beside which nothing computes are no work of the host
    alone = exposed if device is None else Intervals.none()
    is_recorded = recorded(context)
    is_of_steps = is_recorded & (steps.at(events.start_ns) >= 0)

    def mean(times: Intervals) -> float:
        return times.length / len(steps)

    return StepResources(
        steps=len(steps),
        step_ns=mean(within),
        device=device,
        gpu_ns=None if device is None else mean(busy),
        communication_ns=mean(collectives & within) if communicates else None,
        exposed_communication_ns=mean(exposed & within) if communicates else None,
        host_ns=max(
            mean(within - waiting - loader - alone),
            mean(_ahead(context, steps) - waits - loads - alone),
        ),
        waiting_ns=mean(waiting),
        loader_ns=mean(loader),
        exposed_loader_ns=mean(loader - busy),
        recorded_device_ns=int(events.dur_ns[is_recorded].sum()),
        outside_device_ns=_outside(context, is_recorded, inside),
        unread_device=unrecorded_work.unread_device(context),
        unused_device=unrecorded_work.unused_device(context),
        steps_device_ns=int(events.dur_ns[is_of_steps].sum()),
        only_copies_ns=None if device is None else mean(context.cached(_only_copies, device) & within),
    )


def _ahead(context: Context, steps: Steps) -> Intervals:
    """When the host did its part of the steps, which the work of the device may have moved."""
    return Intervals.union(*host_part(context.trace, steps))


def _communication(context: Context, device: int | None) -> tuple[Intervals, Intervals]:
    """When collectives run on a device, or on the CPU without one, and when nothing else does."""
    if device is None:
        exposed = context.cached(recorded_collectives.exposed_on_host)
        return context.cached(recorded_collectives.running_on_host), exposed
    kernels, collectives = context.cached(_kernels_of_devices)[device]
    return collectives, collectives - kernels


def _only_copies(context: Context, device: int) -> Intervals:
    """When copies run on a device, and neither fills nor kernels but those of collectives."""
    events = context.trace.device
    own = events.device == device
    copies = own & (events.category == Category.MEMCPY)
    kernels = own & ~copies & ~communication_kernels(context)
    return gaps.times_of(events, copies) - gaps.times_of(events, kernels)


@cached
def recorded(context: Context) -> Bool:
    """Which device events count as recorded work: those whose launch was recorded, or all where most have none."""
    device = context.trace.device
    scope = device_events_in_scope(context)
    linked = scope & (context.links.launch != NO_PARENT)
    return linked if 2 * int(device.dur_ns[linked].sum()) >= int(device.dur_ns[scope].sum()) else scope


def _outside(context: Context, rows: Bool, steps: Intervals) -> int:
    start, dur = context.trace.device.start_ns[rows], context.trace.device.dur_ns[rows]
    return int((dur - steps.within(start, start + dur)).sum())


def busiest(context: Context, within: Intervals) -> tuple[int | None, Intervals]:
    """The device that works longest within the steps, and when it works."""
    times = [(gaps.busy(context, number) & within, number) for number in context.cached(_devices)]
    if not times:
        return None, Intervals.none()
    busy, number = max(times, key=lambda entry: (entry[0].length, -entry[1]))
    return number, busy


def _devices(context: Context) -> list[int]:
    """The numbers of the devices."""
    numbers: list[int] = distinct(context.trace.device.device).tolist()
    return [number for number in numbers if number != UNKNOWN]


def _kernels_of_devices(context: Context) -> dict[int | None, tuple[Intervals, Intervals]]:
    """When kernels run on each device: kernels of collectives separately from all others."""
    events, communicates = context.trace.device, communication_kernels(context)

    def kernels(number: int) -> tuple[Intervals, Intervals]:
        own = events.device == number
        collectives = own & communicates
        rest = gaps.times_of(events, own & ~communicates) if collectives.any() else gaps.busy(context, number)
        return rest, gaps.times_of(events, collectives)

    return {number: kernels(number) for number in context.cached(_devices)}


def waits_of_host(context: Context, window: tuple[int, int] | None) -> Intervals:
    """When the host waits: launching threads wait, calls are blocked, or only the device still runs at the end."""
    waits, launches = context.cached(host_activity.waits), context.trace.launches
    own = is_among(waits.thread, host_activity.launching_threads(context))
    blocked = blocked_calls(context)
    copy_start, copy_end = _held_by_copies(context)
    found = Intervals.union(
        np.concatenate([waits.start_ns[own], launches.start_ns[blocked], copy_start]),
        np.concatenate([_released(context, waits.take(np.flatnonzero(own))), launches.end_ns[blocked], copy_end]),
    )
    last = max((int((t.end_ns).max()) for t in (context.trace.host, launches) if len(t)), default=None)
    if window is None or last is None or last >= window[1]:
        return found
    return found | Intervals.union(np.array([last]), np.array([window[1]]))


def _released(context: Context, waits: HostWaits) -> I64:
    """When devices let each wait end: the time to return after they worked is the host's, if that is short."""
    ended = gaps.any_busy(context).end
    last = take_or(ended, np.searchsorted(ended, waits.end_ns, side="right") - 1, np.iinfo(np.int64).min)
    returns = waits.end_ns - np.clip(last, waits.start_ns, waits.end_ns)
    return waits.end_ns - np.where(returns <= _RETURN_NS, returns, 0)


def _held_by_copies(context: Context) -> tuple[I64, I64]:
    """From the start of each copy call until its copy starts, where the call lasts longer than that.

    Pageable memory is staged by the call itself, which first waits until everything before it has run.
    """
    device, launches, launch = context.trace.device, context.trace.launches, context.links.launch
    rows = np.flatnonzero((device.category == Category.MEMCPY) & (launch != NO_PARENT))
    start = launches.start_ns[launch[rows]]
    begins = device.start_ns[rows]
    held = (begins > start) & (begins < start + launches.dur_ns[launch[rows]])
    return start[held], begins[held]
