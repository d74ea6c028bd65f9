"""Limits savings: a step never gets shorter than the time that the other resources need. So it combines all fixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum

import msgspec
from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Arithmetic, Combined, Finding, Operand, Relief, Resources, Saving
from traceanalyzer.rules.engine.change import Fix, Interval, RanksTogether, StepChange
from traceanalyzer.simulation import variation
from traceanalyzer.structure.events import EventSet

GAIN_SHARE = 0.01
"""Share of a step below which a saving is not distinguishable from noise (own choice)."""

RESOURCES = {
    "gpu": Text("resource-gpu", "GPU", note="the GPU as a resource, beside a time: 44.05 ms GPU"),
    "host": Text("resource-host", "CPU", note="the host (CPU) as a resource, beside a time: 6.14 ms host"),
    "communication": Text("resource-communication", "communication"),
    "loader": Text("resource-loader", "DataLoader"),
}
"""What the resources of a step are called beside a time."""
_STEP = Text("resource-step", "step", note="one training step, beside a time")
_INFLATED = Text(
    "saving-host-inflated",
    "{basis}; the lower end assumes that the CPU needs its time as recorded; the upper end does not, because "
    "recording stacks slowed the CPU down",
    note="basis says how the saving was estimated, without a full stop",
)
_BESIDE_WAITING = Text(
    "saving-host-of-ranks",
    "{basis}; the lower end assumes that the CPU needs its time as recorded (mean over the ranks); the upper end "
    "does not, because a CPU may only be waiting while its GPU waits for another rank",
    note="basis says how the saving was estimated, without a full stop",
)
_UNSEEN = Text(
    "saving-host-unseen",
    "{basis}; the lower end assumes that the CPU needs all of its time; the upper end does not, because rows that are "
    "not printed may be waits for the GPU",
    note="basis says how the saving was estimated, without a full stop",
)
_PROFILED = Text("resource-profiled", "profiled time", note="the sum in a printed table, per step")


class Budget(msgspec.Struct, frozen=True):
    """Time of one step by resource, in ns; it changes as fixes are applied."""

    step: float
    gpu: float
    host: float
    loader: float
    communication: float
    is_estimate: bool
    """Whether it comes from the sums of a table, so that overlap is unknown."""
    is_host_inflated: bool = False
    """Whether recording stacks slowed the host: without the profiler it takes less time, by an unknown amount."""
    is_of_ranks: bool = False
    """Whether it is a mean over ranks: the others wait for the host of a late rank, so it does not limit what they
    gain."""
    unseen_waits: float = 0.0
    """Host time in ns in rows that a table does not print, which may be waits for the device."""

    @classmethod
    def of(cls, resources: Resources, *, is_estimate: bool) -> Budget:
        """Make a budget; unknown resources bound nothing.

        Collectives that run on the CPU hold the host up, so without a device they count with it.
        """
        gpu = resources.gpu_ns
        host = resources.host_ns or 0.0
        links = resources.communication_ns or 0.0
        return cls(
            resources.step_ns,
            gpu or 0.0,
            host + links if gpu is None else host,
            resources.loader_ns or 0.0,
            0.0 if gpu is None else links,
            is_estimate,
        )

    @property
    def chains(self) -> Mapping[str, float]:
        """Times of work that cannot overlap; the loader runs on the host's thread until it has workers."""
        return {"gpu": self.gpu, "host": self.host + self.loader, "communication": self.communication}

    @property
    def certain(self) -> Mapping[str, float]:
        """The part of the chains that certainly remains without the profiler."""
        if self.is_host_doubtful:
            return {**self.chains, "host": self.loader}
        return {**self.chains, "host": max(0.0, self.host - self.unseen_waits) + self.loader}

    @property
    def is_host_doubtful(self) -> bool:
        """Whether recorded host time is not a lower bound of the remaining step."""
        return self.is_host_inflated or self.is_of_ranks

    @property
    def critical(self) -> str:
        """The resource that takes longest: `gpu`, `host`, `loader` or `communication`."""
        chain = max(self.chains, key=lambda name: self.chains[name])
        return "loader" if chain == "host" and self.loader > self.host else chain

    def without(self, resource: str, ns: float) -> Budget:
        """A copy with less time of one resource; the step stays as it is."""
        if resource == "communication":  # even if it overlaps computation, it must still happen
            return replace(self, gpu=max(0.0, self.gpu - ns))
        return replace(self, **{resource: max(0.0, getattr(self, resource) - ns)})

    def cap(self, resource: str, ns: float) -> float:
        """Greatest time by which a step can get shorter if a resource takes this much less time."""
        return max(0.0, self.step - max(self.without(resource, ns).chains.values()))

    def reach(self, resource: str, ns: float) -> float:
        """Like `cap`, but a host that the profiler slowed down sets no limit."""
        return max(0.0, self.step - max(self.without(resource, ns).certain.values()))

    def wall(self, change: StepChange, direct: Interval | None = None) -> Interval:
        """Least and greatest time by which a change makes a step shorter.

        A table does not show overlap, so time of a resource that is not critical saves nothing there.
        """
        low, high = direct or change.direct
        if isinstance(change, RanksTogether):
            return low, high
        if self.is_estimate:
            if not self._is_critical(change.resource):
                return 0.0, 0.0
            return min(low, self.cap(change.resource, low)), min(high, self.reach(change.resource, high))
        shown = change.exposed or (low, high)
        return (
            min(low, shown[0], self.cap(change.resource, low)),
            min(high, shown[1], self.reach(change.resource, high)),
        )

    def blocker(self, change: StepChange) -> str:
        """The resource that takes longest once the change is made."""
        return self.without(change.resource, change.direct[1]).critical

    def _is_critical(self, resource: str) -> bool:
        chain = "host" if resource == "loader" else "gpu" if resource == "communication" else resource
        return self.chains[chain] >= max(self.chains.values())

    def after(self, change: StepChange, direct: float, wall: float) -> Budget:
        """A copy with the change made."""
        return replace(self.without(change.resource, direct), step=self.step - wall)

    def saving(self, change: StepChange) -> Saving:
        """The saving of a change within the limits of the other resources and of the variation of steps."""
        low, high = variation.below(self.wall(change))
        return Saving(
            direct_ns_per_step=change.direct,
            wall_ns_per_step=(low, high),
            wall_share=(low / self.step, high / self.step) if self.step else (0.0, 0.0),
            basis=self._doubt()(basis=change.basis) if self._is_beyond_host(change, high) else change.basis,
            arithmetic=self._arithmetic(change),
            resource=change.resource,
        )

    def _is_beyond_host(self, change: StepChange, most: float) -> bool:
        """Whether the upper end exceeds the limit by the recorded host time by more than rounding (1 ns)."""
        if isinstance(change, RanksTogether):
            return False
        limit = self.cap(change.resource, change.direct[1])
        return (self.is_host_doubtful or self.unseen_waits > 0) and most > limit + 1

    def _doubt(self) -> Text:
        """Why the recorded host time does not limit the upper end."""
        if self.unseen_waits:
            return _UNSEEN
        return _INFLATED if self.is_host_inflated else _BESIDE_WAITING

    def _arithmetic(self, change: StepChange) -> Arithmetic | None:
        """The calculation of the cap if the cap limits the saving: the shown difference is an end of the interval."""
        cap = self.reach(change.resource, change.direct[1])
        if cap >= change.direct[1] or not self.step or (self.is_estimate and not self._is_critical(change.resource)):
            return None
        left = self.without(change.resource, change.direct[1])
        step: Message = _PROFILED() if self.is_estimate else _STEP()
        known = [(name, ns) for name, ns in left.certain.items() if ns or name == "host"]
        names = {**RESOURCES, "host": RESOURCES["loader"]} if self.is_host_doubtful else RESOURCES
        return shown_difference((step, self.step), [(names[name](), ns) for name, ns in known])


