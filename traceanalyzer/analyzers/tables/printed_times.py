"""What printed times mean: totals, the number of steps, parts of the host's time, and spans that are no work.

* Totals are as printed below the tables, or from the shares of their rows where a copy lacks them.
* A program's own host time does not include waits for the device, start-up, and the profiler's own work.
* Torch before 2.5 adds the spans of annotations on the device to the printed total as if they were kernels.
* Until torch 1.8 the profiler recorded a CUDA event before and after each operator (`use_cuda=True`), and
  `torch.utils.bottleneck` still does. While the host is too slow, the device waits between these events, so that the
  sum of the spans is about the host's time. Only if it is much larger, the device is what takes longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from traceanalyzer.analyzers.tables.grouping import RunView, has_no_own_device_times, sum_known, without_repeated
from traceanalyzer.analyzers.tables.kinds import MARKS, RowKind, is_device_row, is_sync
from traceanalyzer.knowledge.marks import is_optimizer_step
from traceanalyzer.structure import host_activity
from traceanalyzer.trace.document import TableRow

STEP = "ProfilerStep"
"""What the profiler calls a step."""
_LEAST_SHARE = 0.0025
"""Own choice: torch prints shares to 0.01 %, so a total from a smaller share could be wrong by more than 2 %."""
_ROUNDED = 1.01
"""By what rounding may make one call longer than the sum (own choice)."""


class RunTotals(NamedTuple):
    """Sums over all events of a profile, in ns; None where they are unknown."""

    cpu_ns: int | None
    device_ns: int | None
    from_shares: bool
    """Whether one of the totals is not printed."""
    cannot_be: bool
    """Whether the printed sum of the host's times is negative, or less than what one call took."""
    from_operators: bool = False
    """Whether the device's time is the sum over operators that call no others, because only totals are printed."""


def totals_of(view: RunView) -> RunTotals:
    """The totals of a run.

    A sum that is negative, or that one call exceeds, is unknown, and so are shares of it: some releases print negative
    self times of ranges that end in other calls than they began.
    """
    if view.tables[0].tool is not None:
        return _of_tool(view)
    rows = [row for table in view.tables for row in table.rows]
    cpu, cpu_printed = _total(
        (table.totals.self_cpu_ns for table in view.tables),
        _of_host(rows),
    )
    device, device_printed = _total(
        (table.totals.self_device_ns for table in view.tables),
        ((row.self_device_ns, row.self_device_share) for row in rows),
    )
    device = _within_steps([row for row, _ in view.by_name]) if device is None else device
    own = _of_operators(view) if device is None else None
    cannot_be = _cannot_be(cpu, rows)
    device = own if device is None or device < 0 else device
    is_calculated = not (cpu_printed and device_printed)
    return RunTotals(None if cannot_be else cpu, device, is_calculated, cannot_be, own is not None)


def _of_host(rows: Sequence[TableRow]) -> Iterator[tuple[int | None, float | None]]:
    """Times of the host and their shares of the sum of self times: those of the rows themselves, and whole ones."""
    for row in rows:
        yield row.self_cpu_ns, row.self_cpu_share
        yield row.cpu_total_ns, row.cpu_total_share


def _of_operators(view: RunView) -> int | None:
    """Device time of operators that call no others, in tables that print no own times; None if there is none.

    Without such operators it is at least what one of the others takes beyond its own time on the host, if that is most
    of it: times between events contain waits for the host, but no longer ones.
    """
    if not has_no_own_device_times(view.tables):
        return None
    own = sum_known(row.self_device_ns for row, _ in view.by_name)
    if own:
        return own
    known = [row for row, _ in view.by_name if row.device_total_ns and row.cpu_total_ns]
    longest = max(known, key=lambda row: row.device_total_ns or 0, default=None)
    if longest is None:
        return None
    beyond = (longest.device_total_ns or 0) - (longest.cpu_total_ns or 0)
    return beyond if beyond > _MOST * (longest.device_total_ns or 0) else None


def _cannot_be(cpu: int | None, rows: Sequence[TableRow]) -> bool:
    """Whether a sum of the host's times is negative, or less than what one call took."""
    return cpu is not None and (cpu < 0 or any(_one_call(row) > _ROUNDED * cpu for row in rows))


def _of_tool(view: RunView) -> RunTotals:
    """The totals of other tools' tables, each of which has other rows of the run."""
    totals = [table.totals for table in without_repeated(view.tables)]
    cpu, device = (sum_known(getattr(one, name) for one in totals) for name in ("self_cpu_ns", "self_device_ns"))
    return RunTotals(cpu, device, False, False)


def _within_steps(rows: Sequence[TableRow]) -> int | None:
    """Device time that the profiler's steps launched, which is nearly all there is; None where no row has it."""
    return sum_known(row.device_total_ns for row in rows if row.name.startswith(STEP) and row.cpu_total_ns) or None


