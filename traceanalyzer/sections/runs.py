"""The figures and the most expensive rows of each run in printed tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from traceanalyzer.analyzers.tables.grouping import MOST_COMPARED
from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun, PrintedShapeCost
from traceanalyzer.formats.names import clean
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.sections import side_by_side, throughput
from traceanalyzer.sections.side_by_side import kind_of

_TITLE = Text("runs-title", "Run {id}: {title}", "id is run-1, title the heading above a printed table")
_UNTITLED = Text("runs-untitled", "Run {id}", "id is run-1")
_NAMED = Text("runs-named", "{name}: {title}", "name is such as Table 3, title the heading above a printed table")
_NUMBERED_TITLES = {
    "rank": Text("runs-rank-title", "Rank {number}", "a section about one rank"),
    "table": Text("runs-table-title", "Table {number}", "a section about one printed table"),
}
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

_STEPS_FROM = Text("runs-steps-from", "Steps counted by")
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
    """Build a section for each run of a document; none for a trace."""
    runs = report.result("runs", tuple[PrintedRun, ...]) or ()
    if len(runs) > 1:
        yield from side_by_side.build(runs, top)
    if len(runs) > MOST_COMPARED:
        yield from _each_kind(runs, top)
        return
    for run in runs:
        yield from _run(run, top, alone=len(runs) == 1, said=tuple(throughput.printed_facts(report, run.id)))


def _each_kind(runs: tuple[PrintedRun, ...], top: int) -> Iterator[Section]:
    """If there are many runs, one of each kind, with the ids of similar ones."""
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
    kind = kind_of(run)
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


def _facts(run: PrintedRun) -> Iterator[Fact]:
    facts = [
        Fact(side_by_side.STEPS, run.steps, "count"),
        Fact(_STEPS_FROM, run.steps_from, ""),
        *(Fact(label, value(run), unit) for label, unit, value in side_by_side.PER_STEP[4:]),
        Fact(_HIDDEN, run.device_hidden_share, "share"),
    ]
    yield from (fact for fact in facts if fact.value is not None)


def _hot(name: str, rows: tuple[Hot, ...], top: int) -> SectionTable:
    on_device = any(row.device_self_ns for row in rows)
    fields = ("name", "calls", "device_self_ns", "device_share", "host_self_ns", "host_share")
    shown = [i for i, field in enumerate(fields) if on_device or not field.startswith("device")]
    if name == "run_kernels":
        shown = shown[:4]
    values = tuple(tuple(getattr(row, fields[i]) for i in shown) for row in rows[:top])
    columns = [_HOT_COLUMNS[i] for i in shown]
    if not on_device:
        columns[-1] = replace(columns[-1], has_bar=True)  # the rows are ranked by these
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
