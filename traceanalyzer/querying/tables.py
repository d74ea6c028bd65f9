"""The tables that a query may name, with the meaning of each column, and how DuckDB sees them.

Columns of the reader stay where they are: DuckDB reads the arrays. A text is a code there, and a table with each
distinct text once is joined to it; unknown is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import fields

from traceanalyzer.querying import computed
from traceanalyzer.querying.database import Database, identifier, joined, literal
from traceanalyzer.querying.recordings import QueriedTrace
from traceanalyzer.structure.gap_causes import CAUSES
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.model import Collective, KernelSource, Trace
from traceanalyzer.trace.table import Array, SliceTable, Table, TraceColumn
from traceanalyzer.trace.tables import (
    AcceleratorEvents,
    Category,
    Counters,
    DeviceEvents,
    Frames,
    GpuAnnotations,
    HostEvents,
    Launches,
    MemoryEvents,
    Overheads,
    Syncs,
    Vendor,
)

_RECORDED: Mapping[str, type[Table]] = {
    "host": HostEvents,
    "launches": Launches,
    "device": DeviceEvents,
    "memory": MemoryEvents,
    "frames": Frames,
    "gpu_annotations": GpuAnnotations,
    "accelerator": AcceleratorEvents,
    "syncs": Syncs,
    "overheads": Overheads,
    "counters": Counters,
}
"""Tables as they were read; each is a field of `Trace`."""

_COMPUTED: Mapping[str, tuple[type[Table], Callable[[QueriedTrace], Table]]] = {
    "links": (computed.LinkRows, computed.links),
    "calls": (computed.CallRows, computed.calls),
    "steps": (computed.StepRows, computed.steps),
    "marks": (computed.MarkRows, computed.marks),
    "modules": (computed.ModuleRows, computed.modules),
    "gaps": (computed.GapRows, computed.idle),
    "findings": (computed.FindingRows, computed.findings),
    "spans": (computed.SpanRows, computed.spans),
    "ranks": (computed.RankRows, computed.ranks),
}
"""Tables that are computed where a query names them."""

_DESCRIBED: Mapping[str, tuple[type[Collective] | type[KernelSource], str]] = {
    "collectives": (Collective, "Collectives that `collective` of `host` and `device` refers to."),
    "sources": (KernelSource, "Code of generated kernels that `source` of `host` refers to."),
}
"""Descriptions that are shared by many events."""

_KERNELS = "kernels"
_EVENTS = "events"

_TEXTS = frozenset({"names", "shapes", "types", "strides", "concrete", "dims"})
_OWN_TEXTS: Mapping[str, Sequence[str]] = {
    "categories": [category.name.lower() for category in Category],
    "vendors": [vendor.name.lower() for vendor in Vendor],
    "kinds": [kind.name.lower() for kind in NodeKind],
    "causes": CAUSES,
}
"""Pools of texts that are no column of a trace; `paths` is computed."""
_ROWS_OF = frozenset({"collectives", "sources", "details"})
_WORD = re.compile(r"\w+")
_CATALOG = frozenset({"show", "describe", "summarize", "information_schema", "pg_catalog"})
"""Words of queries that may ask which tables there are."""
_TYPES = {"i": "BIGINT", "u": "BIGINT", "f": "DOUBLE", "b": "BOOLEAN", "O": "VARCHAR"}


@dataclass(frozen=True)
class SqlColumn:
    """A column as a query sees it."""

    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True)
class SqlTable:
    """A table as a query sees it."""

    name: str
    about: str
    columns: tuple[SqlColumn, ...]
    is_computed: bool = False


_RANK = SqlColumn("rank", "BIGINT", "", "rank of the trace; its position where the traces do not name different ranks")
_ROW = SqlColumn("row", "BIGINT", "", "position in the table; of several ranks, unique within a rank")
_END = SqlColumn("end_ns", "BIGINT", "ns", "end")
_THREAD = (
    SqlColumn("pid", "VARCHAR", "", "process of the thread"),
    SqlColumn("tid", "VARCHAR", "", "id of the thread within its process"),
)


def described() -> tuple[SqlTable, ...]:
    """All tables, in the order of the documentation."""
    return (_events(), *map(_recorded, _RECORDED), _kernels(), *map(_computed, _COMPUTED), *map(_shared, _DESCRIBED))


def listed() -> str:
    """The tables and their columns, as text for people."""
    blocks = []
    for table in described():
        width = max(len(column.name) for column in table.columns)
        lines = [f"  {column.name:{width}}  {column.type:8}  {column.meaning}".rstrip() for column in table.columns]
        blocks.append("\n".join([f"{table.name}: {table.about}", *lines]))
    return "\n\n".join(blocks) + "\n"


def _events() -> SqlTable:
    columns = (
        _RANK,
        SqlColumn("table_name", "VARCHAR", "", "the table that has the event, with further columns"),
        _ROW,
        *(SqlColumn(c.name, "BIGINT", c.unit, c.meaning) for c in HostEvents.columns()[:2]),
        _END,
        SqlColumn("name", "VARCHAR", "", "name"),
        SqlColumn("category", "VARCHAR", "", ", ".join(_OWN_TEXTS["categories"])),
        SqlColumn("thread", "BIGINT", "", "row of the thread, or of the pseudo thread that is the stream"),
        *_THREAD,
        SqlColumn("device", "BIGINT", "", "number of the device"),
        SqlColumn("stream", "BIGINT", "", "number of the stream"),
    )
    return SqlTable(_EVENTS, "All events with a duration, on hosts and devices.", columns)


def _recorded(name: str) -> SqlTable:
    kind = _RECORDED[name]
    return SqlTable(name, _sentence(kind), (_RANK, _ROW, *_columns(kind)))


def _computed(name: str) -> SqlTable:
    kind, _ = _COMPUTED[name]
    return SqlTable(name, _sentence(kind), (_RANK, *_columns(kind)), is_computed=True)


def _shared(name: str) -> SqlTable:
    kind, about = _DESCRIBED[name]
    columns = tuple(
        SqlColumn(f.name, "BIGINT" if "int" in str(f.type) else "VARCHAR", "", f.name.replace("_", " "))
        for f in fields(kind)
    )
    return SqlTable(name, about, (_RANK, _ROW, *columns))


def _kernels() -> SqlTable:
    linked = [c for c in _computed("links").columns if c.name not in ("rank", "device_row")]
    about = "Kernels of `device`, each with what it belongs to of `links`."
    return SqlTable(_KERNELS, about, (*_recorded("device").columns, *linked), is_computed=True)


def _sentence(kind: type[Table]) -> str:
    return " ".join(str(kind.__doc__).split("\n\n")[0].split())


def _own(kind: type[Table]) -> list[TraceColumn]:
    """Columns of a table; the rank is that of the trace for all tables."""
    return [column for column in kind.columns() if column.name != _RANK.name]


def _columns(kind: type[Table]) -> Iterator[SqlColumn]:
    for column in _own(kind):
        is_text = _pool(column) is not None
        yield SqlColumn(
            column.name,
            "VARCHAR" if is_text else _TYPES[column.dtype.kind],
            column.unit,
            column.meaning.removeprefix("code of the ") if is_text else column.meaning,
        )
        if column.pool == "threads":
            yield from _THREAD
        if column.name == "dur_ns":
            yield _END


def _all_columns(table: str) -> Iterator[TraceColumn]:
    """Columns of the tables as they were read or computed that one has or joins."""
    kinds: Iterable[type[Table]] = ()
    if table in _RECORDED:
        kinds = (_RECORDED[table],)
    elif table in _COMPUTED:
        kinds = (_COMPUTED[table][0],)
    elif table in (_KERNELS, _EVENTS):
        kinds = (DeviceEvents, computed.LinkRows) if table == _KERNELS else _RECORDED.values()
    return (column for kind in kinds for column in _own(kind))


def _pool(column: TraceColumn) -> str | None:
    """The pool of texts that a query sees instead of a column's codes."""
    return column.pool if column.pool in _TEXTS else _own_pool(column)


