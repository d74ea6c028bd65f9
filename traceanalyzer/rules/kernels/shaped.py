"""Operators with the shapes of their inputs, as products of matrices, for rules that put a layer together."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor

_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm"})


class ShapedOperator(msgspec.Struct, frozen=True):
    """An operator with some shapes."""

    operator: OperatorFact
    tensors: tuple[Shape, ...]
    ns: int
    """Time of all calls on the processor that computes them."""

    @property
    def is_product(self) -> bool:
        """Whether it multiplies its last two tensors, which share an axis."""
        if self.operator.name not in _PRODUCTS or len(self.tensors) < 2:
            return False
        a, b = self.tensors[-2:]
        return len(a) == len(b) and len(a) in (2, 3) and a[-1] == b[-2]

    @property
    def flops(self) -> int:
        """Floating-point operations of all calls of a product."""
        a, b = self.tensors[-2:]
        return 2 * self.operator.calls * math.prod(a) * b[-1]


def shaped_operators(processor: Processor) -> list[ShapedOperator]:
    """All operators of the run with their shapes."""
    rows = processor.facts.shaped
    return [ShapedOperator(row, row.inputs.tensors, processor.self_ns(row)) for row in rows]


def by_time(rows: Iterable[ShapedOperator]) -> list[ShapedOperator]:
    """The same operators, the longest first."""
    return sorted(rows, key=lambda row: (-row.ns, row.operator.name, row.operator.shapes or ""))


def times(processor: Processor, rows: Iterable[ShapedOperator]) -> EventTimes:
    """Their calls with their times."""
    return EventTimes.of(processor, ((row.operator.events, row.ns) for row in rows))
