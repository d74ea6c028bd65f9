"""Says what a program without a GPU spends its time on."""

from __future__ import annotations

from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.facts import Facts, Missing

_SHOWN = 3
_WORTH = 0.1
"""Least share of the step of an operator that is named (own choice: a tenth)."""

_OPERATORS = Text(
    "headline-cpu-operators",
    "{headline} What takes most of it: {operators}.",
    note="headline is a sentence; operators is a list such as aten::mkldnn_convolution 15.73 ms",
)
_OPERATOR = Text("headline-cpu-operator", "{name} {time:ns}", note="part of a list: aten::addmm 3.2 ms; name is code")


def with_operators(facts: Facts, message: Message) -> Message:
    """The headline, with the operators that take a good part of a step by themselves."""
    try:
        rows = sorted(facts.operators, key=lambda row: (-row.host_self_ns, row.name))
    except Missing:
        return message
    times = [(row.name, facts.host_per_step(row.host_self_ns)) for row in rows[:_SHOWN]]
    told = tuple(_OPERATOR(name=name, time=time) for name, time in times if time >= _WORTH * facts.step_ns)
    return _OPERATORS(headline=message, operators=told) if told else message
