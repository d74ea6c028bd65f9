"""Inputs of operators: their shapes as torch prints them, and torch's numbers of floating point operations.

Shapes are printed as a Python list, in which a list of tensors is an empty list. The formulas are those of
`computeFlops` in torch/csrc/profiler/util.cpp: conv2d, mm, addmm, bmm, baddbmm, add, mul; no others. A convolution
needs its stride, padding, dilation and groups, which the trace holds as "Concrete Inputs".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analyzers.operators.key_averages.events import AveragedEvents, EventKind
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.strings import StringPool, Strings
from traceanalyzer.trace.table import I32, I64

_MAX = 2**63 - 1
Inputs = tuple[Sequence[Sequence[int]], Sequence[str], Sequence[str]]
"""Shapes, types and values (as text) of the inputs."""


@dataclass(frozen=True)
class Shapes:
    """Input shapes of events: the distinct texts, and for each event the row of its own."""

    texts: list[str]
    row: I32


def printed(shapes: Strings, codes: I32) -> Shapes:
    """The texts of events, given the codes of theirs in a trace's pool."""
    pool: StringPool[str] = StringPool()
    rows = pool.codes(map(_printed, shapes), len(shapes))
    return Shapes(pool.values(), rows[codes])


def parse(text: str) -> list[list[int]]:
    """Shapes of all inputs; [] for what is not a tensor, and for what cannot be read."""
    try:
        value: Any = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return []
    return [_shape(item) for item in value] if isinstance(value, list) else []


def _shape(item: Any) -> list[int]:
    plain = isinstance(item, list) and all(isinstance(size, int) for size in item)
    return item if plain else []


def _printed(text: str) -> str:
    return str(parse(text))


def flops(trace: Trace, events: AveragedEvents) -> I64:
    """FLOPs of every event, 0 where torch has no formula or the trace lacks an input."""
    flops = np.zeros(len(events), np.int64)
    names = [events.names.index(name) for name in _FORMULAS if name in events.names]
    rows = np.flatnonzero((events.kind == EventKind.OPERATOR) & np.isin(events.name, names))
    if len(rows):
        host = trace.host.take(events.row[rows])
        first, groups = group(host.name, host.shapes, host.types, host.concrete)
        calls = zip(
            *(getattr(host, key)[first].tolist() for key in ("name", "shapes", "types", "concrete")), strict=True
        )
        costs = [
            _cost(trace.names[name], trace.shapes[shapes], trace.types[types], trace.concrete[concrete])
            for name, shapes, types, concrete in calls
        ]
        flops[rows] = np.array(costs, np.int64)[groups]
    return flops


def _cost(name: str, shapes: str, types: str, concrete: str) -> int:
    inputs = (parse(shapes), _texts(types), _texts(concrete))
    try:
        cost = _FORMULAS[name](inputs)
    except (IndexError, ValueError, ZeroDivisionError, TypeError, msgspec.DecodeError, RecursionError):
        return 0
    return cost if 0 <= cost <= _MAX else 0


def _texts(text: str) -> list[str]:
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return []
    return [str(item) for item in value] if isinstance(value, list) else []


def _tensor(inputs: Inputs, index: int) -> Sequence[int]:
    """The shape of an input that has to be a tensor.

    Raises:
        IndexError: There is no such input.
        TypeError: It is not a tensor.
    """
    shapes, types, _ = inputs
    shape = shapes[index]
    if not shape and types and (types[index] in ("", "Scalar") or types[index].endswith("List")):
        raise TypeError(types[index])
    return shape


def _elements(inputs: Inputs) -> int:
    return math.prod(_tensor(inputs, 0))


def _matrix_product(left: int, batched: bool) -> Callable[[Inputs], int]:
    def cost(inputs: Inputs) -> int:
        if left:
            _tensor(inputs, 0)
        a, b = _tensor(inputs, left), _tensor(inputs, left + 1)
        whole = math.prod(a) // a[-1] // (a[0] if batched else 1)
        return 2 * whole * math.prod(b)

    return cost


def _conv2d(inputs: Inputs) -> int:
    (batch, channels, *size), (out_channels, _, *kernel) = _tensor(inputs, 0), _tensor(inputs, 1)
    stride, padding, dilation = (_numbers(inputs[2][index]) for index in (3, 4, 5))
    groups = int(inputs[2][6])
    if not len(size) == len(kernel) == len(stride) == len(padding) == len(dilation) == 2:
        return 0
    out = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    ]
    return 2 * batch * math.prod(out) * math.prod(kernel) * channels * out_channels // groups


def _numbers(text: str) -> list[int]:
    """Parse a list such as `[1, 1]` into numbers.

    Raises:
        msgspec.DecodeError: It is something else, such as "same".
    """
    return msgspec.json.decode(text, type=list[int])


_FORMULAS: dict[str, Callable[[Inputs], int]] = {
    "aten::conv2d": _conv2d,
    "aten::mm": _matrix_product(0, batched=False),
    "aten::addmm": _matrix_product(1, batched=False),
    "aten::bmm": _matrix_product(0, batched=True),
    "aten::baddbmm": _matrix_product(1, batched=True),
    "aten::add": _elements,
    "aten::mul": _elements,
}