def _one_call(row: TableRow) -> float:
    """Mean CPU time of a call in ns, of which at least one was as long; 0 if it is unknown."""
    return 0.0 if row.cpu_total_ns is None else row.cpu_total_ns / (row.calls or 1)


def _total(printed: Iterable[int | None], shares: Iterable[tuple[int | None, float | None]]) -> tuple[int | None, bool]:
    """The first printed total, else that of the largest share; and whether it did not have to be calculated."""
    total = next((value for value in printed if value is not None), None)
    if total is not None:
        return total, True
    known = [(share, time) for time, share in shares if time and share and time > 0 and share >= _LEAST_SHARE]
    if not known:
        return None, True
    share, time = max(known)
    return round(time / share), False


_WAITING = re.compile(r"\bthreading\.py\(\d+\): (?:wait|join)\b|\b(?:queue|selectors)\.py\(\d+\): (?:get|select)\b")
"""Functions in which a thread waits."""
_SPANS = 0.95
"""Share of all other time from which on a single wait spans the whole profile (own choice: it began within it)."""


def is_waiting(name: str) -> bool:
    """Whether a row is of a function in which a thread waits."""
    return _WAITING.search(name) is not None


def waiting_elsewhere(rows: Sequence[tuple[TableRow, RowKind]], cpu: int | None) -> int:
    """Time of single waits that are as long as everything else together: those of threads beside the program's."""
    if not cpu:
        return 0
    waits = (row.self_cpu_ns or 0 for row, _ in rows if row.calls == 1 and is_waiting(row.name))
    return sum(time for time in waits if time >= _SPANS * (cpu - time))


class MarkedSteps(NamedTuple):
    """The profiler's steps as their row on the host gives them."""

    mean_ns: float
    total_ns: int


def marked_steps(rows: Sequence[tuple[TableRow, RowKind]], steps: int, cpu: int | None) -> MarkedSteps | None:
    """How long the profiler's steps took; None where no row says it, or they are not most of the profile.

    Args:
        rows: The rows of one run with their kinds.
        steps: Number of whole steps; other marks are not of whole ones.
        cpu: Sum of self CPU times in ns.
    """
    named = [row for row, _ in rows if row.name.startswith(STEP) and row.calls and row.cpu_total_ns]
    calls, total = sum(row.calls or 0 for row in named), sum(row.cpu_total_ns or 0 for row in named)
    is_most = total >= _MOST * (cpu or 0)
    return MarkedSteps(total / calls, total) if named and calls == steps and is_most else None


_MOST = 0.5
"""Share of the host's time that marks must span if they are the program's steps (own choice: else they end early)."""
_FEW_OPERATORS = 5
"""Own choice: the calls of fewer operators may be multiples of a number by chance."""
_NEARLY_ALL = 0.9
"""Share of the operators that a loop must call equally often each time (own choice): the first time may differ."""
_FEWEST_WHOLE = 2
"""Own choice: any number of calls is a multiple of one step."""


def count_steps(rows: Sequence[tuple[TableRow, RowKind]], loops: Sequence[int]) -> tuple[int, str | None]:
    """Number of steps, and the kind of rows that were counted; 1 and None if no row shows it.

    Calls of the profiler's steps count first, then those of the optimizer, then of the loader, then the loop of the
    program above the table that calls nearly all operators equally often each time.

    Args:
        rows: The rows of one run with their kinds.
        loops: How often the loops of the program above its tables run.
    """
    for prefix in (STEP, "Optimizer.step", "enumerate(DataLoader)#"):
        named = [row for row, _ in rows if row.name.startswith(prefix) and row.calls]
        if prefix == STEP and named:
            return _profiler_steps(named, rows)
        if named:
            longest = _longest(named)
            return longest.calls or 1, longest.name
    calls = _operator_calls(rows)
    for loop in loops:
        if loop > 1 and _repeats(calls, loop):
            return loop, f"range({loop})"
    return 1, None


def _profiler_steps(named: Sequence[TableRow], rows: Sequence[tuple[TableRow, RowKind]]) -> tuple[int, str]:
    """Number of steps by the profiler's marks, and the kind of rows."""
    if all("#" in row.name for row in named):
        return len({row.name for row in named}), STEP  # one row a step before torch 1.9
    longest = _longest(named)
    marks = longest.calls or 1
    return marks - _ends_early(rows, marks), longest.name


def _longest(rows: Sequence[TableRow]) -> TableRow:
    """The row with most host time."""
    return max(rows, key=lambda row: (row.self_cpu_ns or 0, row.calls or 0))


