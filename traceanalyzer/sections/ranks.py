"""How do the ranks of a run compare: which are late, which wait, and how far apart are their clocks?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from traceanalyzer.analyzers.ranks import ranges
from traceanalyzer.analyzers.ranks.model import RankRow, Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections import rank_slowdown
from traceanalyzer.sections.rank_slowdown import RANK

_Columns = Sequence[tuple[SectionColumn, str]]
"""Columns and the fields that they show."""

TITLE = Text("ranks-title", "Ranks")
_STEP = Text("ranks-step", "A step takes {mean:ns}, mean over {ranks:count} ranks.")
_ONE = Text("ranks-one", "A step takes {mean:ns}. This is one rank only.")
_WAITING = Text(
    "ranks-waiting",
    "In matched collectives, a rank waits {wait:ns} per step for the others ({exposed:ns} of it while nothing else "
    "runs), and {transfer:ns} are transfer.",
)
_WAITING_ON_HOST = Text(
    "ranks-waiting-on-host",
    "In matched collectives, a rank waits {wait:ns} per step for the others, and {transfer:ns} are transfer. They "
    "run on the CPU, so it is unknown what else runs meanwhile.",
)
_UNEVEN = Text(
    "ranks-uneven",
    "Without waiting, rank {rank} would take longest: {share:share} longer than the mean.",
)
_MATCHED = Text(
    "ranks-matched",
    "{matched:count} of {recorded:count} collectives were matched: {numbered:count} by sequence number, "
    "{ordered:count} by order.",
    one="{matched:count} of {recorded:count} collectives was matched: {numbered:count} by sequence number, "
    "{ordered:count} by order.",
)
_NOT_MUTUAL = Text(
    "ranks-not-mutual",
    "{count:count} are messages between two ranks, from or to a single rank, or of unequal parts without a common "
    "clock: they do not show waiting.",
    one="{count:count} is a message between two ranks, from or to a single rank, or of unequal parts without a "
    "common clock: it does not show waiting.",
)
_CONTRADICTED = Text(
    "ranks-contradicted",
    "{count:count} apparent matches do not overlap in time and were left out.",
    one="{count:count} apparent match does not overlap in time and was left out.",
)
_HERE = Text("ranks-here", "Ranks in this report")
_WORLD = Text("ranks-world", "Ranks of the run")
_MISSING = Text("ranks-missing", "Missing ranks")
_SPREAD = Text("ranks-clock-spread", "Clocks differ by", "largest difference between two hosts' clocks")

_STEP_TIME = SectionColumn(Text("ranks-step-time", "Step"), "ns")
_WAIT = SectionColumn(Text("ranks-wait", "Waiting", "for other ranks, while nothing else runs"), "ns")
_FILE = SectionColumn(Text("ranks-file", "File"), "", is_name=True)
_RANK_COLUMNS = (
    (RANK, "rank"),
    (_STEP_TIME, "mean_step_ns"),
    (
        SectionColumn(Text("ranks-own", "Without waiting", "step without exposed waiting for other ranks"), "ns"),
        "own_ns",
    ),
    (_WAIT, "exposed_wait_ns"),
    (SectionColumn(Text("ranks-last", "Came last", "number of collectives"), "count"), "last"),
)
_ALL = Text("ranks-all-title", "Every rank")
_ALL_COLUMNS = (
    (RANK, "rank"),
    (SectionColumn(Text("ranks-steps", "Steps"), "count"), "steps"),
    (_STEP_TIME, "mean_step_ns"),
    (SectionColumn(Text("ranks-step-median", "Median"), "ns"), "median_step_ns"),
    (SectionColumn(Text("ranks-computation", "Computation"), "ns"), "computation_ns"),
    (SectionColumn(Text("ranks-communication", "Communication"), "ns"), "communication_ns"),
    (SectionColumn(Text("ranks-exposed", "Exposed", "communication while no other kernel runs"), "ns"), "exposed_ns"),
    (_WAIT, "exposed_wait_ns"),
    (SectionColumn(Text("ranks-hidden-too", "All waiting", "exposed or not"), "ns"), "wait_ns"),
    (SectionColumn(Text("ranks-rank-transfer", "Transfer"), "ns"), "transfer_ns"),
    (SectionColumn(Text("ranks-loader", "Waiting for input"), "ns"), "loader_ns"),
    (SectionColumn(Text("ranks-idle", "Idle GPU"), "ns"), "idle_ns"),
    (SectionColumn(Text("ranks-in-common", "Collectives", "that other ranks have, too"), "count"), "matched"),
    (_FILE, "file"),
)

_LATE = Text("ranks-late-title", "Late ranks")
_CAUSED = SectionColumn(Text("ranks-caused", "Waiting caused", "mean over ranks and steps"), "ns")
_IN_STEPS = SectionColumn(Text("ranks-in-steps", "Steps", "number of steps in which it is the main cause"), "count")
_REASON = SectionColumn(Text("ranks-reason", "Takes longer in", "than the median of the others: computation, ..."), "")
_EXCESS = SectionColumn(Text("ranks-excess", "Longer by", "how much longer"), "ns")
_PARTS = {
    "computation": Text("ranks-part-computation", "computation"),
    "loader": Text("ranks-part-loader", "waiting for input"),
    "idle": Text("ranks-part-idle", "idle GPU"),
}

_GROUPS = Text("ranks-groups-title", "Collectives of several ranks")
_GROUP_COLUMNS = (
    (SectionColumn(Text("ranks-operation", "Collective"), ""), "operation"),
    (SectionColumn(Text("ranks-group", "Process group"), "", is_name=True), "process_group"),
    (SectionColumn(Text("ranks-group-size", "Ranks"), "count"), "group_size"),
    (SectionColumn(Text("ranks-group-here", "Ranks here", "ranks of the group in this report"), "count"), "ranks"),
    (SectionColumn(Text("ranks-message", "Message"), "bytes"), "message_bytes"),
    (SectionColumn(Text("ranks-collectives", "Collectives"), "count"), "collectives"),
    (SectionColumn(Text("ranks-group-wait", "Waiting", "mean over collectives and ranks"), "ns"), "wait_ns"),
    (SectionColumn(Text("ranks-transfer", "Transfer", "mean of the shortest durations"), "ns"), "transfer_ns"),
    (SectionColumn(Text("ranks-algorithm", "Algorithm GB/s"), "number"), "algorithm_gb_per_s"),
    (SectionColumn(Text("ranks-bus", "Bus GB/s"), "number"), "bus_gb_per_s"),
)
_STEPS = Text("ranks-steps-title", "Steps of all ranks")
_STEP_COLUMNS = (
    (SectionColumn(Text("ranks-step-name", "Step"), ""), "name"),
    (SectionColumn(Text("ranks-step-ranks", "Ranks"), "count"), "ranks"),
    (SectionColumn(Text("ranks-step-mean", "Mean"), "ns"), "mean_ns"),
    (SectionColumn(Text("ranks-step-min", "Min"), "ns"), "min_ns"),
    (SectionColumn(Text("ranks-step-max", "Max"), "ns"), "max_ns"),
    (SectionColumn(Text("ranks-step-longest", "Longest rank"), ""), "longest"),
    (SectionColumn(Text("ranks-step-wait", "Waiting"), "ns"), "wait_ns"),
    (SectionColumn(Text("ranks-step-late", "Waits for rank"), ""), "waited_for"),
)
_CLOCKS = Text("ranks-clocks-title", "Clocks")
_CLOCKS_MEAN = Text(
    "ranks-clocks-mean",
    "A collective ends on all ranks at nearly the same time. The difference between two clocks is the median "
    "difference of these ends, with a 95 % interval. Waiting is measured by durations and does not depend on clocks, "
    "except where parts may be unequal: there the clocks show which rank came last.",
)
_AHEAD = SectionColumn(Text("ranks-clock-ahead", "Ahead by", "its clock shows a later time"), "ns")
_LOW = SectionColumn(Text("ranks-clock-low", "At least"), "ns")
_HIGH = SectionColumn(Text("ranks-clock-high", "At most"), "ns")
_REFERENCE = SectionColumn(Text("ranks-clock-reference", "Relative to rank", "whose clock it is compared with"), "")
_COMPARED = SectionColumn(Text("ranks-clock-collectives", "Collectives"), "count")
_TERMS = (
    Term(
        Text("define-waiting", "Waiting, Transfer"),
        Text(
            "define-waiting-say",
            "In a collective that needs all ranks, the last rank to arrive has the shortest duration, which "
            "is the transfer. The longer durations of the other ranks include waiting for it. Exposed is the "
            "part in which no other kernel runs.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build tables of ranks, late ranks, collectives by group, steps and clocks."""
    found = report.result("ranks", Ranks)
    if found is None:
        return
    yield Section(
        "ranks",
        TITLE,
        messages=tuple(_messages(found)),
        facts=tuple(_facts(found)),
        tables=(_ranks(found, top),),
        topic=Topic.RANKS,
        terms=_TERMS,
    )
    if found.stragglers:
        yield Section("ranks-late", _LATE, tables=(_late(found, top),), topic=Topic.RANKS)
    slowdown = report.result("stragglers", Stragglers)
    if slowdown is not None:
        yield rank_slowdown.section(slowdown, top)
    yield _detail("ranks-all", _ALL, _ALL_COLUMNS, found.ranks, top)
    if found.groups:
        yield _detail("ranks-groups", _GROUPS, _GROUP_COLUMNS, found.groups, top)
    if found.steps:
        yield _detail("ranks-steps", _STEPS, _STEP_COLUMNS, found.steps, top)
    skewed = [row for row in found.ranks if row.skew is not None]
    if skewed:
        yield Section(
            "ranks-clocks",
            _CLOCKS,
            messages=(_CLOCKS_MEAN(),),
            tables=(_clocks(skewed, top),),
            topic=Topic.RANKS,
            is_detail=True,
        )


