"""The result of the analysis `ranks`: figures from the traces of several ranks together."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.communication import GpuLink

UNMATCHED = 0.2
"""Share of collectives that no other rank has from which on it matters (own choice: below, no ranking changes)."""


class RankRange(msgspec.Struct, frozen=True):
    """Consecutive ranks, both ends included."""

    first: int
    """Lowest rank of the range."""
    last: int
    """Highest rank of the range."""


class Skew(msgspec.Struct, frozen=True):
    """How far the clock of a rank is ahead of a reference's, by the ends of common collectives."""

    reference: int
    """The lowest rank that is linked to this one by collectives."""
    ns: int
    """How much later the rank's clock shows than the reference's, in ns; below 0 if it shows an earlier time. Median
    over collectives."""
    low_ns: int
    """Lower end of the 95 % interval of the median in ns; along a chain of groups the widths are added."""
    high_ns: int
    """Upper end of the 95 % interval of the median in ns."""
    collectives: int
    """Number of collectives that were compared; along a chain of groups the fewest."""


class RankRow(msgspec.Struct, frozen=True):
    """One rank; times are means over its steps that count. Null is unknown.

    Those typical steps count that all ranks have, or else all steps.
    """

    rank: int
    """Number of the rank."""
    file: str
    """Name of the rank's trace."""
    steps: int
    """Number of steps in the trace."""
    mean_step_ns: float | None
    """Mean duration in ns of the steps that count."""
    median_step_ns: float | None
    """Median duration in ns of the steps that count."""
    computation_ns: float | None
    """Time per step in ns in which a kernel that is not a collective runs."""
    communication_ns: float | None
    """Time per step in ns in which a collective kernel runs."""
    exposed_ns: float | None
    """Part of it in ns in which no other kernel runs."""
    wait_ns: float | None
    """Time per step in ns that matched collectives take beyond the shortest of all ranks; null if none was matched."""
    exposed_wait_ns: float | None
    """Part of the waiting in ns in which no other kernel runs."""
    transfer_ns: float | None
    """Rest of the durations of matched collectives per step in ns."""
    own_ns: float | None
    """Step without exposed waiting in ns: how long the step would be if no rank had to wait for another."""
    loader_ns: float | None
    """Time per step in ns of waiting for the loader while no device works."""
    idle_ns: float | None
    """Time per step in ns in which no device works, for another reason."""
    matched: int
    """Number of collectives of the steps that count, and between steps, that were matched with other ranks."""
    last: int
    """Number of those in which it waited least: the others waited for it."""
    skew: Skew | None
    """How far its clock is ahead; null where clocks cannot be compared."""
    workload: str | None = None
    """Kind of program that the rank's trace shows, as in the analysis `recording`; null if it is not known."""
    typical_step_ns: float | None = None
    """Duration of the rank's typical step in ns, as in the analysis `recording`; null if it is not known."""
    stalls: float | None = None
    """Number of stalls of its threads per typical step, as in the analysis `host_stalls`; null if it is not known."""
    stalled_ns: float | None = None
    """Time of these stalls in ns per typical step; null if it is not known."""
    longest_stall_ns: float | None = None
    """Time of the longest of them in ns; null if it is not known."""


class RunStep(msgspec.Struct, frozen=True):
    """One step over all ranks that have it."""

    name: str
    """Number of the step as the profiler counted it; counted from 0 where it marked none."""
    ranks: int
    """Number of ranks that have the step."""
    mean_ns: float
    """Mean duration over the ranks in ns."""
    min_ns: int
    """Shortest duration of all ranks in ns."""
    max_ns: int
    """Longest duration of all ranks in ns."""
    longest: int
    """The rank whose step is longest."""
    wait_ns: float | None
    """Exposed waiting in ns, mean over the ranks; null if no collective was matched."""
    waited_for: int | None
    """The rank that caused most of the waiting; null if none did."""
    caused_ns: float | None
    """Waiting that this rank caused in ns, mean over all ranks; null if none did."""
    counts: bool = True
    """Whether it is one of the steps whose means are the times per step."""
    reason: str | None = None
    """Why it is left out on most ranks, one of `left_out.REASONS`; null where no reason is known."""
    longest_wait_ns: int | None = None
    """Longest exposed waiting of one rank in one collective, in ns; null if no collective was matched."""
    longest_wait_rank: int | None = None
    """The rank that waits so long; null if none does."""
    longest_wait_in: str | None = None
    """Operation of that collective; null where it is unknown."""
    costs_ns: tuple[int, ...] = ()
    """Exposed waiting in ns that each rank causes, mean over all ranks, in the order of `ranks`; empty if no collective
    was matched, and for later steps of runs with many ranks and steps."""


