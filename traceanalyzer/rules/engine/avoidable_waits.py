"""Estimates what removing waits of the host for the device saves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from math import fsum

from traceanalyzer.analyzers.waits import Synchronization, Synchronizations
from traceanalyzer.analyzers.waits.device_wide import DeviceSync
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.rules.engine.budget import Budget
from traceanalyzer.rules.engine.change import DeviceWork, StepChange, WaitsGone
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.places import at_line
from traceanalyzer.rules.engine.rule import OfEvents
from traceanalyzer.structure.events import WAITS, EventSet

_FUNCTION = re.compile(r"^.+\(\d+\): ")
_OFTEN = 0.05
"""Own choice: one wait for twenty launches; programs that read nothing but a loss have one for hundreds."""
READING = frozenset({"aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal"})
"""Operators that wait for a single value."""
SIZED = frozenset(
    {
        "aten::nonzero",
        "aten::nonzero_numpy",
        "aten::argwhere",
        "aten::masked_select",
        "aten::_unique",
        "aten::_unique2",
        "aten::unique_dim",
        "aten::unique_consecutive",
        "aten::unique_dim_consecutive",
        "aten::repeat_interleave",
        "aten::bincount",
    }
)
"""Operators that wait for the size of their result. A boolean index is an `aten::index` with `aten::nonzero` inside."""
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
    "a replay of the step in which the CPU goes on at once at these waits",
)
_BASIS_TABLE = Text(
    "waits-basis-table",
    "at most all of these waits; at least nothing, because waiting is free while the GPU works, and a table does not "
    "show that",
)
NO_DEVICE = Text("waits-no-device", "no device activity was recorded, so the cost of waits is unknown")
NO_STEPS = Text("waits-no-steps", "the table does not show how many steps it covers")


def of_operators(facts: Facts, names: Collection[str]) -> list[Synchronization]:
    """The waits of the host for devices in some operators.

    Raises:
        Missing: There are no waits, or no device shows what they cost.
    """
    waits = facts.need("synchronizations", Synchronizations)
    if waits.avoidable_ns is None:
        raise Missing(NO_DEVICE())
    return [row for row in waits.rows if not set(row.operators).isdisjoint(names)]


def readings(rows: Iterable[Synchronization]) -> float:
    """Waits per step that read values: one reading may be a copy that waits and a wait for it."""
    reads: dict[tuple[tuple[str, ...], str | None, bool], float] = {}
    for row in rows:
        where = row.operators, row.python_line, row.is_of_random
        reads[where] = max(reads.get(where, 0.0), row.calls_per_step or 0.0)
    return fsum(reads.values())


def asks_often(facts: Facts, events: float) -> bool:
    """Whether the host asks for a value or a size once for twenty of what a step puts on the device, or more often.

    Copies to the device may wait as well, but nothing of the program depends on what they bring.
    """
    waits = facts.find("synchronizations", Synchronizations)
    asking = [row for row in waits.rows if not (READING | SIZED).isdisjoint(row.operators)] if waits else []
    return readings(asking) > _OFTEN * events


def need_printed_steps(facts: Facts) -> None:
    """Refuse to judge a table of an unknown number of steps.

    Raises:
        Missing: The table does not show how many they are.
    """
    if facts.table is None or facts.table.steps_from is None:
        raise Missing(NO_STEPS())


def gain_of(facts: Facts, rows: Iterable[Synchronization | DeviceSync]) -> float:
    """Avoidable idle time of some waits per step, as `avoidable_per_step` has it."""
    return avoidable_per_step(facts, fsum(row.avoidable_ns or 0 for row in rows))


def figures(facts: Facts, calls: float, gain_ns: float) -> dict[str, float | OfEvents]:
    """The quantities `calls`, `gain` and `step` of a sentence about waits."""
    return {"calls": calls, "gain": OfEvents(gain_ns), "step": facts.step_ns}


def claims(time_ns: float, *operators: str) -> dict[EventSet, float]:
    """Claims on a time per step of waits in operators, and on the idle time that waits cause."""
    return {**{EventSet.operator(name): time_ns for name in operators}, WAITS: time_ns}


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
