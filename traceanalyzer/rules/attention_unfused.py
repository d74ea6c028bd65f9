"""Detects attention-unfused: see pages/attention-unfused.md."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from traceanalyzer.knowledge.op_shapes import Shape, parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.program import has_torch
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("attention-unfused")
_SLOWEST = 3
"""Own choice: fused attention reaches a third or more of the rate of the best products of a device."""
_FUSED_NS = 5_000
"""Time that a fused kernel takes at least, with the gap before it (own choice: small kernels take 2 to 5 us)."""
_RECOMPUTED = 7 / 6
"""Products of fused attention, forward and backward, over those of the pieces: the backward pass computes the scores
again ("FlashAttention", Dao et al. 2022, algorithm 4), so that there are seven in place of six."""
_OF_OTHERS = 0.5, 0.75
"""Share of the time outside of products that is saved on a CPU (measured in the lab, explained on the page)."""
_OF_PRODUCTS = 0.2
"""Greatest share of the time of products that is saved on a CPU (as above)."""
_SINCE = (2, 1)
"""torch with a fused operator for attention on a CPU."""
_NOTICEABLE = 0.001
"""Own choice: share of the time of all operators; the rate of shorter products is limited by their launch."""
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm"})
_BY_PRODUCTS = "aten::_scaled_dot_product_attention_math"
_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax"})


@dataclass(frozen=True)
class _Scores:
    """A matrix of attention scores: batch, queries, keys, and the tensors that are multiplied to get it."""

    batch: int
    queries: int
    keys: int
    depth: int

    @property
    def ratio(self) -> float:
        """How much larger it is than the larger of queries and keys."""
        return min(self.queries, self.keys) / self.depth

    def has_shape(self, shape: Shape) -> bool:
        """Whether a tensor has the shape of these scores, with one batch axis or several."""
        return len(shape) >= 3 and shape[-2:] == (self.queries, self.keys) and math.prod(shape[:-2]) == self.batch

    def is_in(self, shapes: Sequence[Shape]) -> bool:
        """Whether a product reads or writes these scores, transposed or not."""
        a, b = shapes[-2:]
        among = (a, b, (a[0], a[1], b[2]))
        return any(self.has_shape(shape) or self.has_shape((shape[0], shape[2], shape[1])) for shape in among)


@dataclass(frozen=True)
class _Row:
    operator: OperatorFact
    tensors: list[Shape]
    ns: int
    """Time of all calls on the processor that computes them."""

    @property
    def is_product(self) -> bool:
        return self.operator.name in _PRODUCTS and len(self.tensors) >= 2 and _inner(self.tensors) is not None

    @property
    def flops(self) -> int:
        """Floating-point operations of all calls of a product."""
        a, b = self.tensors[-2:]
        return 2 * self.operator.calls * math.prod(a) * b[-1]


def _inner(tensors: Sequence[Shape]) -> int | None:
    """The axis that the last two tensors share in a product."""
    a, b = tensors[-2:]
    return a[-1] if len(a) == len(b) and len(a) in (2, 3) and a[-1] == b[-2] else None


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    processor = Processor.of(facts)
    timed = [(row, processor.self_ns(row)) for row in facts.shaped]
    rows = [_Row(row, [s for s in parse(row.shapes) or [] if s], ns) for row, ns in timed if ns]
    scores = [s for s in _scores(rows) if s.ratio >= limits["score_ratio"]]
    members = [row for row in rows if any(_belongs(row, s) for s in scores)]
    total = sum(row.ns for row in members)
    share = processor.share(total)
    if share <= processor.limit(limits) or (processor.is_cpu and not _helps_on_cpu(facts)):
        return
    now, least = _products(processor, rows, members)
    if processor.is_cpu:
        change = _on_cpu(processor, total, now, least)
    else:
        again = _RECOMPUTED if any("softmax_backward" in row.operator.name for row in members) else 1.0
        left = again * min(now, _SLOWEST * least) + _FUSED_NS * _fused_calls(members)
        direct = facts.gpu_per_step(max(0.0, total - left)), facts.gpu_per_step(total - least)
        change = TimeSaved(
            "gpu",
            direct,
            _PAGE.text("basis-kernels")(floor=facts.gpu_per_step(least), fused=_FUSED_NS),
            is_removed=True,
        )
    members.sort(key=lambda row: (-row.ns, row.operator.name, row.operator.shapes or ""))
    change = replace(change, claims={_key(row.operator): processor.per_step(row.ns) for row in members})
    largest = max(scores, key=lambda s: (s.batch * s.queries * s.keys, s.queries))
    subject = (_PAGE.text("subject-cpu") if processor.is_cpu else _PAGE.text("subject"))()
    places = tuple(_place(processor, row) for row in members)
    evidence = Evidence(subject, share, processor.limit(limits), "share", places)
    shape = [largest.batch, largest.queries, largest.keys]
    params = {"time": processor.per_step(total), "share": share, "shape": str(shape)}
    yield Draft((evidence,), change, params, summary=_PAGE.text("summary-cpu") if processor.is_cpu else None)


def _helps_on_cpu(facts: Facts) -> bool:
    """Whether there is a fused operator that the program does not already use."""
    return has_torch(facts, _SINCE) and not any(row.name == _BY_PRODUCTS for row in facts.operators)


def _on_cpu(processor: Processor, total: int, products: int, least: float) -> TimeSaved:
    """The time saved on a CPU: most of the time outside of products, and a part of the products.

    Args:
        processor: The CPU.
        total: Time of all operators on the scores in ns.
        products: Part of that time in products.
        least: Time of these products at the best rate of the run.
    """
    low, high = (share * (total - products) for share in _OF_OTHERS)
    high = min(high + _OF_PRODUCTS * products, total - least)
    direct = processor.per_step(min(low, high)), processor.per_step(high)
    return TimeSaved(
        "host", direct, _PAGE.text("basis-cpu")(least=_OF_OTHERS[0], most=_OF_OTHERS[1], products=_OF_PRODUCTS)
    )


def _products(processor: Processor, rows: Sequence[_Row], members: Sequence[_Row]) -> tuple[int, float]:
    """Time of the products among the members in ns: as measured, and at the best rate of the run."""
    products = [row for row in members if row.is_product]
    now = sum(row.ns for row in products)
    return now, min(now, sum(row.flops for row in products) / _best_rate(processor, rows))


def _fused_calls(members: Sequence[_Row]) -> int:
    """Calls of fused operators in place of the members: one for each softmax, forward and backward."""
    return sum(row.operator.calls for row in members if "softmax" in row.operator.name)


def _scores(rows: Sequence[_Row]) -> list[_Scores]:
    """Results of products that go through a softmax into another product."""
    batched = [row for row in rows if row.is_product and len(row.tensors[-1]) == 3]
    found: dict[_Scores, None] = {}
    for row in batched:
        a, b = row.tensors[-2:]
        scores = _Scores(a[0], a[1], b[2], a[2])
        softmax = any(r.operator.name in _SOFTMAX and r.tensors and scores.has_shape(r.tensors[0]) for r in rows)
        if scores.queries > 1 and softmax and any(scores.has_shape(other.tensors[-2]) for other in batched):
            found[scores] = None
    return list(found)


def _belongs(row: _Row, scores: _Scores) -> bool:
    """Whether a row works on the scores."""
    if row.is_product:
        return len(row.tensors[-1]) == 3 and scores.is_in(row.tensors)
    return bool(row.tensors) and scores.has_shape(row.tensors[0])


def _best_rate(processor: Processor, rows: Sequence[_Row]) -> float:
    """Operations per nanosecond of the best product of the run."""
    enough = _NOTICEABLE * processor.total_ns
    return max((row.flops / row.ns for row in rows if row.is_product and row.ns >= enough), default=math.inf)


def _key(row: OperatorFact) -> str:
    return f"operator:{row.name}|{row.shapes}"


def _place(processor: Processor, row: _Row) -> CodePlace:
    kind = "operator" if processor.facts.table is None else "row"
    return CodePlace(kind, row.operator.name, row.operator.shapes, processor.per_step(row.ns), "ns")


RULE = _PAGE.rule(trace=_find, table=_find)
