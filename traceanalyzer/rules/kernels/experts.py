"""Detects experts that take most of the time, or compute all tokens: moe-dominates and moe-dense."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.rules.engine import places, program
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, page
from traceanalyzer.rules.kernels import shaped
from traceanalyzer.rules.kernels.shaped import ShapedOperator
from traceanalyzer.structure.events import ITS_OWN

_EXPERTS = page("moe-dominates")
_DENSE = page("moe-dense")

_EXPERTS_OF = range(4, 513)
"""Own choice: numbers of experts; a choice among more is one of tokens."""
_OF_EXPERTS = frozenset({KernelClass.MOE, KernelClass.ROUTING})


def _experts(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.kernels if row.kind in _OF_EXPERTS]
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows)).longest_first
    if work.share <= limits["gpu_share"]:
        return
    evidence = _EXPERTS.evidence(limits, "gpu_share", work.share, work.places)
    longest = next(iter(work.ns))
    trains = program.may_train(facts)  # which no server does
    advice = _EXPERTS.text("advice-training") if trains else None
    yield Draft((evidence,), None, {**work.figures(), "kernel": longest.name}, "low", advice=advice)


def _dense(facts: Facts, limits: Limits) -> Drafts:
    processor = Processor.of(facts)
    rows = shaped.shaped_operators(processor)
    for (tokens, experts), chosen in _choices(rows).items():
        members = _of_experts(rows, tokens, calls=experts * chosen)
        work = shaped.times(processor, members)
        if not members or work.share <= limits["gpu_share"]:
            continue
        most = 1 - 1 / experts
        change = work.shorter((0.5 * most, most), _DENSE.text("basis")(most=most), host=ITS_OWN)
        where = places.of_operators(facts, [row.operator for row in members], processor.self_ns)
        params = {"experts": experts, "shapes": members[0].operator.shapes, **work.figures()}
        params["calls"] = members[0].operator.calls // chosen
        yield Draft((_DENSE.evidence(limits, "gpu_share", work.share, where),), change, params)


def _choices(rows: Sequence[ShapedOperator]) -> dict[Shape, int]:
    """Calls that choose experts for tokens, by the number of both."""
    calls: dict[Shape, int] = {}
    for row in rows:
        if row.operator.name == "aten::topk" and row.tensors and len(row.tensors[0]) == 2:
            tokens, experts = row.tensors[0]
            if experts in _EXPERTS_OF and tokens > 1:
                calls[tokens, experts] = calls.get((tokens, experts), 0) + row.operator.calls
    return calls


def _of_experts(rows: Sequence[ShapedOperator], tokens: int, calls: int) -> list[ShapedOperator]:
    """Products of all tokens that are called at least so often."""
    often = (row for row in rows if row.operator.calls >= calls)
    return shaped.by_time(row for row in often if _is_of_expert(row, tokens))


def _is_of_expert(row: ShapedOperator, tokens: int) -> bool:
    """Whether it multiplies all tokens by weights that are not square, as the layers of an expert do."""
    if not row.is_product:
        return False
    inputs, weights = row.tensors[-2:]
    return inputs[0] == tokens and len(weights) == 2 and weights[0] != weights[1]


RULES = (
    _DENSE.rule(trace=_dense, table=_dense),
    _EXPERTS.rule(trace=_experts, table=_experts),
)
