"""Detects elementwise-fusion-chain: see pages/elementwise-fusion-chain.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.kernels.elementwise_chains import Chain, Chains
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("elementwise-fusion-chain")
_PASSES = 2
"""Own choice: two passes, for operands from outside and for reductions that need the whole row first."""
_SAVED = 0.5
"""Own choice: of a read and a write by each kernel the write remains."""
_SHOWN = 8
"""Number of operators of a chain that a text names."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("chains", Chains).rows
    time = facts.gpu_per_step(sum(row.device_ns for row in rows))
    share = time / facts.step_ns
    if share <= limits["step_share"]:
        return
    ends = [_saved(row) for row in rows]
    direct = facts.gpu_per_step(sum(low for low, _ in ends)), facts.gpu_per_step(sum(high for _, high in ends))
    change = TimeSaved("gpu", direct, _PAGE.text("basis")(passes=_PASSES), claims=_claims(facts, rows), is_removed=True)
    where = tuple(_place(facts, row) for row in rows[:5])
    evidence = Evidence(_PAGE.text("subject")(), share, limits["step_share"], "share", where)
    kernels = round(sum(row.kernels * row.repetitions for row in rows) / facts.steps)
    chains = round(sum(row.repetitions for row in rows) / facts.steps)
    params = {"kernels": kernels, "chains": max(1, chains), "time": time, "share": share}
    texts = {"operators": _first_operators(rows[0]), "caller": rows[0].caller or ""}
    yield Draft(
        (evidence,), change, {**params, **texts}, summary=_PAGE.text("summary-caller") if rows[0].caller else None
    )


def _saved(row: Chain) -> Interval:
    most = row.device_ns - row.least_pass_ns
    if row.is_saved:
        return 0.0, _SAVED * most
    return max(0.0, row.device_ns - _PASSES * row.greatest_pass_ns), most


def _claims(facts: Facts, rows: Sequence[Chain]) -> dict[str, float]:
    claims: dict[str, float] = {}
    for link in (link for row in rows for link in row.links):
        key = f"operator:{link.name}|{link.input_shapes}"
        claims[key] = claims.get(key, 0.0) + facts.gpu_per_step(link.device_ns)
    return claims


def _place(facts: Facts, row: Chain) -> CodePlace:
    """The chain as a place: its operators, and the shapes of the first one."""
    operators = ", ".join(_names(row)) + (", ..." if row.kernels > _SHOWN else "")
    name = f"{row.caller}: {operators}" if row.caller else operators
    time = facts.gpu_per_step(row.device_ns)
    return CodePlace("kernel", name, row.links[0].input_shapes, time, "ns", row.start_ns)


def _first_operators(row: Chain) -> str | Message:
    """The first operators, for a sentence that also has the number of the others."""
    names = _names(row)
    listed = ", ".join(names)
    return _PAGE.text("more")(operators=listed, hidden=row.kernels - len(names)) if row.kernels > len(names) else listed


def _names(row: Chain) -> list[str]:
    return [link.name.removeprefix("aten::") for link in row.links[:_SHOWN]]


RULE = _PAGE.rule(trace=_trace)
