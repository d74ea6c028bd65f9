"""Detects loop-vectorizable: see pages/loop-vectorizable.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.operators.loops import Repeat, Repeats
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("loop-vectorizable")
_KEPT = 0.5
"""Own choice: operators on the whole tensor are few, but each takes longer than one on a piece."""
_SMALL_NS = 10_000
"""Own choice: a call of an operator with next to no work takes 2 to 5 us with a profiler."""
_OF_SMALL = 0.65, 1.1
"""Least and most that goes away where operators are small (measured in the lab, explained on the rule's page)."""
_WITH_GRADIENTS = 1.0, 1.6
"""The same where gradients pass through the loop."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    for row in facts.need("repeats", Repeats).rows:
        if not row.is_carrying and row.most_turns >= limits["turns"]:
            yield from _judge(facts, row, limits)


def _judge(facts: Facts, row: Repeat, limits: Mapping[str, float]) -> Iterator[Draft]:
    taken = row.host_ns + row.backward_ns
    processor = Processor.of(facts)
    per_step = processor.per_step if processor.is_cpu else facts.host_per_step
    removed = per_step(taken * (1 - row.runs / row.turns))
    if removed <= limits["host_share"] * facts.step_ns:
        return
    kind, name = ("operator", " ".join(row.operators)) if row.python_line is None else ("python", row.python_line)
    where = CodePlace(kind, name, value=row.host_ns, unit="ns", start_ns=row.longest_start_ns)
    evidence = Evidence(_PAGE.text("subject")(), row.most_turns, limits["turns"], "count", (where,))
    exposed = None
    if row.idle_ns is not None:
        idle = facts.host_per_step(row.idle_ns * (1 - row.runs / row.turns))
        exposed = (_KEPT * idle, idle)
    # not only the operator: on a CPU, time outside of operators is saved as well
    claims = {f"{'loop' if processor.is_cpu else 'operator'}:{row.operators[0]}": removed}
    least, most, basis = _KEPT, 1.0, _PAGE.text("basis")()
    if processor.is_cpu and row.host_ns <= _SMALL_NS * row.turns * len(row.operators):
        least, most = _WITH_GRADIENTS if row.backward_ns else _OF_SMALL
        basis = _PAGE.text("basis-calls")(least=least, most=most)
    change = TimeSaved("host", (least * removed, min(most * removed, facts.step_ns)), basis, exposed, claims)
    params = {"turns": row.most_turns, "operators": ", ".join(row.operators), "time": per_step(taken)}
    yield Draft((evidence,), change, params, ceiling="high")


RULE = _PAGE.rule(trace=_trace)
