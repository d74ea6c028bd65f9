"""Names what takes a good part of a step on the CPU: operators, code outside of them, the optimizer."""

from __future__ import annotations

import math
from math import fsum

from traceanalyzer.analyzers.optimizer import Optimizers
from traceanalyzer.analyzers.tables.kinds import RowKind
from traceanalyzer.analyzers.tables.printed_times import is_waiting
from traceanalyzer.knowledge import marks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines.kind_of_work import MOST
from traceanalyzer.rules.engine.headlines.typical import WORTH_BESIDE
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording.left_out import MARKED

_SHOWN = 3
_WORTH_NO_OPERATOR = 0.2
"""Share of a step from which on code in no operator is named (own choice: recording events costs a good part of it)."""
_ROUNDED = 1.01
"""By what rounded times of rows may exceed a step together (own choice)."""
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

    Of a table these are its rows by self time: in a range that somebody marked, what is outside of operators may take
    most.
    """
    path = facts.find("critical_path", CriticalPath)
    if facts.view:
        rows = [row for row, _ in facts.view.by_name]
        rows = [row for row in rows if not is_waiting(row.name)]
        own = [("" if row.name.startswith(MARKED) else row.name, facts.per_step(row.self_cpu_ns or 0)) for row in rows]
    elif path is not None:
        own = _of_path(facts, path)
    else:
        own = [(row.name, facts.per_step(row.host_self_ns)) for row in if_known(lambda: facts.operators)]
    own = _worth_telling(own, facts.step_ns)
    own = _within_step(sorted(own, key=lambda entry: (-entry[1], entry[0])), facts.step_ns)[:_SHOWN]
    told = tuple(_OPERATOR(name=name, time=time) if name else _NO_OPERATOR(time=time) for name, time in own)
    return _OPERATORS(headline=message, operators=told) if told else message


def _within_step(own: list[tuple[str, float]], step_ns: float) -> list[tuple[str, float]]:
    """What fits into a step together, the longest first: other rows are, at least in part, of other threads."""
    left = step_ns * _ROUNDED
    kept = []
    for name, time in own:
        if time <= left:
            left -= time
            kept.append((name, time))
    return kept


def with_work_of_gpu(facts: Facts, message: Message) -> Message:
    """The headline of a table, with the rows that take a good part of the GPU's time: kernels if it has any."""
    if not facts.view or not facts.resources.gpu_ns:
        return message
    rows = facts.rows(RowKind.KERNEL) or facts.rows(RowKind.OPERATOR)
    own = [(row.name, facts.per_step(row.self_device_ns or row.device_total_ns or 0)) for row in rows]
    worth = sorted(_worth_telling(own, facts.resources.gpu_ns), key=lambda entry: (-entry[1], entry[0]))[:_SHOWN]
    told = tuple(_OPERATOR(name=name, time=time) for name, time in worth)
    return _OPERATORS(headline=message, operators=told) if told else message


def _worth_telling(own: list[tuple[str, float]], step_ns: float) -> list[tuple[str, float]]:
    """What takes a good part of a step; code in no operator also if it takes more than each operator that does."""
    named = [(name, time) for name, time in own if name and time >= WORTH_BESIDE * step_ns]
    least = min(_WORTH_NO_OPERATOR * step_ns, max((time for _, time in named), default=math.inf))
    return [*named, *((name, time) for name, time in own if not name and time >= least)]


def _of_path(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Operators of the typical step, and "" for code in none of them, sleep and collectives excepted.

    An optimizer that takes most of the step is named instead of its arithmetic, but not one that computes the loss in a
    closure: its arithmetic is the model's.
    """
    optimizers = _leading_optimizers(facts, path)
    if optimizers:
        return optimizers
    elsewhere = fsum(part.ns_per_step for part in path.parts if part.resource in _NO_CODE)
    operators = [(row.operator, row.ns_per_step) for row in path.operators if row.operator]
    outside = fsum(row.ns_per_step for row in path.operators if not row.operator) - elsewhere
    return [*operators, ("", outside)]


def _leading_optimizers(facts: Facts, path: CriticalPath) -> list[tuple[str, float]]:
    """Optimizers without a closure that take most of the step."""
    recorded = facts.find("optimizers", Optimizers)
    with_closure = {row.name for row in recorded.rows if row.closures} if recorded else set()
    long = [(row.name, row.ns_per_step) for row in path.owners if row.name and row.ns_per_step >= MOST * path.step_ns]
    return [(name, time) for name, time in long if marks.is_optimizer(name) and name not in with_closure]
