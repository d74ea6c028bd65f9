"""Where did the time go in each run that the tables describe? And what does an operator cost per shape?

Two calls of one operator that move the same number of elements and give an output of the same size should
cost the same, whatever the order or layout of their operands. Where one costs far more, the cheaper one shows
what is possible on this device, without any data sheet.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.analyzers.tables import printed_times
from traceanalyzer.analyzers.tables.grouping import RunView, sum_known
from traceanalyzer.analyzers.tables.kinds import RowKind, is_dataloader
from traceanalyzer.analyzers.tables.parts import PrintedPart, parts_of
from traceanalyzer.analyzers.tables.printed_times import Rows
from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.knowledge.op_shapes import Implied, implied
from traceanalyzer.structure.operator_times import Peer, Priced, peers
from traceanalyzer.trace.document import TableRow

_COPYING = frozenset({"aten::copy_", "copy_"})
"""Operators whose work on the device may be a copy instead of a kernel."""
_MOST = 0.5
"""Part of spans between events from which on what certainly is work is most of them (own choice)."""
_LEAST_OUTSIDE = 0.01
"""Share of the host's time that lies outside of steps and is worth a word (own choice: less is rounding)."""
_ROUNDED = 0.001
"""By what a printed share and one that is calculated from times differ at most if they are the same (own choice)."""
_SAME_ROWS = 0.5
"""Own choice: part of the names in two tables that both have; those of ranks differ at the end of the ranking."""
_SAME_TOTAL = 1.25
"""Greatest difference between totals of similar tables (own choice)."""


class Hot(msgspec.Struct, frozen=True):
    """One operator or kernel: all its rows of one name; rows whose names are cut are not joined."""

    name: str
    """Name as printed."""
    name_truncated: bool
    """Whether the name is cut, so that several operators or kernels may share it."""
    calls: int | None
    """Number of calls; null where they are not printed."""
    device_self_ns: int | None
    """Self device time in ns; null where it is not printed."""
    device_share: float | None
    """Share of the run's device time (0 to 1); null where one of both is not printed."""
    host_self_ns: int | None
    """Self CPU time in ns; null where it is not printed."""
    host_share: float | None
    """Share of the run's host time (0 to 1); null where one of both is not printed."""
    host_total_ns: int | None = None
    """CPU time in ns with what it calls; null where it is not printed, or self times are printed."""
    device_total_ns: int | None = None
    """Device time in ns with what it calls; null where it is not printed, or its own time is known."""


class PrintedCopy(msgspec.Struct, frozen=True):
    """Copies or fills of one kind."""

    name: str
    """Name of the copy or fill as printed."""
    calls: int | None
    """Number of copies; null where it is not printed."""
    device_ns: int | None
    """Self device time in ns; null where it is not printed."""


class PrintedShapeCost(msgspec.Struct, frozen=True):
    """All calls of one operator with one list of input shapes."""

    name: str
    """Name of the operator as printed."""
    input_shapes: str
    """Input shapes as printed."""
    shapes_truncated: bool
    """Whether the printed list of shapes is cut off."""
    calls: int
    """Number of calls."""
    device_ns: int
    """Self device time of all calls in ns."""
    device_ns_per_call: float
    """Self device time of one call in ns."""
    host_ns: int | None
    """Total CPU time of all calls in ns, with the operators that it calls; null where it is not printed."""
    host_ns_per_call: float | None
    """Total CPU time of one call in ns; null where it is not printed."""
    output_elements: int | None
    """Number of elements of the output, as the shapes imply; null where the operator has no model or the list is
    cut."""
    elements_moved: int | None
    """Number of elements read and written, each tensor once; null where the operator has no model or the list is
    cut."""
    bytes_at_4_per_element: int | None
    """Bytes moved if all elements are float32, because tables print no types; null where the elements are unknown."""
    peer: Peer | None
    """The cheapest call of the same operator and size; null if none is cheaper."""


