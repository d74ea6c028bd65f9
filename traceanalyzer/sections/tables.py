"""The figures and the most expensive rows of each run in printed tables, and the runs side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from traceanalyzer.analyzers.tables.grouping import MOST_COMPARED
from traceanalyzer.analyzers.tables.parts import PrintedFigures, PrintedPart
from traceanalyzer.analyzers.tables.ranks import PrintedRanks
from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import PARTS, clean, shorten
from traceanalyzer.report.section import Fact, Section, SectionTable, Term, Topic
from traceanalyzer.sections import columns, throughput
from traceanalyzer.sections.columns import Column, known, table

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
    "Profiled time per step is about {wall:ns} ({steps:count} steps): CPU {cpu:ns}, device {device:ns}, so the "
    "device was busy for at most {share:share} of it.",
    one="Profiled time per step is about {wall:ns} ({steps:count} step): CPU {cpu:ns}, device {device:ns}, so the "
    "device was busy for at most {share:share} of it.",
)
_HOST_ONLY = Text(
    "runs-host-only",
    "Profiled CPU time per step is {cpu:ns} ({steps:count} steps).",
    one="Profiled CPU time per step is {cpu:ns} ({steps:count} step).",
)
_BOUND_ONCE = Text(
    "runs-bound-once",
    "Profiled time is about {wall:ns}: CPU {cpu:ns}, device {device:ns}, so the device was busy for at most "
    "{share:share} of it.",
)
_HOST_ONLY_ONCE = Text("runs-host-only-once", "Profiled CPU time is {cpu:ns}.")
_SINGLE_CALLS = Text("runs-single-calls", "These are the longest single calls of the whole program, not a step.")
_OF_TOOL = Text(
    "runs-of-tool", "Source: {tool}. It does not say how long the program takes in all.", "tool is a program"
)
_OF_TOOL_TOTAL = Text("runs-of-tool-total", "Source: {tool}, {whole:rounded_ns} in all.", "tool is a program")
_NO_TOTAL = Text("runs-no-total", "The table has no total; the profiled time is unknown.")

_STEPS_FROM = Text("runs-steps-from", "Steps counted by")
_COPIES = Text("runs-copies", "Copies and fills")
_HIDDEN = Text("runs-hidden", "Device time in rows that are not printed")
_HOST_HIDDEN = Text("runs-host-hidden", "CPU time in rows that are not printed")

_OUTSIDE = Text("runs-outside", "CPU time outside of the steps or on other threads, per step")

_OPERATORS = Text("runs-operators", "Operators")
_KERNELS = Text("runs-kernels", "Kernels")
_SHAPES = Text("runs-shapes", "Costs by input shapes")
_HOT_COLUMNS = (
    columns.NAME,
    columns.CALLS,
    columns.DEVICE_SELF,
    columns.SHARE.of("device_share"),
    columns.HOST_SELF,
    Column(Text("runs-host-share", "CPU share"), "share", "host_share"),
)
_TOTAL_COLUMNS = (
    *_HOT_COLUMNS[:2],
    Column(Text("runs-device-total", "Device total"), "ns", "device_total_ns", if_any=known),
    Column(Text("runs-host-total", "CPU total"), "ns", "host_total_ns", if_any=known),
)


def _kind_word(part: PrintedPart) -> Message | str:
    """What a part does, else what it is; empty if neither is known."""
    text = PARTS.get(part.part or part.kind)
    return text() if text else ""


_PARTS = Text("runs-parts", "Parts of the program")
_PART_COLUMNS = (
    columns.NAME,
    Column(Text("runs-part-kind", "Kind", "what a part of a program does"), "", _kind_word),
    columns.CALLS,
    Column(Text("runs-part-self", "Own time"), "ns", "self_ns", if_any=known),
    Column(Text("runs-part-time", "Time"), "ns", "time_ns"),
    columns.SHARE.of("share"),
)
_FIGURES = Text("figures-title", "Figures over time")
_FIGURES_SAY = Text(
    "figures-say",
    "These are figures of {tools}: how much, over time, but not what the program does meanwhile. To find out why, "
    "record a trace: traceanalyzer capture -- python train.py.",
    note="tools is a list of programs",
)
_FIGURE_COLUMNS = (
    Column(Text("figures-tool", "Tool"), "", "tool"),
    Column(Text("figures-name", "Figure"), "", "name"),
    Column(Text("figures-unit", "Unit"), "", "unit"),
    Column(Text("figures-values", "Values"), "count", "values"),
    Column(Text("figures-least", "Least"), "number", "least"),
    Column(Text("figures-mean", "Mean"), "number", "mean"),
    Column(Text("figures-most", "Most"), "number", "most"),
)
_COPY_COLUMNS = (columns.NAME, columns.CALLS, Column(columns.DEVICE.title, "ns", "device_ns"))
_SHAPE_COLUMNS = (
    columns.OPERATOR,
    columns.INPUT_SHAPES,
    columns.CALLS,
    Column(columns.DEVICE.title, "ns", "device_ns"),
    Column(Text("runs-per-call", "Per call"), "ns", "device_ns_per_call"),
    Column(Text("runs-bytes", "Bytes at 4 per element"), "bytes", "bytes_at_4_per_element"),
    Column(
        Text("runs-peer", "Cheapest of the same size"),
        "ns",
        lambda cost: cost.peer.device_ns_per_call if cost.peer else None,
    ),
)
_WORDS = {
    "run": (Text("runs-compared-title", "Runs side by side"), Text("runs-run-id", "Run")),
    "rank": (Text("runs-ranks-compared-title", "Ranks side by side"), columns.RANK.title),
    "table": (Text("runs-tables-compared-title", "Tables side by side"), Text("runs-table-id", "Table")),
}
"""Title of a comparison and name of what is compared, by the prefix of the ids of runs."""
_HEADING = Text("runs-run", "{title}", "head of a column: the heading above a printed table")
_TOP_COMPARED = Text("runs-top-compared-title", "Operators side by side, device time per step")
_HOST_COMPARED = Text("runs-top-compared-host-title", "Operators side by side, CPU time per step")
_METRIC = Column(Text("runs-metric", "Per step"), "", lambda figure: figure[0])
_TITLE_WIDTH = 24
_MANY = Text(
    "runs-many",
    "The text contains tables with {runs:count} different totals: from several runs, from ranks, or from phases of a "
    "run.",
    note="always five or more",
)
_RANKS_TITLE = Text("runs-of-ranks-title", "Communication by rank")
_COMMUNICATES = Text("runs-communicates", "Communicates", "time in collectives")
_WAITS_LEAST = Text("runs-waits", "Waits, at least")
_WAITS = Text(
    "runs-ranks-wait",
    "{count:count} ranks run the same collectives. Of each rank's time in them, at least {least:ns} to {most:ns} per "
    "step is waiting for others; {last} waits least, so it comes last most often.",
    note="last is an identifier such as rank-3; never only one rank",
)
_WAITS_IF = Text(
    "runs-tables-wait",
    "{count:count} tables have the same collectives, as those of ranks of one run have. If they are, at least "
    "{least:ns} to {most:ns} per step of each one's time in them is waiting for others; {last} waits least, so it "
    "comes last most often.",
    note="last is an identifier such as table-3; never only one table",
)
_STEPS = Text("runs-steps", "Steps")
_WALL = Text("runs-wall", "Profiled time, estimate")
_HOST = Text("runs-host", "CPU (self)")
_LOADER = Text("runs-loader", "DataLoader")
_SYNC = Text("runs-sync", "CPU waits for device")
_BUSY = Text("runs-device-share", "Device busy, at most")
_ALLOCATED = Text("runs-allocated", "Allocations (no peak)")
_TERMS = (
    Term(
        _WALL,
        Text(
            "define-runs-say",
            "A printed table contains only sums. CPU and device work at the same time, so a step takes at "
            "least the larger of the two sums divided by the number of steps.",
        ),
    ),
)

_Figure = tuple[Text | Message, str, Callable[[PrintedRun], Any]]

_PER_STEP: tuple[_Figure, ...] = (
    (_WALL, "ns", lambda run: run.wall_estimate_ns_per_step),
    (_HOST, "ns", lambda run: _per_step(run, run.cpu_ns)),
    (columns.DEVICE.title, "ns", lambda run: _per_step(run, run.device_ns)),
    (_BUSY, "share", lambda run: run.device_share_at_most),
    (_LOADER, "ns", lambda run: _per_step(run, run.dataloader_ns)),
    (_SYNC, "ns", lambda run: _per_step(run, run.sync_ns)),
    (_ALLOCATED, "bytes", lambda run: _per_step(run, run.allocated_bytes)),
)
"""The figures of a run per step: label, unit, and how to get the value."""


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a section for each run of a document; none for a trace."""
    runs = report.result("runs", tuple[PrintedRun, ...]) or ()
    if len(runs) > 1:
        yield from _side_by_side(runs, top)
    for group in report.result("printed_ranks", tuple[PrintedRanks, ...]) or ():
        yield _of_ranks(group, runs)
    yield from _figures(report)
    if len(runs) > MOST_COMPARED:
        yield from _each_kind(runs, top)
        return
    for run in runs:
        yield from _run(run, top, alone=len(runs) == 1, rates=tuple(throughput.printed_facts(report, run.id)))


