"""The ranks of a run, ready to be replayed together; or why they cannot be.

A replay of the run as recorded must be the run: above 5 % of error nothing is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.analyzers.ranks import joint_program, joint_replay, meetings, typical
from traceanalyzer.analyzers.ranks import table as tables
from traceanalyzer.analyzers.ranks.joint_replay import JointProgram, Shorter
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.message import Message, Text
from traceanalyzer.structure.sums import count_by
from traceanalyzer.trace.table import F64, I64, UNKNOWN

MOST_EVENTS = 200_000
"""Events of all ranks that are replayed, whole steps (own choice: some seconds)."""
_MOST_ERROR = 0.05
"""Above this error the replay is not the run, as of the model of one rank."""

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


@dataclass(frozen=True)
class JointRun:
    """The ranks of a run in the steps that all of them have, and replays of them."""

    ranks: tuple[int, ...]
    """Numbers of the ranks, ascending."""
    steps: int
    """Number of steps that are replayed."""
    recorded_ns: float
    """Duration of these steps together, the mean over the ranks."""
    program: JointProgram
    position: I64
    """The program, as `joint_program.build` returns it."""
    times: F64
    """The result of `joint_replay.replay` if no operation takes longer than the median of its peers."""

    @property
    def error_share(self) -> float:
        """Difference of the replay and the recorded run as a share of the recorded run; 0 or more."""
        return abs(float(self.times[0]) - self.recorded_ns) / self.recorded_ns if self.recorded_ns else 0.0

    def of_rank(self, times: F64) -> F64:
        """The replays in which only one rank changes, in the order of the ranks."""
        found: F64 = times[2 : 2 + len(self.ranks)]
        return found

    def at_median(self, ranks: Collection[int], *, exactly: bool) -> F64:
        """Replay with some ranks like their peers: each of their operations takes the median of those of all ranks.

        Args:
            ranks: Numbers of these ranks.
            exactly: Whether operations that are faster than the median get longer, too.

        Returns:
            Times in ns, as of `joint_replay.replay`: the second one with all these ranks changed.
        """
        changed = joint_program.shorter(self.program, self.position, exactly=exactly)
        own = np.isin(self.program.member, [self.ranks.index(rank) for rank in ranks])
        changed = Shorter(np.where(own[:, None], changed.work_ns, 0.0), np.where(own, changed.transfer_ns, 0.0))
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
    table = tables.build(own)
    found = meetings.find(table)
    if not found.count:
        return _NOTHING()
    if meetings.has_few(table, world_size):
        return _FEW()
    program, position = joint_program.build(own, found)
    times = joint_replay.replay(program, joint_program.shorter(program, position))
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
    return [typical.only(facts, frozenset(names[:kept])) for facts in every]


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
