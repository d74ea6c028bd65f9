"""What is known of a run that stands still: who waits in which operation, for whom, and why."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from traceanalyzer.analyzers.hangs.lateness import LateRank


class CalledOperation(msgspec.Struct, frozen=True):
    """An operation as a rank called it."""

    operation: str
    """Name of the operation; empty if no ring has it any more."""
    group: str
    """Name of the process group, as torch counts them."""
    description: str
    """What the program calls the group; empty if nothing."""
    sequence: int | None
    """Number of the collective in its group; null for point-to-point operations."""
    shape: str
    """Sizes of its inputs; empty if unknown."""
    dtype: str
    """Types of its inputs; empty if unknown."""
    line: str | None
    """Innermost line of the program that called it; null without recorded frames."""

    @property
    def title(self) -> str:
        """The group as people know it: what the program calls it, with torch's name."""
        return f"{self.description} ({self.group})" if self.description else f"group {self.group}"


class RankWait(msgspec.Struct, frozen=True):
    """An operation in which ranks wait, and whom for."""

    called: CalledOperation
    """The operation, as one of them called it."""
    waiting: tuple[int, ...]
    """The ranks that wait in it."""
    absent: tuple[int, ...]
    """Ranks that have not called it."""
    behind: tuple[int, ...]
    """Ranks whose device has not finished an earlier one of the group."""
    undumped: tuple[int, ...]
    """Its members without a dump."""
    passed: tuple[int, ...]
    """Ranks whose device has finished it."""
    called_ns: int | None
    """When the last of the waiting ranks called it, in ns since the first operation in any ring; null if unknown."""

    @property
    def is_of_peers(self) -> bool:
        """Whether it is a send or a receive, which waits for one rank."""
        return self.called.operation.startswith(("send ", "recv "))


class Disagreement(msgspec.Struct, frozen=True):
    """Ranks that called something else than the others at the same place of a group."""

    ranks: tuple[int, ...]
    """The ranks that called this."""
    called: CalledOperation
    """What they called."""


class FlightRank(msgspec.Struct, frozen=True):
    """What one rank did last."""

    rank: int
    """Number of the rank."""
    role: str
    """`never-came`, `stopped`, `unfinished`, `not-begun`, `disagrees`, `waits`, `done` (waits nowhere) or `no-dump`."""
    last: CalledOperation | None
    """The last operation that it called; null if its ring is empty."""
    is_finished: bool
    """Whether its device has finished that."""
    called_ns: int | None
    """When it called that, in ns since the first operation in any ring; null if unknown."""
    waits_for: tuple[int, ...]
    """The ranks that it waits for."""


class FlightGroup(msgspec.Struct, frozen=True):
    """How far the members of a group came."""

    group: str
    """Name of the process group, as torch counts them."""
    description: str
    """What the program calls it; empty if nothing."""
    ranks: tuple[int, ...]
    """The ranks that are its members."""
    least_enqueued: int | None
    """Number of the last collective that all members with a dump have called; null if unknown."""
    most_enqueued: int | None
    """Number of the last collective that any member has called; null if unknown."""
    least_completed: int | None
    """Number of the last collective that the devices of all members with a dump have finished; null if unknown."""
    most_completed: int | None
    """Number of the last collective that the device of any member has finished; null if unknown."""
    last: tuple[int, ...]
    """Members that have called least, if not all have called as many."""
    dumped: tuple[int, ...] = ()
    """Its members with a dump, which the next two are of."""
    enqueued: tuple[int | None, ...] = ()
    """Number of the last collective that each of them has called; null if unknown."""
    completed: tuple[int | None, ...] = ()
    """Number of the last one that its device has finished."""


class NearLimit(msgspec.Struct, frozen=True):
    """An operation to which all came, and that took nearly as long as it may."""

    called: CalledOperation
    """The operation, as one of them called it."""
    taken_ns: int
    """Time in ns from the first call to the last, or to its end if it has finished."""
    limit_ns: int
    """Its time limit in ns."""
    ranks: tuple[int, ...]
    """The ranks that came last; if it has finished, the one whose ring shows it."""
    is_finished: bool
    """Whether it has finished."""

    @property
    def share(self) -> float:
        """The part of the limit that it took."""
        return self.taken_ns / self.limit_ns


