"""How much longer is a step than if no rank were slower than its peers, and because of which rank and what work?

The definition is that of the straggler study of OSDI 2025 ("Understanding Stragglers in Large Model Training Using
What-if Analysis"): the slowdown is the step over the step in which every operation takes the median of its peers. An
operation is what a rank does of one kind between two meetings, or the transfer of a meeting; its peers are what all
ranks do at this position of the step. Here no operation gets longer, so that the slowdown is never below 1, and of two
ranks the faster one counts, because the middle between them would hide half of the difference.

A replay of the run as recorded must be the run: above 5 % of error nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks import joint_replay, matching, member
from traceanalyzer.analyzers.ranks.joint_replay import KINDS, JointProgram, Shorter
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.sums import count_by
from traceanalyzer.trace.table import F64, I64, UNKNOWN

MOST_EVENTS = 200_000
"""Events of all ranks that are replayed, whole steps (own choice: some seconds)."""
_MOST_ERROR = 0.05
"""Above this error the replay is not the run, as of the model of one rank."""
WORTH_NAMING = 0.01
"""Share of a step from which on a rank is named as late (own choice: a step varies by as much from run to run)."""
_ADDS = 0.1
"""Least part of the time lost by slow ranks that another late rank must add (own choice)."""
_MOST_LATE = 1 / 3
"""Largest part of the ranks that are called late (own choice): if more are, they take turns."""
_ONE_RANK = Text("skip-stragglers-one-rank", "one rank has no peers")
_ON_HOST = Text(
    "skip-stragglers-on-host", "the collectives run on the CPU, and the traces do not show what else ran meanwhile"
)
_NO_STEPS = Text("skip-stragglers-no-steps", "the ranks have no step in common")
_OLD = Text("skip-stragglers-old", "a saved report of an older version does not contain what its rank did by itself")
_NOTHING = Text("skip-stragglers-nothing-matched", "no collective was found on several ranks")
_FEW = Text("skip-stragglers-few-ranks", "fewer than half of the ranks of a process group are included")
_ORDER = Text("skip-stragglers-order", "the ranks reach their collectives in contradictory orders")
_ERROR = Text(
    "skip-stragglers-error",
    "the replay of the recorded run is off by {share:exact_share}; at most {most:exact_share} is allowed",
)


class JointRun(msgspec.Struct, frozen=True):
    """The ranks of a run in the steps that all of them have, and replays of them."""

    ranks: tuple[int, ...]
    """Numbers of the ranks, ascending."""
    steps: int
    """Number of steps that are replayed."""
    recorded_ns: float
    """Duration of these steps together, the mean over the ranks."""
    program: JointProgram
    position: I64
    """The program, as `joint_replay.join_programs` returns it."""
    times: F64
    """The result of `joint_replay.replay` if no operation takes longer than the median of its peers."""

    @property
    def error_share(self) -> float:
        """Difference of the replay and the recorded run as a share of the recorded run; 0 or more."""
        return abs(float(self.times[0]) - self.recorded_ns) / self.recorded_ns if self.recorded_ns else 0.0

    def of_rank(self, times: F64) -> F64:
        """The replays in which only one rank changes, in the order of the ranks."""
        return times[2 : 2 + len(self.ranks)]

    def at_median(self, ranks: Collection[int], *, exactly: bool) -> F64:
        """Replay with some ranks like their peers: each of their operations takes the median of those of all ranks.

        Args:
            ranks: Numbers of these ranks.
            exactly: Whether operations that are faster than the median get longer, too.

        Returns:
            Times in ns, as of `joint_replay.replay`: the second one with all these ranks changed.
        """
        changed = joint_replay.saved_at_median(self.program, self.position, exactly=exactly)
        own = np.isin(self.program.member, [self.ranks.index(rank) for rank in ranks])
        changed = Shorter(changed.work_ns * own[:, None], changed.transfer_ns * own, changed.host_ns * own)
        times = joint_replay.replay(self.program, changed)
        assert times is not None, "the ranks reach their meetings in the order that was replayed before"  # noqa: S101
        return times


def prepare(facts: Mapping[int, RankFacts], world_size: int | None = None) -> JointRun | Message:
    """Make ranks ready to be replayed.

    Args:
        facts: By rank.
        world_size: Number of ranks of the run, if it is known.

    Returns:
        The run, or why there is no replay.
    """
    ranks = tuple(sorted(facts))
    own = _in_common([facts[rank] for rank in ranks])
    reason = _missing(own)
    if reason is not None:
        return reason
    table = matching.table_of(own)
    meetings = joint_replay.find_meetings(table)
    if not meetings.count:
        return _NOTHING()
    if joint_replay.has_few(table, world_size):
        return _FEW()
    program, position = joint_replay.join_programs(own, meetings)
    times = joint_replay.replay(program, joint_replay.saved_at_median(program, position))
    if times is None:
        return _ORDER()
    recorded = sum(sum(one.steps.duration_ns) for one in own) / len(own)
    run = JointRun(ranks, len(own[0].steps.name), recorded, program, position, times)
    return _ERROR(share=run.error_share, most=_MOST_ERROR) if run.error_share > _MOST_ERROR else run


def _in_common(every: Sequence[RankFacts]) -> list[RankFacts]:
    """The ranks with only the steps that all of them have, as many of the first as are replayed."""
    if not every:
        return []
    common = frozenset.intersection(*(frozenset(_whole_steps(facts)) for facts in every))
    names = [name for name in every[0].steps.name if name in common]
    place = {name: number for number, name in enumerate(names)}
    events = np.zeros(len(names), np.int64)
    for facts in every:
        own = [place.get(name, UNKNOWN) for name in facts.steps.name]
        rows = [own[step] for step in facts.collectives.step if step is not None and own[step] != UNKNOWN]
        events += 2 * count_by(np.array(rows, np.int64), len(names))
    kept = max(1, int(np.searchsorted(np.cumsum(events), MOST_EVENTS, side="right")))
    return [member.only_steps(facts, frozenset(names[:kept])) for facts in every]


def _whole_steps(facts: RankFacts) -> tuple[str, ...]:
    """The steps whose collectives are all listed."""
    if not facts.left_out:
        return facts.steps.name
    listed = [step for step in facts.collectives.step if step is not None]
    return facts.steps.name[: max(listed, default=0)]


def _missing(own: Sequence[RankFacts]) -> Message | None:
    if len(own) < 2:
        return _ONE_RANK()
    if not own[0].steps.name:
        return _NO_STEPS()
    if any(len(one.steps.compute_after_ns) < len(one.steps.name) for one in own):
        return _OLD()
    if any(one.is_on_host for one in own):
        return _ON_HOST()
    return None


class RankSlowdown(msgspec.Struct, frozen=True):
    """The part of one rank in the slowdown."""

    rank: int
    """Number of the rank."""
    slowdown: float
    """Step over the step in which only the operations of this rank take at most the median of their peers."""


class KindSlowdown(msgspec.Struct, frozen=True):
    """The part of one kind of operations in the slowdown."""

    kind: str
    """Kind of operations: `host` (the devices do nothing and nothing waits for the loader), `loader`, `compute`
    (kernels), `memory` (only copies and fills) or `communication` (transfers, without waiting for other ranks)."""
    slowdown: float
    """Step over the step in which only operations of this kind take at most the median of their peers."""


class Stragglers(msgspec.Struct, frozen=True):
    """Slowdown of the run by ranks that are slower than their peers, from a replay of all ranks together."""

    slowdown: float
    """Step over the step in which every operation takes at most the median of its peers; at least 1."""
    late_rank: int | None
    """The rank whose operations make the step longest; null if none makes it at least 1 % longer."""
    late_ns_per_step: float | None
    """Time in ns by which a step would be shorter if the operations of this rank took at most the median of their
    peers; null without such a rank."""
    by_rank: tuple[RankSlowdown, ...]
    """Each rank alone, in ascending order."""
    by_kind: tuple[KindSlowdown, ...]
    """Each kind of operations alone, of all ranks."""
    step_ns: float = 0.0
    """Mean duration of a step in the replay of the run as recorded, in ns."""
    steps: int = 0
    """Number of steps that were replayed."""
    error_share: float = 0.0
    """Difference of that duration and the recorded one, as a share of the recorded one."""
    late_ranks: tuple[int, ...] = ()
    """The late rank, with others of which each makes the step longer by another tenth of all that is lost; ascending,
    at most a third of all ranks."""
    late_ranks_ns_per_step: float | None = None
    """Time in ns by which a step would be shorter if the operations of all of these took at most the median of their
    peers; null without such ranks."""


def analyze(facts: Mapping[int, RankFacts], world_size: int | None = None) -> Stragglers | Message:
    """Replay the ranks together.

    Args:
        facts: By rank.
        world_size: Number of ranks of the run, if it is known.

    Returns:
        The slowdown, or why it is unknown.
    """
    run = prepare(facts, world_size)
    return _result(run) if isinstance(run, JointRun) else run


def _result(run: JointRun) -> Stragglers:
    times, ranks, steps = run.times, run.ranks, run.steps
    step = float(times[0])
    slowdown = np.divide(step, times, out=np.ones_like(times), where=times > 0).tolist()
    alone = slowdown[2 : 2 + len(ranks)]
    worst = max(range(len(ranks)), key=lambda place: (alone[place], -place))
    late = step - float(times[2 + worst])
    is_late = late >= WORTH_NAMING * step > 0
    together, without = _together(run) if is_late else ((), step)
    return Stragglers(
        slowdown=slowdown[1],
        late_rank=ranks[worst] if is_late else None,
        late_ns_per_step=late / steps if is_late else None,
        by_rank=tuple(map(RankSlowdown, ranks, alone)),
        by_kind=tuple(map(KindSlowdown, KINDS, (*slowdown[-6:-2], slowdown[-1]))),
        step_ns=step / steps,
        steps=steps,
        error_share=run.error_share,
        late_ranks=together,
        late_ranks_ns_per_step=(step - without) / steps if is_late else None,
    )


def _together(run: JointRun) -> tuple[tuple[int, ...], float]:
    """The late ranks, and the time in ns in which the steps end without their delays.

    Of two ranks that are late at different times each seems to cost little alone, because the step then waits for the
    other one.
    """
    alone = run.of_rank(run.times)
    order = sorted(range(len(run.ranks)), key=lambda place: (alone[place], place))
    least = _ADDS * float(run.times[0] - run.times[1])
    chosen = [run.ranks[order[0]]]
    without = float(alone[order[0]])
    for place in order[1 : max(1, int(_MOST_LATE * len(run.ranks)))]:
        shorter = float(run.at_median([*chosen, run.ranks[place]], exactly=False)[1])
        if without - shorter < least:
            break
        chosen.append(run.ranks[place])
        without = shorter
    return tuple(sorted(chosen)), without
