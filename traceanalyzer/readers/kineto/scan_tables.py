"""What the compiled scan reads: for each group of categories a table, and what each of its columns is made of."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from traceanalyzer.readers.kineto.categories import TableGroup
from traceanalyzer.readers.kineto.events import ARGS_FIELDS
from traceanalyzer.trace.table import UNKNOWN

POOLS = ("names", "threads", "shapes", "types", "dims", "strides", "concrete", "collectives", "sources", "phases")
"""Pools of texts: those of a `Collector`, and the phases of flows."""


class Kind(IntEnum):
    """What a column is made of; the numbers are those of `_scan.c`, which explains them."""

    INTEGER = 0
    SMALL = 1
    NUMBER = 2
    TIME = 3
    DURATION = 4
    TEXT = 5
    STRING = 6
    NAMED = 7
    PAIR = 8
    SECOND = 9
    WHOLE = 10
    CATEGORY = 11
    REQUIRED = 12


_ARGUMENTS = {spec.name: spec for spec in ARGS_FIELDS.values()}


@dataclass(frozen=True)
class ScanColumn:
    """What the scan reads into one column."""

    name: str
    """Of the column, or of one that is combined with it; empty for what is only looked at."""
    key: str
    kind: Kind
    in_args: bool = False
    """The key is one of the event's arguments."""
    pool: str = "phases"
    """The pool that its codes count in."""
    missing: int = UNKNOWN
    """Stands for a missing integer."""
    allowed: tuple[bytes, ...] = ()
    """Texts of a required value."""

    def packed(self) -> tuple[Any, ...]:
        """As `_scan` takes it."""
        pool = POOLS.index(self.pool)
        return self.key.encode(), int(self.in_args), int(self.kind), pool, self.missing, self.allowed


def _argument(name: str, attribute: str = "", kind: Kind = Kind.INTEGER, pool: str = "phases") -> ScanColumn:
    """A column made of an argument.

    Args:
        name: Name of the column.
        attribute: The field of `Args`, if it has another name.
        kind: What it is.
        pool: Of codes.
    """
    spec = _ARGUMENTS[attribute or name]
    missing = spec.default if isinstance(spec.default, int) else UNKNOWN
    return ScanColumn(name, spec.encode_name, kind, True, pool, missing)


def _raw(name: str, attribute: str = "", pool: str = "") -> ScanColumn:
    return _argument(name, attribute, Kind.TEXT, pool or name)


_START = ScanColumn("start_ns", "ts", Kind.TIME)
_THREAD = (ScanColumn("thread", "pid", Kind.PAIR, pool="threads"), ScanColumn("", "tid", Kind.SECOND))
_SLICE = (
    ScanColumn("", "ph", Kind.REQUIRED, allowed=(b'"X"',)),
    _START,
    ScanColumn("dur_ns", "dur", Kind.DURATION),
    ScanColumn("name", "name", Kind.STRING, pool="names"),
)
_CATEGORY = ScanColumn("category", "", Kind.CATEGORY)
_EXTERNAL = (_argument("external_id"), _argument("old_external_id"))
_COLLECTIVE = _argument("collective", kind=Kind.WHOLE, pool="collectives")


@dataclass(frozen=True)
class ScanTable:
    """The table of a group of categories."""

    name: str
    columns: tuple[ScanColumn, ...]


TABLES = {
    TableGroup.HOST: ScanTable(
        "host",
        (
            *_SLICE,
            _CATEGORY,
            *_THREAD,
            *_EXTERNAL,
            _raw("shapes"),
            _raw("old_shapes", pool="shapes"),
            _raw("types"),
            _raw("strides"),
            _raw("concrete"),
            _COLLECTIVE,
            _argument("source", "kernel_backend", Kind.WHOLE, "sources"),
            _argument("sequence"),
            _argument("forward_thread"),
        ),
    ),
    TableGroup.LAUNCH: ScanTable(
        "launches",
        (*_SLICE, *_THREAD, _argument("correlation"), *_EXTERNAL, _argument("kernel", kind=Kind.NAMED, pool="names")),
    ),
    TableGroup.DEVICE: ScanTable(
        "device",
        (
            *_SLICE,
            _CATEGORY,
            _argument("device", kind=Kind.SMALL),
            _argument("stream"),
            _argument("correlation"),
            *_EXTERNAL,
            _raw("grid", pool="dims"),
            _raw("block", pool="dims"),
            _argument("registers", kind=Kind.SMALL),
            _argument("shared_memory"),
            _argument("blocks_per_sm", kind=Kind.NUMBER),
            _argument("occupancy", kind=Kind.NUMBER),
            _argument("bytes"),
            _COLLECTIVE,
            _argument("graph"),
            _argument("graph_node"),
        ),
    ),
    TableGroup.GPU_ANNOTATION: ScanTable("gpu_annotations", (*_SLICE, *_THREAD)),
    TableGroup.FRAME: ScanTable(
        "frames",
        (
            *_SLICE,
            *_THREAD,
            _argument("python_id"),
            _argument("parent_id", "python_parent_id"),
            _argument("module_id"),
        ),
    ),
    TableGroup.SYNC: ScanTable(
        "syncs", (*_SLICE, _argument("device", kind=Kind.SMALL), _argument("stream"), _argument("correlation"))
    ),
    TableGroup.OVERHEAD: ScanTable("overheads", (*_SLICE, *_THREAD)),
    TableGroup.FLOW: ScanTable(
        "flows",
        (_START, *_THREAD, ScanColumn("flow", "id", Kind.INTEGER), ScanColumn("is_start", "ph", Kind.STRING)),
    ),
    TableGroup.INSTANT: ScanTable(
        "memory",
        (
            ScanColumn("", "ph", Kind.REQUIRED, allowed=(b'"i"', b'"I"')),
            ScanColumn("", "name", Kind.REQUIRED, allowed=(b'"[memory]"',)),
            _START,
            *_THREAD,
            _argument("device_type", kind=Kind.SMALL),
            _argument("device", "device_id", Kind.SMALL),
            _argument("bytes", "memory_bytes"),
            _argument("address"),
            _argument("allocated"),
            _argument("reserved"),
        ),
    ),
}
"""What is read of each group, in the order in which a `Collector` gives codes."""
