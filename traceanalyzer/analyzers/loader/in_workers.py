"""How much time would loading batches in worker processes save, at least and at most?

At most, all waiting in which nothing else runs is saved. At least, one worker loads beside the rest of the step, which
it makes longer (`knowledge.loaders`); what needs no core (waiting for files, a network or a clock) several workers do
side by side, no more than the advice starts. Rules and predictions both use this module, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, fsum

import msgspec
import numpy as np

from traceanalyzer.analyzers.loader import Loader
from traceanalyzer.knowledge.loaders import FETCH_NS, LIBRARY_WORKERS, SLOWDOWN, maker_named
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_waits import loader_waits
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.step_breakdown import Average
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.capture_facts import CaptureFacts, Host

WORTH_NS = 1_000_000
"""Waiting per step in ns below which nothing is promised (own choice: a batch from a worker takes about as long to be
fetched)."""

MOSTLY = 0.5
"""Share of the waiting that needs no core from which on more workers help than there are cores (own choice)."""
_MOST_WORKERS = 8
"""Most workers to start with because they wait side by side (own choice: each takes memory)."""

_NEARLY_ALL = 0.9
"""Share of the typical steps that wait for workers if their pace is the limit (own choice)."""
_LONG_WAIT = 0.05
"""Share of a step for which it waits at least (own choice: shorter waits absorb little, and vary by as much)."""


class Room(msgspec.Struct, frozen=True):
    """Whether cores are free for workers."""

    cores: int | None
    """Hardware threads that the program may use; None if unknown."""
    busy: int
    """Number of these cores that the program keeps busy."""
    is_free: bool
    """Whether there is a free core for a worker. Two hardware threads of one core share its units, so half of them
    count. Without a figure: a program on a GPU leaves cores free, one on the CPU uses all of them."""


def set_the_pace(context: Context) -> bool:
    """Whether workers of a loader may be the limit: nearly every typical step waits for longer than a fetch takes."""
    start, end = loader_waits(context)
    steps = program_steps(context).typical
    own = steps.at(start)
    waited = sum_by(own[own >= 0], (end - start)[own >= 0], len(steps))
    least = np.maximum(2 * FETCH_NS, _LONG_WAIT * (steps.end_ns - steps.start_ns))
    return bool((waited >= least).sum() >= max(1.0, _NEARLY_ALL * len(steps)))


def room(host: Host | None, *, is_on_host: bool) -> Room:
    """Cores and busy threads, by a capture.

    Args:
        host: What a capture recorded of the machine; None without one.
        is_on_host: Whether the program computes on the CPU.
    """
    cores, threads = (host.cpus, host.threads) if host else (None, None)
    if cores is None:
        return Room(None, 1, not is_on_host)
    busy = (threads or cores) if is_on_host else 1
    return Room(cores, min(busy, cores), 2 * (busy + 1) <= cores)


def asleep_share(parts: Average, loaders: Sequence[Loader], capture: CaptureFacts | None) -> float:
    """Share of the waiting that needs no core, as far as stacks or a capture show it; that for workers does not count.

    Args:
        parts: Means over the steps.
        loaders: The loaders.
        capture: What a capture recorded; None without one.
    """
    total = sum(loader.total_ns for loader in loaders)
    if not total:
        return 0.0
    if any(loader.asleep_ns is not None for loader in loaders):
        asleep = sum(loader.asleep_ns or 0 for loader in loaders if loader.in_process is not False)
        return min(1.0, asleep / total)
    own = sum(loader.total_ns for loader in loaders if loader.in_process) / total
    return own * _asleep_in_capture(capture, own * parts.dataloader_full_ns)


def _asleep_in_capture(capture: CaptureFacts | None, wait_ns: float) -> float:
    """Share of the time to prepare batches that needs no core, by a capture; 0 if unknown.

    Its sums are over all recorded steps. If the typical ones wait less, the time that needs a core is taken to remain.

    Args:
        capture: What a capture recorded; None without one.
        wait_ns: Time in ns in which a typical step prepares batches.
    """
    found = [loader.fetching for loader in (capture.loaders if capture else None) or () if loader.fetching]
    total = sum(each.ns for each in found)
    steps = capture.timing.profiled.steps if capture and capture.timing.profiled else 0
    is_unknown = any(each.asleep_ns is None for each in found)
    if is_unknown or not total or not steps or wait_ns <= 0:
        return 0.0
    known = sum(each.asleep_ns or 0 for each in found)
    return max(0.0, min(known / total, 1 - (total - known) / steps / wait_ns))


def fewest_workers(capture: CaptureFacts | None) -> int | None:
    """Number of worker processes of the loader with the fewest, by a capture; None if unknown."""
    loaders = capture.loaders if capture else None
    return min((each.workers for each in loaders or () if each.workers is not None), default=None)


def are_workers(loaders: Sequence[Loader], capture: CaptureFacts | None) -> bool | None:
    """Whether workers prepare the batches that are waited for longest: by a capture, or by the name of the iterator."""
    known = fewest_workers(capture)
    if known is not None:
        return known > 0
    found = max(loaders, key=lambda loader: loader.exposed_ns, default=None)
    return None if found is None or found.in_process is None else not found.in_process


def _late_ns(parts: Average, loaders: Sequence[Loader]) -> float:
    """Time per step in ns that long waits still take with one worker, which prepares a batch while one step computes.

    The other waits are alike, and a queue evens them out.
    """
    total = sum(each.total_ns for each in loaders)
    calls = sum(each.calls for each in loaders)
    if not total or not parts.dataloader_full_ns:
        return 0.0
    batches = calls * parts.dataloader_full_ns / total
    beside = (parts.duration_ns - parts.dataloader_ns) / max(1.0, batches)
    late = fsum(max(0.0, each.excess_ns + each.long_calls * (each.median_ns - beside)) for each in loaders)
    return min(1.0, late / total) * parts.dataloader_full_ns


def side_by_side(parts: Average, loaders: Sequence[Loader], asleep: float, own: Room) -> int:
    """How many workers wait side by side at least for what needs no core; the advice starts no fewer.

    If that is most of the waiting, there are as many as prepare batches as fast as steps need them. Else they are one,
    or two where no core is free. Libraries that make loaders start as many as their code says, or one.
    """
    makers = [maker_named(loader.made_by) for loader in loaders]
    most = min((LIBRARY_WORKERS if maker.workers else 1 for maker in makers if maker), default=_MOST_WORKERS)
    if asleep < MOSTLY:
        return min(most, 1 if own.is_free or not asleep else 2)
    rest = max(parts.duration_ns - parts.dataloader_ns, float(FETCH_NS))
    return min(most, max(2, ceil(parts.dataloader_full_ns / rest)))


def saving(
    parts: Average, loaders: Sequence[Loader], asleep: float, own: Room, share: float = 1.0
) -> tuple[float, float]:
    """Time in ns by which workers make a step shorter, at least and at most.

    A worker without a free core may cost as much as it saves; waiting (for a network, asleep) needs no core.

    Args:
        parts: Means over the steps.
        loaders: The loaders.
        asleep: Share of the waiting that needs no core.
        own: Room for workers.
        share: Share of the waiting that is removed.
    """
    exposed = parts.dataloader_ns * share
    full = parts.dataloader_full_ns * share
    rest = parts.duration_ns - exposed
    waiting = asleep * full
    beside = full - waiting + waiting / side_by_side(parts, loaders, asleep, own)
    saved = min(exposed, max(0.0, parts.duration_ns - max(rest, beside))) - share * _late_ns(parts, loaders)
    lost = FETCH_NS + SLOWDOWN[1] * (full - waiting)
    if not own.is_free:
        saved = min(saved, waiting)
    return (max(0.0, saved - lost) if exposed >= WORTH_NS else 0.0), exposed