def _of_ranks(group: PrintedRanks, runs: Sequence[PrintedRun]) -> Section:
    """What ranks spend in the same collectives, and how much of that is waiting."""
    steps = {run.id: run.steps for run in runs}
    waits = [row.waits_ns / steps[row.run] for row in group.ranks]
    text = _WAITS if group.is_named else _WAITS_IF
    message = text(count=len(group.ranks), last=group.last, least=min(waits), most=max(waits))
    columns_ = (
        Column(_WORDS["rank" if group.is_named else "table"][1], "", "run"),
        Column(columns.DEVICE.title, "ns", lambda row: _each_step(row.device_ns, steps[row.run])),
        Column(_COMMUNICATES, "ns", lambda row: _each_step(row.communication_ns, steps[row.run])),
        Column(_WAITS_LEAST, "ns", lambda row: _each_step(row.waits_ns, steps[row.run])),
    )
    return Section(
        f"ranks-of-{group.ranks[0].run}",
        _RANKS_TITLE,
        messages=(message,),
        tables=(table("printed_ranks", columns_, group.ranks),),
        topic=Topic.RUNS,
    )


def _each_step(value: int | None, steps: int) -> float | None:
    return None if value is None else value / steps


def _each_kind(runs: tuple[PrintedRun, ...], top: int) -> Iterator[Section]:
    """If there are many runs, one of each kind, with the ids of similar ones."""
    for run in runs:
        if run.like is None:
            alike = [other.id for other in runs if other.like == run.id]
            yield from _run(run, top, alone=False, alike=alike)


