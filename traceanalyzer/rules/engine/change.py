"""The changes that pieces of advice make to a step: six kinds, by what takes less time.

A rule states how much time is removed per step, and from which events. It does not state how much shorter the step
gets: for a trace, that is the result of a replay of the causal model with these changes (`prices`); for printed tables,
and if the model abstains, it is limited by the totals of the other resources (`budget`). So `direct` is time of the
resource itself, in both cases.

`claim_edits` turns a change into edits of the model, `where` says where in the recording it is. A share is the
requested time divided by the recorded time per step, so that the requested time is removed from the resource; sets that
the trace does not have are ignored. On a CPU, the time of autograd's thread counts while the program's thread waits for
it.

Two changes with the same claim share it: the second removes only what the first has left. Changes of the same time
under different names multiply: after two halves, a quarter is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

import msgspec

from traceanalyzer.report.message import Message
from traceanalyzer.structure.events import EventSet, Of, Population

Interval = tuple[float, float]
"""Least and greatest value in ns per step."""

ON_DEVICE = (Of.OPERATOR, Of.KERNEL, Of.COPIES)
"""Sets whose events run on a device."""
ON_HOST = (Of.OPERATOR, Of.OWNER, Of.COMMUNICATION)
"""Sets whose events are time of host threads."""


class StepChange(msgspec.Struct, frozen=True):
    """Time that is saved if the advice is followed: one of the classes below."""

    direct: Interval
    """Time that is removed from the resource itself, at least and at most, in ns per step."""
    basis: Message
    """How it was estimated, and why the lower end is 0 where it is."""
    exposed: Interval | None = None
    """The part that is not hidden behind other work, where a timeline tells it; limits a saving only where nothing can
    be replayed. None: unknown."""
    claims: Mapping[EventSet, float] = {}
    """Which time is removed, so that two findings do not claim it twice, and where it is: a set of events to ns per
    step. Empty: time that no other finding claims."""
    at: EventSet | None = None
    """Where the change is, if that is not at the events of its claims."""

    resource: ClassVar[str] = ""
    """`loader`, `host`, `gpu` or `communication`: whose time shrinks."""
    is_unstretched: ClassVar[bool] = False
    """Whether recording does not make the removed time longer, because it is time in which the host only waits."""

    @property
    def removed(self) -> Interval:
        """The removed time that a timeline can distinguish."""
        return self.direct

    @property
    def replayed_basis(self) -> Message:
        """How the saving was estimated, where the change is replayed."""
        return self.basis

    @property
    def place(self) -> EventSet | None:
        """Where the change is; None: at the events of its claims."""
        return self.at

    @property
    def is_spread(self) -> bool:
        """Whether it is the mean over all recorded steps of what comes now and then, such as a new epoch."""
        return self.place is not None and self.place.population is Population.RECORDING

    @property
    def shared(self) -> Mapping[EventSet, float]:
        """The time in ns per step that is removed once only, if other changes remove it, too."""
        return self.claims


class LoaderShorter(StepChange, frozen=True):
    """All waits for the loader become shorter by the same share."""

    by_workers: bool = True
    """Whether worker processes make them so, which take free cores."""

    resource: ClassVar[str] = "loader"
    is_unstretched: ClassVar[bool] = True


class DeviceWork(StepChange, frozen=True):
    """Work of the device takes less time: the claimed operators, kernels and copies, in proportion to their claims.

    Without such claims, all that runs on the device does, by the same share. The calls of claimed copies no longer
    block the host. A claim on communication makes collectives shorter where nothing hides them.
    """

    host: EventSet | None = None
    """Host time that goes with the work, by the same share: of `ITS_OWN` operators and launches, or what an analysis
    finds. None: the host does all that it did."""
    kept: Mapping[EventSet, float] = {}
    """By claim, the least share (0 to 1) that stays of the time of its events on the device, whatever is removed."""
    is_awaited: bool = False
    """Whether the host needs what the work results in: then it waits for what comes before as it did."""

    resource: ClassVar[str] = "gpu"


class StartsEarlier(StepChange, frozen=True):
    """Kernels that start late on a free device (`structure.late_starts`) start sooner, each by the same share."""

    resource: ClassVar[str] = "gpu"
    is_unstretched: ClassVar[bool] = True


class HostTime(StepChange, frozen=True):
    """Host time gets shorter, by the same share everywhere.

    It is that of `within`, else that of the claimed operators and owners, else the time before each launch that came
    too late for a claimed cause of idle time, else all time of the critical thread.
    """

    within: EventSet | None = None
    """The removed host time as an analysis finds it; it is also where the change is."""
    shares: tuple[EventSet, ...] = ()
    """Names of the removed time that other changes may have, too, if the claims are idle time that it causes."""
    device: EventSet | None = None
    """`ITS_OWN`: what is launched within the removed time goes with it, by the same share, and nothing in it waits.
    None: it is launched as before."""

    resource: ClassVar[str] = "host"

    @property
    def named(self) -> tuple[EventSet, ...]:
        """The sets whose host time is removed; none if that follows from idle time."""
        if self.within is not None:
            return (self.within,)
        return tuple(events for events in self.claims if events.of in ON_HOST)

    @property
    def place(self) -> EventSet | None:
        """Where the change is; None: at the events of its claims."""
        return self.at or self.within

    @property
    def shared(self) -> Mapping[EventSet, float]:
        """The time under the names of `shares` in equal parts, else that of the claims."""
        return {events: max(self.removed) / len(self.shares) for events in self.shares} or self.claims


class WaitsGone(StepChange, frozen=True):
    """Waits of the host for the device are removed, however long they are.

    These are the waits for claimed copies, else those in claimed operators, else those for a whole device (`WAITS`).
    """

    replayed: Message | None = None
    """How the saving was estimated, where the change is replayed; None: as `basis` says."""

    resource: ClassVar[str] = "host"

    @property
    def replayed_basis(self) -> Message:
        """How the saving was estimated, where the change is replayed."""
        return self.replayed or self.basis

    @property
    def is_unsure(self) -> bool:
        """Whether all of these waits may be necessary."""
        return min(self.removed) == 0 < max(self.removed)


class ProcessesReady(HostTime, frozen=True):
    """The host no longer waits for a process to start."""

    is_unstretched: ClassVar[bool] = True


class CollectivesShorter(StepChange, frozen=True):
    """Exposed parts of collectives become shorter, by the same share."""

    resource: ClassVar[str] = "communication"
    is_unstretched: ClassVar[bool] = True
    may_wait: bool = True
    """Whether a part of their time may be waiting for a late rank."""

    @property
    def removed(self) -> Interval:
        """The exposed time, if a timeline tells it."""
        return self.exposed or self.direct


class RanksTogether(CollectivesShorter, frozen=True):
    """No rank is later than the others: `direct` comes from a replay of all ranks, so that nothing else limits it."""


def summed(claims: Iterable[tuple[EventSet, float]]) -> dict[EventSet, float]:
    """Claims with their times in ns per step, where several may have the same key."""
    sums: dict[EventSet, float] = {}
    for key, ns in claims:
        sums[key] = sums.get(key, 0.0) + ns
    return sums


class Fix(msgspec.Struct, frozen=True):
    """A change with the finding that advises it."""

    rule: str
    finding: int
    change: StepChange
