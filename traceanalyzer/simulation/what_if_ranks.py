"""What would a step of a run take if some of its ranks were like the others?

All ranks are replayed together. What a rank does by itself, and its transfers, take at most the median of what all
ranks take at this place of the step: the point estimate, and the number that a report of ranks shows for a late rank.
At the other end of the interval they take exactly the median, so that the rank loses what it was faster at. Both ends
are wider by the error of the replay, and by how much steps differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer._version import __version__
from traceanalyzer.analyzers.ranks import stragglers
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.analyzers.ranks.stragglers import JointRun
from traceanalyzer.errors import UsageError
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Generator, ReportSource
from traceanalyzer.simulation import variation
from traceanalyzer.simulation.replay_error import Replay
from traceanalyzer.simulation.what_if import SCHEMA_VERSION, AppliedChange, PredictedNs, WhatHelps, WhatIf, without


def ask(
    facts: Mapping[int, RankFacts], source: ReportSource, world_size: int | None = None, asked: Sequence[int] = ()
) -> WhatIf:
    """How much shorter a step is if some ranks are like the others; without any, what each would do alone.

    Args:
        facts: By rank.
        source: The files of the run.
        world_size: Number of ranks of the run, if it is known.
        asked: Numbers of the ranks that are to be like the others.

    Raises:
        UsageError: The ranks cannot be replayed together, or one that is asked about is not among them.
    """
    run = stragglers.prepare(facts, world_size)
    if isinstance(run, Message):
        raise UsageError(f"{source.name}: the ranks cannot be replayed together: {run.text}")
    wanted = sorted(set(asked))
    for rank in wanted:
        if rank not in run.ranks:
            raise UsageError(f"--rank {rank}: no trace of this rank; there are those of {_listed(run.ranks)}")
    step = run.recorded_ns / run.steps
    saving = _saving(run, wanted) if wanted else (0.0, 0.0, 0.0)
    return WhatIf(
        schema_version=SCHEMA_VERSION,
        generator=Generator("traceanalyzer", __version__),
        source=source,
        step_ns=step,
        predicted_ns=without(step, saving),
        saving_ns=saving,
        edits=tuple(AppliedChange("rank", str(rank), None, "rank", None, None) for rank in wanted),
        replay=_replay(run),
        next_bottleneck=None,
        helps=() if wanted else _helps(run),
    )


def _listed(ranks: Sequence[int]) -> str:
    """Numbers of ranks, ascending; the middle of a long row is left out."""
    is_consecutive = ranks == tuple(range(ranks[0], ranks[-1] + 1))
    if is_consecutive and len(ranks) > 2:
        return f"ranks {ranks[0]} to {ranks[-1]}"
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _saving(run: JointRun, ranks: Sequence[int]) -> tuple[float, float, float]:
    """Low, point and high in ns per step if all of some ranks are like the others."""
    most = float(run.times[0] - run.at_median(ranks, exactly=False)[1])
    least = float(run.times[0] - run.at_median(ranks, exactly=True)[1])
    return _interval(run, most, least)


def _interval(run: JointRun, most: float, least: float) -> tuple[float, float, float]:
    """Low, point and high in ns per step, from time that all steps together save.

    Args:
        run: The run.
        most: What is saved where no operation takes longer than the median.
        least: What is saved where each takes the median.
    """
    error = abs(float(run.times[0]) - run.recorded_ns)
    ends = (min(most, least) - error, most + error)
    low, high = variation.combined(ends, most, variation.USUAL * most)
    return low / run.steps, most / run.steps, min(high, run.recorded_ns) / run.steps


def _replay(run: JointRun) -> Replay:
    """How well the replay of all ranks reproduces their steps."""
    return Replay(
        recorded_ns=run.recorded_ns / run.steps,
        modelled_ns=float(run.times[0]) / run.steps,
        error_share=run.error_share,
        device_start_error_p50_share=None,
        device_start_error_p95_share=None,
        abstained=False,
        dropped_edges=0,
        steps=run.steps,
    )


def _helps(run: JointRun) -> tuple[WhatHelps, ...]:
    """What each rank alone would do, the most first."""
    most = float(run.times[0]) - run.of_rank(run.times)
    least = float(run.times[0]) - run.of_rank(run.at_median(run.ranks, exactly=True))
    rows = []
    for rank, most_ns, least_ns in zip(run.ranks, most.tolist(), least.tolist(), strict=True):
        saving: PredictedNs = _interval(run, most_ns, least_ns)
        rows.append((rank, WhatHelps("rank", f"--rank {rank}", saving, None)))
    rows.sort(key=lambda row: (-(row[1].free_ns[1] or 0.0), row[0]))
    return tuple(row for _, row in rows)