class PrintedRun(msgspec.Struct, frozen=True):
    """One profile. Shares are of the profiled time, never of wall clock, which a table does not have."""

    id: str
    """Id of the run within the document: `run-1`, `run-2`, ...; `rank-0`, ... where the headings show ranks; `table-1`,
    ... where there are more than four and it is unknown whether they are runs or ranks."""
    title: str | None
    """Heading of the run in the document; null if there is none."""
    steps: int
    """Number of steps of the profile; 1 where no row shows it."""
    steps_from: str | None
    """The row whose calls are the number of steps, or a loop of the program above the table, such as `range(100)`; null
    where none was found."""
    cpu_ns: int | None
    """Self CPU time of all events in ns, summed over threads: as printed, or from the shares of rows; null where it is
    unknown."""
    device_ns: int | None
    """Self device time of all kernels, copies and fills in ns: as printed, or from the shares of rows, without
    annotations that the printed total includes; null where it is unknown."""
    wall_estimate_ns_per_step: float | None
    """Estimated duration of a step in ns: max(host, device) per step. Too low where host time lies outside of
    operators, too high where threads overlap; null where no total is printed."""
    device_share_at_most: float | None
    """Device time over that estimate (0 to 1): the device was busy for at most this share, if the estimate is not too
    high; null where no device time is printed."""
    dataloader_ns: int | None
    """CPU time of waits for batches in ns, with what runs within them; null where no row shows any."""
    sync_ns: int | None
    """Self CPU time in ns in runtime calls that wait for the device, copies that last included; null where no row shows
    any."""
    copies: tuple[PrintedCopy, ...]
    """Copies and fills as printed."""
    allocated_bytes: int | None
    """Bytes that operators allocated on the device and kept while they ran, freed later or not: traffic, no peak. Null
    where memory is not printed."""
    cpu_hidden_share: float | None
    """Share of the host time (0 to 1) in rows that are not printed (row_limit); null without a total."""
    device_hidden_share: float | None
    """Share of the device time (0 to 1) that is neither in printed kernels, copies and fills nor in printed operators
    (row_limit); null without a total."""
    annotations_in_total: bool | None
    """Whether device annotations are part of the printed total (torch before 2.5), which is then too high; those that
    have a row of the host, too, are subtracted from `device_ns`. Null if unknown."""
    operators: tuple[Hot, ...]
    """Operators, the most device time first (host time where there is no device)."""
    kernels: tuple[Hot, ...]
    """Kernels, the most device time first."""
    shape_costs: tuple[PrintedShapeCost, ...]
    """Operators by input shapes, the most device time first; empty where no table has shapes."""
    tables: tuple[int, ...]
    """Positions of the run's tables in the document, counted from 0."""
    like: str | None = None
    """Id of the first run before it that has mostly the same rows and about the same totals; null where none has."""
    batch_size: int | None = None
    """Length of the first axis that all tensors of three and more axes have in common, if they are not operands of
    batched products only; null if there is none, or where no table has shapes."""
    totals_from_shares: bool = False
    """Whether a total is not printed, and was calculated from the time and the share of a row."""
    startup_ns: int | None = None
    """Self CPU time in ns of loading device code, and of allocations and first uses that do not recur; null where no
    row shows any."""
    profiler_ns: int | None = None
    """Self CPU time in ns of the profiler itself; null where no row shows any."""
    cpu_hidden_ns: int | None = None
    """Host time in ns in rows that are not printed: the total without the printed rows; null without a total."""
    device_hidden_ns: int | None = None
    """Device time in ns that is neither in printed kernels, copies and fills nor in printed operators; null without a
    total."""
    has_event_spans: bool = False
    """Whether the printed device times are spans between events, which include waits for the host, so that the
    device's time is unknown."""
    total_cannot_be: bool = False
    """Whether the printed total of self CPU times is negative, or less than what one call took, so that it is unknown
    how long the run was."""
    outside_ns: int | None = None
    """Host time in ns outside of the profiler's steps, or on other threads, in the whole run; null where no steps are
    marked, and where it is less than a hundredth."""
    is_of_single_calls: bool = False
    """Whether the rows are the longest single calls of a whole program, as torch.utils.bottleneck prints them: they are
    no step, and their sum is not the program's time."""
    tool: str | None = None
    """The tool that printed the tables, if it is not PyTorch; null for tables of PyTorch."""
    parts: tuple[PrintedPart, ...] = ()
    """Parts of the program in the tables of other tools, the longest first."""
    device_from_operators: bool = False
    """Whether `device_ns` is the sum over operators that call no others, because the tables have no own times of the
    device (torch before 1.7)."""