class RankFault(msgspec.Struct, frozen=True):
    """That a communicator of a rank was aborted or has failed."""

    rank: int
    """Number of the rank."""
    communicator: str
    """Its key in the dump."""
    what: str
    """Name of the field that says it."""
    value: str
    """What the field says."""


class Hangs(msgspec.Struct, frozen=True):
    """Why a run stands still, or that it does not."""

    verdict: str
    """`mismatch`, `stopped`, `missing`, `no-dump`, `circle`, `unfinished`, `not-begun`, `timeout`, `all-waiting`,
    `unknown`, `slow` or `none`; the first that holds."""
    ranks: tuple[int, ...]
    """The ranks that hold up the others; all that could, if it is not known which."""
    never_came: tuple[int, ...]
    """Ranks that others wait for and that wait nowhere."""
    stopped: tuple[int, ...]
    """Ranks whose device did not finish what others finished."""
    disagreements: tuple[Disagreement, ...]
    """What ranks called at the first place where they called different things; empty if they agree."""
    circle: tuple[int, ...]
    """A shortest circle of ranks that wait for each other; all that do are in `ranks`."""
    without_dump: tuple[int, ...]
    """Ranks of the run without a dump."""
    world_size: int
    """Number of ranks of the run."""
    dumps: int
    """Number of dumps."""
    operations: int
    """Number of operations in all rings."""
    timeout_ms: int | None
    """How long the operations in which ranks wait may take, in ms; the shortest; null if unknown."""
    waits: tuple[RankWait, ...]
    """Where ranks wait, the earliest call first; the first that do."""
    per_rank: tuple[FlightRank, ...]
    """What each rank did last, by rank."""
    groups: tuple[FlightGroup, ...]
    """How far each group came, those first whose members differ."""
    late: LateRank | None
    """The rank that comes last again and again in a run that does not stand still; null if there is none."""
    near_limit: NearLimit | None = None
    """The operation that came closest to its time limit though all came to it; null if none is known."""
    is_logged: bool = False
    """Whether the log of a job says it and not dumps: then `dumps` counts the ranks that have a line."""
    hides_p2p: bool = False
    """Whether the backend records no sends and receives (gloo), in which ranks may wait unseen."""
    faults: tuple[RankFault, ...] = ()
    """Communicators that were aborted or have failed, by rank; the first of each rank."""
    since: str | None = None
    """When the first of them began to wait, by the clock of the log; null for dumps, or without times."""

    @property
    def decisive(self) -> RankWait | None:
        """The wait that shows the verdict best."""
        if self.verdict in ("stopped", "unfinished"):
            return self.held_by(self.ranks)
        if self.verdict in ("not-begun", "timeout"):
            return next((wait for wait in self.waits if set(self.ranks) <= set(wait.waiting)), None)
        return self.for_ranks(self.ranks)

    def held_by(self, ranks: Iterable[int]) -> RankWait | None:
        """Where most of some ranks did not finish what others finished; the earliest of equals."""
        named = set(ranks)
        held = (wait for wait in self.waits if wait.passed)
        return max(held, key=lambda wait: len(named & set(wait.waiting)), default=None)

    def for_ranks(self, ranks: Iterable[int]) -> RankWait | None:
        """The wait that is for most of some ranks, of most others; the earliest of equals."""
        named = set(ranks)

        def weight(wait: RankWait) -> tuple[int, int, bool, int]:
            others = {*wait.absent, *wait.behind, *wait.undumped}
            awaited = named & others
            return len(awaited), -len(others - named), wait.called.sequence is not None, len(wait.waiting)

        return max(self.waits, key=weight, default=None)

    def way_of(self, rank: int, other: int) -> str:
        """How a rank waits for another: in a `send`, a `recv`, or another operation."""
        waits = (wait for wait in self.waits if rank in wait.waiting and other in {*wait.absent, *wait.behind})
        called = next((wait.called.operation for wait in waits), "")
        return called[:4] if called.startswith(("send ", "recv ")) else "other"

    @property
    def waiting(self) -> int:
        """How many ranks wait and hold up nobody."""
        return sum(row.role == "waits" for row in self.per_rank)
