"""The time that a piece of advice removes, before the step is replayed without it or limited by the other resources.

A rule states which resource's time is removed, how much per step, and where. It does not state how much shorter the
step gets: for a trace, that is the result of a replay of the causal model with these changes (`prices`); for printed
tables, and if the model abstains, it is limited by the totals of the other resources (`budget`). So `direct` is time of
the resource itself, in both cases.

`claim_edits` turns a change into edits of the model. `resource` decides which edits, the sets in `claims` and `within`
(`structure.events`) decide where:

    resource       sets of events       what is edited
    loader         any                  all waits for the loader become shorter by the same share
    gpu            operators, kernels   the kernels of each, in proportion to what each claims; with `is_removed` also
                                        launches and host time, by the same share, or that of `calls`
    gpu            copies               the copies; their calls no longer block the host
    gpu            none of these        all that runs on the device, by the same share
    host           copies               nothing waits for these copies any more
    host           operators and WAITS  the waits in these operators are removed, however long they are
    host           only WAITS           the waits for a whole device are removed
    host           operators, owners    the host time of these, by the same share
    host           idle time            the host time before each launch that came too late for that cause
    host           any, with `is_at`    the host time that `at` finds; with `is_removed` also what is launched in it, by
                                        the same share, and all waits in it
    host           none of these        all host time of the critical thread, by the same share
    communication  any                  exposed parts of collectives, by the same share

`within` has host time where the claims of a host change are the idle time that it causes. A share is the requested time
divided by the recorded time per step, so that the requested time is removed from the resource; sets that the trace
does not have are ignored. On a CPU, the time of autograd's thread counts while the program's thread waits for it.

Two changes with the same claim share it: the second removes only what the first has left. Changes of the same time
under different names multiply: after two halves, a quarter is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from traceanalyzer.report.message import Message
from traceanalyzer.structure.events import EventSet

Interval = tuple[float, float]
"""Least and greatest value in ns per step."""


@dataclass(frozen=True)
class TimeSaved:
    """Time that is saved if the advice is followed."""

    resource: str
    """`loader`, `host`, `gpu` or `communication`: whose time shrinks."""
    direct: Interval
    """Time that is removed from the resource itself, at least and at most, in ns per step."""
    basis: Message
    """How it was estimated, and why the lower end is 0 where it is."""
    exposed: Interval | None = None
    """The part that is not hidden behind other work, where a timeline tells it; limits a saving only where nothing can
    be replayed. None: unknown."""
    claims: Mapping[EventSet, float] = field(default_factory=dict)
    """Which time is removed, so that two findings do not claim it twice, and where it is: a key of those above to ns
    per step. Empty: time that no other finding claims."""
    within: tuple[EventSet, ...] = ()
    """The removed host time, if the claims are idle time that it causes. Then changes within the
    same sets share this time; the claims only matter if nothing can be replayed."""
    is_removed: bool = False
    """Whether the claimed work itself is removed, not only its time on the device: its launches and operators take less
    host time by the same share."""
    replayed: Message | None = None
    """Text in place of `basis` if the change is replayed; None: `basis` is used."""

    is_spread: bool = False
    """Whether it is the mean over all recorded steps of what comes now and then, such as a new epoch."""
    is_wait: bool = False
    """Whether the host only waits in it, for a process or another rank, which recording does not make longer."""
    is_of_joint_replay: bool = False
    """Whether it already is the time by which a step gets shorter, from a replay of all ranks, which nothing limits."""
    at: EventSet | None = None
    """What an analysis finds of it in the trace, if that is not the events of its claims."""
    calls: EventSet | None = None
    """Host time that goes with device work that is removed, if that is not the time of its claims."""
    is_at: bool = False
    """Whether the removed host time is that of `at` alone; the claims then only keep it apart from other changes."""

    @property
    def removed(self) -> Interval:
        """The removed time that a timeline can distinguish; for communication, the exposed time."""
        return self.exposed if self.resource == "communication" and self.exposed is not None else self.direct


def summed(claims: Iterable[tuple[EventSet, float]]) -> dict[EventSet, float]:
    """Claims with their times in ns per step, where several may have the same key."""
    sums: dict[EventSet, float] = {}
    for key, ns in claims:
        sums[key] = sums.get(key, 0.0) + ns
    return sums


@dataclass(frozen=True)
class Fix:
    """A change with the finding that advises it."""

    rule: str
    finding: int
    change: TimeSaved