def _run(
    run: PrintedRun, top: int, *, alone: bool, alike: Sequence[str] = (), rates: Sequence[Fact] = ()
) -> Iterator[Section]:
    more = (_ALIKE(count=len(alike), ids=", ".join(alike)),) if alike else ()
    yield Section(
        run.id,
        _title(run),
        messages=(_summary(run), *more),
        facts=(*_facts(run), *rates),
        topic=Topic.RUNS,
        terms=_TERMS,
    )
    for name, label, rows in (
        ("operators", _OPERATORS, table("run_operators", _hot_columns(run.operators), run.operators, top)),
        ("kernels", _KERNELS, table("run_kernels", _hot_columns(run.kernels)[:4], run.kernels, top)),
        ("parts", _PARTS, table("run_parts", _PART_COLUMNS, run.parts, top)),
        ("copies", _COPIES, table("copies", _COPY_COLUMNS, run.copies, top)),
        ("shapes", _SHAPES, table("shape_costs", _SHAPE_COLUMNS, run.shape_costs, top)),
    ):
        if rows.rows:
            is_detail = not alone and name not in ("operators", "parts")
            yield Section(
                f"{run.id}-{name}",
                label,
                tables=(rows,),
                topic=Topic.RUNS,
                is_detail=is_detail or name in ("copies", "shapes"),
            )


def _figures(report: Report) -> Iterator[Section]:
    """Figures in logs and of monitors, which say how much, but not of what."""
    figures = report.result("printed_figures", tuple[PrintedFigures, ...]) or ()
    if figures:
        tools = ", ".join(dict.fromkeys(figure.tool for figure in figures))
        message = _FIGURES_SAY(tools=tools)
        rows = table("printed_figures", _FIGURE_COLUMNS, figures)
        yield Section("figures", _FIGURES, (message,), tables=(rows,), topic=Topic.RUNS, is_essential=True)


def _title(run: PrintedRun) -> Message:
    kind = _kind_of(run)
    if kind == "run":
        return _TITLE(id=run.id, title=clean(run.title)) if run.title else _UNTITLED(id=run.id)
    name = _NUMBERED_TITLES[kind](number=run.id.rpartition("-")[2])
    return _NAMED(name=name, title=clean(run.title)) if run.title and kind != "rank" else name


def _summary(run: PrintedRun) -> Message:
    if run.is_of_single_calls:
        return _SINGLE_CALLS()
    if run.tool is not None:
        return _OF_TOOL(tool=run.tool) if run.cpu_ns is None else _OF_TOOL_TOTAL(tool=run.tool, whole=run.cpu_ns)
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
        Fact(_STEPS, run.steps if _has_steps(run) else None, "count"),
        Fact(_STEPS_FROM, run.steps_from, ""),
        *(Fact(label, value(run), unit) for label, unit, value in _PER_STEP[4:]),
        *_hidden_facts(run),
        Fact(_OUTSIDE, run.outside_ns and run.outside_ns / run.steps, "ns"),
    ]
    yield from (fact for fact in facts if fact.value is not None)


