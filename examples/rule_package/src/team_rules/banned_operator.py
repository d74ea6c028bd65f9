"""An operator is used that the team has agreed not to use.

What it detects:
    Calls of the operators in `BANNED`.

Why it matters:
    They wait for the GPU, or copy to the host, in the middle of a step.

What to do:
    Use the replacement that the list names.

How the saving is estimated:
    At most the time that they take on the device; at least nothing, because the replacement takes time, too.

When it is wrong:
    In evaluation code, which runs rarely.

References:
    https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import DeviceWork
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.structure.events import EventSet

BANNED = {
    "aten::nonzero": "torch.where with three arguments",
    "aten::masked_select": "torch.where with three arguments",
    "aten::unique_consecutive": "a fixed number of groups",
}
"""Operators, and what to use instead."""

_SUBJECT = Text("banned-operator-subject", "calls of banned operators per step")
_BASIS = Text(
    "banned-operator-basis",
    "at most the time that they take on the device; at least nothing, because what replaces them is not free",
)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = [row for row in facts.operators if row.name in BANNED]
    calls = facts.per_step(sum(row.calls for row in rows))
    if calls <= limits["calls"]:
        return
    where = tuple(CodePlace("operator", row.name, value=row.calls, unit="count") for row in rows)
    evidence = Evidence(_SUBJECT(), calls, limits["calls"], "number", where)
    claims = {EventSet.operator(row.name): facts.on_device(row.device_total_ns) for row in rows}
    time = math.fsum(claims.values())
    names = ", ".join(row.name for row in rows)
    instead = "; ".join(sorted({BANNED[row.name] for row in rows}))
    change = DeviceWork((0.0, time), _BASIS(), claims=claims)
    params = {"names": names, "instead": instead, "calls": calls, "time": time}
    yield Draft((evidence,), change, params, severity="low")


RULE = Rule(
    id="banned-operator",
    title=Text("banned-operator-title", "A banned operator is used"),
    summary=Text("banned-operator-summary", "{names}: {calls:number} calls per step, {time:ns} of the GPU."),
    advice=Text("banned-operator-advice", "Use instead: {instead}."),
    not_when=Text("banned-operator-not-when", "It is called in evaluation code only."),
    severity="low to critical",
    confidence="A",
    tags=("host",),
    since="1.0",
    thresholds=(Threshold("calls", 0, "number", "calls per step", "own choice: banned is banned"),),
    links=("https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html",),
    trace=_find,
    table=_find,
)