def combine(budget: Budget, fixes: Sequence[Fix]) -> Combined | None:
    """The most valuable fix first, then the one that saves most after it, and so on.

    Lower and upper ends are combined separately, both in the order of the upper ends. A saving that another resource
    blocks is not lost: it counts as soon as a later fix relieves that resource. All fixes together save at most the
    time that they remove, within the limits of the resources that remain. None if nothing saves anything.
    """
    low, reliefs = _one_by_one(budget, fixes)
    while reliefs and reliefs[-1][0].wall_ns_per_step[1] <= 0:  # and nothing after it needed it
        reliefs.pop()
    if not reliefs:
        return None
    most = reliefs[-1][1]
    surely = max(budget.step - low.step, *(budget.wall(fix.change)[0] for fix in fixes))  # as the best one by itself
    total = variation.below((min(surely, most.saved), most.saved))
    share = total[0] / budget.step, total[1] / budget.step
    return Combined(tuple(relief for relief, _ in reliefs), total, share, most.left.critical)


def _one_by_one(budget: Budget, fixes: Sequence[Fix]) -> tuple[Budget, list[tuple[Relief, _Most]]]:
    """The budget after all fixes, at least, and what each saves after those before it, with the most of all of them."""
    low, most = budget, _Most(budget)
    taken: dict[EventSet, Interval] = {}
    left, reliefs = list(fixes), []
    while left:
        best = max((_Next.of(fix, most, taken) for fix in left), key=_Next.rank)
        if best.direct[1] <= 0 and best.gain <= 0:
            break
        change, (least, _) = best.fix.change, best.direct
        at_least = min(low.wall(change, best.direct)[0], low.cap(change.resource, least), best.gain)
        low = low.after(change, least, at_least)
        most = best.after
        _claim(change, taken)
        left = [fix for fix in left if fix is not best.fix]
        reliefs.append((Relief(best.fix.rule, best.fix.finding, (at_least, best.gain)), most))
    return low, reliefs