def analyze_all(views: Sequence[RunView]) -> tuple[PrintedRun, ...]:
    """Compute the figures of all runs, and which are alike."""
    first: list[tuple[PrintedRun, RunView]] = []
    printed_runs = []
    for view in views:
        run = analyze(view)
        like = next((other.id for other, its_view in first if _is_like(run, other, view, its_view)), None)
        if like is None:
            first.append((run, view))
        printed_runs.append(msgspec.structs.replace(run, like=like))
    return tuple(printed_runs)


def _has_workers(row: TableRow) -> bool:
    """Whether worker processes prepare the batches, so that what runs within the wait is little."""
    return "MultiProcessing" in row.name


def _is_like(run: PrintedRun, other: PrintedRun, view: RunView, others: RunView) -> bool:
    names, other_names = ({row.name for row, _ in each.by_name} for each in (view, others))
    if not names or len(names & other_names) < _SAME_ROWS * len(names | other_names):
        return False
    return _is_about(run.cpu_ns, other.cpu_ns) and _is_about(run.device_ns, other.device_ns)


def _is_about(a: int | None, b: int | None) -> bool:
    return a == b or (a is not None and b is not None and max(a, b) <= _SAME_TOTAL * min(a, b))


def analyze(view: RunView) -> PrintedRun:
    """Compute the figures of one run."""
    rows = view.by_name
    totals = printed_times.totals_of(view)
    cpu = totals.cpu_ns
    are_spans = printed_times.spans_hide_host_time(view, cpu, totals.device_ns)
    device, are_in_total = _kernel_time(rows, _certain_time(rows, totals.device_ns) if are_spans else totals.device_ns)
    steps, steps_from = _steps(view)
    parts = printed_times.divide_host_time(rows, steps, is_device_known=bool(device))
    marked = printed_times.marked_steps(rows, steps, cpu)
    is_unknown = totals.cannot_be or any(table.single_calls for table in view.tables)
    elsewhere = printed_times.waiting_elsewhere(rows, cpu)
    step = None if is_unknown else _step_time(cpu and cpu - elsewhere, device, steps, marked)
    whole = totals.device_ns if are_spans and device is not None else device
    is_torch = view.tables[0].tool is None
    cpu_hidden = _hidden(cpu if is_torch else None, sum_known(row.self_cpu_ns for row, _ in rows))
    prints_device = is_torch and any("self_device_ns" in table.columns for table in view.tables)
    device_hidden = _hidden(device if prints_device else None, _printed_device_time(rows))
    return PrintedRun(
        id=view.id,
        title=view.title,
        steps=steps,
        steps_from=steps_from,
        cpu_ns=cpu,
        device_ns=device,
        wall_estimate_ns_per_step=step,
        device_share_at_most=_share(device and device / steps, step),
        dataloader_ns=_loading(rows),
        sync_ns=parts.waits_ns,
        copies=_copies(rows),
        allocated_bytes=_allocated(rows),
        cpu_hidden_share=_share(cpu_hidden, cpu),
        device_hidden_share=_share(device_hidden, device),
        annotations_in_total=are_in_total,
        operators=_hot(rows, RowKind.OPERATOR, cpu, whole),
        kernels=_hot(rows, RowKind.KERNEL, cpu, whole),
        shape_costs=shape_costs(view.by_shape),
        tables=view.positions,
        batch_size=_batch_size(view.by_shape),
        totals_from_shares=totals.from_shares,
        startup_ns=parts.startup_ns,
        profiler_ns=parts.profiler_ns,
        has_event_spans=are_spans,
        total_cannot_be=totals.cannot_be,
        cpu_hidden_ns=cpu_hidden,
        device_hidden_ns=device_hidden,
        outside_ns=_outside(cpu, marked, elsewhere),
        is_of_single_calls=any(table.single_calls for table in view.tables),
        tool=_tool(view),
        parts=parts_of(rows, cpu),
        device_from_operators=totals.from_operators,
    )


