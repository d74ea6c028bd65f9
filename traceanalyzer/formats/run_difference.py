"""How two runs of several ranks differ: who is late, how long ranks wait, which collectives take how long."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from traceanalyzer.report import units
from traceanalyzer.report.difference import RunChange
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import Section
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, known, optional, table

_RANKS = Text("diff-ranks-title", "Ranks")
_LATE_BASE = Text(
    "diff-late-base", "Before, the others waited for these ranks: {ranks}; that made a step {late:ns} longer."
)
_LATE_HEAD = Text(
    "diff-late-head", "After, the others wait for these ranks: {ranks}; that makes a step {late:ns} longer."
)
_SUMS_OF_RANKS = (
    (Text("diff-ranks-wait", "Waiting in collectives"), "wait_ns"),
    (Text("diff-ranks-exposed", "Waiting while nothing else runs"), "exposed_wait_ns"),
    (Text("diff-ranks-transfer", "Transfer"), "transfer_ns"),
)
_SUM_COLUMNS = (
    Column(Text("diff-per-rank", "Per step and rank"), "", itemgetter(0)),
    columns.BASE.of(itemgetter(1)),
    columns.HEAD.of(itemgetter(2)),
    columns.CHANGE.of(lambda row: None if None in row else row[2] - row[1]),
)
_COLLECTIVE_COLUMNS = optional(
    known,
    columns.COLLECTIVE,
    columns.RANKS,
    columns.MESSAGE_SIZE,
    Column(Text("diff-collectives-base", "Number before"), "number", "base_count"),
    Column(Text("diff-collectives-head", "Number after"), "number", "head_count"),
    Column(Text("diff-wait-base", "Waiting before"), "ns", "base_wait_ns"),
    Column(Text("diff-wait-head", "Waiting after"), "ns", "head_wait_ns"),
    Column(Text("diff-transfer-base", "Transfer before"), "ns", "base_transfer_ns"),
    Column(Text("diff-transfer-head", "Transfer after"), "ns", "head_transfer_ns"),
)


def late_ranks(run: RunChange | None) -> Iterator[Message]:
    """For which ranks the others wait, before and after; nothing without several ranks."""
    for text, side in ((_LATE_BASE, run.base), (_LATE_HEAD, run.head)) if run is not None else ():
        if side.late_ranks:
            yield text(ranks=units.ranges((rank, rank) for rank in side.late_ranks), late=side.late_ns)


def build(run: RunChange | None, top: int) -> Iterator[Section]:
    """Late ranks, waiting and transfer, and the collectives that changed most; nothing without several ranks."""
    if run is None:
        return
    said = tuple(late_ranks(run))
    sums = [
        (title(), getattr(run.base, name), getattr(run.head, name))
        for title, name in _SUMS_OF_RANKS
        if getattr(run.base, name) is not None or getattr(run.head, name) is not None
    ]
    tables = [table("diff_ranks", _SUM_COLUMNS, sums)] if sums else []
    if run.collectives:
        tables.append(table("diff_collectives", _COLLECTIVE_COLUMNS, run.collectives, top))
    if said or tables:
        yield Section("ranks", _RANKS, messages=said, tables=tuple(tables))