def _own_pool(column: TraceColumn) -> str | None:
    """The pool of texts that are no column of a trace."""
    pool = {"category": "categories", "vendor": "vendors"}.get(column.name, column.pool)
    return pool if pool in _OWN_TEXTS or pool == "paths" else None


def bind(database: Database, recordings: Sequence[QueriedTrace], query: str) -> None:
    """Give a database the tables that a query names; a query about the tables themselves has all, but empty.

    Args:
        database: Where to.
        recordings: The traces, one for each rank.
        query: A text in which names of tables occur as words.
    """
    words = {word.lower() for word in _WORD.findall(query)}
    pools = {_pool(column) for table in described() if table.name in words for column in _all_columns(table.name)}
    for number, recording in enumerate(recordings):
        _add_pools(database, recording, number, pools)
    lists_tables = bool(words & _CATALOG) or any(word.startswith("duckdb_") for word in words)
    for table in described():
        if table.name in words:
            parts = [_part(database, table, recording, number) for number, recording in enumerate(recordings)]
            database.define(f"create view {identifier(table.name)} as {joined(parts)}")
        elif lists_tables:
            columns = ", ".join(f"{identifier(c.name)} {c.type}" for c in table.columns)
            database.define(f"create table {identifier(table.name)} ({columns})")


def _part(database: Database, table: SqlTable, recording: QueriedTrace, number: int) -> str:
    """The selection of the rows of one rank."""
    if table.name == _EVENTS:
        return _part_of_events(database, recording, number)
    if table.name == _KERNELS:
        return _part_of_kernels(database, recording, number)
    if table.name in _DESCRIBED:
        return _part_of_descriptions(database, table, recording, number)
    kind: type[Table]
    if table.name in _RECORDED:
        kind, rows = _RECORDED[table.name], getattr(recording.trace, table.name)
    else:
        kind, compute = _COMPUTED[table.name]
        rows = recording.context.cached(_made, compute, recording)
    own = f"_{table.name}_{number}"
    columns = {c.name: getattr(rows, c.name) for c in _own(kind)}
    if table.name in _RECORDED:
        columns["row"] = np.arange(len(rows))
    database.add(own, columns)
    return _selection(_own(kind), own, recording, number, has_row=table.name in _RECORDED)


