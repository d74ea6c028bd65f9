"""Detects optimizer-not-fused: see pages/optimizer-not-fused.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.optimizer import IN_PLACE, Optimizer, Optimizers
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.knowledge import marks
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _settings
from traceanalyzer.rules._fused_optimizers import CLASS, is_sparse, is_sparse_name, saved_on_cpu
from traceanalyzer.rules._processor import Processor
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, OperatorFact
from traceanalyzer.rules.engine.idle_claims import claims
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft
from traceanalyzer.structure.owners.labels import EVALUATION

_PAGE = page("optimizer-not-fused")
_LEAST, _MOST = 0.5, 0.8
"""Own choice: the Python loops that collect parameters and a few launches remain."""
_ARITHMETIC = 0.8
"""Own choice: an optimizer that does more than arithmetic on its parameters cannot be fused."""
_OPTION = {
    **dict.fromkeys(("Adam", "AdamW", "SGD", "Adagrad"), "fused"),
    **dict.fromkeys(("Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"), "foreach"),
}
"""How torch.optim's classes update all parameters at once (torch 2.4; their documentation)."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if Processor.of(facts).is_cpu:
        yield from _on_cpu(facts, limits)
        return
    for row in facts.need("optimizers", Optimizers).rows:
        host = facts.host_per_step(row.host_ns)
        launches, share = row.launches / row.calls, host / facts.step_ns
        if launches < limits["launches"] or share <= limits["host_share"] or not is_loop(row):
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        evidence = (
            Evidence(_PAGE.text("subject")(), launches, limits["launches"], "count", (place,)),
            Evidence(_PAGE.text("host")(), share, limits["host_share"], "share", (place,)),
        )
        ended = claims(facts, row.exposed)
        exposed = sum(ended.values())
        direct = _LEAST * host, _MOST * host
        change = TimeSaved(
            "host",
            direct,
            _PAGE.text("basis")(least=_LEAST, most=_MOST),
            (min(direct[0], exposed), min(direct[1], exposed)),
            ended,
            (f"operator:{row.name}",),
        )
        params = {"optimizer": row.name, "launches": round(launches), "host": host, "share": share}
        params |= {"device": facts.host_per_step(row.device_ns)}
        advice = _PAGE.text("advice-refused") if _settings.refuses_lists(facts) else None
        yield Draft(evidence, change, params, advice=advice, code=fused_code(row.name))


def is_loop(row: Optimizer) -> bool:
    """Whether it does arithmetic on one parameter at a time, and could do it on lists."""
    arithmetic = row.elementwise_launches >= _ARITHMETIC * row.launches
    own = row.kind == "step" and not row.closures
    return own and not row.list_operators and arithmetic and not is_sparse(row)


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Without a GPU calls of operators take the time that launches take elsewhere."""
    processor = Processor.of(facts)
    for row in facts.need("optimizers", Optimizers).rows:
        each, share = row.in_place / row.calls, processor.share(row.host_ns)
        saved = saved_on_cpu(facts, row, limits["launches"])
        if saved is None or share <= limits["host_share"]:
            continue
        place = CodePlace("operator", row.name, value=row.host_ns, unit="ns", start_ns=row.start_ns)
        evidence = [Evidence(_PAGE.text("host")(), share, limits["host_share"], "share", (place,))]
        if each >= limits["launches"]:
            evidence.insert(0, Evidence(_PAGE.text("subject-table")(), each, limits["launches"], "count", (place,)))
        host = processor.per_step(row.host_ns)
        least, most = saved
        basis = _PAGE.text("basis-cpu")(least=least, most=most)
        change = TimeSaved("host", (least * host, most * host), basis, claims={f"optimizer:{row.name}": host})
        params = {"optimizer": row.name, "calls": round(each), "host": host, "share": share}
        advice = _PAGE.text("advice-cpu-refused") if _settings.refuses_lists(facts) else _PAGE.text("advice-cpu")
        yield Draft(
            tuple(evidence), change, params, summary=_PAGE.text("summary-cpu"), advice=advice, code=fused_code(row.name)
        )


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.rows(RowKind.ANNOTATION) if marks.is_optimizer_step(row.name) and row.cpu_total_ns]
    calls = max((row.calls or 0 for row in rows), default=0)
    if not calls or _has_lists(facts) or facts.table is None or not facts.table.cpu_ns:
        return
    optimizer = sum(row.cpu_total_ns or 0 for row in rows)
    if any(is_sparse_name(row.name) for row in rows) or _has_closure(facts, optimizer):
        return
    updates = [row for row in facts.operators if row.name in IN_PLACE]
    each = sum(row.calls for row in updates) / calls
    host = facts.host_per_step(optimizer)
    share = host * facts.steps / facts.table.cpu_ns
    if each < limits["launches"] or share <= limits["host_share"]:
        return
    where = [CodePlace("row", row.name, value=row.cpu_total_ns, unit="ns") for row in rows[:1]]
    where += _longest(updates)
    evidence = (
        Evidence(_PAGE.text("subject-table")(), each, limits["launches"], "count", tuple(where)),
        Evidence(_PAGE.text("host")(), share, limits["host_share"], "share", tuple(where[:1])),
    )
    change = TimeSaved("host", (_LEAST * host, _MOST * host), _PAGE.text("basis-table")(least=_LEAST, most=_MOST))
    params = {"optimizer": rows[0].name, "launches": round(each), "host": host, "share": share}
    code = fused_code(rows[0].name)
    yield Draft(evidence, change, params, confidence="C", summary=_PAGE.text("summary-table"), code=code)


def _has_closure(facts: Facts, optimizer_ns: int) -> bool:
    """Whether the optimizer's time contains what autograd evaluates: a closure, as with LBFGS or PyTorch Lightning."""
    evaluated = sum(row.host_total_ns for row in facts.operators if row.name.startswith(EVALUATION))
    whole = facts.table.cpu_ns if facts.table else None
    return whole is not None and evaluated > 0 and optimizer_ns + evaluated > whole


def _longest(updates: Sequence[OperatorFact]) -> list[CodePlace]:
    shown = sorted(updates, key=lambda row: (-row.host_total_ns, row.name))[:4]
    return [CodePlace("row", row.name, value=row.host_total_ns, unit="ns") for row in shown]


def _has_lists(facts: Facts) -> bool:
    """Whether some operator works on lists of parameters."""
    return any("_foreach_" in row.name or "_fused_" in row.name for row in facts.operators)


def fused_code(call: str) -> str:
    """Code for the optimizer that the program uses, which keeps its settings; empty where it is none of torch's."""
    found = CLASS.search(call)
    option = _OPTION.get(found[1]) if found else None
    return (
        f"torch.optim.{found[1]}(parameters, **settings, {option}=True)  # settings: as before"
        if found and option
        else ""
    )


RULE = _PAGE.rule(trace=_trace, table=_table)
