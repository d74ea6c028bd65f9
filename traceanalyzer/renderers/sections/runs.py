"""What printed tables say: each run in figures, two or more side by side, and its hot rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from traceanalyzer.analyzers.tables.runs import MOST_COMPARED, Hot, PrintedRun
from traceanalyzer.analyzers.tables.shape_costs import PrintedShapeCost
from traceanalyzer.renderers.names import clean, shorten
from traceanalyzer.renderers.sections import throughput
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic

_TITLE = Text("runs-title", "Run {id}: {title}", "id is run-1, title the heading above a printed table")
_UNTITLED = Text("runs-untitled", "Run {id}", "id is run-1")
_NAMED = Text("runs-named", "{name}: {title}", "name is such as Table 3, title the heading above a printed table")
_WORDS = {
    "run": (
        Text("runs-compared-title", "Runs side by side"),
        SectionColumn(Text("runs-run-id", "Run"), ""),
    ),
    "rank": (
        Text("runs-ranks-compared-title", "Ranks side by side"),
        SectionColumn(Text("runs-rank-id", "Rank"), ""),
    ),
    "table": (
        Text("runs-tables-compared-title", "Tables side by side"),
        SectionColumn(Text("runs-table-id", "Table"), ""),
    ),
}
"""What the ids of runs begin with, and what they are called."""
_NUMBERED_TITLES = {
    "rank": Text("runs-rank-title", "Rank {number}", "a section about one rank"),
    "table": Text("runs-table-title", "Table {number}", "a section about one printed table"),
}
_RUN = Text("runs-run", "{title}", "head of a column: the heading above a printed table")
_TOP_COMPARED = Text("runs-top-compared-title", "Operators side by side, device time per step")
_METRIC = SectionColumn(Text("runs-metric", "Per step"), "")
_OPERATOR = SectionColumn(Text("runs-operator", "Operator"), "", is_name=True)
_TITLE_WIDTH = 24
_MANY = Text(
    "runs-many",
    "The text contains tables with {runs:count} different totals: from several runs, from ranks, or from phases of a "
    "run.",
    note="always five or more",
)
_ALIKE = Text(
    "runs-alike",
    "{count:count} more have mostly the same rows and about the same totals: {ids}.",
    note="said of printed tables; ids is a list of identifiers such as table-3, table-5",
    one="One more has mostly the same rows and about the same totals: {ids}.",
)

_BOUND = Text(
    "runs-bound",
    "Profiled time per step is about {wall:ns} ({steps:count} steps): host {cpu:ns}, device {device:ns}, so the "
    "device was busy for at most {share:share} of it.",
    one="Profiled time per step is about {wall:ns} ({steps:count} step): host {cpu:ns}, device {device:ns}, so the "
    "device was busy for at most {share:share} of it.",
)
_HOST_ONLY = Text(
    "runs-host-only",
    "Profiled host time per step is {cpu:ns} ({steps:count} steps).",
    one="Profiled host time per step is {cpu:ns} ({steps:count} step).",
)
_BOUND_ONCE = Text(
    "runs-bound-once",
    "Profiled time is about {wall:ns}: host {cpu:ns}, device {device:ns}, so the device was busy for at most "
    "{share:share} of it.",
)
_HOST_ONLY_ONCE = Text("runs-host-only-once", "Profiled host time is {cpu:ns}.")
_NO_TOTAL = Text("runs-no-total", "The table has no total; the profiled time is unknown.")

_STEPS = Text("runs-steps", "Steps")
_STEPS_FROM = Text("runs-steps-from", "Steps counted by")
_WALL = Text("runs-wall", "Profiled time, estimate")
_HOST = Text("runs-host", "Host (self CPU)")
_DEVICE = Text("runs-device", "Device")
_LOADER = Text("runs-loader", "DataLoader")
_SYNC = Text("runs-sync", "Host waits for device")
_SHARE = Text("runs-device-share", "Device busy, at most")
_ALLOCATED = Text("runs-allocated", "Allocations (no peak)")
_COPIES = Text("runs-copies", "Copies and fills")
_HIDDEN = Text("runs-hidden", "Device time in rows that are not printed")

_OPERATORS = Text("runs-operators", "Operators")
_KERNELS = Text("runs-kernels", "Kernels")
_SHAPES = Text("runs-shapes", "Costs by input shapes")
_HOT_COLUMNS = (
    SectionColumn(Text("runs-name", "Name"), "", is_name=True),
    SectionColumn(Text("runs-calls", "Calls"), "count"),
    SectionColumn(Text("runs-device-self", "Device self"), "ns"),
    SectionColumn(Text("runs-share", "Share"), "share", has_bar=True),
    SectionColumn(Text("runs-host-self", "Host self"), "ns"),
    SectionColumn(Text("runs-host-share", "Host share"), "share"),
)
_COPY_COLUMNS = (_HOT_COLUMNS[0], _HOT_COLUMNS[1], SectionColumn(Text("runs-device-time", "Device"), "ns"))
_SHAPE_COLUMNS = (
    SectionColumn(Text("runs-shape-operator", "Operator"), "", is_name=True),
    SectionColumn(Text("runs-input-shapes", "Input shapes"), "", is_name=True),
    SectionColumn(Text("runs-shape-calls", "Calls"), "count"),
    SectionColumn(Text("runs-shape-device", "Device"), "ns"),
    SectionColumn(Text("runs-per-call", "Per call"), "ns"),
    SectionColumn(Text("runs-bytes", "Bytes at 4 per element"), "bytes"),
    SectionColumn(Text("runs-peer", "Cheapest of the same size"), "ns"),
)
_TERMS = (
    Term(
        Text("define-runs", "Profiled time, estimate"),
        Text(
            "define-runs-say",
            "A printed table contains only sums. Host and device work at the same time, so a step takes at "
            "least the larger of the two sums divided by the number of steps.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """The runs of a document; nothing for a trace."""
    runs = report.result("runs", tuple[PrintedRun, ...]) or ()
    if len(runs) > MOST_COMPARED:
        kind = _kind(runs[0])
        messages = (_MANY(runs=len(runs)),) if kind != "rank" else ()
        yield Section(
            "runs",
            _WORDS[kind][0],
            messages=messages,
            tables=(_listed(runs),),
            topic=Topic.RUNS,
            is_essential=True,
        )
        yield from _each_kind(runs, top)
        return
    if len(runs) > 1:
        title = _WORDS[_kind(runs[0])][0]
        yield Section("runs", title, tables=(_compared(runs),), topic=Topic.RUNS, is_essential=True)
        yield Section("runs-operators", _TOP_COMPARED, tables=(_operators_compared(runs, top),), topic=Topic.RUNS)
    for run in runs:
        yield from _run(run, top, alone=len(runs) == 1, said=tuple(throughput.printed_facts(report, run.id)))


def _kind(run: PrintedRun) -> str:
    """What a run is called: a run, a rank, or just a table."""
    kind = run.id.partition("-")[0]
    return kind if kind in _WORDS else "run"


def _each_kind(runs: tuple[PrintedRun, ...], top: int) -> Iterator[Section]:
    """Of many, one of each kind, with the ids of those that are like it."""
    for run in runs:
        if run.like is None:
            alike = [other.id for other in runs if other.like == run.id]
            yield from _run(run, top, alone=False, alike=alike)


def _run(
    run: PrintedRun, top: int, *, alone: bool, alike: Sequence[str] = (), said: Sequence[Fact] = ()
) -> Iterator[Section]:
    more = (_ALIKE(count=len(alike), ids=", ".join(alike)),) if alike else ()
    yield Section(
        run.id,
        _title(run),
        messages=(_summary(run), *more),
        facts=(*_facts(run), *said),
        topic=Topic.RUNS,
        terms=_TERMS,
    )
    for name, label, table in (
        ("operators", _OPERATORS, _hot("run_operators", run.operators, top)),
        ("kernels", _KERNELS, _hot("run_kernels", run.kernels, top)),
        ("copies", _COPIES, _copies(run, top)),
        ("shapes", _SHAPES, _shapes(run.shape_costs, top)),
    ):
        if table.rows:
            is_detail = not alone and name != "operators"
            yield Section(
                f"{run.id}-{name}",
                label,
                tables=(table,),
                topic=Topic.RUNS,
                is_detail=is_detail or name in ("copies", "shapes"),
            )


def _title(run: PrintedRun) -> Message:
    kind = _kind(run)
    if kind == "run":
        return _TITLE(id=run.id, title=clean(run.title)) if run.title else _UNTITLED(id=run.id)
    name = _NUMBERED_TITLES[kind](number=run.id.rpartition("-")[2])
    return _NAMED(name=name, title=clean(run.title)) if run.title and kind != "rank" else name


def _summary(run: PrintedRun) -> Message:
    if run.cpu_ns is None or run.wall_estimate_ns_per_step is None:
        return _NO_TOTAL()
    if run.device_ns is None:
        return (_HOST_ONLY if run.steps > 1 else _HOST_ONLY_ONCE)(cpu=run.cpu_ns / run.steps, steps=run.steps)
    return (_BOUND if run.steps > 1 else _BOUND_ONCE)(
        wall=run.wall_estimate_ns_per_step,
        steps=run.steps,
        cpu=run.cpu_ns / run.steps,
        device=run.device_ns / run.steps,
        share=run.device_share_at_most,
    )


_Figure = tuple[Text, str, Callable[[PrintedRun], Any]]

_PER_STEP: tuple[_Figure, ...] = (
    (_WALL, "ns", lambda run: run.wall_estimate_ns_per_step),
    (_HOST, "ns", lambda run: _per_step(run, run.cpu_ns)),
    (_DEVICE, "ns", lambda run: _per_step(run, run.device_ns)),
    (_SHARE, "share", lambda run: run.device_share_at_most),
    (_LOADER, "ns", lambda run: _per_step(run, run.dataloader_ns)),
    (_SYNC, "ns", lambda run: _per_step(run, run.sync_ns)),
    (_ALLOCATED, "bytes", lambda run: _per_step(run, run.allocated_bytes)),
)


def _per_step(run: PrintedRun, value: int | None) -> float | None:
    return None if value is None else value / run.steps


def _facts(run: PrintedRun) -> Iterator[Fact]:
    facts = [
        Fact(_STEPS, run.steps, "count"),
        Fact(_STEPS_FROM, run.steps_from, ""),
        *(Fact(label, value(run), unit) for label, unit, value in _PER_STEP[4:]),
        Fact(_HIDDEN, run.device_hidden_share, "share"),
    ]
    yield from (fact for fact in facts if fact.value is not None)


def _compared(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """One row per figure, one column per run."""
    figures: tuple[_Figure, ...] = ((_STEPS, "count", lambda run: run.steps), *_PER_STEP)
    known = [figure for figure in figures if any(figure[2](run) is not None for run in runs)]
    rows = tuple((label, *(value(run) for run in runs)) for label, _, value in known)
    columns = (_METRIC, *(_column(run, "number") for run in runs))
    return SectionTable("runs", columns, rows, len(rows), row_units=tuple(unit for _, unit, _ in known))


def _listed(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """The figures of many runs, one row for each run."""
    figures: tuple[_Figure, ...] = ((_STEPS, "count", lambda run: run.steps), *_PER_STEP)
    known = [figure for figure in figures if any(figure[2](run) is not None for run in runs)]
    columns = (
        _WORDS[_kind(runs[0])][1],
        *(SectionColumn(label, unit, has_bar=unit == "share") for label, unit, _ in known),
    )
    return SectionTable(
        "runs", columns, tuple((run.id, *(value(run) for _, _, value in known)) for run in runs), len(runs)
    )


def _column(run: PrintedRun, unit: str) -> SectionColumn:
    return SectionColumn(_RUN(title=shorten(clean(run.title or run.id), _TITLE_WIDTH)), unit)


def _operators_compared(runs: tuple[PrintedRun, ...], top: int) -> SectionTable:
    """The operators that cost most in some run."""
    costs: dict[str, list[float | None]] = {}
    for position, run in enumerate(runs):
        for hot in run.operators:
            if not hot.name_truncated and (time := _time(run, hot)) is not None:
                costs.setdefault(hot.name, [None] * len(runs))[position] = time / run.steps
    ranked = sorted(costs.items(), key=lambda item: (-max(c or 0 for c in item[1]), item[0]))
    shown = [place for place in range(len(runs)) if any(values[place] is not None for _, values in ranked[:top])]
    columns = (_OPERATOR, *(_column(runs[place], "ns") for place in shown))
    rows = tuple((name, *(values[place] for place in shown)) for name, values in ranked[:top])
    return SectionTable("runs_operators", columns, rows, len(ranked))


def _time(run: PrintedRun, hot: Hot) -> int | None:
    return hot.host_self_ns if run.device_ns is None else hot.device_self_ns


def _hot(name: str, rows: tuple[Hot, ...], top: int) -> SectionTable:
    on_device = any(row.device_self_ns for row in rows)
    fields = ("name", "calls", "device_self_ns", "device_share", "host_self_ns", "host_share")
    shown = [i for i, field in enumerate(fields) if on_device or not field.startswith("device")]
    if name == "run_kernels":
        shown = shown[:4]
    values = tuple(tuple(getattr(row, fields[i]) for i in shown) for row in rows[:top])
    columns = [_HOT_COLUMNS[i] for i in shown]
    if not on_device:
        columns[-1] = replace(columns[-1], has_bar=True)  # what the rows are ranked by
    return SectionTable(name, tuple(columns), values, len(rows))


def _copies(run: PrintedRun, top: int) -> SectionTable:
    rows = tuple((copy.name, copy.calls, copy.device_ns) for copy in run.copies[:top])
    return SectionTable("copies", _COPY_COLUMNS, rows, len(run.copies))


def _shapes(costs: tuple[PrintedShapeCost, ...], top: int) -> SectionTable:
    rows = tuple(
        (
            cost.name,
            cost.input_shapes,
            cost.calls,
            cost.device_ns,
            cost.device_ns_per_call,
            cost.bytes_at_4_per_element,
            cost.peer.device_ns_per_call if cost.peer else None,
        )
        for cost in costs[:top]
    )
    return SectionTable("shape_costs", _SHAPE_COLUMNS, rows, len(costs))
