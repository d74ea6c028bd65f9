"""How many samples does a typical step process?

Everything about throughput is a mean over the typical steps of the program. A capture knows the batch size of the
loader. Without it, the shapes must agree: whatever is copied to the device between a wait for a batch and the first
layer, and the input of that layer, have the same first axis, and it is the same in every typical step. If this is not
fulfilled, the figure is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import msgspec
import numpy as np

from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.structure import host_waits
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import evaluations
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.steps import Steps
from traceanalyzer.structure.sums import least_by
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree

WHOLE = frozenset({None, "whole-trace", "device-events", "host-annotations"})
"""The value of `steps_from` without marks of steps; the whole recording is not a step of the program."""
_INPUT = {
    "aten::conv1d": 0,
    "aten::conv2d": 0,
    "aten::conv3d": 0,
    "aten::convolution": 0,
    "aten::linear": 0,
    "aten::addmm": 1,
    "aten::mm": 0,
    "aten::embedding": 1,
}
"""Operators that a network may begin with, and the position of their input."""


class Samples(msgspec.Struct, frozen=True):
    """Samples of a typical step."""

    batch_size: int | None
    """Samples in a batch of the loader; null if unknown."""
    batches_per_step: float | None
    """Batches in a typical step, above 1 where gradients are accumulated; null if unknown."""
    per_s: float | None
    """Samples per second of this process in typical steps; null if unknown."""
    source: str | None
    """How the batch size was found: `capture` (the loader's setting, as a capture recorded it) or `shapes` (the
    loader's batch and the input of the first layer have the same first axis in every typical step); null if unknown."""
    unknown: str | None
    """Why samples per second are null: `no-steps`, `no-loader`, `no-shapes`, `not-shared` (the loader's batch and the
    input of the first layer do not have one first axis in common), `nested` (a batch holds several inputs, each with
    passes of its own), `differs` (not every typical step has the same batches), or `contradiction` (shapes differ from
    the loader's setting); null where they are known."""


class _Batch(msgspec.Struct, frozen=True):
    """One batch of the loader on its way to the first layer."""

    size: int | None
    """Length of the first axis; None if it is unknown."""
    unknown: str | None
    step: int
    """Number of the typical step in which the first layer works on it, or -1."""


def samples(context: Context) -> Samples:
    """Samples per second, where the batch size is certain."""
    steps = context.cached(typical)
    if not steps.length_ns:
        return _unknown("no-steps")
    by_setting = _from_capture(context)
    by_shape = _from_shapes(context)
    if by_setting is None:
        if isinstance(by_shape, str):
            return _unknown(by_shape)
        return _known(context, *by_shape, "shapes")
    if not isinstance(by_shape, str) and by_shape[0] != by_setting[0]:
        return _unknown("contradiction")
    return _unknown("differs") if by_shape == "differs" else _known(context, *by_setting, "capture")


def _unknown(reason: str) -> Samples:
    return Samples(None, None, None, None, reason)


def _known(context: Context, size: int, batches: float, source: str) -> Samples:
    steps = context.cached(typical)
    return Samples(size, batches, size * batches * len(steps) * 1e9 / steps.length_ns, source, None)


def _from_capture(context: Context) -> tuple[int, float] | None:
    """Batch size and batches per step of the only loader that a capture saw."""
    facts = context.trace.info.capture
    if facts is None or facts.batches_per_step is None or not facts.loaders or len(facts.loaders) != 1:
        return None
    size = facts.loaders[0].batch_size
    return None if not size or not facts.batches_per_step else (size, facts.batches_per_step)


def _from_shapes(context: Context) -> tuple[int, float] | str:
    """Batch size and batches per step by the shapes of operators, or why they are unknown."""
    waits = host_waits.outermost_loads(context)
    if not len(waits):
        return "no-loader"
    if not (context.trace.host.shapes > 0).any():
        return "no-shapes"
    batches = [batch for batch in _batches(context, waits) if batch.step != NO_PARENT]
    if not batches:
        return "not-shared"
    for batch in batches:
        if batch.unknown is not None:
            return batch.unknown
    number = np.bincount([batch.step for batch in batches], minlength=len(context.cached(typical)))
    sizes = {batch.size for batch in batches}
    size = sizes.pop()
    if sizes or size is None or len(distinct(number)) > 1:
        return "differs"
    return size, float(number[0])


def _batches(context: Context, waits: I64) -> list[_Batch]:
    """What follows each wait on its thread: copies to the device, then the first layer."""
    parts = list(_parts(context, np.sort(waits)))
    first_layers = np.array([layers[0] for _, layers in parts], np.int64)
    steps = context.cached(typical).at(first_work(context, first_layers)).tolist()
    return [_batch(context, *of_batch, step) for of_batch, step in zip(parts, steps, strict=True)]


def _parts(context: Context, waits: I64) -> Iterator[tuple[I64, I64]]:
    """For each wait, ascending, until the next one: the copies before the first layer, and the layers, if any."""
    tree = context.host.tree
    all_layers = _layers(context)
    all_copies = _copied(context)
    for begin, until in zip(tree.after[waits].tolist(), _until_next(tree, waits), strict=True):
        layers = all_layers[np.searchsorted(all_layers, begin) : np.searchsorted(all_layers, until)]
        if len(layers):
            first, behind = np.searchsorted(all_copies, (begin, layers[0]))
            yield all_copies[first:behind], layers


def _until_next(tree: Tree, waits: I64) -> list[int]:
    """For each wait, ascending, the next one on its thread, or the end of its thread: nodes are thread by thread."""
    thread = tree.thread[waits]
    has_next = np.append(thread[1:] == thread[:-1], False)[: len(waits)]
    end_of_thread = np.searchsorted(tree.thread, thread, side="right")
    until: list[int] = np.where(has_next, np.append(waits[1:], 0)[: len(waits)], end_of_thread).tolist()
    return until


def _layers(context: Context) -> I64:
    """Operators that a network may begin with, outside of the backward pass, none within another."""
    host, names = context.host, context.trace.names
    is_layer = names.where(lambda name: name in _INPUT)[host.name] & (host.kind == NodeKind.OPERATOR)
    inside = host.tree.nearest(context.cached(evaluations) | (host.kind == NodeKind.DATALOADER)) != NO_PARENT
    nodes = np.flatnonzero(is_layer & ~inside)
    parent = host.tree.parent[nodes]
    around = np.append(host.tree.nearest(is_layer), NO_PARENT)[parent]
    outermost: I64 = nodes[around == NO_PARENT]
    return outermost


def _copied(context: Context) -> I64:
    """Operators that copy from the host to a device, in the order of the tree."""
    device, names = context.trace.device, context.trace.names
    to_device = (device.category == Category.MEMCPY) & names.where(lambda name: "HtoD" in name)[device.name]
    node = distinct(context.links.device_node()[to_device])
    launching: I64 = node[node != NO_PARENT]
    return launching


def _batch(context: Context, copies: I64, layers: I64, step: int) -> _Batch:
    layer = int(layers[0])
    name = context.trace.names[int(context.host.name[layer])]
    entered = shape(context, layer, _INPUT[name])
    arrived = [found for node in copies.tolist() if (found := shape(context, node, 0))]
    if not entered or not arrived or {found[0] for found in arrived} != {entered[0]}:
        return _Batch(None, "not-shared", step)
    largest = max(arrived, key=prod)
    if arrived.count(largest) > 1 and _alike(context, layer, layers) > 1:
        return _Batch(None, "nested", step)
    return _Batch(entered[0], None, step)


def _alike(context: Context, layer: int, layers: I64) -> int:
    """Number of layers with the name and the inputs of the first one."""
    host, shapes = context.host, context.trace.host.shapes
    alike = (host.name[layers] == host.name[layer]) & (shapes[host.row[layers]] == shapes[host.row[layer]])
    return int(alike.sum())


def shape(context: Context, node: int, position: int) -> Shape | None:
    """Shape of an input of an operator; None where it was not recorded, empty where it has no axes."""
    return Inputs.of(context.trace, int(context.host.row[node])).shape(position)


def typical(context: Context) -> Steps:
    """The steps that count; none where the program's steps are not known."""
    steps = program_steps(context)
    return steps.typical.take(slice(0)) if steps.found_by in WHOLE else steps.typical


def first_work(context: Context, nodes: I64) -> I64:
    """For each node, when the first thing that it launched begins on a device; its own start where it launched nothing.

    The device is behind the host, so the time on the device shows which step the work is part of.

    Args:
        context: Of the trace.
        nodes: Positions in the host tree, none within another.
    """
    tree, device = context.host.tree, context.trace.device
    marked = np.zeros(len(tree), np.bool_)
    marked[nodes] = True
    inside = context.links.device_node()
    events = np.flatnonzero(inside != NO_PARENT)
    owner = tree.nearest(marked)[inside[events]]
    events = events[owner != NO_PARENT]
    owner = owner[owner != NO_PARENT]
    first = least_by(owner, device.start_ns[events], len(tree))
    idle = first == np.iinfo(np.int64).max
    return np.where(idle, tree.start_ns, first)[nodes]