def with_later_savings(findings: Sequence[Finding], combined: Combined | None, first: int) -> list[Finding]:
    """The findings, those that save nothing yet with what each adds to the fixes before it.

    Args:
        findings: The findings of a run, in their order.
        combined: All their fixes together.
        first: Position of the first finding in the report.
    """
    found = list(findings)
    for fix in combined.fixes if combined else ():
        place, (low, high) = fix.finding - first, fix.wall_ns_per_step
        if found[place].latent:
            found[place] = replace(found[place], after_fixes_ns_per_step=(low, fix.point_ns_per_step, high))
    return found


class _Most(msgspec.Struct, frozen=True):
    """The most by which a step can have become shorter after some fixes."""

    left: Budget
    """Budget of the original step (for a table: after earlier savings), without the removed time."""
    saved: float = 0.0
    offered: float = 0.0
    """The exposed time that the fixes save."""

    def after(self, change: StepChange, direct: Interval) -> _Most:
        """The sum with one more fix."""
        left = self.left
        if left.is_estimate:
            gain = max(0.0, min(left.wall(change, direct)[1], left.reach(change.resource, direct[1])))
            return _Most(left.after(change, direct[1], gain), self.saved + gain)
        offered = self.offered + min(direct[1], (change.exposed or direct)[1])
        # claims on exposed time are on idle time of the device; the change may still remove all of its work
        is_whole = change.exposed is not None and direct[1] > 0
        left = left.without(change.resource, change.direct[1] if is_whole else direct[1])
        return _Most(left, max(self.saved, min(offered, left.step - max(left.certain.values()))), offered)


class _Next(msgspec.Struct, frozen=True):
    """A fix that may be the next one."""

    fix: Fix
    direct: Interval
    """Time that fixes before it have not already removed."""
    after: _Most
    gain: float
    """The most by which it makes the step shorter."""

    @classmethod
    def of(cls, fix: Fix, most: _Most, taken: Mapping[EventSet, Interval]) -> _Next:
        """The fix after some others."""
        direct = _unclaimed(fix.change, taken)
        after = most.after(fix.change, direct)
        return cls(fix, direct, after, after.saved - most.saved)

    def rank(self) -> tuple[float, float, int]:
        """What saves most comes first, then what removes most time, then the first finding."""
        return self.gain, self.direct[1], -self.fix.finding


def _unclaimed(change: StepChange, taken: Mapping[EventSet, Interval]) -> Interval:
    """Least and greatest time of a change that earlier fixes have not already removed."""
    claimed = [(_ends(change, ns), taken.get(key, (0.0, 0.0))) for key, ns in change.claims.items()]
    low, high = (fsum(min(own[end], other[end]) for own, other in claimed) for end in (0, 1))
    return max(0.0, change.direct[0] - low), max(0.0, change.direct[1] - high)


def _claim(change: StepChange, taken: dict[EventSet, Interval]) -> None:
    for key, ns in change.claims.items():
        before, own = taken.get(key, (0.0, 0.0)), _ends(change, ns)
        taken[key] = (max(before[0], own[0]), max(before[1], own[1]))


def _ends(change: StepChange, claim: float) -> Interval:
    """Least and greatest time of a claim; it shrinks in proportion to the whole change."""
    low, high = change.direct
    return (claim * low / high if high else 0.0, claim)


# Calculations that are shown: operands are rounded alike, so that a reader gets the shown result.

_DIGITS = 5
"""Significant digits of the largest operand (own choice: 174.76 ms is precise enough)."""


def shown_difference(minuend: tuple[Message, float], subtrahends: Iterable[tuple[Message, float]]) -> Arithmetic:
    """Compute `minuend - max(subtrahends)`, rounded as it will be shown.

    Args:
        minuend: Its name and ns.
        subtrahends: Theirs.
    """
    subtrahends = tuple(subtrahends)
    quantum = _quantum(minuend[1])

    def rounded(ns: float) -> int:
        return round(ns / quantum) * quantum

    operands = tuple(Operand(name, rounded(ns)) for name, ns in subtrahends)
    largest = max((operand.ns for operand in operands), default=0)
    return Arithmetic(Operand(minuend[0], rounded(minuend[1])), operands, rounded(minuend[1]) - largest)


def _quantum(ns: float) -> int:
    """The power of ten that leaves a number of digits."""
    return int(10 ** max(0, len(str(int(abs(ns)))) - _DIGITS))
