"""TableDocument: the printed tables of `key_averages().table()`, as plain data. Readers fill it.

Columns go by one name, whatever the release of torch or the device called them; the names are also the
attributes of `TableRow`:

| id | printed as, with the device in place of DEV |
|---|---|
| name, overload_name | Name, Overload Name |
| self_cpu_share, self_cpu_ns | Self CPU %, Self CPU; before 1.7 Self CPU total %, Self CPU total |
| cpu_total_share, cpu_total_ns, cpu_avg_ns | CPU total %, CPU total, CPU time avg |
| self_device_ns, self_device_share | Self DEV, Self DEV % |
| device_total_share, device_total_ns, device_avg_ns | DEV total % (before 1.7), DEV total, DEV time avg |
| cpu_mem_bytes, self_cpu_mem_bytes | CPU Mem, Self CPU Mem |
| device_mem_bytes, self_device_mem_bytes | DEV Mem, Self DEV Mem |
| calls, node_id | # of Calls, Node ID |
| input_shapes, source_location | Input Shapes, Source Location |
| flops, flops_per_second | Total KFLOPs and the like, GFLOPS/s and the like |
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from traceanalyzer.trace.model import Loss


class TableRow(msgspec.Struct, frozen=True, kw_only=True):
    """One printed row. None means "not printed, or not readable"; it never means zero."""

    line: int
    """1-based line of the document."""
    name: str
    name_truncated: bool = False
    """The name ends in the dots of a cut one: different events may share it."""
    overload_name: str | None = None
    """Empty for an event without overloads; None where the table has no such column."""
    is_async: bool = False
    """`CPU total %` is a bare 0: the event is asynchronous, and that share unknown."""
    self_cpu_share: float | None = None
    """Fraction of the table's sum of self CPU time, as printed, like all shares; 1.0425 for 104.25 %."""
    self_cpu_ns: int | None = None
    cpu_total_share: float | None = None
    cpu_total_ns: int | None = None
    cpu_avg_ns: int | None = None
    self_device_ns: int | None = None
    self_device_share: float | None = None
    device_total_share: float | None = None
    device_total_ns: int | None = None
    device_avg_ns: int | None = None
    cpu_mem_bytes: int | None = None
    """Allocated minus freed, like all memory columns: it may be negative, and is not a peak."""
    self_cpu_mem_bytes: int | None = None
    device_mem_bytes: int | None = None
    self_device_mem_bytes: int | None = None
    calls: int | None = None
    node_id: int | None = None
    input_shapes: str | None = None
    """The list as printed, such as `[[8, 3], []]`."""
    shapes_truncated: bool = False
    """The list of shapes is cut off: its brackets do not close."""
    source_location: tuple[str, ...] = ()
    """Frames from the innermost outwards, as printed (long ones are cut on the left)."""
    flops: int | None = None
    flops_per_second: int | None = None
    form_row: str | None = None
    """What the row of another tool's table is: kernel, copy, call, phase, function, line and the like; None for
    torch."""
    part: str | None = None
    """The part of a program that the row of another tool's table stands for, such as loader or backward."""
    within: str | None = None
    """Name of the row of another tool's table that contains it."""
    resolution: Mapping[str, int] = {}
    """Step of the last printed digit by column, in the column's unit (1.234ms: 1000 ns), at least 1.

    The measured value lies within half a step of the printed one."""


class TableTotals(msgspec.Struct, frozen=True, kw_only=True):
    """The lines below a table; None means "not printed, or not readable"."""

    self_cpu_ns: int | None = None
    """`Self CPU time total`: the sum over all events, shown or not, and over all threads."""
    self_device_ns: int | None = None
    """The printed total `Self DEV time total`."""
    device_total_ns: int | None = None
    """`CUDA time total` of tables without self device times: nested operators count more than once."""
    resolution: Mapping[str, int] = {}
    """Step of the last printed digit by field, ns."""


