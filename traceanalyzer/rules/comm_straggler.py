"""One rank is repeatedly late, and all others wait for it in their collectives.

What it detects:
    The traces of several ranks are compared. The same collective is found on each rank by process group and sequence
    number, or else by order. The rank with the shortest duration came last; the extra time of the others is waiting for
    it. The rule names a rank that causes most of the exposed waiting in most of the steps.

Why it matters:
    Synchronous training is only as fast as its slowest rank: time that one rank loses is lost on all of them.

What to do:
    Look at what takes longer on this rank than on the others. Computation: more or longer samples (balance batches by
    tokens, `drop_last=True`), a GPU that is throttled or shared. Waiting for input: its storage or loader workers. An
    idle GPU: a busy host, garbage collection, checkpoints or logging on this rank only.

How the saving is estimated:
    All ranks are replayed together (`analyses.stragglers`). At most the time by which a step would be shorter if the
    work of this rank took no longer than the median of its peers. If the ranks cannot be replayed, at most the exposed
    waiting for this rank, as a mean over the other ranks, because a step takes equally long on all ranks. At least the
    part by which this rank came later than the second latest one, for which the others would wait then. The interval is
    widened by the standard error of the waiting, which differs from step to step. For collectives on the CPU (gloo),
    the ends are the waiting in the step with the least and in the step with the most, without a tenth of the steps at
    either end.

When it is wrong:
    Clocks differ between hosts, so durations are compared, not start times. Only for an all-to-all with possibly
    unequal parts are start times used as well, after aligning the clocks by the ends of collectives. Messages between
    two ranks and broadcasts do not wait for all ranks and do not count. A larger last batch on one rank shows in one
    step only. With two ranks and few steps, one of them may be later in every step by chance. If traces of ranks are
    missing, one of those may be the rank that is really late.

References:
    https://docs.pytorch.org/docs/stable/notes/ddp.html
    https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.ranks.model import Caused, Excess, Ranks, Straggler
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _late_rank
from traceanalyzer.rules._late_rank import LateRank
from traceanalyzer.rules.engine.change import Interval, TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.rule import Draft, Rule, Threshold
from traceanalyzer.simulation import variation

_EXPLAINS = 0.1
"""Least part of the waiting for which a finding names what takes longer on the late rank (own choice: less is
chance)."""

_SUBJECT = Text("comm-straggler-subject", "exposed waiting for one rank, mean over the ranks, share of the step")
_STEPS = Text("comm-straggler-steps", "steps in which this rank causes more waiting than any other, share")
_BASIS = Text(
    "comm-straggler-basis",
    "at most all exposed waiting of another rank for this one; at least the time by which it is later than the next "
    "rank",
)
_TWO_LATE = Text(
    "comm-straggler-basis-two",
    "at most all exposed waiting of another rank for this one; at least nothing, because another rank is equally late",
)
_REPLAYED = Text(
    "comm-straggler-basis-replayed",
    "at most what a step would be shorter by if the work of this rank took no longer than the median of its peers; at "
    "least the time by which it is later than the next rank",
)
_REPLAYED_TWO = Text(
    "comm-straggler-basis-replayed-two",
    "at most what a step would be shorter by if the work of this rank took no longer than the median of its peers; at "
    "least nothing, because another rank is equally late",
)
_ON_HOST_BASIS = Text(
    "comm-straggler-basis-host",
    "the waiting of another rank for this one in the step with least and in that with most of it, outliers aside, "
    "because ranks that share cores differ from step to step",
)
_ONE_RANK = Text(
    "comm-straggler-one-rank",
    "the trace of one rank does not show which rank is late: compare all ranks (traceanalyzer ranks)",
)
_NOTHING_MATCHED = Text(
    "comm-straggler-nothing-matched", "no collective was found on several ranks, so waiting is unknown"
)
_ON_HOST = Text(
    "comm-straggler-on-host",
    "the collectives run on the CPU, and a saved report of an older version does not tell what else ran meanwhile",
)
_FEW_STEPS = Text("comm-straggler-few-steps", "too few steps to distinguish a late rank from chance")
_NO_TABLE = Text("comm-straggler-no-table", "a printed table covers only one rank")
_COMPUTES = Text(
    "comm-straggler-computes",
    "On average each other rank waits {wait:ns} per step ({share:share}) for rank {rank}, in {steps:count} of "
    "{counted:count} steps. It computes {excess:ns} longer than the median of the other ranks.",
)
_LOADS = Text(
    "comm-straggler-loads",
    "On average each other rank waits {wait:ns} per step ({share:share}) for rank {rank}, in {steps:count} of "
    "{counted:count} steps. It waits for its input {excess:ns} longer than the median of the other ranks.",
)
_IDLES = Text(
    "comm-straggler-idles",
    "On average each other rank waits {wait:ns} per step ({share:share}) for rank {rank}, in {steps:count} of "
    "{counted:count} steps. Its GPU idles {excess:ns} longer than the median of the other ranks.",
)
_SUMMARIES = {"computation": _COMPUTES, "loader": _LOADS, "idle": _IDLES}
_LONGER = Text(
    "comm-straggler-longer",
    "The others wait for rank {rank}: it makes a step {wait:ns} ({share:share}) longer, and causes most of the waiting "
    "in {steps:count} of {counted:count} steps.",
)
_LONGER_COMPUTES = Text(
    "comm-straggler-longer-computes",
    "The others wait for rank {rank}: it makes a step {wait:ns} ({share:share}) longer, and causes most of the waiting "
    "in {steps:count} of {counted:count} steps. It computes {excess:ns} longer than the median of the other ranks.",
)
_LONGER_LOADS = Text(
    "comm-straggler-longer-loads",
    "The others wait for rank {rank}: it makes a step {wait:ns} ({share:share}) longer, and causes most of the waiting "
    "in {steps:count} of {counted:count} steps. It waits for its input {excess:ns} longer than the median of the other "
    "ranks.",
)
_LONGER_IDLES = Text(
    "comm-straggler-longer-idles",
    "The others wait for rank {rank}: it makes a step {wait:ns} ({share:share}) longer, and causes most of the waiting "
    "in {steps:count} of {counted:count} steps. Its GPU idles {excess:ns} longer than the median of the other ranks.",
)
_REPLAYED_SUMMARIES = {"computation": _LONGER_COMPUTES, "loader": _LONGER_LOADS, "idle": _LONGER_IDLES}


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = _comparison(facts)
    if found.counted_steps < limits["steps"]:
        raise Missing(_FEW_STEPS())
    if not found.mean_step_ns:
        return
    late = _late_rank.find(facts, found)
    if late is None:
        return
    row = late.row
    share, in_steps = row.caused_ns / found.mean_step_ns, row.steps / found.counted_steps
    if share < limits["wait_share"] or in_steps < limits["step_share"] or row.share < limits["of_waiting"]:
        return
    if found.is_on_host and not _is_steady(late, found, limits):
        return
    evidence = (
        Evidence(_SUBJECT(), share, limits["wait_share"], "share", _places(row)),
        Evidence(_STEPS(), in_steps, limits["step_share"], "share", _collectives(row)),
    )
    reason = next((part for part in row.excess if part.ns >= _EXPLAINS * late.wait_ns), None)
    params = {
        "rank": row.rank,
        "wait": late.wait_ns,
        "share": late.wait_ns / found.mean_step_ns,
        "steps": row.steps,
        "counted": found.counted_steps,
        "excess": reason.ns if reason else None,
    }
    yield Draft(evidence, _change(late, found), params, summary=_summary(late, reason))


def _summary(late: LateRank, reason: Excess | None) -> Text | None:
    """Sentence on the card of the finding; None: the rule's own sentence."""
    if late.is_replayed:
        return _REPLAYED_SUMMARIES[reason.part] if reason else _LONGER
    return _SUMMARIES[reason.part] if reason else None