def _has_steps(run: PrintedRun) -> bool:
    """Whether it is about a number of steps, or about one."""
    return not run.is_of_single_calls and (run.tool is None or run.steps_from is not None)


def _hidden_facts(run: PrintedRun) -> tuple[Fact, Fact]:
    """What is in rows that are not printed; reports of older versions have only the share of the device."""
    device = Fact(_HIDDEN, run.device_hidden_ns, "ns")
    if run.device_hidden_ns is None:
        device = Fact(_HIDDEN, run.device_hidden_share, "share")
    return device, Fact(_HOST_HIDDEN, run.cpu_hidden_ns, "ns")


def _hot_columns(rows: tuple[Hot, ...]) -> tuple[Column, ...]:
    """The columns of rows by cost: without those of the device if it did nothing, and bars for what ranks the rows."""
    if any(row.device_self_ns for row in rows):
        return _HOT_COLUMNS
    if any(row.host_total_ns or row.device_total_ns for row in rows):
        return _TOTAL_COLUMNS
    return (*_HOT_COLUMNS[:2], _HOT_COLUMNS[4], replace(_HOT_COLUMNS[5], has_bar=True))


def _side_by_side(runs: tuple[PrintedRun, ...], top: int) -> Iterator[Section]:
    """The figures of two or more runs in one table; of few runs also their operators."""
    kind = _kind_of(runs[0])
    title = _WORDS[kind][0]
    if len(runs) > MOST_COMPARED:
        messages = (_MANY(runs=len(runs)),) if kind != "rank" else ()
        yield Section("runs", title, messages=messages, tables=(_listed(runs),), topic=Topic.RUNS, is_essential=True)
        return
    yield Section("runs", title, tables=(_compared(runs),), topic=Topic.RUNS, is_essential=True)
    title = _TOP_COMPARED if _have_device(runs) else _HOST_COMPARED
    yield Section("runs-operators", title, tables=(_operators_compared(runs, top),), topic=Topic.RUNS)


def _kind_of(run: PrintedRun) -> str:
    """The word for a run in texts: run, rank or table."""
    kind = run.id.partition("-")[0]
    return kind if kind in _WORDS else "run"


def _per_step(run: PrintedRun, value: int | None) -> float | None:
    return None if value is None else value / run.steps


def _known_figures(runs: tuple[PrintedRun, ...]) -> list[_Figure]:
    """The figures that some run has."""
    figures: tuple[_Figure, ...] = ((_STEPS, "count", lambda run: run.steps), *_PER_STEP)
    return [figure for figure in figures if any(figure[2](run) is not None for run in runs)]


def _compared(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """One row per figure, one column per run."""
    figures = _known_figures(runs)
    of_runs = (Column(_heading(run), "number", _figure_of(run)) for run in runs)
    rows = table("runs", (_METRIC, *of_runs), figures)
    return replace(rows, row_units=tuple(unit for _, unit, _ in figures))


def _listed(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """The figures of many runs, one row for each run."""
    figures = (Column(label, unit, value, has_bar=unit == "share") for label, unit, value in _known_figures(runs))
    return table("runs", (Column(_WORDS[_kind_of(runs[0])][1], "", "id"), *figures), runs)


def _figure_of(run: PrintedRun) -> Callable[[_Figure], Any]:
    return lambda figure: figure[2](run)


def _cost_in(place: int) -> Callable[[tuple[str, list[float | None]]], float | None]:
    return lambda item: item[1][place]


def _heading(run: PrintedRun) -> Message:
    return _HEADING(title=shorten(clean(run.title or run.id), _TITLE_WIDTH))


def _have_device(runs: tuple[PrintedRun, ...]) -> bool:
    """Whether all runs have device time; only times of one kind are comparable."""
    return all(run.device_ns is not None for run in runs)


def _operators_compared(runs: tuple[PrintedRun, ...], top: int) -> SectionTable:
    """The operators that cost most in some run."""
    on_device = _have_device(runs)
    costs: dict[str, list[float | None]] = {}
    for position, run in enumerate(runs):
        for hot in run.operators:
            time = hot.device_self_ns if on_device else hot.host_self_ns
            if not hot.name_truncated and time is not None:
                costs.setdefault(hot.name, [None] * len(runs))[position] = time / run.steps
    ranked = sorted(costs.items(), key=lambda item: (-max(c or 0 for c in item[1]), item[0]))
    of_runs = (Column(_heading(run), "ns", _cost_in(place), if_any=known) for place, run in enumerate(runs))
    shown = (columns.OPERATOR.of(lambda item: item[0]), *of_runs)
    return table("runs_operators", shown, ranked[:top], total=len(ranked))