def _operator_calls(rows: Sequence[tuple[TableRow, RowKind]]) -> list[int]:
    """How often each operator is called."""
    return [row.calls for row, kind in rows if kind is RowKind.OPERATOR and row.calls]


def _ends_early(rows: Sequence[tuple[TableRow, RowKind]], marks: int) -> bool:
    """Whether the profile ended soon after its last mark of a step: one step less did all the work.

    Then an optimizer stepped once less, and the calls of more operators are multiples of that number than of the marks.
    """
    whole = marks - 1
    if whole < _FEWEST_WHOLE or whole not in {row.calls for row, _ in rows if is_optimizer_step(row.name)}:
        return False
    calls = _operator_calls(rows)
    of_whole = sum(count % whole == 0 and count % marks != 0 for count in calls)
    of_marks = sum(count % marks == 0 and count % whole != 0 for count in calls)
    return of_whole >= _FEW_OPERATORS and of_whole >= 2 * of_marks


def _repeats(calls: Sequence[int], loop: int) -> bool:
    """Whether a loop that runs so often makes these calls."""
    fitting = sum(count % loop == 0 for count in calls)
    return len(calls) >= _FEW_OPERATORS and fitting >= _NEARLY_ALL * len(calls)


_BLOCKING_NS = 100_000
"""Own choice: a call that only starts a copy takes about 10 us; what takes ten times as long waits for it."""
_FIRST_USE_NS = 1_000_000
"""Calls that take this long on average do more than their usual work; the limit is the same as for traces."""
Rows = list[tuple[TableRow, RowKind]]


class HostParts(NamedTuple):
    """Self CPU times in ns; None where no row shows any."""

    waits_ns: int | None
    """Calls that wait for the device, and calls that copy and last."""
    startup_ns: int | None
    """Loading of device code, and allocations and first uses that do not recur."""
    profiler_ns: int | None
    """Work of the profiler itself."""


def divide_host_time(rows: Rows, steps: int, *, is_device_known: bool) -> HostParts:
    """Find what a program's host time does not include.

    Args:
        rows: The rows of one run with their kinds.
        steps: Number of steps that they are about.
        is_device_known: Whether the table has device times. Without them, a launch that takes long may as well wait
            because the device has too much to do.
    """
    calls = [row for row, kind in rows if kind is RowKind.RUNTIME]
    longest = _longest_on_device(rows) if is_device_known else None
    waits = [row for row in calls if is_wait(row)]
    first_uses = [row for row in calls if _is_first_use(row, steps, longest)]
    loading: list[TableRow] = []
    profiler: list[TableRow] = []
    for row, kind in rows:
        if kind is RowKind.OVERHEAD:
            part = loading if host_activity.is_loading_overhead(row.name) else profiler
            part.append(row)
    return HostParts(_self_cpu(waits), _self_cpu([*loading, *first_uses]), _self_cpu(profiler))


def _longest_on_device(rows: Rows) -> float:
    """Greatest mean time in ns of a kernel, copy or operator on the device."""
    times = ((row.self_device_ns or 0) / (row.calls or 1) for row, kind in rows if kind is not RowKind.ANNOTATION)
    return max(times, default=0.0)


def _self_cpu(rows: Iterable[TableRow]) -> int | None:
    """Sum of self CPU times in ns; None where no row shows any."""
    return sum_known(row.self_cpu_ns for row in rows)


def is_wait(row: TableRow) -> bool:
    """Whether the host waits for the device in a call, copies that last included."""
    return is_sync(row.name) or ("memcpy" in row.name.lower() and _host_mean(row) >= _BLOCKING_NS)


def _is_first_use(row: TableRow, steps: int, longest: float | None) -> bool:
    """Whether a call loads, allocates or initializes what is not needed again.

    A call also takes long while the queue of launches is full, but not longer than it takes until a kernel ends.

    Args:
        row: The call.
        steps: Number of steps of the run.
        longest: Greatest mean time of a row on the device in ns; None where device times are unknown.
    """
    if host_activity.is_loading(row.name):
        return True
    if _host_mean(row) < _FIRST_USE_NS or (steps > 1 and (row.calls or 0) >= steps) or is_wait(row):
        return False
    return host_activity.is_allocation(row.name) or (longest is not None and _host_mean(row) > longest)


def _host_mean(row: TableRow) -> float:
    return (row.self_cpu_ns or 0) / (row.calls or 1)


_ROUNDED_SHARE = 0.01
"""Share of the total that rounding of the printed rows may make."""
_LITTLE = 0.1
"""Share of the total that rows beyond the last printed one may have if the sum of the others is to be all there is
(own choice)."""
_LIKE = 3
"""Own choice: fewer rows do not show that a table is sorted."""


class DeviceSpans(NamedTuple):
    """Device annotations of one run."""

    are_in_total: bool | None
    """Whether the printed total counts them like kernels; None if it is unknown."""
    to_subtract_ns: int
    """Time in ns that the total has too much because of them, as far as that is certain."""


