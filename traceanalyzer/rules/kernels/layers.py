"""Detects layers of which several kernels could be one, or that run in the wrong mode.

The rules are elementwise-fusion-chain and batch-norm-not-eval.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from math import fsum
from typing import Any

from traceanalyzer.analyzers.kernels import elementwise_chains
from traceanalyzer.analyzers.kernels.elementwise_chains import Chain
from traceanalyzer.report.message import Message
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import OperatorFact
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN

_CHAINS = page("elementwise-fusion-chain")
_NOT_EVAL = page("batch-norm-not-eval")

_DROPOUTS = frozenset({"aten::dropout", "aten::dropout_", "aten::feature_dropout", "aten::alpha_dropout"})
_DRAWS = frozenset({"aten::bernoulli_", "aten::native_dropout", "aten::_fused_dropout"})
"""What they call in training mode, and only then."""
_BY_PRODUCTS = "aten::_scaled_dot_product_attention_math"
_BMM = "aten::bmm"

_SURE = 2
"""Own choice: passes one after another without a backward pass in between are no training."""

_PASSES = 2
"""Own choice: two passes, for operands from outside and for reductions that need the whole row first."""
_SAVED = 0.5
"""Own choice: of a read and a write by each kernel the write remains."""
_SHOWN = 8
"""Number of operators of a chain that a text names."""


def _chains(facts: Facts, limits: Limits) -> Drafts:
    rows = facts.need("chains", elementwise_chains.Chains).rows
    work = EventTimes.on_device(facts, ((link.events, link.device_ns) for row in rows for link in row.links))
    time = facts.on_device(fsum(row.device_ns for row in rows))  # which more kernels have than links are listed
    if time / facts.step_ns <= limits["step_share"]:
        return
    least, most = zip(*map(_saved, rows), strict=True)
    basis = _CHAINS.text("basis")(passes=_PASSES)
    change = work.removed((fsum(least), fsum(most)), basis, host=ITS_OWN, at=elementwise_chains.chains_at(rows=rows))
    where = tuple(_place(facts, row) for row in rows)
    evidence = _CHAINS.evidence(limits, "step_share", time / facts.step_ns, where)
    summary = _CHAINS.text("summary-caller") if rows[0].caller else None
    yield Draft((evidence,), change, _quantities(facts, rows, time), summary=summary)


def _quantities(facts: Facts, rows: Sequence[Chain], time: float) -> dict[str, Any]:
    """How many chains and kernels a step has, their time, and what the first is made of."""
    first = rows[0]
    return {
        "kernels": round(facts.per_step(sum(row.kernels * row.repetitions for row in rows))),
        "chains": max(1, round(facts.per_step(sum(row.repetitions for row in rows)))),
        "time": OfEvents(time),
        "share": OfEvents(time, is_share=True),
        "operators": _first_operators(first),
        "caller": first.caller or "",
    }


def _saved(row: Chain) -> tuple[float, float]:
    """Time that a fused chain saves at least and at most, in ns."""
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


def _not_eval(facts: Facts, limits: Limits) -> Drafts:
    if program.workload(facts) == "inference":
        yield from list(_dropouts(facts, limits)) or _norms(facts, limits)


def _dropouts(facts: Facts, limits: Limits) -> Drafts:
    """Layers of dropout that draw numbers, as in training."""
    draws, dropouts = _called(facts, _DRAWS), _called(facts, _DROPOUTS)
    drawn, every = _calls(draws), _calls(dropouts)
    if not every or drawn / every < limits["counted"]:
        return
    processor = Processor.of(facts)
    work = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in draws))
    most = sum(map(processor.total_of, dropouts)) + _around_products(processor)
    change = work.removed((work.total_ns, max(work.total_ns, most)), _NOT_EVAL.text("basis")())
    subject = _NOT_EVAL.text("subject-dropout")()
    evidence = _NOT_EVAL.evidence(limits, "counted", drawn / every, processor.places(draws), subject=subject)
    params = {"dropouts": max(1, round(facts.per_step(every))), "time": work.time, "step": facts.step_ns}
    yield Draft((evidence,), change, params, summary=_NOT_EVAL.text("summary-dropout"))


def _around_products(processor: Processor) -> int:
    """Time of attention by products outside of its products: with dropout it cannot be fused."""
    written = _called(processor.facts, {_BY_PRODUCTS})
    products = sum(map(processor.self_ns, _called(processor.facts, {_BMM})))
    return max(0, sum(map(processor.total_of, written)) - products) if written else 0


def _norms(facts: Facts, limits: Limits) -> Drafts:
    """Batch norms that count their batches, as in training."""
    norms = _called(facts, {"aten::batch_norm"})
    counted = _calls(row for row in facts.shaped if row.name == "aten::add_" and _counts_one(row))
    every = _calls(norms)
    if not every or counted / every < limits["counted"]:
        return
    where = (CodePlace("operator", norms[0].name, None, every, "count"),)
    evidence = _NOT_EVAL.evidence(limits, "counted", counted / every, where)
    severity = "medium" if facts.steps >= _SURE else "low"  # a single pass may be a training's
    yield Draft((evidence,), None, {"norms": max(1, round(facts.per_step(every)))}, severity)


def _called(facts: Facts, names: Container[str]) -> list[OperatorFact]:
    """All operators with one of these names."""
    return [row for row in facts.operators if row.name in names]


def _calls(rows: Iterable[OperatorFact]) -> int:
    return sum(row.calls for row in rows)


def _counts_one(row: OperatorFact) -> bool:
    """Whether an operator adds to one integer, as `num_batches_tracked.add_(1)` does."""
    return row.inputs.type(0) == "long int" and row.inputs.shape(0) == ()


RULES = (
    _NOT_EVAL.rule(trace=_not_eval),
    _CHAINS.rule(trace=_chains),
)
