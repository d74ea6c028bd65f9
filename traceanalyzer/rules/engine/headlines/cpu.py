"""The headline of a program without a GPU: what its time is spent on."""

from __future__ import annotations

from traceanalyzer.analyzers.optimizer import Optimizers
from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording.left_out import MARKED

_SHOWN = 3
_WORTH = 0.1
"""Least share of the step of an operator that is named (own choice: a tenth)."""
_WORTH_OUTSIDE = 0.2
"""The same of code in no operator (own choice: the cost of recording events is a good part of it)."""
_MOST = 0.5
"""Share of the step from which on an optimizer is named (own choice: half)."""
_NO_CODE = frozenset({"communication", "asleep"})
"""Resources whose time on the path may be in no operator, but is no code of the program."""

_OPERATORS = Text(
    "headline-cpu-operators",
    "{headline} What takes most of it: {operators}.",
    note="headline is a sentence; operators is a list such as aten::mkldnn_convolution 15.73 ms",
)
_NO_OPERATOR = Text(
    "headline-cpu-no-operator",
    "code in no operator {time:ns}",
    note="part of a list: aten::addmm 3.2 ms; code is Python or a library outside of PyTorch",
)
_OPERATOR = Text("headline-cpu-operator", "{name} {time:ns}", note="part of a list: aten::addmm 3.2 ms; name is code")


def with_operators(facts: Facts, message: Message) -> Message:
    """The headline, with what takes a good part of a step by itself: operators, code outside of them, the optimizer.

    Of a table these are its rows: in a range that somebody marked, what is outside of operators may take most.
    """
    path = facts.find("critical_path", CriticalPath)
    if facts.view:
        times = _of_rows(facts, facts.view)
    else:
        times = _of_all_steps(facts) if path is None else _of_path(facts, path)
    times = [entry for entry in times if entry[1] >= (_WORTH if entry[0] else _WORTH_OUTSIDE) * facts.step_ns]
    times.sort(key=lambda entry: (-entry[1], entry[0]))
    told = tuple(_OPERATOR(name=name, time=time) if name else _NO_OPERATOR(time=time) for name, time in times[:_SHOWN])
    return _OPERATORS(headline=message, operators=told) if told else message


def _of_path(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Operators of the typical step, and "" for code in none of them, sleep and collectives excepted.

    An optimizer that takes most of the step is named instead of its arithmetic, but not one that computes the loss in a
    closure: its arithmetic is the model's.
    """
    found = facts.find("optimizers", Optimizers)
    closures = {row.name for row in found.rows if row.closures} if found else set()
    optimizers = [
        (owner.name, owner.ns_per_step)
        for owner in path.owners
        if owner.name and marks.is_optimizer(owner.name) and owner.ns_per_step >= _MOST * path.step_ns
        if owner.name not in closures
    ]
    elsewhere = sum(part.ns_per_step for part in path.parts if part.resource in _NO_CODE)
    operators = [(row.operator, row.ns_per_step) for row in path.operators if row.operator]
    outside = sum(row.ns_per_step for row in path.operators if not row.operator) - elsewhere
    return optimizers or [*operators, ("", outside)]


def _of_rows(facts: Facts, view: RunView) -> list[tuple[str, float]]:
    """Rows by their self time; what a step itself takes is in no operator."""
    named = [("" if row.name.startswith(MARKED) else row.name, row.self_cpu_ns or 0) for row, _ in view.by_name]
    return [(name, facts.host_per_step(time)) for name, time in named]


def _of_all_steps(facts: Facts) -> list[tuple[str, float]]:
    try:
        return [(row.name, facts.host_per_step(row.host_self_ns)) for row in facts.operators]
    except Missing:
        return []
