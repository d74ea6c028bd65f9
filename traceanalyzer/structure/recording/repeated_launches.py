"""Where the passes of a recording without operators begin, by the launches or kernels that repeat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    passing_ones,
    pauses_before,
    rare_ones,
    repeated_part,
    with_waits,
)
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_OF_A_PASS = {KernelClass.EMBEDDING, KernelClass.OPTIMIZER}
"""Kernels that a pass has and a layer has not."""


class LaunchPasses(msgspec.Struct, frozen=True):
    """Passes of a program, one after another."""

    start_ns: I64
    """When each begins."""
    end_ns: int | None = None
    """When something else begins after the last one; None where nothing does."""


def launched_passes(context: Context) -> LaunchPasses | None:
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


def _of_kernels(context: Context) -> LaunchPasses | None:
    """The passes of the stream that works most, where only what devices do was recorded."""
    device = context.trace.device
    if not len(device) or len(context.trace.launches):
        return None
    first, stream = group(device.device.astype(np.int64), device.stream.astype(np.int64))
    rows = np.flatnonzero(stream == np.argmax(sum_by(stream, device.dur_ns, len(first))))
    rows = rows[np.argsort(device.start_ns[rows], kind="stable")]
    kind = device.name[rows].astype(np.int64)
    return _among(context, [], with_waits(context, [], kind, device.start_ns[rows], device.end_ns[rows]), rows)


def _among(context: Context, threads: Sequence[int], items: Items, rows: I64) -> LaunchPasses | None:
    """The passes among launches of some threads, and waits between them; None where what repeats may be layers.

    Args:
        context: The trace.
        threads: Threads that wait; none where only what devices do was recorded.
        items: Launches, and waits between them.
        rows: The device event of each launch.
    """
    run = repeated_part(context, items)
    for is_kept in _without_some(items, run):
        if (found := _of_most(context, items, run, is_kept, rows)) is not None:
            return found
    if run is None or not is_most(items, run):
        return None
    begins_ns = items.start_ns[run.begins]
    if threads and pass_signs.waits_in_each(context, threads, begins_ns, int(items.start_ns[-1])):
        return LaunchPasses(begins_ns)
    apart = run if is_all(items, run) else after_pauses(pauses_before(items), run)
    if apart is not None and _is_model(context, items, apart, rows):
        return _passes(items, apart)
    updated = _after_updates(context, items, run, rows)
    return None if updated is None else _passes(items, updated)


def _without_some(items: Items, run: RepeatedRun | None) -> Iterator[Bool]:
    """Which launches are no rare ones, such as a loss that is read in every tenth pass; and which are no passing ones.

    What computes attention changes with the length of a text.

    Args:
        items: Launches, and waits between them.
        run: What repeats among them.
    """
    if run is not None and (is_rare := rare_ones(items.kind, items.kind[slice(*run.begins[:2])])).any():
        yield ~is_rare
    if (is_passing := passing_ones(items.kind)).any():
        yield ~is_passing


def _of_most(context: Context, items: Items, run: RepeatedRun | None, is_kept: Bool, rows: I64) -> LaunchPasses | None:
    """The passes that repeat if some launches do not count; None where they may be layers.

    A model repeats its layers between little else, too, so each must update parameters, or embed tokens, or the host
    must pause before each.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: What repeats among them.
        is_kept: Which of them count.
        rows: The device event of each launch.
    """
    kept = items.take(is_kept)
    usual = repeated_part(context, kept)
    if usual is None or not is_most(kept, usual):
        return None
    size = int(usual.begins[1] - usual.begins[0])
    if run is not None and is_most(items, run) and PASSES * size > run.begins[1] - run.begins[0]:
        return None  # all of it repeats
    names = _names_of_one(context, kept, usual, rows)
    if is_all(kept, usual) and any(kernel_class(name) in _OF_A_PASS for name in names):
        return LaunchPasses(kept.start_ns[usual.begins])
    apart = after_pauses(pauses_before(items)[is_kept], usual)
    is_model = apart is not None and _is_model(context, kept, apart, rows)
    return LaunchPasses(kept.start_ns[apart.begins]) if apart is not None and is_model else None


def _passes(items: Items, run: RepeatedRun) -> LaunchPasses:
    """The passes that repetitions are, and when something else begins."""
    after = int(2 * run.begins[-1] - run.begins[-2])
    others = after + np.flatnonzero(~items.is_wait[after:])
    return LaunchPasses(items.start_ns[run.begins], int(items.start_ns[others[0]]) if len(others) else None)


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
