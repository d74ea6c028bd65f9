"""Names the owners of host time that cause idle time, for headlines and findings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from math import fsum
from pathlib import PurePosixPath

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.host import HostOwner, HostOwners, OwnerTimes, RoleTimes
from traceanalyzer.analyzers.idle.gap_details import OF_OTHER_RULES
from traceanalyzer.analyzers.idle.step_idle import MOST_OWNERS, DeviceInSteps, GapOwner, HostGap
from traceanalyzer.analyzers.steps.outside import work_outside
from traceanalyzer.analyzers.tables.kinds import RowKind, is_sync
from traceanalyzer.knowledge import host_roles, marks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import CodePlace
from traceanalyzer.report.names import shorten
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.events import EventSet
from traceanalyzer.structure.host_activity import is_loading_overhead
from traceanalyzer.structure.recording import HostPart
from traceanalyzer.structure.typical import mean

_MOST = 0.5
"""Least share of the idle time for which an owner is named as its cause."""
_WHOLE = 0.9
"""Share of the launched device time from which on an owner is the whole program, and its name shows nothing."""
_NAMED = 0.01
"""Share of the time of all owners from which on a part of the program is named before operators (own choice)."""
_LONGEST = 100
"""Most characters of a name in a sentence, as of `as_code`."""
_NAMED_ROW = 0.1
"""Share of the step from which on a row of a table is named (own choice)."""
_MOST_ROWS = 3
_HARDLY = 0.2
"""Share of a time below which a device waits for what the host does in it (own choice)."""
ANONYMOUS = frozenset({"<module>", "main", "__main__"})
"""Names of functions that say nothing about their purpose."""
_PIPELINE = "transformers/pipelines/"
"""Folder of the library whose pipelines create their own loaders."""
INPUT_ROLES = host_roles.INPUTS
_LEAVES = frozenset({"operator", "call"})
_OF_MODEL = frozenset({"module", "backward", "autograd", "operator", "call", "library"})
"""Kinds of owners whose host time a graph of the model and its update contains, unless they have another purpose."""

_BACKWARD = Text("owner-name-backward", "the backward pass of `{name}`", note="name of a module; subject of a sentence")
_AUTOGRAD = Text("owner-name-autograd", "the backward pass", note="of a training; subject of a sentence")
_BUFFERS = Text("owner-name-buffers", "the broadcast of DDP's buffers", note="subject of a sentence")


def found(facts: Facts) -> HostOwners | None:
    """The owners of the typical steps; None if there are none, or the device was not recorded."""
    owners = facts.find("host_owners", HostOwners)
    return owners if owners is not None and owners.idle_ns is not None and owners.steps else None


def on_cpu(facts: Facts) -> HostOwners | None:
    """The owners of the typical steps, whether or not a device was recorded; None if there are none."""
    owners = facts.find("host_owners", HostOwners)
    return owners if owners is not None and owners.steps else None


def for_requests(facts: Facts) -> tuple[HostOwner, float] | None:
    """Who waits for work from outside of a program that does not train, and that time per step in ns; None if nobody.

    Of a program with a device it is the part in which that idles.
    """
    owners = on_cpu(facts)
    role = next((row for row in owners.roles if row.role == host_roles.REQUESTS), None) if owners else None
    if owners is None or role is None or program.trains(facts):
        return None
    time = host_per_step(owners, [role]) if owners.idle_ns is None else idle_per_step(owners, [role])
    return (owners.rows[role.owner], time) if time else None


class WorkOutside(msgspec.Struct, frozen=True):
    """What the host does again and again outside of the typical steps, which is most of the recording."""

    owner: HostPart
    own_ns: float
    """Time in ns in which the owner itself works there."""
    waits_ns: float
    """Time in ns in which the device waits there."""
    recorded_ns: int
    """Duration of the recording in ns."""

    @property
    def share(self) -> float:
        """Share of the recording that the owner itself takes there."""
        return self.own_ns / self.recorded_ns

    @property
    def at(self) -> EventSet:
        """When it, or others with its role, work while no device does."""
        return work_outside(owner=replace(self.owner, time_ns=0))

    @property
    def place(self) -> CodePlace:
        """Where it is in the program, with its time in ns."""
        own = self.owner
        if own.file is not None and own.line is not None:
            return CodePlace("python", f"{own.file}({own.line}): {own.name}", None, self.own_ns, "ns")
        return CodePlace("module" if own.kind == "module" else "time", own.name, None, self.own_ns, "ns")


def outside_of_steps(facts: Facts) -> WorkOutside | None:
    """What the host does in most of the recording, outside of the typical steps, while the device hardly works."""
    parts = [part for part in program.other_work(facts) if part.device_busy_ns is not None]
    parts = [part for part in parts if (part.device_busy_ns or 0) < _HARDLY * part.duration_ns]
    owners = [part.owner for part in parts if part.owner is not None]
    if not owners or facts.summary is None:
        return None
    waits = fsum(part.duration_ns - (part.device_busy_ns or 0) for part in parts)
    return WorkOutside(owners[0], fsum(own.time_ns for own in owners), waits, facts.summary.span_ns)


def waits_for_requests(facts: Facts) -> bool:
    """Whether most of a step is waiting for requests, so that neither idle devices nor uneven steps tell of a fault."""
    waits = for_requests(facts)
    return waits is not None and waits[1] >= _MOST * facts.step_ns


def name(row: HostOwner | HostPart) -> str | Message:
    """What an owner is called in a sentence: `preprocessing.py: resize`, `Linear`, the backward pass of `Linear`."""
    if row.role == "buffer-broadcast" and row.kind == "mark":
        return _BUFFERS()
    if row.kind == "backward":
        return _BACKWARD(name=_unquoted(row.name))
    if row.kind == "autograd":
        return _AUTOGRAD()
    if row.file is not None and row.kind in ("function", "library"):
        return f"`{_unquoted(PurePosixPath(row.file.replace(chr(92), '/')).name)}: {_unquoted(row.name)}`"
    return f"`{_unquoted(row.name)}`"


def names(row: HostOwner) -> tuple[str | Message, str | Message]:
    """The same, and a function without its file for sentences without room for it."""
    return name(row), f"`{_unquoted(row.name)}`" if row.kind in ("function", "library") else name(row)


def _unquoted(text: str) -> str:
    """A name without the sign that would end it in a sentence, and no longer than one bears."""
    return shorten(text, _LONGEST).replace("`", "'")


def place(row: HostOwner | GapOwner, time_ns: float | None, start_ns: int | None = None) -> CodePlace:
    """An owner as a place of a finding, with time per step in ns."""
    kind = {"module": "module", "backward": "module", "operator": "operator", "call": "call"}.get(row.kind, "time")
    if row.file is not None and row.line is not None and row.kind in ("function", "library"):
        return CodePlace("python", f"{row.file}({row.line}): {row.name}", None, time_ns, "ns", start_ns)
    return CodePlace(kind, row.name, None, time_ns, "ns", start_ns)


def places(facts: Facts, count: int) -> tuple[CodePlace, ...]:
    """The owners in which the device idles for longest, with that time per step in ns.

    Operators and calls are left out, and so are owners that other rules are about, such as the loader.
    """
    owners = found(facts)
    if owners is None:
        return ()
    rows = [row for row in owners.rows if row.kind not in _LEAVES and row.idle_self_ns]
    rows = [row for row in rows if row.role not in OF_OTHER_RULES]
    rows.sort(key=_idle_self, reverse=True)
    return tuple(place(row, row.idle_self_ns_per_step) for row in rows[:count])


def named_first(rows: Sequence[GapOwner]) -> list[GapOwner]:
    """Parts of the program with a hundredth of the time of all or more, then the rest: operators are in any program."""
    least = _NAMED * fsum(row.time_ns for row in rows)
    return sorted(rows, key=lambda row: row.kind in _LEAVES or row.time_ns < least)


def of_gaps(rows: Iterable[GapOwner], steps: int) -> tuple[CodePlace, ...]:
    """Owners of the time of gaps with that time per step in ns, without owners that other rules judge; at most five."""
    own = [row for row in rows if row.role not in OF_OTHER_RULES]
    return tuple(place(row, mean(row.time_ns, steps), row.longest_start_ns) for row in own[:5])


def of_host_gaps(rows: Iterable[HostGap], steps: int, unknown: str) -> tuple[CodePlace, ...]:
    """What the host did in gaps, with that time per step in ns: a line, an operator or a range, else unknown."""
    places = []
    for row in rows:
        kinds = {"python": row.python_line, "operator": row.operator, "time": row.annotation or unknown}
        kind, name = next((kind, name) for kind, name in kinds.items() if name)
        time = mean(row.time_ns, steps)
        places.append(CodePlace(kind, name, value=time, unit="ns", start_ns=row.longest_start_ns))
    return tuple(places)


def main_of_gaps(device: DeviceInSteps, time_ns: float) -> GapOwner | None:
    """The owner with most of long gaps, this long in a step; None if it has less than what nothing recorded has.

    What ten owners leave may belong to further ones and is not known to be unrecorded.
    """
    rows = [row for row in device.gap_owners if row.role not in OF_OTHER_RULES]
    if not rows:
        return None
    listed = sum(row.time_ns for row in rows)
    is_complete = len(device.gap_owners) < MOST_OWNERS
    unrecorded = time_ns * max(1, device.owner_steps) - listed
    return rows[0] if not is_complete or rows[0].time_ns >= unrecorded else None


def is_of_model(row: GapOwner) -> bool:
    """Whether an owner only runs the model or its update."""
    is_mark = row.kind == "mark" and (bool(marks.passes(row.name)) or marks.is_wrapper(row.name))
    return row.role is None and (row.kind in _OF_MODEL or is_mark)


def total(listed: Iterable[CodePlace]) -> float:
    """What some places sum to."""
    return fsum(place.value or 0.0 for place in listed)


def of_role(facts: Facts, wanted: str) -> list[HostOwner]:
    """The owners of one role, those first in which the device idles for longest."""
    owners = found(facts)
    rows = [row for row in owners.rows if row.role == wanted] if owners is not None else []
    return sorted(rows, key=_idle_self, reverse=True)


def largest(facts: Facts) -> HostOwner | None:
    """The owner that causes most of the host's idle time; None if only operators that launch, and calls, cause it.

    The owner with half of that time as its own, else the innermost with half of it, else the one with most. An owner
    that launches nearly everything is the whole program and is not named, unless the time is its own. An operator is
    named if it has half of the time, and such time is mostly that of operators which compute on the CPU.
    """
    owners = found(facts)
    if owners is None or not owners.idle_ns:
        return None
    rows = [row for row in owners.rows if _tells(owners, row)]
    if all(_idle(row) < _MOST * owners.idle_ns for row in rows):
        rows = _operators_of_cpu(facts, owners, owners.idle_ns) or rows
    own = [row for row in rows if _idle_self(row) >= _MOST * owners.idle_ns]
    if own:
        return max(own, key=_idle_self)
    around = [row for row in rows if _idle(row) >= _MOST * owners.idle_ns]
    return min(around, key=_idle) if around else max(rows, key=_idle, default=None)


def _operators_of_cpu(facts: Facts, owners: HostOwners, idle_ns: int) -> list[HostOwner]:
    """Operators with half of the idle time, if most of it is that of operators which compute on the CPU."""
    if idle_ns > 2 * owners.steps * facts.idle_per_step("cpu_operators"):
        return []
    return [row for row in owners.rows if row.kind == "operator" and 2 * _idle_self(row) >= idle_ns]


def _idle(row: OwnerTimes) -> int:
    return row.idle_ns or 0


def _idle_self(row: OwnerTimes) -> int:
    return row.idle_self_ns or 0


def idle_per_step(owners: HostOwners, roles: Collection[RoleTimes], *, in_loader: bool = True) -> float:
    """Time per step in ns in which the device idles because of some roles.

    Args:
        owners: The owners of the run.
        roles: Some of their roles.
        in_loader: Whether that counts in which a loader does their work.
    """
    inside = 0 if in_loader else sum(row.idle_in_loader_ns or 0 for row in roles)
    return mean(sum(map(_idle, roles)) - inside, owners.steps)


def host_per_step(owners: HostOwners, roles: Iterable[RoleTimes]) -> float:
    """Time per step in ns that the host spends on some roles."""
    return mean(sum(row.host_ns for row in roles), owners.steps)


def most_idle(owners: HostOwners, roles: Sequence[RoleTimes]) -> HostOwner:
    """The owner to name of some roles: among owners with half of the time, the one with the most time of its own."""
    largest_role = max(roles, key=_idle)
    least = _idle(largest_role)
    rows = [row for row in owners.rows if row.role == largest_role.role]
    half = [row for row in rows if 2 * _idle_self(row) >= least]
    around = [row for row in rows if 2 * _idle(row) >= least]
    return min(half or around or rows, key=_idle)


def claims(facts: Facts, time_ns: float) -> dict[EventSet, float]:
    """The idle time per step in ns that disappears with an owner's time: host code first, then launches."""
    found_claims: dict[EventSet, float] = {}
    left = time_ns
    for cause in ("host_code", "cpu_operators", "launch_bound", "synchronization"):
        part = min(left, facts.idle_per_step(cause))
        if part > 0:
            found_claims[EventSet.idle(cause)] = part
            left -= part
    return found_claims


