"""How much longer is a step than if no rank were slower than its peers, and because of which rank and what work?

The definition is that of the straggler study of OSDI 2025 ("Understanding Stragglers in Large Model Training Using
What-if Analysis"): the slowdown is the step over the step in which every operation takes the median of its peers. An
operation is what a rank does of one kind between two meetings, or the transfer of a meeting; its peers are what all
ranks do at this position of the step. Here no operation gets longer, so that the slowdown is never below 1, and of two
ranks the faster one counts, because the middle between them would hide half of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from traceanalyzer.analyzers.ranks import joint_run
from traceanalyzer.analyzers.ranks.joint_program import KINDS
from traceanalyzer.analyzers.ranks.joint_run import JointRun
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.message import Message

WORTH_NAMING = 0.01
"""Share of a step from which on a rank is named as late (own choice: a step varies by as much from run to run)."""


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


def analyze(facts: Mapping[int, RankFacts], world_size: int | None = None) -> Stragglers | Message:
    """Replay the ranks together.

    Args:
        facts: By rank.
        world_size: Number of ranks of the run, if it is known.

    Returns:
        The slowdown, or why it is unknown.
    """
    run = joint_run.prepare(facts, world_size)
    return _result(run) if isinstance(run, JointRun) else run


def _result(run: JointRun) -> Stragglers:
    times, ranks, steps = run.times, run.ranks, run.steps
    step = float(times[0])
    slowdown = np.divide(step, times, out=np.ones_like(times), where=times > 0).tolist()
    alone = slowdown[2 : 2 + len(ranks)]
    worst = max(range(len(ranks)), key=lambda place: (alone[place], -place))
    late = step - float(times[2 + worst])
    is_late = late >= WORTH_NAMING * step > 0
    return Stragglers(
        slowdown=slowdown[1],
        late_rank=ranks[worst] if is_late else None,
        late_ns_per_step=late / steps if is_late else None,
        by_rank=tuple(map(RankSlowdown, ranks, alone)),
        by_kind=tuple(map(KindSlowdown, KINDS, (*slowdown[-6:-2], slowdown[-1]))),
        step_ns=step / steps,
        steps=steps,
        error_share=run.error_share,
    )
