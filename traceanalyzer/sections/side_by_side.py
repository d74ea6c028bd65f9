"""The runs of printed tables side by side: their figures per step, and their operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from traceanalyzer.analyzers.tables.grouping import MOST_COMPARED
from traceanalyzer.analyzers.tables.runs import Hot, PrintedRun
from traceanalyzer.formats.names import clean, shorten
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section, SectionColumn, SectionTable, Topic

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
"""Titles of runs by the prefix of their ids."""
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
STEPS = Text("runs-steps", "Steps")
_WALL = Text("runs-wall", "Profiled time, estimate")
_HOST = Text("runs-host", "Host (self CPU)")
_DEVICE = Text("runs-device", "Device")
_LOADER = Text("runs-loader", "DataLoader")
_SYNC = Text("runs-sync", "Host waits for device")
_SHARE = Text("runs-device-share", "Device busy, at most")
_ALLOCATED = Text("runs-allocated", "Allocations (no peak)")


def build(runs: tuple[PrintedRun, ...], top: int) -> Iterator[Section]:
    """The figures of two or more runs in one table; of few runs also their operators.

    Args:
        runs: The runs, two or more.
        top: Number of operators to show.
    """
    kind = kind_of(runs[0])
    title = _WORDS[kind][0]
    if len(runs) > MOST_COMPARED:
        messages = (_MANY(runs=len(runs)),) if kind != "rank" else ()
        yield Section("runs", title, messages=messages, tables=(_listed(runs),), topic=Topic.RUNS, is_essential=True)
        return
    yield Section("runs", title, tables=(_compared(runs),), topic=Topic.RUNS, is_essential=True)
    yield Section("runs-operators", _TOP_COMPARED, tables=(_operators_compared(runs, top),), topic=Topic.RUNS)


def kind_of(run: PrintedRun) -> str:
    """The word for a run in texts: run, rank or table."""
    kind = run.id.partition("-")[0]
    return kind if kind in _WORDS else "run"


_Figure = tuple[Text, str, Callable[[PrintedRun], Any]]

PER_STEP: tuple[_Figure, ...] = (
    (_WALL, "ns", lambda run: run.wall_estimate_ns_per_step),
    (_HOST, "ns", lambda run: _per_step(run, run.cpu_ns)),
    (_DEVICE, "ns", lambda run: _per_step(run, run.device_ns)),
    (_SHARE, "share", lambda run: run.device_share_at_most),
    (_LOADER, "ns", lambda run: _per_step(run, run.dataloader_ns)),
    (_SYNC, "ns", lambda run: _per_step(run, run.sync_ns)),
    (_ALLOCATED, "bytes", lambda run: _per_step(run, run.allocated_bytes)),
)
"""The figures of a run per step: label, unit, and how to get the value."""


def _per_step(run: PrintedRun, value: int | None) -> float | None:
    return None if value is None else value / run.steps


def _compared(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """One row per figure, one column per run."""
    figures: tuple[_Figure, ...] = ((STEPS, "count", lambda run: run.steps), *PER_STEP)
    known = [figure for figure in figures if any(figure[2](run) is not None for run in runs)]
    rows = tuple((label, *(value(run) for run in runs)) for label, _, value in known)
    columns = (_METRIC, *(_column(run, "number") for run in runs))
    return SectionTable("runs", columns, rows, len(rows), row_units=tuple(unit for _, unit, _ in known))


def _listed(runs: tuple[PrintedRun, ...]) -> SectionTable:
    """The figures of many runs, one row for each run."""
    figures: tuple[_Figure, ...] = ((STEPS, "count", lambda run: run.steps), *PER_STEP)
    known = [figure for figure in figures if any(figure[2](run) is not None for run in runs)]
    columns = (
        _WORDS[kind_of(runs[0])][1],
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