def loads_in_pipeline(facts: Facts) -> bool:
    """Whether the loader is that of a library's pipeline, so that the program has no loader to give workers to."""
    owners = found(facts)
    if owners is None or not any(row.role == "loader" for row in owners.roles):
        return False
    inside = (row for row in owners.rows if row.role in INPUT_ROLES and row.kind == "library")
    return any(_PIPELINE in (row.file or "").replace(chr(92), "/") for row in inside)


def _tells(owners: HostOwners, row: HostOwner) -> bool:
    """Whether the name of an owner shows where in the program the time goes."""
    if row.kind in _LEAVES or row.name in ANONYMOUS or not row.idle_ns:
        return False
    is_whole = bool(owners.device_ns) and (row.device_ns or 0) >= _WHOLE * (owners.device_ns or 0)
    return not is_whole or (row.idle_self_ns or 0) >= _MOST * row.idle_ns


def largest_rows(facts: Facts) -> tuple[CodePlace, ...]:
    """The rows in which the host works longest without what they call; waits and the profiler are no such work."""
    rows = facts.view.by_name if facts.view else ()
    works = [row for row, kind in rows if kind is not RowKind.OVERHEAD or is_loading_overhead(row.name)]
    times = [(facts.per_step(row.self_cpu_ns or 0), row.name) for row in works if not is_sync(row.name)]
    named = sorted((-time, name) for time, name in times if time >= _NAMED_ROW * facts.step_ns)
    return tuple(CodePlace("row", name, value=-time, unit="ns") for time, name in named[:_MOST_ROWS])