class GroupRow(msgspec.Struct, frozen=True):
    """Matched collectives of one kind in one process group."""

    operation: str | None
    """Operation such as `all_reduce`, as in the analysis `communication`; null where unknown."""
    process_group: str | None
    """Name of the process group; null where it is not recorded."""
    group_size: int | None
    """Number of ranks in the group; null where it is not recorded."""
    ranks: int
    """Number of ranks of the group in this report. If it is less than the size, waiting is a lower bound and transfer
    an upper one."""
    message_bytes: int | None
    """Size of one message in bytes; null if unknown."""
    collectives: int
    """Number of collectives; each counts once, whatever the number of ranks."""
    wait_ns: float
    """Waiting in ns, mean over collectives and ranks."""
    transfer_ns: float
    """Mean of the shortest durations in ns: after the last rank has come, all that is left is to send."""
    algorithm_gb_per_s: float | None
    """Bytes over the shortest durations, in 10^9 bytes per second; null if the size is unknown."""
    bus_gb_per_s: float | None
    """Algorithm bandwidth times the factor of the operation, in 10^9 bytes per second, as in the analysis
    `communication`; null if unknown."""
    rank_transfer_ns: float | None = None
    """What remains of the durations without waiting in ns, mean over collectives and ranks; longer than `transfer_ns`
    where parts are unequal. Null in reports of old versions."""
    is_own: bool = False
    """Whether these are a program's own kernels, of no library of collectives, such as DeepEP's."""
    start_skew_ns: float | None = None
    """Time in ns from the first to the last start on its ranks, mean over collectives; null without common clocks."""
    last_rank: int | None = None
    """The rank that came last most often; null if none did."""
    last: int = 0
    """Number of collectives in which that rank came last."""


class ExchangeRow(msgspec.Struct, frozen=True):
    """The exchanges at one place of the steps that a program makes with kernels of its own."""

    place: int
    """Place among the exchanges of a step, counted from 1 in the order of time."""
    collectives: int
    """Number of exchanges at this place, one per step that counts."""
    wait_ns: float
    """Waiting in ns, mean over these exchanges and the ranks."""
    last_rank: int | None
    """The rank that came last most often, because it had most work before; null if none did."""
    last: int
    """Number of exchanges in which that rank came last."""


class Excess(msgspec.Struct, frozen=True):
    """An activity that takes a late rank longer than the median of the others."""

    part: str
    """What the rank does: `computation`, `loader` or `idle`."""
    ns: float
    """How much longer than the median of the others, in ns per step."""
    owner: str | None = None
    """The mark, module, function or operator that keeps the host busy while the GPU idles, and by which the ranks
    differ most; null where none explains half of the time."""
    owner_ns: float | None = None
    """How much longer than the median of the others that takes, in ns per step."""


class Caused(msgspec.Struct, frozen=True):
    """Waiting for one rank, within a step or over all collectives of a kind; mean over the ranks of the run."""

    name: str
    """Number of the step, or name of the operation."""
    process_group: str | None
    """Name of the process group; null for a step, and where it is not recorded."""
    ns: float
    """Exposed waiting in ns, mean over the ranks of the run."""


class Straggler(msgspec.Struct, frozen=True):
    """A rank that others wait for. Times are exposed waiting, means over ranks and steps."""

    rank: int
    """Number of the rank."""
    last: int
    """Number of collectives in which it came last."""
    matched: int
    """Number of its collectives that were matched with other ranks."""
    steps: int
    """Number of steps in which it caused more waiting than any other rank."""
    caused_ns: float
    """Waiting for this rank in ns. Where it was late because it waited for another rank, that rank is the cause."""
    gap_ns: float
    """Part of that waiting in ns that is saved if it comes no later than the next one."""
    share: float
    """Share of all waiting (0 to 1) that it causes."""
    excess: tuple[Excess, ...]
    """The activities that take it longer than others, the largest difference first."""
    worst_steps: tuple[Caused, ...]
    """Steps in which others wait for it longest."""
    worst_collectives: tuple[Caused, ...]
    """Collectives in which others wait for it longest."""
    collectives: int = 0
    """Number of collectives in which it caused more waiting than any other rank."""
    largest_ns: float = 0.0
    """Waiting for it in the one collective with most of it, in ns, mean over the ranks of the run."""


class Matching(msgspec.Struct, frozen=True):
    """What became of the collectives of all ranks; `recorded` is the sum of the others but `by_sequence`."""

    recorded: int
    """Number of collectives in all traces."""
    matched: int
    """Number of collectives that were matched with at least one other rank."""
    by_sequence: int
    """Number of these that were matched by their recorded number; the rest by order within step, group, operation and
    size."""
    not_mutual: int
    """Number of messages between two ranks, and from or to one, in which no rank has to wait for all; and of
    collectives with unequal parts, where no common clock distinguishes waiting from sending."""
    unmatched: int
    """Number of collectives that no other rank has, or of which ranks have different numbers."""
    contradicted: int
    """Number of collectives that do not overlap in time, so that they are not the same one."""


