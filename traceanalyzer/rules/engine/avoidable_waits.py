"""Estimates what removing waits of the host for the device saves."""

from __future__ import annotations

import re
from collections.abc import Mapping

from traceanalyzer.analyzers.waits import Synchronization
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.change import DeviceWork, StepChange, WaitsGone
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.structure.events import EventSet

_FUNCTION = re.compile(r"^.+\(\d+\): ")
_KEPT = 0.5
"""Own choice: without one wait, the next one may find the device no busier."""

SUBJECT = Text("waits-subject", "GPU idle time after these waits that could be avoided, share of the step")
_BASIS = Text(
    "waits-basis",
    "at most the shorter of each wait and the GPU's idle time after it; at least half of that, because the next wait "
    "may take over part of it",
)
_REPLAYED = Text(
    "waits-replayed",
    "a replay of the step in which the host goes on at once at these waits",
)
_BASIS_TABLE = Text(
    "waits-basis-table",
    "at most all of these waits; at least nothing, because waiting is free while the GPU works, and a table does not "
    "show that",
)
NO_DEVICE = Text("waits-no-device", "no device activity was recorded, so the cost of waits is unknown")
NO_STEPS = Text("waits-no-steps", "the table does not show how many steps it covers")


def avoidable_per_step(facts: Facts, total_ns: float) -> float:
    """Avoidable idle time of the whole recording, per step in ns; never more than the typical step's idle time.

    Steps that are left out, such as a first step that loads code, may have waited far longer.
    """
    own, typical = facts.per_step(total_ns), facts.step_resources
    if typical is None or typical.gpu_ns is None:
        return own
    return min(own, max(0.0, typical.step_ns - typical.gpu_ns))


def change(avoidable_ns: float, claims: Mapping[EventSet, float]) -> WaitsGone:
    """Time per step that is saved if a trace's waits are removed."""
    interval = (_KEPT * avoidable_ns, avoidable_ns)
    return WaitsGone(interval, _BASIS(), interval, claims, replayed=_REPLAYED())


def printed_change(facts: Facts, waiting_ns: float, claims: Mapping[EventSet, float]) -> StepChange:
    """Saving per step of waits in a table.

    It may be nothing, because a table does not show when the device had no work.
    If the loader bounds the step, waits cost only the time in which the device could have worked.
    """
    is_bound_by_loader = Budget.of(facts.resources, is_estimate=True).critical == "loader"
    kind = DeviceWork if is_bound_by_loader else WaitsGone
    return kind((0.0, waiting_ns), _BASIS_TABLE(), claims=claims)


def owned(owner: str, call: str, time_ns: int | None, start_ns: int | None = None) -> CodePlace:
    """A call as a place of the part of the program that makes it: `train.py(12): step`, or `aten::item in MARK`."""
    line = owner if _FUNCTION.match(owner) else None
    return at_line(line, "operator", f"{call} in {owner}", time_ns, start_ns)


def place(row: Synchronization) -> CodePlace:
    """Where some waits are: the part of the program, else the Python line, the innermost operator, or the call."""
    name = row.operators[-1] if row.operators else row.call
    if row.owner is not None:
        return owned(row.owner, name, row.avoidable_ns)
    return at_line(row.python_line, "operator" if row.operators else "call", name, row.avoidable_ns)