def _messages(found: Ranks) -> Iterator[Message]:
    if len(found.ranks) > 1:
        yield _STEP(mean=found.mean_step_ns, ranks=len(found.ranks))
    else:
        yield _ONE(mean=found.mean_step_ns)
    if found.wait_ns is not None:
        waiting = _WAITING_ON_HOST if found.exposed_wait_ns is None else _WAITING
        yield waiting(wait=found.wait_ns, exposed=found.exposed_wait_ns, transfer=found.transfer_ns)
    if found.imbalance is not None and found.wait_ns is not None:
        yield _UNEVEN(rank=_by_own(found)[0].rank, share=found.imbalance)
    matching = found.matching
    if matching.recorded and len(found.ranks) > 1:
        yield _MATCHED(
            matched=matching.matched,
            recorded=matching.recorded,
            numbered=matching.by_sequence,
            ordered=matching.matched - matching.by_sequence,
        )
        if matching.not_mutual:
            yield _NOT_MUTUAL(count=matching.not_mutual)
        if matching.contradicted:
            yield _CONTRADICTED(count=matching.contradicted)


def _facts(found: Ranks) -> Iterator[Fact]:
    yield Fact(_HERE, len(found.ranks), "count")
    if found.world_size is not None:
        yield Fact(_WORLD, found.world_size, "count")
    if found.missing:
        yield Fact(_MISSING, ranges(found.missing), "")
    skews = [row.skew.ns for row in found.ranks if row.skew is not None]
    if skews:
        yield Fact(_SPREAD, max(0, *skews) - min(0, *skews), "ns")


