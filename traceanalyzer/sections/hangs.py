"""Who holds up a run that stands still, what did each rank do last, and who waits for whom?"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from traceanalyzer.analyzers.hangs import FlightGroup, FlightRank, Hangs, RankWait
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import in_ranges
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, facts, known, optional, table

TITLE = Text("hangs-title", "Who waits for whom", "ranks of a run that stands still")
_CHAIN = Text(
    "hangs-chain",
    "{group}: {waiting} wait for {awaited}.",
    "group is a name; waiting and awaited are lists of ranks such as 0-7, 9",
)
_LEVELS = Text(
    "hangs-levels",
    "The chain of waits: {chain}.",
    "chain is such as 0, 1 > 3 > 2: 0 and 1 wait for 3, and 3 waits for 2",
)
_FAULT = Text(
    "hangs-fault",
    "The communicators of {count:count} ranks were aborted or failed: {ranks} (first {field} = {value}).",
    "ranks is a list of numbers; field and value are of nccl_comm_state, such as abortFlag = 1",
    one="The communicator of {count:count} rank was aborted or failed: {ranks} ({field} = {value}).",
)
_MOST_KINDS = 8
"""Kinds of groups whose waits are told in words."""
_FIGURES = optional(
    known,
    Column(Text("hangs-dumps", "Dumps"), "count", lambda found: None if found.is_logged else found.dumps),
    Column(Text("hangs-lines", "Ranks in the log"), "count", lambda found: found.dumps if found.is_logged else None),
    Column(Text("hangs-world", "Ranks of the run"), "count", "world_size"),
    Column(Text("hangs-operations", "Recorded operations"), "count", "operations"),
    Column(Text("hangs-since", "Waits since", "a time by the clock of a log"), "", "since", is_name=True),
    Column(
        Text("hangs-timeout", "Time limit of the operations that wait"),
        "ns",
        lambda found: None if found.timeout_ms is None else found.timeout_ms * 1_000_000,
    ),
)
_ROLES = {
    "never-came": Text("hangs-role-never-came", "never came", "of a rank"),
    "stopped": Text("hangs-role-stopped", "device stopped", "of a rank"),
    "not-begun": Text("hangs-role-not-begun", "device busy before it", "of a rank"),
    "unfinished": Text("hangs-role-unfinished", "has not finished", "of a rank"),
    "disagrees": Text("hangs-role-disagrees", "called something else", "of a rank"),
    "waits": Text("hangs-role-waits", "waits", "of a rank"),
    "done": Text("hangs-role-done", "waits nowhere", "of a rank"),
    "no-dump": Text("hangs-role-no-dump", "no dump", "of a rank"),
}
_WEIGHT = {role: place for place, role in enumerate(_ROLES)}


def _whole(number: int | None) -> str:
    """The number of a collective; nothing for what has none, such as point-to-point operations."""
    return "" if number is None else str(number)


def _count(name: str) -> Callable[[FlightGroup], str]:
    return lambda row: _whole(getattr(row, name))


_SHAPE = Text("hangs-shape", "Sizes")
_GROUP = Text("hangs-group", "Group", "a process group")
_NUMBER = Text("hangs-number", "Number", "of a collective in its group")
_AT = Text("hangs-called", "Called at", "time since the first recorded operation")


def _awaited(row: RankWait) -> str:
    return in_ranges((*row.absent, *row.behind, *row.undumped))


def _role(row: FlightRank) -> Message | str:
    return _ROLES[row.role]() if row.role in _ROLES else row.role


_WAITS = optional(
    bool,
    Column(Text("hangs-waiting", "Ranks that wait"), "", lambda row: in_ranges(row.waiting), is_name=True),
    Column(Text("hangs-for", "For"), "", _awaited, is_name=True),
    Column(Text("hangs-passed", "Finished by"), "", lambda row: in_ranges(row.passed), is_name=True),
    Column(Text("hangs-operation", "Operation"), "", lambda row: row.called.operation or None, is_name=True),
    Column(_GROUP, "", "called.title", is_name=True),
    Column(_NUMBER, "", lambda row: _whole(row.called.sequence)),
    Column(_SHAPE, "", lambda row: row.called.shape, is_name=True, is_extra=True),
    Column(_AT, "ns", "called_ns", is_extra=True),
    columns.PYTHON_LINE.of("called.line"),
)
_RANKS = optional(
    bool,
    columns.RANK.of(lambda row: str(row.rank)),
    Column(Text("hangs-role", "What it does"), "", _role),
    Column(Text("hangs-waits-for", "Waits for"), "", lambda row: in_ranges(row.waits_for), is_name=True),
    Column(Text("hangs-last", "Last operation"), "", lambda row: row.last.operation if row.last else "", is_name=True),
    Column(_GROUP, "", lambda row: row.last.title if row.last else "", is_name=True),
    Column(_NUMBER, "", lambda row: _whole(row.last.sequence) if row.last else ""),
    Column(
        _SHAPE,
        "",
        lambda row: row.last.shape if row.last else "",
        is_name=True,
        is_extra=True,
    ),
    Column(_AT, "ns", "called_ns", is_extra=True),
    columns.PYTHON_LINE.of(lambda row: row.last.line if row.last else None),
)
_COUNTS = {
    "least_enqueued": Text("hangs-all-called", "All called", "number of a collective"),
    "most_enqueued": Text("hangs-one-called", "One called", "number of a collective"),
    "least_completed": Text("hangs-all-finished", "All finished", "number of a collective"),
    "most_completed": Text("hangs-one-finished", "One finished", "number of a collective"),
}
_GROUPS = optional(
    bool,
    Column(_GROUP, "", lambda row: f"{row.description} ({row.group})" if row.description else row.group, is_name=True),
    Column(Text("hangs-members", "Ranks", "members of a group"), "", lambda row: in_ranges(row.ranks), is_name=True),
    *(Column(title, "", _count(name)) for name, title in _COUNTS.items()),
    Column(Text("hangs-back", "Furthest back", "ranks"), "", lambda row: in_ranges(row.last), is_name=True),
)
_TERMS = (
    Term(
        Text("define-hang-number", "Number"),
        Text(
            "define-hang-number-say",
            "Members of a group call its collectives in one order, so that a number names one collective. Who has "
            "called fewer is not there yet; point-to-point operations have no such number.",
        ),
    ),
)


def _chain(found: Hangs) -> Iterator[Message]:
    """Who waits for whom, the groups of one kind together, those first that wait for the named ranks."""
    kinds: dict[str, tuple[set[int], set[int]]] = {}
    for wait in found.waits:
        awaited = {*wait.absent, *wait.behind}
        if awaited:
            waiting, others = kinds.setdefault(wait.called.description or wait.called.title, (set(), set()))
            waiting.update(wait.waiting)
            others.update(awaited)
    named = set(found.ranks)
    ordered = sorted(kinds.items(), key=lambda kind: -len(named & kind[1][1]))
    for group, (waiting, others) in ordered[:_MOST_KINDS]:
        yield _CHAIN(group=group, waiting=in_ranges(waiting), awaited=in_ranges(others))


def _faults(found: Hangs) -> Iterator[Message]:
    """That communicators were aborted or have failed, which is often why a group stands still."""
    if found.faults:
        first, ranks = found.faults[0], {fault.rank for fault in found.faults}
        yield _FAULT(count=len(ranks), ranks=in_ranges(ranks), field=first.what, value=first.value)


def _levels(found: Hangs) -> str:
    """The chain of waits, those first that wait for most: `0, 1 > 3 > 2`; empty without one of three or more parts."""
    waits = {row.rank: set(row.waits_for) for row in found.per_rank}
    levels: list[list[int]] = []
    left = set(waits)
    while ready := [rank for rank in left if waits[rank].isdisjoint(left)]:
        levels.append(ready)
        left.difference_update(ready)
    named = set(found.ranks)
    chained = [named, *([rank for rank in level if waits[rank]] for level in levels[1:])]
    return " > ".join(in_ranges(level) for level in reversed(chained)) if len(levels) > 2 and named else ""


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the tables of waits, ranks and groups."""
    found = report.result("hangs", Hangs)
    if found is None:
        return
    ranks = sorted(found.per_rank, key=lambda row: (_WEIGHT.get(row.role, len(_WEIGHT)), row.rank))
    waits = sorted(found.waits, key=lambda row: row != found.decisive)  # the others stay in the order of time
    tables = tuple(
        table(id_, of, rows[:top], total=len(rows))
        for id_, of, rows in (
            ("rank_waits", _WAITS, waits),
            ("flight_ranks", _RANKS, ranks),
            ("flight_groups", _GROUPS, found.groups),
        )
        if rows
    )
    figures = facts(_FIGURES, found)
    levels = _levels(found)
    chain = (*_faults(found), *((_LEVELS(chain=levels),) if levels else ()), *_chain(found))
    yield Section("hangs", TITLE(), chain, figures, tables=tables, terms=_TERMS, topic=Topic.RANKS, is_essential=True)
