"""Detects attention that is computed in pieces: attention-unfused and sdpa-math."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from math import fsum

import msgspec

from traceanalyzer.rules.engine import places, program
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft, Drafts, Evidence, Facts, Limits, page
from traceanalyzer.rules.kernels import attention_by_names, shaped
from traceanalyzer.rules.kernels.shaped import ShapedOperator
from traceanalyzer.structure.events import ITS_OWN

_UNFUSED = page("attention-unfused")
_SDPA = page("sdpa-math")

_SLOWEST = 3
"""Own choice: fused attention reaches a third or more of the rate of the best products of a device."""
_FUSED_NS = 5_000
"""Time that a fused kernel takes at least, with the gap before it (own choice: small kernels take 2 to 5 us)."""
_RECOMPUTED = 7 / 6
"""Products of fused attention, forward and backward, over those of the pieces: the backward pass computes the scores
again ("FlashAttention", Dao et al. 2022, algorithm 4), so that there are seven in place of six."""
_SLOWER_IN_FP32 = 1.2
"""Fused attention in single precision over its products as they were: 1.08 and 1.17 were measured on an H200."""
_OF_OTHERS = 0.4, 0.55
"""Share of the time outside of products that is saved on a CPU (measured in the lab, explained on the page)."""
_OF_PRODUCTS = 0.1
"""Greatest share of the time of products that is saved on a CPU (as above)."""
_SINCE = (2, 1)
"""torch with a fused operator for attention on a CPU."""
_NOTICEABLE = 0.001
"""Own choice: share of the time of all operators; the rate of shorter products is limited by their launch."""
_BY_PRODUCTS = "aten::_scaled_dot_product_attention_math"
_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax"})
_LOGARITHM = re.compile(r"log_?softmax|softmax_warp_\w{1,32}<[^<>]{0,200}, \d{1,4}, true", re.IGNORECASE)
_PRODUCTS_EACH = 4
"""Products for each softmax of attention (own choice: two on the scores, and two or more before and after them)."""
_LAYERS = 2
"""Softmax a step from which on they are those of layers (own choice: one is that of the classes)."""
_MEAN = "aten::mean"
_WITHOUT_WEIGHTS = "output, _ = self.attention(query, key, value, need_weights=False)"
_LEAST_LEFT = 0.2
"""Part that a fused kernel needs at least (own choice: its two products remain)."""


class _Scores(msgspec.Struct, frozen=True):
    """A matrix of attention scores: batch, queries, keys, and the tensors that are multiplied to get it."""

    batch: int
    queries: int
    keys: int
    depth: int

    @property
    def ratio(self) -> float:
        """How much larger it is than the larger of queries and keys."""
        return min(self.queries, self.keys) / self.depth

    def has_shape(self, shape: tuple[int, ...]) -> bool:
        """Whether a tensor has the shape of these scores, with one batch axis or several."""
        return len(shape) >= 3 and shape[-2:] == (self.queries, self.keys) and math.prod(shape[:-2]) == self.batch

    def is_in(self, shapes: Sequence[tuple[int, ...]]) -> bool:
        """Whether a product reads or writes these scores, transposed or not."""
        a, b = shapes[-2:]
        among = (a, b, (a[0], a[1], b[2]))
        return any(self.has_shape(shape) or self.has_shape((shape[0], shape[2], shape[1])) for shape in among)


def _unfused(facts: Facts, limits: Limits) -> Drafts:
    return (_unfused_by_kernels if facts.is_gpu_alone else _unfused_by_operators)(facts, limits)


def _unfused_by_shapes(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    rows = [row for row in shaped.shaped_operators(processor) if row.ns]
    scores = [matrix for matrix in _scores(rows) if matrix.ratio >= limits["score_ratio"]]
    members = shaped.by_time(row for row in rows if any(_belongs(row, matrix) for matrix in scores))
    work = shaped.times(processor, members)
    if work.share <= processor.limit(limits) or (processor.is_cpu and not _helps_on_cpu(facts)):
        return
    least = _least_ns(rows, members, _NOTICEABLE * processor.total_ns)
    change = (_fused_on_cpu if processor.is_cpu else _fused_on_gpu)(work, members, least)
    largest = max(scores, key=lambda matrix: (matrix.batch * matrix.queries * matrix.keys, matrix.queries))
    params = {**work.figures(), "shape": str([largest.batch, largest.queries, largest.keys])}
    is_averaged = _are_averaged(members)
    yield Draft(
        (_share_of(work, members, limits),),
        change,
        params,
        summary=_UNFUSED.text("summary-cpu") if processor.is_cpu else None,
        advice=_UNFUSED.text("advice-weights") if is_averaged else None,
        code=_WITHOUT_WEIGHTS if is_averaged else None,
    )


def _unfused_by_kernels(facts: Facts, limits: Limits) -> Drafts:
    """Softmax beside products and without a fused kernel, where no operator shows what it is for."""
    rows = sorted((row for row in facts.kernels if _is_softmax(row.name)), key=lambda row: -row.total_ns)
    softmax = sum(row.calls for row in rows)
    if softmax < _LAYERS * facts.steps or not _may_be_attention(facts, softmax):
        return
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows))
    if work.share <= limits["gpu_share"]:
        return
    subject = _UNFUSED.text("subject-kernels")()
    yield Draft(
        (_UNFUSED.evidence(limits, "gpu_share", work.share, work.places, subject=subject),),
        work.shorter((0.0, 1.0), _UNFUSED.text("basis-softmax")()),
        {**work.figures(), "calls": round(facts.per_step(softmax))},
        ceiling="medium",
        confidence="C",
        summary=_UNFUSED.text("summary-kernels"),
    )


def _may_be_attention(facts: Facts, softmax: int) -> bool:
    """Whether there are products enough for so many kernels of softmax, and none of fused attention or of experts."""
    products = sum(row.calls for row in facts.kernels if row.kind.value == "gemm")
    kinds = {row.kind.value for row in facts.kernels}
    return products >= _PRODUCTS_EACH * softmax and not {"attention", "moe"} & kinds


def _is_softmax(kernel: str) -> bool:
    """Whether it is a softmax, not the logarithm of one, as losses take."""
    return "softmax" in kernel.lower() and not _LOGARITHM.search(kernel)


def _share_of(work: EventTimes, members: Sequence[ShapedOperator], limits: Limits) -> Evidence:
    """The share of attention in the time, which decides."""
    processor = work.processor
    operators = [row.operator for row in members]
    where = places.of_operators(
        processor.facts, operators, lambda operator: processor.per_step(processor.self_ns(operator))
    )
    subject = _UNFUSED.text("subject-cpu") if processor.is_cpu else _UNFUSED.text("subject")
    return _UNFUSED.evidence(limits, processor.limit_key, work.share, where, subject=subject())


def _are_averaged(members: Sequence[ShapedOperator]) -> bool:
    """Whether the mean over the heads is taken, as nn.MultiheadAttention does to return the weights of attention.

    The heads are an axis of their own there, which products and softmax do not have.
    """
    softmax = sum(row.operator.calls for row in members if row.operator.name == "aten::_softmax")
    means = sum(row.operator.calls for row in members if row.operator.name == _MEAN and len(row.tensors[0]) == 4)
    merged = all(len(row.tensors[0]) == 3 for row in members if row.operator.name == "aten::_softmax")
    return merged and 2 * means > softmax


def _helps_on_cpu(facts: Facts) -> bool:
    """Whether there is a fused operator that the program does not already use."""
    return program.has_torch(facts, _SINCE) and not any(row.name == _BY_PRODUCTS for row in facts.operators)


def _scores(rows: Sequence[ShapedOperator]) -> list[_Scores]:
    """Results of products that go through a softmax into another product."""
    batched = [row for row in rows if row.is_product and len(row.tensors[-1]) == 3]
    through_softmax: dict[_Scores, None] = {}
    for row in batched:
        a, b = row.tensors[-2:]
        scores = _Scores(a[0], a[1], b[2], a[2])
        softmax = any(r.operator.name in _SOFTMAX and r.tensors and scores.has_shape(r.tensors[0]) for r in rows)
        if scores.queries > 1 and softmax and any(scores.has_shape(other.tensors[-2]) for other in batched):
            through_softmax[scores] = None
    return list(through_softmax)


def _belongs(row: ShapedOperator, scores: _Scores) -> bool:
    """Whether a row works on the scores."""
    if row.is_product:
        return len(row.tensors[-1]) == 3 and scores.is_in(row.tensors)
    return bool(row.tensors) and scores.has_shape(row.tensors[0])


def _least_ns(rows: Sequence[ShapedOperator], members: Sequence[ShapedOperator], noticeable_ns: float) -> float:
    """Time that the products among the members take at the best rate of the run, or as measured."""
    rates = (row.flops / row.ns for row in rows if row.is_product and row.ns >= noticeable_ns)
    best_per_ns = max(rates, default=math.inf)
    products = [row for row in members if row.is_product]
    return min(sum(row.ns for row in products), sum(row.flops for row in products) / best_per_ns)


def _fused_on_gpu(work: EventTimes, members: Sequence[ShapedOperator], least_ns: float) -> StepChange:
    """The time saved on a GPU: all but that of fused operators, one for each softmax, forward and backward."""
    softmax = [row.operator for row in members if "softmax" in row.operator.name]
    again = _RECOMPUTED if any("softmax_backward" in operator.name for operator in softmax) else 1.0
    slower = _SLOWER_IN_FP32 if _is_fp32(members) else 1.0
    products = min(_products_ns(members), _SLOWEST * least_ns)
    left = slower * again * products + _FUSED_NS * sum(operator.calls for operator in softmax)
    high = max(0.0, work.total_ns - again * least_ns)
    low = min(high, max(0.0, work.total_ns - left))
    basis = _UNFUSED.text("basis-kernels")(floor=work.processor.per_step(least_ns), fused=_FUSED_NS)
    return work.removed((low, high), basis, host=ITS_OWN)


def _products_ns(members: Sequence[ShapedOperator]) -> int:
    return sum(row.ns for row in members if row.is_product)


def _is_fp32(members: Sequence[ShapedOperator]) -> bool:
    """Whether all products are known to be of single precision."""
    return all(row.operator.inputs.type(0) == "float" for row in members if row.is_product)


def _fused_on_cpu(work: EventTimes, members: Sequence[ShapedOperator], least_ns: float) -> StepChange:
    """The time saved on a CPU: most of the time outside of products, and a part of the products."""
    products = _products_ns(members)
    low, high = (share * (work.total_ns - products) for share in _OF_OTHERS)
    high = min(high + _OF_PRODUCTS * products, work.total_ns - least_ns)
    least, most = _OF_OTHERS
    basis = _UNFUSED.text("basis-cpu")(least=least, most=most, products=_OF_PRODUCTS)
    return work.removed((min(low, high), high), basis)


def _sdpa(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.operators if row.name == _BY_PRODUCTS and row.device_total_ns]
    work = EventTimes.on_device(facts, ((row.events, row.device_total_ns) for row in rows))
    if work.share <= limits["gpu_share"]:
        return
    where = places.of_operators(facts, rows, lambda row: row.device_total_ns)
    calls = facts.per_step(fsum(row.calls for row in rows))
    yield Draft(
        (_SDPA.evidence(limits, "gpu_share", work.share, where),),
        work.shorter((0.0, 1 - _LEAST_LEFT), _SDPA.text("basis")(left=_LEAST_LEFT)),
        {"calls": max(1, round(calls)), **work.figures()},
        ceiling="high",
    )


_NAMES = _UNFUSED.text("summary-names"), _UNFUSED.text("basis-names")
_unfused_by_operators = attention_by_names.or_by_names(_unfused_by_shapes, _UNFUSED, *_NAMES)
RULES = (
    _UNFUSED.rule(trace=_unfused, table=_unfused_by_operators),
    _SDPA.rule(trace=_sdpa, table=_sdpa),
)