def _comparison(facts: Facts) -> Ranks:
    found = facts.find("ranks", Ranks)
    if found is None or len(found.ranks) < 2:
        raise Missing(_ONE_RANK())
    if not found.matching.matched:
        raise Missing(_NOTHING_MATCHED())
    if found.exposed_wait_ns is None:
        raise Missing(_ON_HOST())
    return found


def _change(late: LateRank, found: Ranks) -> TimeSaved:
    """A step of the run is as long on the late rank, which does not wait, as on those that wait."""
    interval = late.gap_ns, late.wait_ns
    if found.is_on_host:
        times = _late_rank.usual_waits(late, found)
        saved = min(times[0], late.gap_ns), times[-1]
        return TimeSaved("host", saved, _ON_HOST_BASIS(), claims={"communication:waiting": saved[1]})
    interval = _varied(interval, _late_rank.wait_by_step(late, found))
    one, two = (_REPLAYED, _REPLAYED_TWO) if late.is_replayed else (_BASIS, _TWO_LATE)
    basis = one() if late.gap_ns > 0 else two()
    return TimeSaved("communication", interval, basis, interval, {"communication:waiting": late.wait_ns})


def _varied(interval: Interval, times: Sequence[float]) -> Interval:
    """An interval with the standard error of the waiting, which differs from step to step."""
    middle = sum(interval) / 2
    low, high = variation.combined(interval, middle, variation.COVERS * variation.of_mean(times) * middle)
    return max(0.0, low), high


