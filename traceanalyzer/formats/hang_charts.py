"""The chart of a run that stands still: how far each rank came in each of its groups, and where they part."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.hangs import FlightGroup, Hangs
from traceanalyzer.formats.charts import LaneBox, Lanes, Series
from traceanalyzer.formats.language import Language
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean

_TITLE = Text("figure-hang", "The last collective of each rank in its groups")
_SAY_CALLED = Text(
    "figure-hang-called",
    "A row for each rank, a column for each group, and the number of the last collective that the rank called. In "
    "{group} all came to {least}, the first to {most}.",
    "group is a name; least and most are numbers of collectives",
)
_SAY_FINISHED = Text(
    "figure-hang-finished",
    "A row for each rank, a column for each group, and the number of the last collective that its device finished. In "
    "{group} all finished {least}, the first {most}.",
    "group is a name; least and most are numbers of collectives",
)
_SAY_LEVEL = Text(
    "figure-hang-level",
    "A row for each rank, a column for each group, and the number of the last collective that the rank called: in each "
    "group the same.",
)
_MORE = Text(
    "figure-hang-more",
    "{count:count} more ranks are not drawn.",
    one="{count:count} more rank is not drawn.",
)
_RANK = Text("figure-hang-rank", "Rank {rank}", "rank is a number; name of a row")
_HELD = Text("figure-hang-behind", "Behind the others")
_DIFFERS = Text("figure-hang-differs", "Differs from the others")
_WAITS = Text("figure-hang-waits", "Waits")
_DONE = Text("figure-hang-done", "Has finished")
_COLORS = (("dataloader", _HELD), ("communication", _DIFFERS), ("runtime", _WAITS), ("kernel", _DONE))
_BY_END = ("stopped", "unfinished")
"""Verdicts in which ranks part in what their devices finished, and not in what they called."""
_DIFFERENT = ("mismatch", "not-begun", "timeout")
"""Verdicts in which all came equally far."""
_MOST_RANKS, _MOST_KINDS = 32, 4
"""Most rows and columns (own choice: what a screen and a phone show)."""


def of_report(report: Report, language: Language) -> Iterator[Lanes]:
    """The chart of a report of dumps or logs whose groups are known."""
    found = report.result("hangs", Hangs)
    if found is None or not found.groups or len(found.per_rank) < 2:
        return
    kinds: dict[str, list[FlightGroup]] = {}
    for group in found.groups:  # those first whose members differ
        kinds.setdefault(group.description or group.group, []).append(group)
    names = list(kinds)[:_MOST_KINDS]
    ranks = _shown(found)
    boxes = [
        box
        for row, rank in enumerate(ranks)
        for column, name in enumerate(names)
        for box in _boxes(kinds[name], rank, row, column, found)
    ]
    roles = {box.role for box in boxes}
    yield Lanes(
        "chart-hang",
        language.text(_TITLE),
        _description(found, len(found.per_rank) - len(ranks), language),
        tuple(language.text(_RANK, rank=str(rank)) for rank in ranks),
        float(len(names)),
        tuple(map(clean, names)),
        tuple(boxes),
        tuple(Series(language.text(text), role, ()) for role, text in _COLORS if role in roles),
    )


def _description(found: Hangs, more: int, language: Language) -> str:
    place = _place(found)
    first = next((group for group in found.groups if group.group == place), found.groups[0])
    least, most = first.least_enqueued, first.most_enqueued
    if found.verdict in _BY_END:
        least, most = first.least_completed, first.most_completed
    if least is None or least == most:
        said = language.text(_SAY_LEVEL)
    else:
        name = clean(f"{first.description} ({first.group})" if first.description else first.group)
        text = _SAY_FINISHED if found.verdict in _BY_END else _SAY_CALLED
        said = language.text(text, group=name, least=str(least), most=str(most))
    return f"{said} {language.text(_MORE, count=more)}" if more else said


def _place(found: Hangs) -> str | None:
    """The group in which ranks part."""
    if found.disagreements:
        return found.disagreements[0].called.group
    return found.decisive.called.group if found.decisive is not None else None


def _shown(found: Hangs) -> list[int]:
    """The ranks that have a row: all, or those that hold up the others, those without a dump, and the first ones."""
    if len(found.per_rank) <= _MOST_RANKS:
        return [row.rank for row in found.per_rank]
    special = {*found.ranks, *found.never_came, *found.stopped}
    ordered = sorted(found.per_rank, key=lambda row: (row.rank not in special, row.role in ("waits", "done"), row.rank))
    return sorted(row.rank for row in ordered[:_MOST_RANKS])


def _boxes(groups: list[FlightGroup], rank: int, row: int, column: int, found: Hangs) -> Iterator[LaneBox]:
    """The box of a rank in the first group of a kind that it belongs to; none without a dump."""
    for group in groups:
        at = group.dumped.index(rank) if rank in group.dumped else None
        if at is None or group.enqueued[at] is None:
            continue
        number = group.completed[at] if found.verdict in _BY_END else group.enqueued[at]
        role = _role(group, at, found)
        yield LaneBox(row, 0.08, 0.92, column + 0.02, column + 0.98, role, text="" if number is None else str(number))
        return


def _role(group: FlightGroup, at: int, found: Hangs) -> str:
    """The color of the rank at a place of a group, by what holds it or the others up there."""
    if group.dumped[at] in found.ranks and found.verdict in _DIFFERENT and group.group == _place(found):
        return "communication"
    called, done = group.enqueued[at], group.completed[at]
    number, most = (done, group.most_completed) if found.verdict in _BY_END else (called, group.most_enqueued)
    if number is not None and most is not None and number < most:
        return "dataloader"
    is_done = called is not None and done is not None and done >= called
    return "kernel" if is_done else "runtime"