def find_device_spans(rows: Sequence[tuple[TableRow, RowKind]], total: int | None) -> DeviceSpans:
    """Find out whether a total includes annotations.

    Args:
        rows: The rows of a run with their kinds.
        total: Self device time of the run in ns, as printed.
    """
    annotations = [row for row, kind in rows if kind is RowKind.ANNOTATION and not row.self_cpu_ns]
    kernels = _device_sum(row for row, kind in rows if kind in (RowKind.KERNEL, RowKind.COPY))
    steps = 0 if kernels else _step_spans(annotations, rows, total or 0)
    if steps:
        return DeviceSpans(True, steps)
    are_in_total = _are_in_total(total, kernels, _device_sum(annotations), [row for row, _ in rows])
    return DeviceSpans(are_in_total, _certain_spans(annotations, rows) if are_in_total and kernels else 0)


def _certain_spans(annotations: Sequence[TableRow], rows: Sequence[tuple[TableRow, RowKind]]) -> int:
    """Time of the rows that are annotations for sure: they have a row of the host, or the name of a mark."""
    on_host = {row.name for row, _ in rows if not is_device_row(row)}
    return _device_sum(row for row in annotations if row.name in on_host or row.name.startswith(MARKS))


def _step_spans(annotations: Sequence[TableRow], rows: Sequence[tuple[TableRow, RowKind]], total: int) -> int:
    """Spans of the profiler's steps that a total without printed kernels must contain; 0 if it need not.

    The steps are all that a device has time for, so a total beyond them counts them, too, if the rest has room for the
    printed operators.
    """
    steps = _device_sum(row for row in annotations if row.name.startswith(STEP))
    operators = _device_sum(row for row, kind in rows if kind is RowKind.OPERATOR)
    return steps if steps and total > steps * (1 + _ROUNDED_SHARE) and operators <= total - steps else 0


def _are_in_total(total: int | None, kernels: int, spans: int, rows: Sequence[TableRow]) -> bool | None:
    if not total or not spans:
        return False if total and kernels else None
    if kernels + spans > total * (1 + _ROUNDED_SHARE):
        return False
    if kernels + spans > total * (1 - _ROUNDED_SHARE):
        return True
    return True if total - kernels - spans <= _LITTLE * total and _would_need_many(total - kernels, rows) else None


def _would_need_many(rest: int, rows: Sequence[TableRow]) -> bool:
    """Whether a rest needs more rows than are printed, because the table is sorted and its last row is small."""
    times = [row.device_total_ns for row in rows]
    known = [time for time in times if time is not None]
    is_sorted = len(known) == len(times) >= _LIKE and known == sorted(known, reverse=True)
    return is_sorted and rest > len(known) * known[-1]


def _device_sum(rows: Iterable[TableRow]) -> int:
    return sum(row.self_device_ns or 0 for row in rows)


_DEVICE = "CUDA"
"""The only device with such times; on others, a linear layer may be an operator that launches its own kernel."""
_ABOUT = 1.25
"""Own choice: by what spans and host time differ at most where the device may only have waited for the host."""
_WITHOUT_KERNELS = """
_batch_norm_impl_index _convolution batch_norm contiguous conv1d conv2d conv3d convolution empty empty_like
empty_strided is_nonzero item layer_norm linear matmul ones permute rand randn reshape result_type t transpose zeros
"""
_LAUNCH_NOTHING = frozenset(_WITHOUT_KERNELS.split())
"""Operators that launch no kernels themselves, so that the time of kernels is never their own. `to` is none of them:
torch 1.12 counts copies as its own."""


def spans_hide_host_time(view: RunView, cpu: int | None, device: int | None) -> bool:
    """Whether the device times are such spans, and their sum is not much more than the host's time.

    Args:
        view: The rows of one run.
        cpu: Sum of self CPU times in ns.
        device: Sum of self device times in ns.
    """
    if not cpu or not device or not cpu <= _ABOUT * device <= _ABOUT**2 * cpu:
        return False
    rows = view.by_name
    if any(table.device != _DEVICE for table in view.tables) or any(
        kind in (RowKind.KERNEL, RowKind.COPY) for _, kind in rows
    ):
        return False
    if has_no_own_device_times(view.tables):
        return True
    return any(row.self_device_ns and row.name.removeprefix("aten::") in _LAUNCH_NOTHING for row, _ in rows)


def beyond_host(rows: Sequence[tuple[TableRow, RowKind]]) -> int:
    """Device time in such spans beyond the host's own time of the same operators, in ns: work of the device."""
    return sum(max(0, (row.self_device_ns or 0) - (row.self_cpu_ns or 0)) for row, _ in rows)