def _part_of_kernels(database: Database, recording: QueriedTrace, number: int) -> str:
    """Kernels of one rank beside what they belong to: both tables have a row for each event of a device."""
    own = f"_{_KERNELS}_{number}"
    device = recording.trace.device
    links = recording.context.cached(_made, computed.links, recording)
    linked = [column for column in _own(computed.LinkRows) if column.name != "device_row"]
    columns = {column.name: getattr(device, column.name) for column in _own(DeviceEvents)}
    columns |= {column.name: getattr(links, column.name) for column in linked}
    database.add(own, columns | {"row": np.arange(len(device))})
    chosen = _selection([*_own(DeviceEvents), *linked], own, recording, number, has_row=True)
    return f"{chosen} where t.category = {Category.KERNEL.value}"


def _made(_: Any, compute: Callable[[QueriedTrace], Table], recording: QueriedTrace) -> Table:
    return compute(recording)


def _selection(columns: Sequence[TraceColumn], own: str, recording: QueriedTrace, number: int, *, has_row: bool) -> str:
    chosen = [_rank(recording), *(["t.row as row"] if has_row else [])]
    joins = []
    for column in columns:
        name = identifier(column.name)
        pool = _pool(column)
        if pool is not None:
            by = f"p_{column.name}"
            joins.append(f"left join _{pool}_{number} {by} on {by}.code = t.{name}")
            chosen.append(f"{by}.text::varchar as {name}")
        else:
            chosen.append(f"{_known(column)} as {name}")
        if column.pool == "threads":
            joins.append(f"left join _threads_{number} th on th.code = t.{name}")
            chosen += ["th.pid as pid", "th.tid as tid"]
        if column.name == "dur_ns":
            chosen.append("t.start_ns + t.dur_ns as end_ns")
    return f"select {', '.join(chosen)} from {own} t {' '.join(joins)}"