def _is_steady(late: LateRank, found: Ranks, limits: Mapping[str, float]) -> bool:
    """Whether the rank is about equally late in all usual steps, and there are enough of them."""
    least = min(_late_rank.usual_waits(late, found)[0], late.gap_ns)
    return found.counted_steps >= limits["host_steps"] and least >= limits["host_least"] * late.wait_ns


def _places(late: Straggler) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("step", step.name, value=step.ns, unit="ns") for step in late.worst_steps)


def _collectives(late: Straggler) -> tuple[CodePlace, ...]:
    return tuple(CodePlace("kernel", _name(row), value=row.ns, unit="ns") for row in late.worst_collectives)


def _name(row: Caused) -> str:
    return row.name if row.process_group is None else f"{row.name} ({row.process_group})"


RULE = Rule(
    id="comm-straggler",
    title=Text("comm-straggler-title", "One rank is late, and the others wait for it"),
    summary=Text(
        "comm-straggler-summary",
        "On average each other rank waits {wait:ns} per step ({share:share}) for rank {rank}, in {steps:count} of "
        "{counted:count} steps.",
    ),
    advice=Text(
        "comm-straggler-advice",
        "Compare the report of rank {rank} with that of another rank. If it computes longer, give it as much work as "
        "the others (samples of like length, drop_last=True) and check its GPU for throttling or a second user. If it "
        "waits for input, look at its storage and workers; if its GPU idles, at what only this rank's host does: "
        "checkpoints, logging, validation.",
    ),
    not_when=Text(
        "comm-straggler-not-when",
        "Rank {rank} has more to do by design, such as the first or last stage of a pipeline: then move work to other "
        "ranks.",
    ),
    severity="low to critical",
    confidence="A",
    tags=("communication", "training"),
    since="0.1",
    thresholds=(
        Threshold(
            "wait_share",
            0.03,
            "share",
            "exposed waiting for the rank over the step, mean over the ranks",
            "own choice, because a step varies by 1 to 2 % from run to run",
        ),
        Threshold(
            "step_share",
            0.75,
            "share",
            "steps in which the rank causes more waiting than any other",
            "own choice: an uneven last batch, or a checkpoint, shows in few steps",
        ),
        Threshold(
            "of_waiting",
            0.5,
            "share",
            "of all exposed waiting, that the rank causes",
            "own choice: below, others cause most of it, and there is no one rank to look at",
        ),
        Threshold(
            "steps",
            3,
            "count",
            "steps with matched collectives",
            "own choice: of fewer steps, one rank is the later one in all of them by chance",
        ),
        Threshold(
            "host_steps",
            5,
            "count",
            "steps with matched collectives, where collectives run on the CPU",
            "own choice: of two ranks that share cores, one is late in all of three steps once in four runs",
        ),
        Threshold(
            "host_least",
            0.5,
            "share",
            "waiting for the rank in the step with least of it, outliers aside, over the mean, where collectives run "
            "on the CPU",
            "own choice: ranks that share cores take turns in being late, by times that vary far more",
        ),
    ),
    code=None,
    links=(
        "https://docs.pytorch.org/docs/stable/notes/ddp.html",
        "https://docs.pytorch.org/docs/stable/distributed.algorithms.join.html",
    ),
    trace=_trace,
    no_table=_NO_TABLE(),
)
