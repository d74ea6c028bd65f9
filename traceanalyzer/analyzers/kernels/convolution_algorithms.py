"""Does the same convolution run in different ways?

Calls of one operator of a convolution with equal inputs (shapes, types, strides, and the values of padding, stride
and the like) are sorted by the kernels that they launch: each set of kernels is one algorithm. Where there are
several, the library chose differently for the same work, and their times show which choice is best.
"""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import NO_CONVOLUTIONS, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_ROWS = 50
"""Rows in the result (own choice: networks have a few dozen different convolutions)."""

_CONVOLUTION = re.compile(r"aten::\w*conv\w*$")


class Algorithm(msgspec.Struct, frozen=True):
    """Calls that launched the same kernels."""

    kernel: str
    """Name of the kernel that takes the most time in these calls."""
    calls: int
    """Number of calls of the convolution that launched these kernels."""
    device_ns: int
    """Time of all kernels of these calls, in ns."""


class ConvolutionChoice(msgspec.Struct, frozen=True):
    """Calls of a convolution with equal inputs that ran in different ways."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes of the operator as recorded, as JSON."""
    algorithms: tuple[Algorithm, ...]
    """The sets of kernels that were launched for these inputs, at least two, the cheapest per call first."""
    saving_ns: float
    """Device time in ns that all calls together would save with the cheapest algorithm that was seen at least twice; 0
    if there is none."""


class ConvolutionAlgorithms(msgspec.Struct, frozen=True):
    """Convolutions that ran in different ways, those that could save most first."""

    rows: tuple[ConvolutionChoice, ...]
    """Convolutions that ran in different ways, the greatest possible saving first."""
    convolutions: int
    """Number of different convolutions, by operator and inputs, whose stride and padding are recorded."""


def analyze(context: Context) -> ConvolutionAlgorithms:
    """Group the calls of convolutions by their inputs and by their kernels."""
    trace, host, device = context.trace, context.host, context.trace.device
    nodes, kernels = context.once(_kernels)
    calls, call = ranked(nodes)
    time = sum_by(call, device.dur_ns[kernels], len(calls))
    row = host.row[calls]
    inputs = [getattr(trace.host, field)[row] for field in ("shapes", "types", "strides", "concrete")]
    _, same_inputs = group(host.name[calls], *inputs)
    first, ways = group(same_inputs, _signature(call, device.name[kernels].astype(np.int64), len(calls)))
    found: defaultdict[int, list[tuple[Algorithm, int]]] = defaultdict(list)
    figures = zip(count_by(ways, len(first)).tolist(), sum_by(ways, time, len(first)).tolist(), strict=True)
    for position, (count, total) in zip(first.tolist(), figures, strict=True):
        if inputs[3][position] > 0:  # without them, stride and padding may differ
            own = kernels[call == position]
            longest = own[np.argmax(device.dur_ns[own])]
            algorithm = Algorithm(trace.names[int(device.name[longest])], count, total)
            found[int(same_inputs[position])].append((algorithm, position))
    rows = [
        _choice(context, int(calls[members[0][1]]), [algorithm for algorithm, _ in members])
        for members in found.values()
        if len(members) > 1
    ]
    rows.sort(key=lambda choice: (-choice.saving_ns, choice.name, choice.input_shapes))
    return ConvolutionAlgorithms(tuple(rows[:_ROWS]), len(found))


def _kernels(context: Context) -> tuple[I64, I64]:
    """Kernels of convolutions: the operator's node, and the row of the kernel."""
    device, host = context.trace.device, context.host
    kernels = np.flatnonzero((device.category == Category.KERNEL) & context.in_scope(device.start_ns))
    node = context.links.device_node()[kernels]
    kernels, node = kernels[node != NO_PARENT], host.top[node[node != NO_PARENT]]
    named = context.trace.names.where(lambda name: _CONVOLUTION.match(name) is not None)[host.name[node]]
    return node[named], kernels[named]


def _signature(call: I64, kernel: I64, count: int) -> I64:
    """For each call, a number that is equal for calls with the same kernels, in any order.

    The sum of a pseudo-random number of 64 bits per kernel (Vigna's SplitMix64): different sets are equal only by
    chance.
    """
    mixed = kernel.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    total = np.zeros(count, np.uint64)
    np.add.at(total, call, mixed ^ (mixed >> np.uint64(31)))
    return total.view(np.int64)


def _choice(context: Context, node: int, algorithms: list[Algorithm]) -> ConvolutionChoice:
    trace, host = context.trace, context.host
    algorithms.sort(key=lambda a: (a.device_ns / a.calls, a.kernel))
    proven = [a.device_ns / a.calls for a in algorithms if a.calls > 1]
    saving = sum(max(0.0, a.device_ns - min(proven) * a.calls) for a in algorithms) if proven else 0.0
    shapes = trace.shapes[int(trace.host.shapes[host.row[node]])]
    return ConvolutionChoice(trace.names[int(host.name[node])], shapes, tuple(algorithms), saving)


_CONVOLUTIONS = Need(
    NO_CONVOLUTIONS,
    lambda context: len(context.once(_kernels)[0]) > 0,
)
_VALUES = Need(
    Text(
        "skip-no-convolution-values",
        "the trace has no stride and padding of convolutions: record them with record_shapes=True and torch 2.1 "
        "or newer",
        note="record_shapes=True is code",
    ),
    lambda context: (context.trace.host.concrete[context.host.row[context.once(_kernels)[0]]] > 0).any(),
)
ANALYSES = (Analysis(410, "convolution_algorithms", ConvolutionAlgorithms, analyze, needs=(_CONVOLUTIONS, _VALUES)),)