class StripPart(msgspec.Struct, frozen=True):
    """What a rank does for some time."""

    kind: str
    """In the lane of own work `compute`, `memory` (copies and fills), `loader` (waiting for input) or `idle` (no device
    works); in that of collectives `wait` (for other ranks) or `transfer`."""
    start_ns: int
    """Start in ns since the first start of the step on any of the ranks, by one clock."""
    duration_ns: int
    """Duration in ns."""


class RankStrip(msgspec.Struct, frozen=True):
    """The step of one rank."""

    rank: int
    """Number of the rank."""
    work: tuple[StripPart, ...]
    """Own work in the order of time."""
    communication: tuple[StripPart, ...]
    """Collectives in the order of time."""


class TypicalStrips(msgspec.Struct, frozen=True):
    """One step of several ranks, the one whose duration is closest to the mean."""

    step: str
    """Number of the step as the profiler counted it; counted from 0 where it marked none."""
    duration_ns: int
    """Time in ns from the first start to the last end of the step on these ranks."""
    strips: tuple[RankStrip, ...]
    """Ranks in ascending order; those that others wait for are always among them."""
    more_ranks: int
    """Number of ranks that are not shown."""


class Ranks(msgspec.Struct, frozen=True):
    """How the ranks of a run work together; ranks in ascending order. Times per step are of the steps that count."""

    world_size: int | None
    """Number of ranks that train together; null if no trace shows it."""
    missing: tuple[RankRange, ...] | None
    """Ranks without a trace; null if the number of ranks is unknown."""
    ranks: tuple[RankRow, ...]
    """One row per rank that has a trace."""
    steps: tuple[RunStep, ...]
    """One row per step, over all ranks that have it."""
    counted_steps: int
    """Number of the steps that count in which a collective was matched."""
    mean_step_ns: float | None
    """Mean duration in ns of the steps that count, over all ranks; null without steps."""
    wait_ns: float | None
    """Waiting per step in matched collectives in ns, mean over the ranks; null if none was matched."""
    exposed_wait_ns: float | None
    """Part of the waiting in ns in which no other kernel runs; null if it is unknown."""
    transfer_ns: float | None
    """Rest of the durations of matched collectives per step in ns, mean over the ranks; null if none was matched."""
    imbalance: float | None
    """Longest over mean of `own_ns`, less 1: by how much ranks differ without waiting. Null if it is unknown."""
    is_on_host: bool
    """Whether some rank has collectives as host ranges; then waiting is exposed while no other thread runs an
    operator."""
    has_clocks: bool
    """Whether all ranks have the absolute time, so that clocks can be compared."""
    matching: Matching
    """How many collectives could be matched across ranks."""
    left_out: int
    """Number of collectives of late steps that were not analyzed."""
    groups: tuple[GroupRow, ...]
    """Matched collectives by kind and process group, the most waiting first."""
    stragglers: tuple[Straggler, ...]
    """Ranks that others wait for, the one with the most waiting first."""
    start_wait_ns: int = 0
    """Longest waiting of a rank in ns in the first collective of the recording, because another one began later; it is
    in no other figure. 0 if they did not begin so far apart."""
    start_rank: int | None = None
    """The rank that began latest, then."""
    control_step_ns: float | None = None
    """Duration of a step without the profiler in ns, mean over the ranks; null if no capture measured it on all."""
    profiled_step_ns: float | None = None
    """Duration of a recorded step in ns by the clocks of the processes, mean over the ranks; null as before."""
    link: GpuLink | None = None
    """The link between GPUs of this kind; null where ranks have GPUs of several kinds, or it is not known."""
    exchanges: tuple[ExchangeRow, ...] = ()
    """Exchanges of tokens between experts by their place in the step, such as one or two a layer."""
    typical_step: TypicalStrips | None = None
    """What each rank does at each moment of a typical step; null without one, and in reports of old versions."""

    @property
    def has_partial_groups(self) -> bool:
        """Whether ranks of a process group have no trace: then nobody knows how much of its collectives is waiting.

        Collectives that no other rank here has are of such groups, too.
        """
        if not self.missing:
            return False
        mutual = self.matching.recorded - self.matching.not_mutual
        sizes = ((row.group_size or self.world_size or row.ranks, row.ranks) for row in self.groups)
        return self.matching.unmatched > UNMATCHED * mutual or any(here < size for size, here in sizes)
