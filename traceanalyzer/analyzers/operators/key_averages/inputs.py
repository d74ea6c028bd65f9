"""Inputs of operators: their shapes as torch prints them, and torch's numbers of floating point operations.

Shapes are printed as a Python list, in which a list of tensors is an empty list. The formulas are those of
`computeFlops` in torch/csrc/profiler/util.cpp: conv2d, mm, addmm, bmm, baddbmm, add, mul; no others. A convolution
needs its stride, padding, dilation and groups, which the trace holds as "Concrete Inputs".
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import msgspec
import numpy as np

from traceanalyzer.analyzers.operators.key_averages.events import AveragedEvents, EventKind
from traceanalyzer.knowledge.inputs import Inputs, Shape, integers
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.strings import StringPool, Strings
from traceanalyzer.trace.table import I32, I64

_MAX = 2**63 - 1


class Shapes(msgspec.Struct, frozen=True):
    """Input shapes of events: the distinct texts, and for each event the row of its own."""

    texts: list[str]
    row: I32


def printed(shapes: Strings, codes: I32) -> Shapes:
    """The texts of events, given the codes of theirs in a trace's pool."""
    pool: StringPool[str] = StringPool()
    rows = pool.codes(map(_printed, shapes), len(shapes))
    return Shapes(pool.values(), rows[codes])


def _printed(text: str) -> str:
    return str([list(dims) if isinstance(dims, tuple) else [] for dims in Inputs(text).dims or ()])


def flops(trace: Trace, events: AveragedEvents) -> I64:
    """FLOPs of every event, 0 where torch has no formula or the trace lacks an input."""
    flops = np.zeros(len(events), np.int64)
    names = [events.names.index(name) for name in _FORMULAS if name in events.names]
    rows = np.flatnonzero((events.kind == EventKind.OPERATOR) & np.isin(events.name, names))
    if len(rows):
        of = events.row[rows]
        host = trace.host.take(of)
        first, groups = group(host.name, host.shapes, host.types, host.concrete)
        called = zip(host.name[first].tolist(), of[first].tolist(), strict=True)
        costs = [_cost(trace.names[name], Inputs.of(trace, row)) for name, row in called]
        flops[rows] = np.array(costs, np.int64)[groups]
    return flops


def _cost(name: str, inputs: Inputs) -> int:
    try:
        cost = _FORMULAS[name](inputs)
    except (IndexError, ValueError, ZeroDivisionError, TypeError):
        return 0
    return cost if 0 <= cost <= _MAX else 0


def _tensor(inputs: Inputs, index: int) -> Shape:
    """The shape of an input that has to be a tensor.

    Raises:
        IndexError: There is no such input.
        TypeError: It is not a tensor.
    """
    shape = (inputs.dims or ())[index]
    if not isinstance(shape, tuple):
        raise TypeError("a list of tensors")
    if not shape and inputs.types:
        kind = inputs.types[index]
        if kind in ("", "Scalar") or kind.endswith("List"):
            raise TypeError(kind)
    return shape


def _elements(inputs: Inputs) -> int:
    return math.prod(_tensor(inputs, 0))


def _matrix_product(left: int, batched: bool) -> Callable[[Inputs], int]:
    def cost(inputs: Inputs) -> int:
        if left:
            _tensor(inputs, 0)
        a = _tensor(inputs, left)
        b = _tensor(inputs, left + 1)
        whole = math.prod(a) // a[-1] // (a[0] if batched else 1)
        return 2 * whole * math.prod(b)

    return cost


def _conv2d(inputs: Inputs) -> int:
    batch, channels, *size = _tensor(inputs, 0)
    out_channels, _, *kernel = _tensor(inputs, 1)
    values = inputs.values or ()
    settings = [integers(values[index]) or () for index in (3, 4, 5)]  # stride, padding, dilation
    groups = int(values[6])
    if not all(len(of_axes) == 2 for of_axes in (size, kernel, *settings)):
        return 0
    out = itertools.starmap(_size_after, zip(size, kernel, *settings, strict=True))
    return 2 * batch * math.prod(out) * math.prod(kernel) * channels * out_channels // groups


def _size_after(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Size of an axis after a convolution."""
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


_FORMULAS: dict[str, Callable[[Inputs], int]] = {
    "aten::conv2d": _conv2d,
    "aten::mm": _matrix_product(0, batched=False),
    "aten::addmm": _matrix_product(1, batched=False),
    "aten::bmm": _matrix_product(0, batched=True),
    "aten::baddbmm": _matrix_product(1, batched=True),
    "aten::add": _elements,
    "aten::mul": _elements,
}
