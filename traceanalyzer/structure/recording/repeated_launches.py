"""Where the passes of a recording without operators begin, by the launches or kernels that repeat."""

from __future__ import annotations

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


def launch_starts(context: Context) -> I64 | None:
    """When each pass of a recording without operators begins, by its first launch; None where nothing repeats so.

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
        return _kernel_starts(context)
    every = host_activity.launching_threads(context)
    for among in (every, [threads[0]])[: len(every)]:
        own = rows[np.isin(launches.thread[launch[rows]], among)]
        start_ns, end_ns = launches.start_ns[launch[own]], launches.end_ns[launch[own]]
        kind = context.trace.device.name[own].astype(np.int64)
        items = with_waits(context, among, kind, start_ns, end_ns)
        run = repeated_part(context, items)
        if run is not None and (usual := _without_rare(context, items, run, own)) is not None:
            return usual
        if run is None or not is_most(items, run):
            continue
        begins_ns, last_ns = items.start_ns[run.begins], int(items.start_ns[-1])
        if pass_signs.waits_in_each(context, among, begins_ns, last_ns) or _is_model(context, items, run, own):
            return begins_ns
    return None


def _kernel_starts(context: Context) -> I64 | None:
    """When each pass begins on the stream that works most, where only what devices do was recorded."""
    device = context.trace.device
    if not len(device) or len(context.trace.launches):
        return None
    first, stream = group(device.device.astype(np.int64), device.stream.astype(np.int64))
    rows = np.flatnonzero(stream == np.argmax(sum_by(stream, device.dur_ns, len(first))))
    rows = rows[np.argsort(device.start_ns[rows], kind="stable")]
    kind = device.name[rows].astype(np.int64)
    items = with_waits(context, [], kind, device.start_ns[rows], device.end_ns[rows])
    run = repeated_part(context, items)
    if run is not None and (usual := _without_rare(context, items, run, rows)) is not None:
        return usual
    is_found = run is not None and is_most(items, run) and _is_model(context, items, run, rows)
    return items.start_ns[run.begins] if run is not None and is_found else None


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
    """Whether repetitions of launches are all there is, and embed tokens, update parameters, copy or have blocks.

    Args:
        context: The trace.
        items: Launches, and waits between them.
        run: The repetitions.
        rows: The device event of each launch.
    """
    if not is_all(items, run):
        return False
    names = _names_of_one(context, items, run, rows)
    is_sign = any(kernel_class(name) in _OF_A_PASS or pass_signs.is_input(name) for name in names)
    return is_sign or has_blocks(items.kind[slice(*run.begins[:2].tolist())])


def _names_of_one(context: Context, items: Items, run: RepeatedRun, rows: I64) -> list[str]:
    """Names of what a device does in one repetition of launches."""
    one = slice(*run.begins[:2].tolist())
    codes = distinct(context.trace.device.name[rows[items.number[one][~items.is_wait[one]]]])
    return [context.trace.names[code] for code in codes.tolist()]
