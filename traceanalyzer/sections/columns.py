"""What sections are made of: tables and facts, whose columns are data, and the columns that several tables have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic


class Column(SectionColumn, frozen=True):
    """One column of a table, and how its cells are made of rows."""

    cell: str | Callable[[Any], Any]
    """The name of an attribute of a row, which may be dotted, or a function of a row."""
    if_any: Callable[[Any], object] | None = None
    """The column is left out unless this holds for the cell of some row; None keeps it."""

    def of(self, cell: str | Callable[[Any], Any]) -> Column:
        """The same column with other cells."""
        return replace(self, cell=cell)

    def value(self, row: Any) -> Any:
        """The cell of a row."""
        return attrgetter(self.cell)(row) if isinstance(self.cell, str) else self.cell(row)


def known(cell: Any) -> bool:
    """Whether the value of a cell is known."""
    return cell is not None


def optional(if_any: Callable[[Any], object], *columns: Column) -> tuple[Column, ...]:
    """The columns, each left out of a table unless the function holds for the cell of some row."""
    return tuple(replace(column, if_any=if_any) for column in columns)


def share(cell: str | Callable[[Any], Any], whole: float) -> Column:
    """The column of the shares of a value of each row in a whole; unknown if the whole is 0."""
    part = SHARE.of(cell).value
    return SHARE.of(lambda row: part(row) / whole if whole else None)


def kept(columns: Iterable[Column], rows: Sequence[Any]) -> tuple[Column, ...]:
    """The columns that are not left out of a table of these rows."""
    return tuple(
        replace(column, if_any=None)
        for column in columns
        if column.if_any is None or any(map(column.if_any, map(column.value, rows)))
    )


def table(
    id: str,  # noqa: A002 - as in `SectionTable`
    columns: Sequence[Column],
    rows: Sequence[Any],
    top: int | None = None,
    total: int | None = None,
) -> SectionTable:
    """Build a table.

    Args:
        id: Its id.
        columns: Its columns; those that may be left out are judged by all `rows`.
        rows: The rows, most important first.
        top: Number of rows to show; None shows all.
        total: Number of all rows, if there are more than `rows`.
    """
    shown = kept(columns, rows)
    cells = tuple(tuple(column.value(row) for column in shown) for row in rows[:top])
    return SectionTable(id, shown, cells, len(rows) if total is None else total)


def facts(columns: Iterable[Column], row: Any) -> tuple[Fact, ...]:
    """Build the columns of a single row as labelled values, in place of a table."""
    return tuple(Fact(column.title, column.value(row), column.unit) for column in kept(columns, (row,)))


def detail(
    id: str,  # noqa: A002 - as in `Section`
    title: Text | Message,
    topic: Topic,
    tables: Iterable[SectionTable],
    *,
    messages: Iterable[Message] = (),
    facts: Iterable[Fact] = (),
    terms: tuple[Term, ...] = (),
) -> Section:
    """Build a section that is left out of the first screen; its arguments are the fields of `Section`."""
    return Section(
        id, title, tuple(messages), tuple(facts), tables=tuple(tables), terms=terms, topic=topic, is_detail=True
    )


ALGORITHM = Column(
    Text("column-algorithm", "Algorithm GB/s", "size over time, as nccl-tests define it"),
    "number",
    "algorithm_gb_per_s",
)
ALLOCATED = Column(Text("column-allocated", "Allocated"), "bytes", "allocated_bytes")
ALLOCATIONS = Column(Text("column-allocations", "Allocations"), "count", "allocations")
BACKWARD_SELF = Column(
    Text(
        "column-backward-self",
        "Backward self",
        "device time of the backward pass of the operators that a module or a line of the forward pass called",
    ),
    "ns",
    "backward_device_self_ns",
)
BACKWARD_TOTAL = Column(
    Text("column-backward-total", "Backward total", "the same with everything that the module or line called"),
    "ns",
    "backward_device_total_ns",
)
BUS = Column(Text("column-bus", "Bus GB/s", "as nccl-tests define it"), "number", "bus_gb_per_s")
CALLS = Column(Text("column-calls", "Calls"), "count", "calls")
CLASS = Column(Text("column-class", "Class"), "", "name", is_name=True)
COLLECTIVE = Column(Text("column-collective", "Collective"), "", "operation")
DEVICE = Column(Text("column-device", "Device"), "", "device")
DEVICE_SELF = Column(Text("column-device-self", "Device self"), "ns", "device_self_ns")
DEVICE_TOTAL = Column(Text("column-device-total", "Device total"), "ns", "device_total_ns")
DURATION = Column(Text("column-duration", "Duration"), "ns", "duration_ns")
EXPOSED = Column(Text("column-exposed", "Exposed", "while no other kernel runs"), "ns", "exposed_ns")
FILE = Column(Text("column-file", "File"), "", "file", is_name=True)
GPU = Column(Text("column-gpu", "GPU"), "", "device")
HOST_SELF = Column(Text("column-host-self", "CPU self"), "ns", "host_self_ns")
HOST_TOTAL = Column(Text("column-host-total", "CPU total"), "ns", "host_total_ns")
IDLE = Column(Text("column-idle", "Idle", "no device works"), "ns", "idle_ns")
INPUT_SHAPES = Column(Text("column-input-shapes", "Input shapes"), "", "input_shapes", is_name=True)
KERNEL = Column(Text("column-kernel", "Kernel"), "", "name", is_name=True)
KIND_OF_WORK = Column(Text("column-kind-of-work", "Kind of work"), "", "kind")
LINE = Column(Text("column-line", "Line"), "", "name", is_name=True)
MAX = Column(Text("column-max", "Max"), "ns", "max_ns")
MAXIMUM = Column(Text("column-maximum", "Maximum"), "ns", "max_ns")
MEAN = Column(Text("column-mean", "Mean"), "ns", "mean_ns")
MEDIAN = Column(Text("column-median", "Median"), "ns", "median_ns")
MESSAGE_SIZE = Column(Text("column-message", "Message"), "bytes", "message_bytes")
MIN = Column(Text("column-min", "Min"), "ns", "min_ns")
MODULE = Column(Text("column-module", "Module"), "", "name", is_name=True)
NAME = Column(Text("column-name", "Name"), "", "name", is_name=True)
OCCUPANCY = Text("column-occupancy", "Est. occupancy")
OPERATOR = Column(Text("column-operator", "Operator"), "", "name", is_name=True)
OWNER = Column(
    Text("column-owner", "Owner", "part of a program that takes time"), "", "owner", is_name=True, if_any=known
)
PLACE = Column(Text("column-place", "Place", "kind, file and line"), "", "place", is_name=True)
PROCESS_GROUP = Column(Text("column-process-group", "Process group"), "", "process_group", is_name=True)
PYTHON_LINE = Column(Text("column-python-line", "Python line"), "", "python_line", is_name=True, if_any=known)
RANK = Column(Text("column-rank", "Rank"), "", "rank")
RANKS = Column(Text("column-ranks", "Ranks"), "count", "group_size")
SHARE = Column(Text("column-share", "Share"), "share", "share", has_bar=True)
STEP = Column(Text("column-step", "Step"), "", "name")
STREAM = Column(Text("column-stream", "Stream"), "", "stream")
TENSOR_CORES = Text("column-tensor-cores", "Tensor cores")
TIME = Column(Text("column-time", "Time"), "ns", "time_ns")
TOTAL = Column(Text("column-total", "Total"), "ns", "total_ns")
WAITING = Text("column-waiting", "Waiting")
BASE = Column(Text("diff-base", "Base", "before"), "ns", "base_ns")
HEAD = Column(Text("diff-head", "Head", "after"), "ns", "head_ns")
CHANGE = Column(Text("diff-change", "Change"), "+ns", "change_ns")
