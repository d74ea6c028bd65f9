"""Which tables does the document contain? Every row and every column, as printed; and the tables of each run.

Tables with the same totals were printed from the same profile (sorted by CPU, sorted by device, grouped by
shape) and are joined into one view; tables with other totals are another run, before or after a change.

Torch groups by more than the name if it is asked to (input shapes, stack, overload), and then prints an event in
several rows. Figures by name must not depend on that, so such rows are added up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers.tables.kinds import RowKind, classify, is_device_row
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow, TableTotals

_DIGIT = 0.0001
"""The last printed digit of a share: with twice the rounding, damaged rows contradict nothing."""
_LEAST = 1e-9
MOST_COMPARED = 4
"""Own choice: as many totals may be of runs before and after changes, and can be read side by side."""
_CALLS_NOTHING = 0.8
"""Own choice: an operator that has so much of its host time for itself calls no other one that works on the device."""
_RANK = re.compile(r"\brank[\s:=#_-]{0,2}(\d{1,6})\b", re.IGNORECASE)
_DETAILS = frozenset({"input_shapes", "source_location", "overload_name"})
"""Columns of tables that are grouped by more than the name."""
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_SUMS = (
    "self_cpu_share",
    "self_cpu_ns",
    "cpu_total_share",
    "cpu_total_ns",
    "self_device_ns",
    "self_device_share",
    "device_total_share",
    "device_total_ns",
    "cpu_mem_bytes",
    "self_cpu_mem_bytes",
    "device_mem_bytes",
    "self_device_mem_bytes",
    "calls",
    "flops",
)
_ALWAYS = ("line", "name_truncated", "shapes_truncated")


class PrintedTotals(msgspec.Struct, frozen=True):
    """The lines below a table; null where they are not printed."""

    self_cpu_ns: int | None
    """Printed total of the self CPU time in ns; null where it is not printed."""
    self_device_ns: int | None
    """Printed total of the self device time in ns; null where it is not printed."""


class PrintedTable(msgspec.Struct, frozen=True):
    """One table of the document."""

    title: str | None
    """Nearest heading above the table, without its decoration; null if there is none."""
    line: int
    """Line of the table's header in the document, counted from 1."""
    columns: tuple[str, ...]
    """Ids of the known columns in the order in which they are printed."""
    device: str | None
    """Device as printed, such as CUDA, XPU or NPU; null if none is printed."""
    rows: tuple[dict[str, Any], ...]
    """Rows in the printed order: for each its kind, its line, and a value for each column; null is not printed or not
    readable."""
    totals: PrintedTotals
    """The totals that are printed below the table."""
    complete: bool
    """Whether the end of the table was seen; torch may have cut rows all the same (row_limit)."""
    run: str
    """Id of the run that the table belongs to, as in the analysis `runs`."""


def list_tables(document: TableDocument, views: Sequence[RunView]) -> tuple[PrintedTable, ...]:
    """All tables in the order of the document."""
    run_of = {id(table): view.id for view in views for table in view.tables}
    return tuple(_table(table, run_of[id(table)]) for table in document.tables)


def _table(table: ProfilerTable, run: str) -> PrintedTable:
    return PrintedTable(
        title=table.title,
        line=table.line,
        columns=table.columns,
        device=table.device,
        rows=tuple(
            {"kind": kind.value, **{name: getattr(row, name) for name in (*_ALWAYS, *table.columns)}}
            for row, kind in zip(table.rows, classify(table.rows), strict=True)
        ),
        totals=PrintedTotals(table.totals.self_cpu_ns, table.totals.self_device_ns),
        complete=table.complete,
        run=run,
    )


class RunView(msgspec.Struct, frozen=True, dict=True):
    """The tables of one run, joined into one view."""

    id: str
    title: str | None
    tables: tuple[ProfilerTable, ...]
    positions: tuple[int, ...]

    @cached_property
    def by_name(self) -> list[tuple[TableRow, RowKind]]:
        """Each event once, whatever its tables are grouped by."""
        return by_name(self.tables)

    @cached_property
    def by_shape(self) -> list[TableRow]:
        """Each operator once for each of its shapes."""
        return by_shape(self.tables)


def group(document: TableDocument) -> tuple[RunView, ...]:
    """Group tables into runs by equal totals; a table without totals belongs to the one before it."""
    groups = _groups(document)
    titles = [_title(document, positions) for positions in groups]
    runs = []
    for name, title, positions in zip(_ids(titles), titles, groups, strict=True):
        tables = tuple(document.tables[position] for position in positions)
        runs.append(RunView(name, title, tables, tuple(positions)))
    return tuple(runs)


