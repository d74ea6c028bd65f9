"""Detects layers that have a faster kernel than those that ran, and experts that take most of the time.

The rules are attention-unfused, sdpa-math, elementwise-fusion-chain, moe-dominates and moe-dense;
batch-norm-not-eval is about layers in the wrong mode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from traceanalyzer.analyzers.kernels.elementwise_chains import Chain, Chains, chains_at
from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import DeviceWork, HostTime, Interval, StepChange, summed
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.places import of_operators
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN, EventSet

_UNFUSED = page("attention-unfused")
_SDPA = page("sdpa-math")
_CHAINS = page("elementwise-fusion-chain")
_EXPERTS = page("moe-dominates")
_DENSE = page("moe-dense")
_NOT_EVAL = page("batch-norm-not-eval")

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
_PRODUCTS = frozenset({"aten::bmm", "aten::baddbmm", "aten::mm", "aten::addmm"})
_BY_PRODUCTS = "aten::_scaled_dot_product_attention_math"
_BMM = "aten::bmm"
_SOFTMAX = frozenset({"aten::_softmax", "aten::softmax"})
_MEAN = "aten::mean"
_WITHOUT_WEIGHTS = "output, _ = self.attention(query, key, value, need_weights=False)"
_DROPOUTS = frozenset({"aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::alpha_dropout"})
_DRAWS = frozenset({"aten::bernoulli_", "aten::native_dropout", "aten::_fused_dropout"})
"""What they call in training mode, and only then."""
_EXPERTS_OF = range(4, 513)
"""Own choice: numbers of experts; a choice among more is one of tokens."""
_LEAST_LEFT = 0.2
"""Part that a fused kernel needs at least (own choice: its two products remain)."""

_PASSES = 2
"""Own choice: two passes, for operands from outside and for reductions that need the whole row first."""
_SAVED = 0.5
"""Own choice: of a read and a write by each kernel the write remains."""
_SHOWN = 8
"""Number of operators of a chain that a text names."""


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


def _unfused(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    timed = [(row, processor.self_ns(row)) for row in facts.shaped]
    rows = [_Row(row, row.inputs.tensors, ns) for row, ns in timed if ns]
    scores = [s for s in _scores(rows) if s.ratio >= limits["score_ratio"]]
    members = [row for row in rows if any(_belongs(row, s) for s in scores)]
    total = sum(row.ns for row in members)
    share = processor.share(total)
    if share <= processor.limit(limits) or (processor.is_cpu and not _helps_on_cpu(facts)):
        return
    least = _least_ns(rows, members, _NOTICEABLE * processor.total_ns)
    members.sort(key=lambda row: (-row.ns, row.operator.name, row.operator.shapes or ""))
    claims = {row.operator.events: processor.per_step(row.ns) for row in members}
    change = (_fused_on_cpu if processor.is_cpu else _fused_on_gpu)(processor, members, least, claims)
    operators = [row.operator for row in members]
    where = of_operators(facts, operators, lambda row: processor.per_step(processor.self_ns(row)))
    subject = _UNFUSED.text("subject-cpu") if processor.is_cpu else _UNFUSED.text("subject")
    evidence = Evidence(subject(), share, processor.limit(limits), "share", where)
    largest = max(scores, key=lambda s: (s.batch * s.queries * s.keys, s.queries))
    shape = [largest.batch, largest.queries, largest.keys]
    params = {"time": OfEvents(processor.per_step(total)), "share": share, "shape": str(shape)}
    summary, is_averaged = _UNFUSED.text("summary-cpu") if processor.is_cpu else None, _are_averaged(members)
    advice, code = (_UNFUSED.text("advice-weights"), _WITHOUT_WEIGHTS) if is_averaged else (None, None)
    yield Draft((evidence,), change, params, summary=summary, advice=advice, code=code)


def _are_averaged(members: Sequence[_Row]) -> bool:
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


def _scores(rows: Sequence[_Row]) -> list[_Scores]:
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


def _belongs(row: _Row, scores: _Scores) -> bool:
    """Whether a row works on the scores."""
    if row.is_product:
        return len(row.tensors[-1]) == 3 and scores.is_in(row.tensors)
    return bool(row.tensors) and scores.has_shape(row.tensors[0])


def _least_ns(rows: Sequence[_Row], members: Sequence[_Row], noticeable_ns: float) -> float:
    """Time that the products among the members take at the best rate of the run, or as measured."""
    rates = (row.flops / row.ns for row in rows if row.is_product and row.ns >= noticeable_ns)
    best_per_ns = max(rates, default=math.inf)
    products = [row for row in members if row.is_product]
    return min(sum(row.ns for row in products), sum(row.flops for row in products) / best_per_ns)


def _fused_on_gpu(
    processor: Processor, members: Sequence[_Row], least_ns: float, claims: Mapping[EventSet, float]
) -> StepChange:
    """The time saved on a GPU: all but that of fused operators, one for each softmax, forward and backward."""
    total, products = sum(row.ns for row in members), sum(row.ns for row in members if row.is_product)
    softmax = [row.operator for row in members if "softmax" in row.operator.name]
    again = _RECOMPUTED if any("softmax_backward" in operator.name for operator in softmax) else 1.0
    slower = _SLOWER_IN_FP32 if _is_fp32(members) else 1.0
    left = slower * again * min(products, _SLOWEST * least_ns) + _FUSED_NS * sum(row.calls for row in softmax)
    high = max(0.0, total - again * least_ns)
    direct = processor.per_step(min(high, max(0.0, total - left))), processor.per_step(high)
    basis = _UNFUSED.text("basis-kernels")(floor=processor.per_step(least_ns), fused=_FUSED_NS)
    return DeviceWork(direct, basis, claims=claims, host=ITS_OWN)


def _is_fp32(members: Sequence[_Row]) -> bool:
    """Whether all products are known to be of single precision."""
    return all(row.operator.inputs.type(0) == "float" for row in members if row.is_product)


def _fused_on_cpu(
    processor: Processor, members: Sequence[_Row], least_ns: float, claims: Mapping[EventSet, float]
) -> StepChange:
    """The time saved on a CPU: most of the time outside of products, and a part of the products."""
    total, products = sum(row.ns for row in members), sum(row.ns for row in members if row.is_product)
    low, high = (share * (total - products) for share in _OF_OTHERS)
    high = min(high + _OF_PRODUCTS * products, total - least_ns)
    direct = processor.per_step(min(low, high)), processor.per_step(high)
    basis = _UNFUSED.text("basis-cpu")(least=_OF_OTHERS[0], most=_OF_OTHERS[1], products=_OF_PRODUCTS)
    return HostTime(direct, basis, claims=claims)


def _sdpa(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.operators if row.name == _BY_PRODUCTS and row.device_total_ns]
    total = sum(row.device_total_ns for row in rows)
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    where = of_operators(facts, rows, lambda row: row.device_total_ns)
    time, calls = facts.on_device(total), facts.per_step(fsum(row.calls for row in rows))
    most = (1 - _LEAST_LEFT) * time
    claims = {EventSet.operator(_BY_PRODUCTS): most}
    yield Draft(
        (Evidence(_SDPA.text("subject")(), share, limits["gpu_share"], "share", where),),
        DeviceWork((0.0, most), _SDPA.text("basis")(left=_LEAST_LEFT), claims=claims),
        {"calls": max(1, round(calls)), "time": OfEvents(time), "share": share},
        ceiling="high",
    )


def _chains(facts: Facts, limits: Limits) -> Drafts:
    rows = facts.need("chains", Chains).rows
    time = facts.on_device(fsum(row.device_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["step_share"]:
        return
    ends = [_saved(row) for row in rows]
    direct = facts.on_device(fsum(low for low, _ in ends)), facts.on_device(fsum(high for _, high in ends))
    links = [link for row in rows for link in row.links]
    claims = summed((e.events, facts.on_device(e.device_ns)) for e in links)
    basis, at = _CHAINS.text("basis")(passes=_PASSES), chains_at(rows=rows)
    change = DeviceWork(direct, basis, claims=claims, host=ITS_OWN, at=at)
    first, where = rows[0], tuple(_place(facts, row) for row in rows)
    params = {
        "kernels": round(facts.per_step(sum(row.kernels * row.repetitions for row in rows))),
        "chains": max(1, round(facts.per_step(sum(row.repetitions for row in rows)))),
        "time": OfEvents(time),
        "share": OfEvents(time, is_share=True),
        "operators": _first_operators(first),
        "caller": first.caller or "",
    }
    yield Draft(
        (Evidence(_CHAINS.text("subject")(), share, limits["step_share"], "share", where),),
        change,
        params,
        summary=_CHAINS.text("summary-caller") if first.caller else None,
    )


def _saved(row: Chain) -> Interval:
    most = row.device_ns - row.least_pass_ns
    if row.is_saved:
        return 0.0, _SAVED * most
    return max(0.0, row.device_ns - _PASSES * row.greatest_pass_ns), most


def _place(facts: Facts, row: Chain) -> CodePlace:
    """The chain as a place: its operators, and the shapes of the first one."""
    operators = ", ".join(_names(row)) + (", ..." if row.kernels > _SHOWN else "")
    name = f"{row.caller}: {operators}" if row.caller else operators
    time = facts.on_device(row.device_ns)
    return CodePlace("kernel", name, row.links[0].input_shapes, time, "ns", row.start_ns)


def _first_operators(row: Chain) -> str | Message:
    """The first operators, for a sentence that also has the number of the others."""
    names = _names(row)
    listed, hidden = ", ".join(names), row.kernels - len(names)
    return _CHAINS.text("more")(operators=listed, hidden=hidden) if hidden > 0 else listed


def _names(row: Chain) -> list[str]:
    return [link.name.removeprefix("aten::") for link in row.links[:_SHOWN]]


def _experts(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.kernels if kernel_class(row.name) in (KernelClass.MOE, KernelClass.ROUTING)]
    rows.sort(key=lambda row: (-row.total_ns, row.name))
    total = sum(row.total_ns for row in rows)
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    where = facts.kernel_places(rows)
    evidence = Evidence(_EXPERTS.text("subject")(), share, limits["gpu_share"], "share", where)
    params = {"time": OfEvents(facts.on_device(total)), "share": share, "kernel": rows[0].name}
    trains = program.may_train(facts)  # which no server does
    yield Draft((evidence,), None, params, "low", advice=_EXPERTS.text("advice-training") if trains else None)


def _dense(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    rows = [_Row(row, row.inputs.tensors, processor.self_ns(row)) for row in facts.shaped]
    choices = [row for row in rows if row.operator.name == "aten::topk" and row.tensors and len(row.tensors[0]) == 2]
    for (tokens, experts), chosen in _by_shape(choices).items():
        if experts not in _EXPERTS_OF or tokens < 2:
            continue
        products = [
            row for row in rows if row.is_product and row.tensors[-2][0] == tokens and len(row.tensors[-1]) == 2
        ]
        members = [row for row in products if row.tensors[-1][0] != row.tensors[-1][1]]
        members = [row for row in members if row.operator.calls >= experts * chosen]
        total = sum(row.ns for row in members)
        share = processor.share(total)
        if not members or share <= limits["gpu_share"]:
            continue
        members.sort(key=lambda row: (-row.ns, row.operator.name, row.operator.shapes or ""))
        most = 1 - 1 / experts
        time = processor.per_step(total)
        claims = {row.operator.events: processor.per_step(most * row.ns) for row in members}
        direct, basis = (0.5 * most * time, most * time), _DENSE.text("basis")(most=most)
        where = of_operators(facts, [row.operator for row in members], processor.self_ns)
        params = {"experts": experts, "shapes": members[0].operator.shapes, "time": OfEvents(time), "share": share}
        params["calls"] = members[0].operator.calls // chosen
        evidence = Evidence(_DENSE.text("subject")(), share, limits["gpu_share"], "share", where)
        change = processor.less_work(direct, basis, claims, host=ITS_OWN)
        yield Draft((evidence,), change, params)


def _by_shape(rows: Sequence[_Row]) -> dict[Shape, int]:
    """Calls of some operators by the shape of their first input."""
    calls: dict[Shape, int] = {}
    for row in rows:
        calls[row.tensors[0]] = calls.get(row.tensors[0], 0) + row.operator.calls
    return calls


def _not_eval(facts: Facts, limits: Limits) -> Drafts:
    if program.workload(facts) != "inference":
        return
    draws, dropouts = ([row for row in facts.operators if row.name in names] for names in (_DRAWS, _DROPOUTS))
    drawn, every = (sum(row.calls for row in rows) for rows in (draws, dropouts))
    if every and drawn / every >= limits["counted"]:
        processor = Processor.of(facts)
        written, products = ([row for row in facts.operators if row.name == name] for name in (_BY_PRODUCTS, _BMM))
        attention = sum(map(processor.total_of, written)) - sum(map(processor.self_ns, products))
        least = sum(map(processor.self_ns, draws))
        most = sum(map(processor.total_of, dropouts)) + (max(0, attention) if written else 0)
        direct = processor.per_step(least), processor.per_step(max(least, most))
        claims = {row.events: processor.per_step(processor.self_ns(row)) for row in draws}
        change = processor.less_work(direct, _NOT_EVAL.text("basis")(), claims)
        subject = _NOT_EVAL.text("subject-dropout")()
        evidence = Evidence(subject, drawn / every, limits["counted"], "share", processor.places(draws))
        params = {"dropouts": max(1, round(facts.per_step(every))), "time": direct[0], "step": facts.step_ns}
        yield Draft((evidence,), change, params, summary=_NOT_EVAL.text("summary-dropout"))
        return
    norms = [row for row in facts.operators if row.name == "aten::batch_norm"]
    counting = [row for row in facts.shaped if row.name == "aten::add_" and _counts_one(row)]
    counted, every = (sum(row.calls for row in rows) for rows in (counting, norms))
    if not every or counted / every < limits["counted"]:
        return
    where = (CodePlace("operator", norms[0].name, None, every, "count"),)
    evidence = Evidence(_NOT_EVAL.text("subject")(), counted / every, limits["counted"], "share", where)
    yield Draft((evidence,), None, {"norms": max(1, round(facts.per_step(every)))}, "low")


def _counts_one(row: OperatorFact) -> bool:
    """Whether an operator adds to one integer, as `num_batches_tracked.add_(1)` does."""
    return row.inputs.type(0) == "long int" and row.inputs.shape(0) == ()


RULES = (
    _DENSE.rule(trace=_dense, table=_dense),
    _NOT_EVAL.rule(trace=_not_eval),
    _UNFUSED.rule(trace=_unfused, table=_unfused),
    _SDPA.rule(trace=_sdpa, table=_sdpa),
    _CHAINS.rule(trace=_chains),
    _EXPERTS.rule(trace=_experts, table=_experts),
)
