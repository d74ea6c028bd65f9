"""Detects sync-item-frequent: see pages/sync-item-frequent.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.analyzers.waits.value_reads import ValueReads
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _environment, _host_work, _waits
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("sync-item-frequent")
_READING = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
_OWN_BESIDE = 0.5
"""Part of the Python code directly before and after readings that belongs to them at most: iterating over what is read,
and storing the values (measured in the lab)."""
_SCALER = "aten::_amp_foreach_non_finite_check_and_unscale_"
"""What AMP's gradient scaler calls before it reads whether the gradients are finite."""
_KEPT_ON_CPU = 0.9
"""Own choice: one operator on all values and one reading remain of a run."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if facts.resources.gpu_ns is None and facts.find("value_reads", ValueReads) is not None:
        yield from _on_cpu(facts, limits)
        return
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(_waits.NO_DEVICE())
    rows = [row for row in waits.rows if _READING & set(row.operators)]
    calls = sum(row.calls_per_step or 0.0 for row in rows)
    if not calls:
        return
    part = max(0.0, calls - _scaler_calls(facts)) / calls
    gain = part * _waits.avoidable_per_step(facts, sum(row.avoidable_ns or 0 for row in rows))
    share = gain / facts.step_ns
    evidence = []
    if share > limits["gain_share"]:
        evidence.append(Evidence(_waits.SUBJECT(), share, limits["gain_share"], "share", _places(rows)))
    if part * calls >= limits["calls_per_step"]:
        evidence.append(
            Evidence(_PAGE.text("calls")(), part * calls, limits["calls_per_step"], "number", _places(rows))
        )
    if evidence:
        claims = {"operator:aten::item": gain, "idle:synchronization": gain}
        change = _waits.change(gain, claims)
        params = {"calls": part * calls, "gain": gain, "step": facts.step_ns}
        advice = None if program.may_train(facts) else _PAGE.text("advice-inference")
        if _environment.is_stepped(facts):
            change = TimeSaved("host", (0.0, gain), _PAGE.text("basis-environment")(), (0.0, gain), claims)
            advice = _environment.ADVICE
        yield Draft(tuple(evidence), change, params, ceiling="high", advice=advice)


def _on_cpu(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    """Runs of readings on a program that waits for no device."""
    _host_work.need_cpu_steps(facts)
    found = facts.need("value_reads", ValueReads)
    time = found.time_ns / found.steps
    share = time / facts.step_ns
    if share <= limits["host_share"]:
        return
    least = _KEPT_ON_CPU * _host_work.without_recording(facts, time, found.operators / found.steps)
    interval = (least, _host_work.most(facts, time + _OWN_BESIDE * found.beside_ns / found.steps))
    where = tuple(
        CodePlace(
            "python" if row.is_line else "operator", row.name, None, row.time_ns / found.steps, "ns", row.start_ns
        )
        for row in found.lines
    )
    change, advice = (
        TimeSaved("host", interval, _PAGE.text("basis-runs-beside")(least=_KEPT_ON_CPU), interval),
        _PAGE.text("advice-cpu"),
    )
    if _environment.is_stepped(facts):
        interval = (0.0, interval[1])
        change, advice = TimeSaved("host", interval, _PAGE.text("basis-environment")(), interval), _environment.ADVICE
    params = {"calls": found.readings / found.steps, "time": time, "step": facts.step_ns}
    yield Draft(
        (Evidence(_PAGE.text("runs")(), share, limits["host_share"], "share", where),),
        change,
        params,
        ceiling="high",
        confidence="B",
        summary=_PAGE.text("summary-cpu"),
        advice=advice,
        code=_CODE_CPU if advice is _PAGE.text("advice-cpu") else "",
    )


def _scaler_calls(facts: Facts) -> float:
    """Checks of AMP's gradient scaler per step."""
    operators = facts.find("operators", Operators)
    return sum(row.calls for row in operators.rows if row.name == _SCALER) / facts.steps if operators else 0.0


def _places(rows: list[Synchronization]) -> tuple[CodePlace, ...]:
    return tuple(map(_waits.place, rows))


def _table(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    if not facts.resources.gpu_ns:
        raise Missing(_waits.NO_DEVICE())
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(_waits.NO_STEPS())
    for name in ("aten::item", "aten::_local_scalar_dense"):  # the second lies within the first
        rows = [row for row in facts.operators if row.name == name]
        calls = sum(row.calls for row in rows) / facts.steps
        if rows:
            break
    if not rows or calls < limits["calls_per_step"]:
        return
    time = facts.host_per_step(sum(row.host_total_ns for row in rows))
    where = tuple(CodePlace("row", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_PAGE.text("calls")(), calls, limits["calls_per_step"], "number", where)
    change = _waits.printed_change(facts, time, {"operator:aten::item": time})
    yield Draft(
        (evidence,),
        change,
        {"calls": calls, "time": time},
        ceiling="medium",
        confidence="C",
        summary=_PAGE.text("summary-table"),
    )


_CODE_CPU = "hits = (logits.argmax(1) == targets).sum()  # and hits.item() every hundred steps"


RULE = _PAGE.rule(trace=_trace, table=_table)