def _by_own(found: Ranks) -> list[RankRow]:
    """Rows of the ranks, the one that would take longest without waiting first."""
    return sorted(found.ranks, key=lambda row: (-(row.own_ns or row.mean_step_ns or 0.0), row.rank))


def _ranks(found: Ranks, top: int) -> SectionTable:
    """Table of the ranks; all waiting is shown if its exposed part is unknown."""
    columns = [(c, "wait_ns" if c is _WAIT and found.exposed_wait_ns is None else field) for c, field in _RANK_COLUMNS]
    return _table("ranks", columns, _by_own(found), top)


def _late(found: Ranks, top: int) -> SectionTable:
    shown = found.stragglers[:top]
    columns: tuple[SectionColumn, ...] = (RANK, _CAUSED, _IN_STEPS)
    rows: list[tuple[Any, ...]] = [(late.rank, late.caused_ns, late.steps) for late in shown]
    if any(late.excess for late in shown):
        columns = (*columns, _REASON, _EXCESS)
        reasons = [
            (word(_PARTS, late.excess[0].part), late.excess[0].ns) if late.excess else ("", None) for late in shown
        ]
        rows = [(*row, *reason) for row, reason in zip(rows, reasons, strict=True)]
    return SectionTable("ranks_late", columns, tuple(rows), len(found.stragglers))


def _clocks(skewed: list[RankRow], top: int) -> SectionTable:
    """Table of clock differences, largest first."""
    ordered = sorted(
        ((abs(row.skew.ns), row.skew, row) for row in skewed if row.skew), key=lambda e: (-e[0], e[2].rank)
    )
    rows = tuple(
        (row.rank, skew.ns, skew.low_ns, skew.high_ns, skew.reference, skew.collectives, row.file)
        for _, skew, row in ordered[:top]
    )
    return SectionTable("ranks_clocks", (RANK, _AHEAD, _LOW, _HIGH, _REFERENCE, _COMPARED, _FILE), rows, len(skewed))


def _detail(key: str, title: Text, columns: _Columns, found: Sequence[Any], top: int) -> Section:
    return Section(
        key, title, tables=(_table(key.replace("-", "_"), columns, found, top),), topic=Topic.RANKS, is_detail=True
    )


def _table(key: str, columns: _Columns, found: Sequence[Any], top: int) -> SectionTable:
    """A table without empty columns."""
    shown = [(column, field) for column, field in columns if any(getattr(row, field) is not None for row in found)]
    rows = tuple(tuple(getattr(row, field) for _, field in shown) for row in found[:top])
    return SectionTable(key, tuple(column for column, _ in shown), rows, len(found))