def _steps(view: RunView) -> tuple[int, str | None]:
    """Number of steps, and what they are counted by; 1 and None if nothing shows it."""
    form = next((table for table in view.tables if table.form is not None), None)
    if form is not None:
        return form.form_steps or 1, form.tool if form.form_steps else None
    return printed_times.count_steps(view.by_name, [loop for table in view.tables for loop in table.loops])


def _tool(view: RunView) -> str | None:
    """The tool that printed the tables; without what it calls each of several."""
    names = dict.fromkeys(table.tool for table in view.tables if table.tool is not None)
    return next(iter(dict.fromkeys(name.partition(" (")[0] if len(names) > 1 else name for name in names)), None)


def _certain_time(rows: Rows, spans: int | None) -> int | None:
    """The device time that spans between events certainly contain; None if it is not most of them."""
    certain = printed_times.beyond_host(rows)
    return certain if spans and certain >= _MOST * spans else None


def _step_time(
    cpu: int | None, device: int | None, steps: int, marked: printed_times.MarkedSteps | None
) -> float | None:
    """Duration of a step in ns: that of the profiler's mark, or the larger sum; never less than the device's time."""
    largest = _largest(cpu, device)
    if marked is not None:
        return max(marked.mean_ns, (device or 0) / steps)
    return None if largest is None else largest / steps


def _outside(cpu: int | None, marked: printed_times.MarkedSteps | None, elsewhere: int) -> int | None:
    """Host time outside of the profiler's steps, or on other threads; None if it is little or unknown."""
    rest = cpu - marked.total_ns if cpu is not None and marked is not None else elsewhere
    return rest if cpu and rest >= _LEAST_OUTSIDE * cpu else None


def _loading(rows: Rows) -> int | None:
    """Time of waits for batches, with all that runs within them: without workers that is the work of the loader."""
    waits = [row for row, _ in rows if is_dataloader(row)]
    times = [row.self_cpu_ns if _has_workers(row) or row.cpu_total_ns is None else row.cpu_total_ns for row in waits]
    if any(row.form_row is not None for row in waits):  # other tools' names may be of calls within each other
        return max((time for time in times if time is not None), default=None)
    return sum_known(times)


def _kernel_time(rows: Rows, total: int | None) -> tuple[int | None, bool | None]:
    """The printed device time without that of annotations, and whether it included them; None if unknown."""
    spans = printed_times.find_device_spans(rows, total)
    return None if total is None else total - spans.to_subtract_ns, spans.are_in_total


def _largest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _printed_device_time(rows: Rows) -> int:
    """Device time in the rows of kernels and copies, or of operators if those have more.

    Where no copy is printed by itself, those of operators that copy count beside the kernels.
    """
    of_kernels = sum_known(row.self_device_ns for row, kind in rows if kind in (RowKind.KERNEL, RowKind.COPY))
    if of_kernels and all(kind is not RowKind.COPY for _, kind in rows):
        of_kernels += sum_known(row.self_device_ns for row, _ in rows if row.name in _COPYING) or 0
    of_operators = sum_known(row.self_device_ns for row, kind in rows if kind is RowKind.OPERATOR)
    return max(of_kernels or 0, of_operators or 0)


def _copies(rows: Rows) -> tuple[PrintedCopy, ...]:
    return tuple(PrintedCopy(row.name, row.calls, row.self_device_ns) for row, kind in rows if kind is RowKind.COPY)


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _batch_size(rows: list[TableRow]) -> int | None:
    """The one first axis of all tensors that have three and more, not only of products, which fold heads into it."""
    calls = [(row.name, _shapes(row)) for row in rows]
    tensors = [(name, shape) for name, shapes in calls for shape in shapes if len(shape) >= 3]
    first = {shape[0] for _, shape in tensors}
    return first.pop() if len(first) == 1 and any("bmm" not in name.lower() for name, _ in tensors) else None


def _allocated(rows: list[tuple[TableRow, RowKind]]) -> int | None:
    """Sum of the positive memory figures in bytes; negative ones are frees and say nothing about allocations."""
    sizes = [row.self_device_mem_bytes for row, _ in rows if row.self_device_mem_bytes is not None]
    return sum(size for size in sizes if size > 0) if sizes else None