class ProfilerTable(msgspec.Struct, frozen=True, kw_only=True):
    """One table, with facts from the text around it."""

    title: str | None
    """Nearest heading above the table, without its decoration; None if there is none."""
    section: str | None
    """Nearest Markdown heading (`# ...`) above the table, which it may share with other tables."""
    line: int
    """1-based line of the table's header."""
    columns: tuple[str, ...]
    """Ids of the known columns in the order in which they are printed."""
    device: str | None
    """Device as printed in the header or below the table, such as CUDA, XPU, NPU; None without one."""
    rows: tuple[TableRow, ...]
    totals: TableTotals = TableTotals()
    top_level_only: bool = False
    """Whether the table states that it leaves out nested events."""
    has_plain_names: bool = False
    """Operators have no namespace in it (`mm`, not `aten::mm`): it is of torch before 1.7."""
    single_calls: bool = False
    """Whether its rows are single calls, the longest of a program, as torch.utils.bottleneck prints them."""
    complete: bool = True
    """The end of the table was seen. Rows beyond torch's row_limit are missing from complete tables too."""
    loops: tuple[int, ...] = ()
    """Numbers of iterations of the loops in a program above the table, the nearest loop first."""
    form: str | None = None
    """Id of the form of another tool's table; None for torch's."""
    tool: str | None = None
    """The tool that prints it, by its name."""
    form_steps: int | None = None
    """Number of steps that its timers are about; None where it does not tell."""
    losses: tuple[Loss, ...] = ()
    """Losses while reading this table; `params` contains the line of its header."""


class PrintedRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate in the text around the tables, such as `~4.9 samples/sec`."""

    line: int
    """1-based line of the document."""
    words: str
    """The line as printed, without markup around it."""
    printed: str
    """The part of the line with the rate."""
    per_s: float
    """The number, per second."""
    unit: str
    """The counted unit: samples, sequences, images, frames, tokens, iterations, steps, batches or requests."""
    after_table: int | None
    """Position of the table before it, from 0; None without one, or with a heading between."""
    before_table: int | None
    """Position of the next table, from 0; None without one, or if a heading is between them."""
    heading: str | None = None
    """The heading that it stands under, without its decoration; None without one."""
    settings: tuple[str, ...] = ()
    """The items of lists between this heading and it, as printed: what was changed, in the words of the text."""


class PrintedFigure(msgspec.Struct, frozen=True):
    """A figure that a tool prints again and again, such as the use of a device."""

    form: str
    tool: str
    name: str
    """As printed, with the device that it is of."""
    unit: str
    """Its unit, as printed."""
    values: int
    """Number of values."""
    least: float
    mean: float
    most: float
    last: float
    line: int
    """1-based line of the first one."""


class PrintedFailure(msgspec.Struct, frozen=True, kw_only=True):
    """An allocation that failed, as the text of the error says it. None means "not printed"."""

    line: int
    """1-based line of the document."""
    device: int | None
    """Number of the device."""
    code: str | None
    """The line of the program that asked, as the profiler writes frames: `path(line): function`."""
    asked_bytes: int
    total_bytes: int | None
    """What the device has in all."""
    free_bytes: int | None
    process_bytes: int | None
    """What the process holds on the device, other libraries included."""
    allocated_bytes: int | None
    """What tensors hold."""
    reserved_bytes: int | None
    """What the allocator holds from the driver."""
    inactive_bytes: int | None
    """What it holds and no tensor uses."""


class MemorySummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `torch.cuda.memory_summary()` prints of a device. None means "not printed"."""

    line: int
    """1-based line of the document."""
    device: int
    failures: int | None
    """Allocations that failed."""
    retries: int | None
    """How often the allocator gave back all it could, to ask again."""
    allocated_bytes: int
    peak_bytes: int
    """Most that was allocated at a time."""
    reserved_bytes: int | None
    stuck_bytes: int | None
    """What no tensor uses in segments that others use: it cannot be given back (`Non-releasable memory`)."""


class TableDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A text and the profiler tables that were found in it, in their order."""

    name: str
    size_bytes: int | None
    tables: tuple[ProfilerTable, ...]
    losses: tuple[Loss, ...] = ()
    """What could not be read in the whole document: the sum over all tables, and tables given up."""
    figures: tuple[PrintedFigure, ...] = ()
    """Figures in logs and in what monitors print."""
    rates: tuple[PrintedRate, ...] = ()
    """Rates in the text around the tables, in their order."""
    memory_failures: tuple[PrintedFailure, ...] = ()
    """Allocations that failed, in their order."""
    memory_summaries: tuple[MemorySummary, ...] = ()
    """Summaries of the memory of devices, in their order."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it can be reported."""
        return not (self.tables or self.figures or self.memory_failures or self.memory_summaries)
