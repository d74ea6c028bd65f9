"""Detects ddp-unused-search: see pages/ddp-unused-search.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing, OperatorFact
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("ddp-unused-search")
_SEARCH = "torch.distributed.ddp.reducer::search_unused_parameters"
_COPY = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
_ACCUMULATE = "torch::autograd::AccumulateGrad"
_SINKS = ("_DDPSink", "_DDPSinkBackward")
_NOTE = "aten::select"
"""What the reducer calls on its list of used parameters, which are int32 numbers in memory of the host: in the backward
pass for each gradient, at its end for each parameter. Sources of the names: torch/csrc/distributed/c10d/reducer.cpp,
torch/nn/parallel/distributed.py (torch 2.13)."""


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = {row.name: row for row in facts.operators if row.name in (_SEARCH, _COPY, _ACCUMULATE, *_SINKS)}
    search = rows.get(_SEARCH)
    if search is None:
        return
    copied, used = (rows[name].calls if name in rows else 0 for name in (_COPY, _ACCUMULATE))
    notes = _notes(facts, search.calls)
    parameters = copied or search.calls * sum(map(_listed, notes))
    if parameters > used > 0:
        return  # some have no gradient
    sinks = [rows[name] for name in _SINKS if name in rows]
    claims = {f"operator:{row.name}": facts.host_per_step(row.host_total_ns) for row in (search, *sinks)}
    claims |= {f"operator:{row.name}|{row.shapes}": facts.host_per_step(row.host_total_ns) for row in notes}
    time = sum(claims.values())
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    kind = "operator" if facts.table is None else "row"
    where = tuple(
        CodePlace(kind, row.name, row.shapes, facts.host_per_step(row.host_total_ns), "ns")
        for row in (search, *sinks, *notes)[:5]
    )
    evidence = Evidence(_PAGE.text("subject")(), share, limits["host_share"], "share", where)
    change = TimeSaved("host", (claims[f"operator:{_SEARCH}"], time), _PAGE.text("basis")(), claims=claims)
    params: dict[str, float] = {"time": time, "share": share}
    if parameters and parameters == used:
        params["parameters"] = round(parameters / search.calls)
        yield Draft((evidence,), change, params, ceiling="medium")
    else:
        yield Draft(
            (evidence,), change, params, ceiling="medium", confidence="B", summary=_PAGE.text("summary-unknown")
        )


def _notes(facts: Facts, searches: int) -> list[OperatorFact]:
    """Calls on the list of used parameters: for each search, as many as it has parameters, or twice as many."""
    try:
        shaped = facts.shaped
    except Missing:
        return []
    own = [row for row in shaped if row.name == _NOTE and (row.types or "").startswith('["int",')]
    return [row for row in own if row.calls >= _listed(row) * searches > 0]


def _listed(row: OperatorFact) -> int:
    """Number of entries of the list that a call is about; 0 if it is none."""
    shapes = parse(row.shapes)
    return shapes[0][0] if shapes and len(shapes[0]) == 1 else 0


RULE = _PAGE.rule(trace=_find, table=_find)