def _hidden(total: int | None, shown: int | None) -> int | None:
    """The part of a total that is not printed; a little less than 0 is rounding, and counts as 0."""
    return max(0, total - (shown or 0)) if total else None


def _hot(rows: list[tuple[TableRow, RowKind]], kind: RowKind, cpu: int | None, device: int | None) -> tuple[Hot, ...]:
    """Rows of one kind, the most device time first (host time where there is no device)."""
    by_name: dict[object, list[TableRow]] = {}
    for position, (row, row_kind) in enumerate(rows):
        if row_kind is kind:
            # Rows of one whole name are one operator; cut names may belong to different ones.
            by_name.setdefault(position if row.name_truncated else row.name, []).append(row)
    hot = [_sum_up(members, cpu, device) for members in by_name.values()]
    return tuple(sorted(hot, key=lambda h: (*(-(ns or 0) for ns in _costs(h)), h.name, h.calls or 0)))


def _costs(hot: Hot) -> tuple[int | None, ...]:
    """What ranks rows: self times, else times with what they call, those of the device first."""
    return hot.device_self_ns, hot.host_self_ns, hot.device_total_ns, hot.host_total_ns


def _sum_up(rows: list[TableRow], cpu: int | None, device: int | None) -> Hot:
    on_device = sum_known(row.self_device_ns for row in rows)
    on_host = sum_known(row.self_cpu_ns for row in rows)
    has_no_self = on_host is None and on_device is None
    return Hot(
        name=rows[0].name,
        name_truncated=rows[0].name_truncated,
        calls=sum_known(row.calls for row in rows),
        device_self_ns=on_device,
        device_share=_printed_share(rows, "self_device_share", on_device, device),
        host_self_ns=on_host,
        host_share=_printed_share(rows, "self_cpu_share", on_host, cpu),
        host_total_ns=sum_known(row.cpu_total_ns for row in rows) if has_no_self else None,
        device_total_ns=sum_known(row.device_total_ns for row in rows) if on_device is None else None,
    )


def _printed_share(rows: list[TableRow], column: str, time: int | None, total: int | None) -> float | None:
    """The share as printed, unless it is of another total; else by the times."""
    share = _share(time, total)
    printed = getattr(rows[0], column) if len(rows) == 1 else None
    return printed if share is not None and printed is not None and abs(printed - share) < _ROUNDED else share


def shape_costs(rows: list[TableRow]) -> tuple[PrintedShapeCost, ...]:
    """Costs of operator rows of tables grouped by input shapes, the most device time first."""
    priced = [row for row in rows if row.calls and row.self_device_ns is not None and row.input_shapes]
    sizes = [_implied(row) for row in priced]
    cheapest = peers(
        [
            Priced((row.name, size) if size else None, row.input_shapes or "", row.calls or 1, row.self_device_ns or 0)
            for row, size in zip(priced, sizes, strict=True)
        ]
    )
    costs = [_shape_cost(row, size, peer) for row, size, peer in zip(priced, sizes, cheapest, strict=True)]
    return tuple(sorted(costs, key=lambda c: (-c.device_ns, -(c.host_ns or 0), c.name, c.input_shapes)))


def _implied(row: TableRow) -> Implied | None:
    shapes = () if row.name_truncated else _shapes(row)
    return implied(row.name, shapes) if shapes else None


def _shapes(row: TableRow) -> tuple[Shape, ...]:
    """The shapes of a row's inputs; none if they are cut off or unknown."""
    return () if row.shapes_truncated else Inputs(row.input_shapes).shapes or ()


def _shape_cost(row: TableRow, size: Implied | None, peer: Peer | None) -> PrintedShapeCost:
    calls = row.calls or 0
    device = row.self_device_ns or 0
    return PrintedShapeCost(
        name=row.name,
        input_shapes=row.input_shapes or "",
        shapes_truncated=row.shapes_truncated,
        calls=calls,
        device_ns=device,
        device_ns_per_call=device / calls,
        host_ns=row.cpu_total_ns,
        host_ns_per_call=None if row.cpu_total_ns is None else row.cpu_total_ns / calls,
        output_elements=size.output if size else None,
        elements_moved=size.moved if size else None,
        bytes_at_4_per_element=4 * size.moved if size else None,
        peer=peer,
    )