def _groups(document: TableDocument) -> list[list[int]]:
    """The positions of the tables of each run."""
    groups: list[list[int]] = []
    of_totals: dict[tuple[int | str | None, ...], list[int]] = {}
    for position, table in enumerate(document.tables):
        own = (table.totals.self_cpu_ns, table.totals.self_device_ns, table.totals.device_total_ns)
        is_known = any(value is not None for value in own)
        totals = (*own, _rank(table.section), _family(table), table.title if table.form else None)
        if is_known and totals in of_totals:
            of_totals[totals].append(position)
        elif groups and (
            (not is_known and _continues(document, groups[-1][-1], position))
            or _is_next_of_tool(document.tables[groups[-1][-1]], table)
        ):
            groups[-1].append(position)
        else:
            groups.append([position])
            if is_known:
                of_totals[totals] = groups[-1]
    return groups


def _ids(titles: list[str | None]) -> list[str]:
    """Ranks if every heading names another one; otherwise a few are runs, and the meaning of many is unknown."""
    ranks = [_rank(title) for title in titles]
    if len(titles) > 1 and None not in ranks and len(set(ranks)) == len(titles):
        return [f"rank-{rank}" for rank in ranks]
    word = "run" if len(titles) <= MOST_COMPARED else "table"
    return [f"{word}-{number}" for number in range(1, len(titles) + 1)]


def _rank(heading: str | None) -> str | None:
    """The number of the rank in a heading; None where it names none."""
    match = _RANK.search(heading or "")
    return match[1] if match else None


def _family(table: ProfilerTable) -> str | None:
    """The tool of a table, of whose kinds of tables several belong together; None for torch."""
    return table.form.partition("-")[0] if table.form else None


def _is_next_of_tool(before: ProfilerTable, table: ProfilerTable) -> bool:
    """Whether a tool printed another kind of table about the same program, such as calls after kernels."""
    return table.form is not None and before.form != table.form and _family(before) == _family(table)


def _continues(document: TableDocument, before: int, position: int) -> bool:
    """Whether a table without totals stands under the heading of the one before it, and is of the same totals."""
    one, two = document.tables[before], document.tables[position]
    if _family(one) != _family(two):
        return False
    return two.section is not None and two.section == one.section and not _contradict(one, two)


def _contradict(one: ProfilerTable, two: ProfilerTable) -> bool:
    """Whether times and shares of two tables are of different totals, so that they are of two runs."""
    for time, share in (("self_cpu_ns", "self_cpu_share"), ("self_device_ns", "self_device_share")):
        (low, high), (other_low, other_high) = _bounds(one, time, share), _bounds(two, time, share)
        if low > other_high or other_low > high:
            return True
    return False


def _bounds(table: ProfilerTable, time: str, share: str) -> tuple[float, float]:
    """The least and the greatest total of a column that the printed times and shares of all rows allow."""
    known = [(getattr(row, time), getattr(row, share), row.resolution.get(time, 0)) for row in table.rows]
    known = [(ns, part, step) for ns, part, step in known if ns and part and ns > 0 and part > 0]
    low = max(((ns - step) / (part + _DIGIT) for ns, part, step in known), default=0.0)
    high = min(((ns + step) / max(part - _DIGIT, _LEAST) for ns, part, step in known), default=float("inf"))
    return low, max(low, high)


def _title(document: TableDocument, positions: list[int]) -> str | None:
    tables = [document.tables[position] for position in positions]
    return next((table.section for table in tables if table.section), None) or tables[0].title


def by_name(tables: Sequence[ProfilerTable]) -> list[tuple[TableRow, RowKind]]:
    """Each event once; cut names may stand for several events and are kept apart."""
    tables = without_repeated(tables)
    rows = _joined(_distinct(_coarsest(tables)), with_shapes=False)
    named = {row.name for table in tables for row in table.rows if _is_operator(row, table)}
    rows = [_with_own_device_time(row) for row in rows] if has_no_own_device_times(tables) else rows
    return list(zip(rows, classify(rows, named), strict=True))


