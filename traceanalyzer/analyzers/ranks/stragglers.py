"""How much longer is a step than if no rank were slower than its peers, and because of which rank and what work?

The definition is that of the straggler study of OSDI 2025 ("Understanding Stragglers in Large Model Training Using
What-if Analysis"): the slowdown is the step over the step in which every operation takes the median of its peers. An
operation is what a rank does of one kind between two meetings, or the transfer of a meeting; its peers are what all
ranks do at this position of the step. Here no operation gets longer, so that the slowdown is never below 1, and of two
ranks the faster one counts, because the middle between them would hide half of the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from traceanalyzer.analyzers.rank_facts import RankFacts
from traceanalyzer.analyzers.ranks import joint_program, joint_replay, meetings, typical
from traceanalyzer.analyzers.ranks import table as tables
from traceanalyzer.analyzers.ranks.joint_program import KINDS
from traceanalyzer.analyzers.sums import count_by
from traceanalyzer.report.message import Message, Text
from traceanalyzer.trace.table import F64, UNKNOWN

MOST_EVENTS = 200_000
"""Events of all ranks that are replayed, whole steps (own choice: some seconds)."""
WORTH_NAMING = 0.01
"""Share of a step from which on a rank is named as late (own choice: a step varies by as much from run to run)."""
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
    "the replay of the recorded run is off by {share:share}; at most {most:share} is allowed",
)


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
    ranks = sorted(facts)
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
    steps = len(own[0].steps.name)
    recorded = sum(sum(one.steps.duration_ns) for one in own) / len(own)
    error = abs(float(times[0]) - recorded) / recorded if recorded else 0.0
    if error > _MOST_ERROR:
        return _ERROR(share=error, most=_MOST_ERROR)
    return _result(ranks, times, steps, error)


def _result(ranks: Sequence[int], times: F64, steps: int, error: float) -> Stragglers:
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
        error_share=error,
    )


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
