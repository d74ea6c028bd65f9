"""What a run of several ranks comes to: the answer of `ranks`."""

from __future__ import annotations

import msgspec


class RankRange(msgspec.Struct, frozen=True):
    """Consecutive ranks, both ends included."""

    first: int
    last: int


class Skew(msgspec.Struct, frozen=True):
    """How far the clock of a rank is ahead of the reference's, as the ends of common collectives tell."""

    reference: int
    """The lowest rank that is linked to this one by collectives."""
    ns: int
    """Positive: the rank's clock shows a later time. Median over collectives."""
    low_ns: int
    high_ns: int
    """95 % interval of the median; along a chain of groups the widths are added."""
    collectives: int
    """Compared; along a chain the fewest."""


class RankRow(msgspec.Struct, frozen=True):
    """One rank; times are means over its steps. Null is unknown."""

    rank: int
    file: str
    steps: int
    mean_step_ns: float | None
    median_step_ns: float | None
    computation_ns: float | None
    """A kernel that is no collective runs."""
    communication_ns: float | None
    """A kernel of a collective runs."""
    exposed_ns: float | None
    """And no other kernel."""
    wait_ns: float | None
    """In collectives that were matched: duration beyond the shortest of all ranks. Null if none was."""
    exposed_wait_ns: float | None
    """The part of it in which no other kernel runs."""
    transfer_ns: float | None
    """The rest of the durations of these collectives."""
    own_ns: float | None
    """Step without exposed waiting: how long the step would be if nobody had to wait for anybody."""
    loader_ns: float | None
    """Waiting for the loader while no device works."""
    idle_ns: float | None
    """No device works, for another reason."""
    matched: int
    """Collectives that were matched with other ranks."""
    last: int
    """Those in which it waited least: the others waited for it."""
    skew: Skew | None


class RunStep(msgspec.Struct, frozen=True):
    """One step over all ranks that have it."""

    name: str
    ranks: int
    mean_ns: float
    min_ns: int
    max_ns: int
    longest: int
    """The rank with the longest."""
    wait_ns: float | None
    """Mean over the ranks of exposed waiting; null if no collective was matched."""
    waited_for: int | None
    """The rank that caused most of it."""
    caused_ns: float | None
    """By this rank, mean over all ranks."""


class GroupRow(msgspec.Struct, frozen=True):
    """Matched collectives of one kind in one process group."""

    operation: str | None
    process_group: str | None
    group_size: int | None
    ranks: int
    """Of the group, in this report. If it is less than the size, waiting is a lower bound, transfer an upper one."""
    message_bytes: int | None
    collectives: int
    """Each counts once, whatever the number of ranks."""
    wait_ns: float
    """Mean over collectives and ranks."""
    transfer_ns: float
    """Mean of the shortest durations: after the last rank has come, all that is left is to send."""
    algorithm_gb_per_s: float | None
    """Bytes over the shortest durations, 10^9 bytes per second."""
    bus_gb_per_s: float | None
    """The same times the factor of the operation, see `communication`."""


class Excess(msgspec.Struct, frozen=True):
    """What a late rank does for longer than the median of the others."""

    part: str
    """`computation`, `loader` or `idle`."""
    ns: float
    """Per step."""


class Caused(msgspec.Struct, frozen=True):
    """Waiting for one rank, within a step or over all collectives of a kind; mean over the ranks of the run."""

    name: str
    """Of the step, or of the operation."""
    process_group: str | None
    ns: float


class Straggler(msgspec.Struct, frozen=True):
    """A rank that others wait for. Times are exposed waiting, means over ranks and steps."""

    rank: int
    last: int
    """Collectives in which it came last."""
    matched: int
    steps: int
    """In which it caused more waiting than any other rank."""
    caused_ns: float
    """Waiting for it. Where it was late because it waited for another rank, that rank is the cause."""
    gap_ns: float
    """Of that, what goes away if it comes no later than the next one."""
    share: float
    """Of all waiting."""
    excess: tuple[Excess, ...]
    """What it does for longer, the largest first."""
    worst_steps: tuple[Caused, ...]
    worst_collectives: tuple[Caused, ...]


class Matching(msgspec.Struct, frozen=True):
    """What became of the collectives of all ranks; `recorded` is the sum of the others but `by_sequence`."""

    recorded: int
    matched: int
    """With at least one other rank."""
    by_sequence: int
    """Of these by number; the rest by order within step, group, operation and size."""
    not_mutual: int
    """Messages between two ranks, and from or to one: nobody has to wait for everybody. And unequal parts without
    clocks that could tell waiting from sending."""
    unmatched: int
    """No other rank has it, or ranks have different numbers of it."""
    contradicted: int
    """They do not overlap in time: not the same collective."""


class Ranks(msgspec.Struct, frozen=True):
    """The answer; ranks in ascending order."""

    world_size: int | None
    missing: tuple[RankRange, ...] | None
    """Ranks without a trace; null if the size of the world is unknown."""
    ranks: tuple[RankRow, ...]
    steps: tuple[RunStep, ...]
    counted_steps: int
    """Steps in which a collective was matched."""
    mean_step_ns: float | None
    """Over all steps of all ranks, as the next four."""
    wait_ns: float | None
    exposed_wait_ns: float | None
    transfer_ns: float | None
    imbalance: float | None
    """Longest over mean of `own_ns`, less 1: what ranks differ by when nobody waits."""
    is_on_host: bool
    """Some rank has collectives as host ranges: then what of the waiting is exposed is not known."""
    has_clocks: bool
    """All ranks tell the absolute time, so that clocks can be compared."""
    matching: Matching
    left_out: int
    """Collectives of late steps that were not looked at."""
    groups: tuple[GroupRow, ...]
    """Those with the most waiting first."""
    stragglers: tuple[Straggler, ...]
    """The one that others wait for longest first."""
