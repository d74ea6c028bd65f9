"""Where the passes of a recording without operators begin, by the launches or kernels that repeat."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import critical_threads
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import pass_signs
from traceanalyzer.structure.recording.periods import PASSES
from traceanalyzer.structure.recording.runs import (
    Items,
    RepeatedRun,
    after_pauses,
    begun_at,
    has_blocks,
    is_all,
    is_most,
    rare_ones,
    repeated_part,
    with_waits,
)
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_OF_A_PASS = {KernelClass.EMBEDDING, KernelClass.OPTIMIZER}
"""Kernels that a pass has and a layer has not."""


class Passes(msgspec.Struct, frozen=True):
    """Passes of a program, one after another."""

    start_ns: I64
    """When each begins."""
    end_ns: int | None = None
    """When something else begins after the last one; None where nothing does."""


def launched_passes(context: Context) -> Passes | None:
    """The passes of a recording without operators, by their launches; None where nothing repeats so.

    What repeats are kernels, copies and fills in the order of their launches, by name: of all threads, because a
    backward pass is launched by a thread of its own, or of the one that launches most. Where no launches were recorded,
    it is what the busiest stream does.
    """
    launch, launches = context.links.launch, context.trace.launches
    threads = critical_threads(context)
    if (context.trace.host.category == Category.OPERATOR).any():
        return None
    rows = np.flatnonzero(launch != NO_PARENT)
    rows = rows[np.argsort(launches.start_ns[launch[rows]], kind="stable")]
    if not threads:
        return _of_kernels(context)
    every = host_activity.launching_threads(context)
    for among in (every, [threads[0]])[: len(every)]:
        own = rows[np.isin(launches.thread[launch[rows]], among)]
        start_ns, end_ns = launches.start_ns[launch[own]], launches.end_ns[launch[own]]
        kind = context.trace.device.name[own].astype(np.int64)
        found = _among(context, among, with_waits(context, among, kind, start_ns, end_ns), own)
        if found is not None:
            return found
    return None


def _of_kernels(context: Context) -> Passes | None:
    """The passes of the stream that works most, where only what devices do was recorded."""
    device = context.trace.device
    if not len(device) or len(context.trace.launches):
        return None
    first, stream = group(device.device.astype(np.int64), device.stream.astype(np.int64))
    rows = np.flatnonzero(stream == np.argmax(sum_by(stream, device.dur_ns, len(first))))
    rows = rows[np.argsort(device.start_ns[rows], kind="stable")]
    kind = device.name[rows].astype(np.int64)
    return _among(context, [], with_waits(context, [], kind, device.start_ns[rows], device.end_ns[rows]), rows)


def _among(context: Context, threads: Sequence[int], items: Items, rows: I64) -> Passes | None:
    """The passes among launches of some threads, and waits between them; None where what repeats may be layers.

    Args:
        context: The trace.
        threads: Threads that wait; none where only what devices do was recorded.
        items: Launches, and waits between them.
        rows: The device event of each launch.
    """
    run = repeated_part(context, items)
    if run is not None and (usual := _without_rare(context, items, run, rows)) is not None:
        return Passes(usual)
    if run is None or not is_most(items, run):
        return None
    begins_ns = items.start_ns[run.begins]
    if threads and pass_signs.waits_in_each(context, threads, begins_ns, int(items.start_ns[-1])):
        return Passes(begins_ns)
    apart = run if is_all(items, run) else after_pauses(items, run)
    if apart is not None and _is_model(context, items, run, rows):
        return _passes(items, apart)
    updated = _after_updates(context, items, run, rows)
    return None if updated is None else _passes(items, updated)


def _passes(items: Items, run: RepeatedRun) -> Passes:
    """The passes that repetitions are, and when something else begins."""
    after = int(2 * run.begins[-1] - run.begins[-2])
    others = after + np.flatnonzero(~items.is_wait[after:])
    return Passes(items.start_ns[run.begins], int(items.start_ns[others[0]]) if len(others) else None)


def _after_updates(context: Context, items: Items, run: RepeatedRun, rows: I64) -> RepeatedRun | None:
    """The same repetitions, each from its longest part without an update to the next; None if they do not train.

    Layers update no parameters; a single iteration may update list after list, but then does hardly anything else.
    """
    one = np.arange(*run.begins[:2])
    names = context.trace.names.where(lambda name: kernel_class(name) == KernelClass.OPTIMIZER)
    is_update = np.zeros(len(one), np.bool_)
    is_update[~items.is_wait[one]] = names[context.trace.device.name[rows[items.number[one[~items.is_wait[one]]]]]]
    updates = np.flatnonzero(is_update)
    if not len(updates) or 2 * len(updates) >= len(one):
        return None
    longest = int(np.argmax(np.diff(np.append(updates, updates[0] + len(one)))))
    return begun_at(run, int(one[updates[longest]]) + 1)


def _without_rare(context: Context, items: Items, run: RepeatedRun, rows: I64) -> I64 | None:
    """When each pass begins if many in what repeats are one but for little: a loss that is read in every tenth.

    A model repeats its layers between little else, too, so each must update parameters, or embed tokens.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: The repetitions.
        rows: The device event of each launch.
    """
    one = items.kind[run.begins[0] : run.begins[1]]
    is_rare = rare_ones(items.kind, one)
    if not is_rare.any():
        return None
    kept = items.take(~is_rare)
    usual = repeated_part(context, kept)
    if usual is None or not is_most(kept, usual) or not is_all(kept, usual):
        return None
    if not any(kernel_class(name) in _OF_A_PASS for name in _names_of_one(context, kept, usual, rows)):
        return None
    size = int(usual.begins[1] - usual.begins[0])
    return kept.start_ns[usual.begins] if PASSES * size <= len(one) else None


def _is_model(context: Context, items: Items, run: RepeatedRun, rows: I64) -> bool:
    """Whether repetitions of launches embed tokens, update parameters, copy or have blocks.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: The repetitions.
        rows: The device event of each launch.
    """
    names = _names_of_one(context, items, run, rows)
    is_sign = any(kernel_class(name) in _OF_A_PASS or pass_signs.is_input(name) for name in names)
    return is_sign or has_blocks(items.kind[slice(*run.begins[:2].tolist())])


def _names_of_one(context: Context, items: Items, run: RepeatedRun, rows: I64) -> list[str]:
    """Names of what a device does in one repetition of launches."""
    one = slice(*run.begins[:2].tolist())
    codes = distinct(context.trace.device.name[rows[items.number[one][~items.is_wait[one]]]])
    return [context.trace.names[code] for code in codes.tolist()]
