"""How much do slow ranks slow down the run, by rank and by kind of work?"""

from __future__ import annotations

from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic

RANK = SectionColumn(Text("ranks-rank", "Rank"), "")
"""The column of the number of a rank."""

_SLOWDOWN = Text(
    "ranks-slowdown",
    "Slowdown {slowdown:number}: a step takes {step:ns}; it would take {ideal:ns} if all work and transfers took no "
    "longer than the median of their peers on other ranks.",
)
_SLOWDOWN_LATE = Text(
    "ranks-slowdown-late", "If only the work of rank {rank} took no longer, a step would be {late:ns} shorter."
)
_RATIO = SectionColumn(
    Text("ranks-slowdown-alone", "Slowdown", "step over the step without what is slower than the median of its peers"),
    "number",
)
_TITLE = Text("ranks-slowdown-title", "Slowdown by slow ranks")
_KIND = SectionColumn(Text("ranks-slowdown-kind", "Kind of work"), "")
_KINDS = {
    "host": Text("ranks-kind-host", "host"),
    "loader": Text("ranks-kind-loader", "waiting for input"),
    "compute": Text("ranks-kind-compute", "computation"),
    "memory": Text("ranks-kind-memory", "copies and fills"),
    "communication": Text("ranks-kind-communication", "transfers"),
}


def section(found: Stragglers, top: int) -> Section:
    """What slow ranks cost, by rank and by kind of work, the largest first."""
    messages = [_SLOWDOWN(slowdown=found.slowdown, step=found.step_ns, ideal=found.step_ns / found.slowdown)]
    if found.late_rank is not None:
        messages.append(_SLOWDOWN_LATE(rank=found.late_rank, late=found.late_ns_per_step))
    ranks = sorted(found.by_rank, key=lambda row: (-row.slowdown, row.rank))
    kinds = sorted(found.by_kind, key=lambda row: -row.slowdown)
    return Section(
        "ranks-slowdown",
        _TITLE,
        messages=tuple(messages),
        tables=(
            SectionTable(
                "ranks_slowdown",
                (RANK, _RATIO),
                tuple((row.rank, row.slowdown) for row in ranks[:top]),
                len(ranks),
            ),
            SectionTable(
                "ranks_slowdown_kinds",
                (_KIND, _RATIO),
                tuple((word(_KINDS, row.kind), row.slowdown) for row in kinds),
                len(kinds),
            ),
        ),
        topic=Topic.RANKS,
    )