def without_repeated(tables: Sequence[ProfilerTable]) -> list[ProfilerTable]:
    """Tables of other tools without rows that a table of the same form and total has: the same, in another order."""
    names: dict[object, set[str]] = {}
    kept = []
    for table in tables:
        if table.form is None:
            kept.append(table)
            continue
        totals = (table.form, table.totals.self_cpu_ns, table.totals.self_device_ns)
        is_repeated = totals in names
        seen = names.setdefault(totals, set())
        rows = tuple(row for row in table.rows if not is_repeated or row.name not in seen)
        seen.update(row.name for row in table.rows)
        kept.append(replace(table, rows=rows, totals=TableTotals() if is_repeated else table.totals))
    return kept


def has_no_own_device_times(tables: Sequence[ProfilerTable]) -> bool:
    """Whether tables of torch have times of the device only with all that operators call, as before torch 1.7."""
    columns = {name for table in tables for name in table.columns}
    is_torch = all(table.form is None for table in tables)
    return (
        is_torch and {"self_cpu_ns", "cpu_total_ns", "device_total_ns"} <= columns and "self_device_ns" not in columns
    )


def _with_own_device_time(row: TableRow) -> TableRow:
    """The row with its device time as its own if it calls no others that matter."""
    own, total = row.self_cpu_ns, row.cpu_total_ns
    if own is None or not total or own < _CALLS_NOTHING * total:
        return row
    return replace(row, self_device_ns=row.device_total_ns)


def _is_operator(row: TableRow, table: ProfilerTable) -> bool:
    """Whether its table shows that a row is an operator, whatever its name: by shapes, or by the release of torch."""
    has_shapes = row.input_shapes not in (None, "[]", "")
    return has_shapes or (table.has_plain_names and _PLAIN_NAME.fullmatch(row.name) is not None)


def by_shape(tables: Sequence[ProfilerTable]) -> list[TableRow]:
    """Each operator once for each of its shapes; nothing of tables that print none."""
    grouped = [table for table in tables if "input_shapes" in table.columns]
    rows = _joined(_distinct(_coarsest(grouped)), with_shapes=True)
    return [row for row, kind in zip(rows, classify(rows), strict=True) if kind is RowKind.OPERATOR]


def _coarsest(tables: Sequence[ProfilerTable]) -> list[ProfilerTable]:
    """The tables with the fewest details; the others contain the same events again, in more rows."""
    details = [_DETAILS.intersection(table.columns) for table in tables]
    fewest = min(details, key=len, default=frozenset())
    return [table for table, own in zip(tables, details, strict=True) if own == fewest]


def _distinct(tables: Iterable[ProfilerTable]) -> list[TableRow]:
    """Rows of tables with the same grouping; equal rows are one row."""
    seen: dict[object, TableRow] = {}
    for table in tables:
        copies: dict[object, int] = {}  # within one table, equal rows are different events (cut names)
        for row in table.rows:
            what = (row.name, row.overload_name, row.input_shapes, row.source_location, row.calls)
            identity = (*what, row.self_cpu_ns, row.cpu_total_ns, row.self_device_ns, row.device_total_ns)
            copies[identity] = copies.get(identity, 0) + 1
            seen.setdefault((identity, copies[identity]), row)
    return list(seen.values())


def _joined(rows: Sequence[TableRow], *, with_shapes: bool) -> list[TableRow]:
    """One row for each whole name, where wanted for each of its shapes; a range's device row is not its host row."""
    by_key: dict[object, list[TableRow]] = {}
    for position, row in enumerate(rows):
        key: object = (row.name, is_device_row(row), row.input_shapes if with_shapes else None)
        is_cut = row.name_truncated or (with_shapes and row.shapes_truncated)
        by_key.setdefault(position if is_cut else key, []).append(row)
    return [members[0] if len(members) == 1 else _sum_up(members, with_shapes) for members in by_key.values()]


def _sum_up(rows: Sequence[TableRow], with_shapes: bool) -> TableRow:
    """Sums of the known values; unknown if no value is known."""
    sums: dict[str, Any] = {name: sum_known(getattr(row, name) for row in rows) for name in _SUMS}
    nodes = {row.node_id for row in rows}
    return replace(
        rows[0],
        **sums,
        is_async=any(row.is_async for row in rows),
        overload_name=None,
        cpu_avg_ns=None,
        device_avg_ns=None,
        flops_per_second=None,
        node_id=nodes.pop() if len(nodes) == 1 else None,
        input_shapes=rows[0].input_shapes if with_shapes else None,
        shapes_truncated=False,
        source_location=(),
        resolution={name: sum(row.resolution.get(name, 0) for row in rows) for name in rows[0].resolution},
    )


def sum_known(values: Iterable[int | None]) -> int | None:
    """The sum of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