def _known(column: TraceColumn) -> str:
    """A column with NULL for what is unknown."""
    value = f"t.{identifier(column.name)}"
    if column.dtype.kind == "f":
        return f"nullif({value}, 'nan'::double)"
    if column.dtype.kind == "O":
        return f"{value}::varchar"
    if column.dtype.kind != "i":
        return value
    if column.pool in _ROWS_OF:
        value = f"nullif({value}, 0)"
    may_lack = bool(column.key) or "-1" in column.meaning or "absent" in column.meaning
    if may_lack and (column.missing or "absent" in column.meaning):
        value = f"nullif({value}, {column.missing})"
    return f"{value}::bigint"


def _rank(recording: QueriedTrace) -> str:
    return f"{recording.rank}::bigint as rank"


def _part_of_events(database: Database, recording: QueriedTrace, number: int) -> str:
    """All tables of slices of one rank."""
    parts = []
    categories = {"launches": Category.RUNTIME, "frames": Category.FRAME, "syncs": Category.SYNC}
    categories |= {"overheads": Category.OVERHEAD, "gpu_annotations": Category.GPU_ANNOTATION}
    categories |= {"accelerator": Category.ACCELERATOR}
    wanted = [column.name for column in _events().columns]
    for name, kind in _RECORDED.items():
        if not issubclass(kind, SliceTable) or not len(getattr(recording.trace, name)):
            continue
        table = _recorded(name)
        has = {column.name for column in table.columns} | {"table_name", "category"}
        given = {"table_name": f"{literal(name)} as table_name"}
        if name in categories:
            given["category"] = f"{literal(categories[name].name.lower())} as category"
        columns = ", ".join(
            given.get(column, column if column in has else f"null::bigint as {column}") for column in wanted
        )
        parts.append(f"select {columns} from ({_part(database, table, recording, number)})")
    if parts:
        return joined(parts)
    return "select " + ", ".join(f"null::{c.type} as {c.name}" for c in _events().columns) + " where false"


def _part_of_descriptions(database: Database, table: SqlTable, recording: QueriedTrace, number: int) -> str:
    own = f"_{table.name}_{number}_all"
    entries = getattr(recording.trace, table.name)
    kind, _ = _DESCRIBED[table.name]
    columns: dict[str, Array] = {"row": np.arange(len(entries))}
    for column in fields(kind):
        columns[column.name] = _objects([None if v == "" else v for v in (getattr(e, column.name) for e in entries)])
    database.add(own, columns)
    chosen = ", ".join(f"{identifier(c.name)}::{c.type} as {identifier(c.name)}" for c in table.columns[2:])
    return f"select {_rank(recording)}, row, {chosen} from {own} where row > 0"


def _add_pools(database: Database, recording: QueriedTrace, number: int, pools: Collection[str | None]) -> None:
    """Tables with each distinct text of some pools once, and the threads."""
    trace: Trace = recording.trace
    for name in sorted(pool for pool in pools if pool is not None):
        texts = recording.paths if name == "paths" else _OWN_TEXTS.get(name) or getattr(trace, name)
        values = _objects([text or None for text in texts])
        database.add(f"_{name}_{number}", {"code": np.arange(len(values)), "text": values})
    threads = trace.threads
    database.add(
        f"_threads_{number}",
        {
            "code": np.arange(len(threads)),
            "pid": _objects([thread.pid for thread in threads]),
            "tid": _objects([thread.tid for thread in threads]),
        },
    )


def _objects(values: Sequence[Any]) -> Array:
    made = np.empty(len(values), object)
    made[:] = values
    return made
