"""What do optimizers do in `step` and `zero_grad`: how many launches, of what, and does the device wait for them?

By the ranges `Optimizer.step#SGD.step` and `Optimizer.zero_grad#SGD.zero_grad` on host threads; their projections
on streams are not read, so nothing counts twice. Optimizers that wrap another count once, as the outer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity, sums
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import has_closure, is_zero_grad, ranges
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, starvation, summed
from traceanalyzer.structure.sums import count_by, members, rows_by, sum_by
from traceanalyzer.trace.distinct import ascending, ranked
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I32, I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Category, HostEvents
from traceanalyzer.trace.tree import NO_PARENT

IN_PLACE = frozenset(f"aten::{name}_" for name in ("add", "mul", "addcmul", "addcdiv", "sqrt", "lerp", "div", "sub"))
"""Arithmetic of optimizers that update one parameter at a time."""
_STALL_NS = 3_000_000
"""Own choice: the scheduler gives the core of a thread to another one for some milliseconds."""
_TIMES = 4
"""An operator or a pause is disturbed if it takes so many times as long as equal ones (own choice)."""
_FEWEST = 3
"""Least number of equal ones that show how long one takes as a rule (own choice)."""
_OPERATORS_SHOWN = 12
"""Names per range (own choice: an optimizer's arithmetic has fewer)."""


_SECOND_ORDER = re.compile("shampoo|soap|kfac|k_fac", re.IGNORECASE)
_ORTHOGONAL = re.compile("muon|#dion|zeropower|newton_?schulz|orthogonal", re.IGNORECASE)
"""Names of optimizers whose update itself is a matrix made orthogonal, so that it cannot be an old one."""
_PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})
_DECOMPOSES = re.compile("linalg_|svd|eig|qr|cholesky|inverse")
_ITERATIONS = 5
"""Matrix multiplications of an update from which on they are iterations that make a matrix orthogonal, if nothing is
decomposed (own choice: Newton and Schulz need three in each of five iterations, for each matrix)."""


class OperatorCount(msgspec.Struct, frozen=True):
    """How often an operator is called within a range, by other operators too."""

    name: str
    """Name of the operator as recorded."""
    calls: int
    """Number of its calls within the range, by other operators too."""


class Optimizer(msgspec.Struct, frozen=True):
    """All calls of `step` or `zero_grad` of one class."""

    name: str
    """Name of the range as recorded, such as `Optimizer.step#SGD.step`."""
    kind: str
    """What the range is: `step`, `zero_grad`, or `other`."""
    calls: int
    """Number of calls that lie in no other call of an optimizer."""
    host_ns: int
    """Duration of the calls on the host in ns."""
    launches: int
    """Number of kernels, copies and fills that the calls put on devices."""
    elementwise_launches: int
    """Number of these kernels that are arithmetic on one tensor: no lists of tensors, no matrix products."""
    fills: int
    """Number of launches that fill memory, as a kernel or by the copy engine."""
    device_ns: int
    """Sum of the durations in ns of everything that the calls put on devices."""
    starved_ns: int
    """Time within the calls in ns in which the device did nothing until the next launch of the call arrived."""
    exposed: tuple[IdleTime, ...]
    """How much earlier the device could have gone on if the calls took no time, by cause: its idle time for want of
    launches from the start of a call until the host next waits for the device, at most the duration of the call."""
    list_operators: int
    """Number of calls of operators that work on lists of tensors: `_foreach_*`, `_fused_*`."""
    operators: tuple[OperatorCount, ...]
    """The operators that are called most often, the most frequent first."""
    start_ns: int
    """Start of the longest call in ns since the first event."""
    in_place: int = 0
    """Number of calls of in-place arithmetic on one tensor, such as `aten::addcmul_`."""
    in_place_ns: int = 0
    """Sum of the durations of these calls in ns without the longest of them, which something may have disturbed."""
    stalled_ns: int = 0
    """Time in ns by which operators in the calls, or pauses between them, exceed the median of equal ones, where they
    take milliseconds longer: threads lost their core."""
    closures: int = 0
    """Number of calls in which autograd runs: the program passed a closure that computes the loss and its gradients
    (LBFGS, PyTorch Lightning), so the time of the calls is mostly the program's and not the optimizer's."""

    @property
    def steady_ns(self) -> int:
        """Duration of the calls on the host in ns without the stalls in them."""
        return self.host_ns - self.stalled_ns

    @property
    def exposed_ns(self) -> int:
        """Idle time that the calls cause, summed over all causes, in ns."""
        return sum(idle.time_ns for idle in self.exposed)

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return EventSet.operator(self.name)


class Optimizers(msgspec.Struct, frozen=True):
    """Ranges of optimizers, the one with most host time first."""

    rows: tuple[Optimizer, ...]
    """One row per name of the range, the most host time first."""


def matrices(row: Optimizer) -> str | None:
    """What it computes: `second-order` preconditioners, or an `orthogonal` update; None for plain arithmetic."""
    if _SECOND_ORDER.search(row.name):
        return "second-order"
    return "orthogonal" if _is_orthogonal(row) else None


def _is_orthogonal(row: Optimizer) -> bool:
    """Whether it makes its update orthogonal, by its name or by matrix multiplications without a decomposition."""
    products = sum(entry.calls for entry in row.operators if entry.name in _PRODUCTS)
    is_iterating = products >= _ITERATIONS * row.calls
    is_iterating &= not any(_DECOMPOSES.search(entry.name) for entry in row.operators)
    return is_iterating or _ORTHOGONAL.search(row.name) is not None


def analyze(context: Context) -> Optimizers:
    """One row per range's name, of calls that start in the chosen steps."""
    trace, host = context.trace, context.trace.host
    calls = context.cached(ranges)
    calls = calls[context.in_scope(host.start_ns[calls])]
    codes, group = ranked(host.name[calls])
    dur = host.dur_ns[calls]
    earlier = ended_earlier(context, host.start_ns[calls], host.end_ns[calls], dur)
    figures = _figures(context, calls, group, len(codes))
    rows = []
    for number, of_name in members(group):
        name = trace.names[codes[number]]
        longest = calls[of_name[dur[of_name].argmax()]]
        start = int(host.start_ns[longest])
        exposed = summed(earlier[of_name])
        rows.append(Optimizer(name, _kind(name), exposed=exposed, start_ns=start, **figures[number]))
    return Optimizers(tuple(sorted(rows, key=lambda row: (-row.host_ns, row.name))))


class _Stalls(NamedTuple):
    """Times within calls of optimizers in which their threads stand still."""

    call: I64
    """Row of the call in the host table."""
    start_ns: I64
    end_ns: I64


@cached
def _called(context: Context) -> I64:
    """Rows of the operators that start within calls of optimizers, in the chosen steps or not, ascending."""
    host = context.trace.host
    rows = ascending(context.host.row[np.flatnonzero(context.host.is_row)])
    call = host_activity.innermost(host, context.cached(ranges), host.thread[rows], host.start_ns[rows])
    inside: I64 = rows[call != NO_PARENT]
    return inside


@cached
def _stalls(context: Context) -> _Stalls:
    """What an operator takes beyond equal ones, or the program between two operators beyond what it takes as a rule.

    Only where it takes milliseconds longer: the operators between which a thread lost its core take no longer.
    """
    host, calls, rows = context.trace.host, context.cached(ranges), _called(context)
    thread, start, end = _pieces(host, np.concatenate((calls, rows)))
    call = host_activity.innermost(host, calls, thread, start)
    dur = np.where(call == NO_PARENT, 0, end - start)
    if not (dur >= _STALL_NS).any():
        return _Stalls(call[:0], start[:0], end[:0])
    usual = _usual(context, call, host_activity.innermost(host, rows, thread, start), dur)
    stalled = (dur - usual >= _STALL_NS) & (dur >= _TIMES * usual)
    return _Stalls(call[stalled], start[stalled] + usual[stalled], end[stalled])


def _pieces(host: HostEvents, events: I64) -> tuple[I32, I64, I64]:
    """Thread, start and end of the times between any two borders of some events of a thread."""
    times = np.concatenate((host.start_ns[events], host.end_ns[events]))
    threads = np.concatenate((host.thread[events], host.thread[events]))
    order = np.lexsort((times, threads))
    times, threads = times[order], threads[order]
    pieces = np.flatnonzero((np.diff(threads) == 0) & (np.diff(times) > 0))
    return threads[pieces], times[pieces], times[pieces + 1]


def _usual(context: Context, call: I64, operator: I64, dur: I64) -> I64:
    """What times in calls of optimizers take as a rule: operators on the same inputs, and pauses between operators.

    Where inputs were not recorded, the same operators of several calls are those in the same place. A pause that comes
    in the same place of every call is the program's own. What has too few equals takes what it takes.
    """
    host = context.trace.host
    mark, name, shapes = (
        take_or(host.name, call, -1),
        take_or(host.name, operator, -1),
        take_or(host.shapes, operator, 0),
    )
    place = np.zeros(len(call), np.int64)
    for _, rows in members(sums.group(call, name)[1]):
        place[rows] = np.arange(len(rows))
    pauses = np.flatnonzero(operator == NO_PARENT)
    is_known = shapes > 0
    is_known[pauses] = True
    usual = dur.copy()
    for _, rows in members(sums.group(mark, name, shapes, np.where(is_known, 0, place))[1]):
        if len(rows) >= _FEWEST:
            usual[rows] = int(np.median(dur[rows]))
    for _, rows in members(sums.group(mark[pauses], place[pauses])[1]):
        alike = pauses[rows]
        if len(alike) > 1:
            usual[alike] = np.maximum(usual[alike], dur[alike].min())
    return usual


def _figures(context: Context, calls: I64, group: I64, count: int) -> list[dict[str, Any]]:
    """Per group of calls, by field: its numbers and times, and its operators."""
    host = context.trace.host
    of_row = np.full(len(host) + 1, -1, np.int64)
    of_row[calls] = group
    stalls = _of_calls(context.cached(_stalls), calls)
    columns = {
        "calls": count_by(group, count),
        "host_ns": sum_by(group, host.dur_ns[calls], count),
        "stalled_ns": sum_by(of_row[stalls.call], stalls.end_ns - stalls.start_ns, count),
        "starved_ns": _starved(context, calls, of_row, count),
        "closures": count_by(group[has_closure(context, calls)], count),
        **_device_columns(context, calls, of_row, count),
    }
    figures = _operators(context, calls, of_row)
    for number in range(count):
        figures[number] |= {field: int(values[number]) for field, values in columns.items()}
    return figures


def _device_columns(context: Context, calls: I64, of_row: I64, count: int) -> dict[str, I64]:
    """By field: what the calls of each group launched."""
    launched, fills, arithmetic = _launched(context, calls, of_row)
    events = np.flatnonzero(launched >= 0)
    return {
        "launches": count_by(launched[events], count),
        "elementwise_launches": count_by(launched[arithmetic], count),
        "fills": count_by(launched[fills], count),
        "device_ns": sum_by(launched[events], context.trace.device.dur_ns[events], count),
    }


@event_set
def optimizers_at(context: Context, rows: tuple[Optimizer, ...]) -> Iterator[Occurrences]:
    """When some optimizers are called, without the stalls in their calls."""
    calls = context.cached(ranges)
    host = context.trace.host
    is_named = context.trace.names.where({row.name for row in rows}.__contains__)
    calls = calls[is_named[host.name[calls]]]
    stalls = _of_calls(context.cached(_stalls), calls)
    if not len(stalls.call):
        yield Occurrences.of_host(context, rows[0].name, calls)
        return
    stalled = rows_by(host.thread[stalls.call])
    for thread, own in members(host.thread[calls]):
        inside = stalled(thread)
        times = Intervals.union(host.start_ns[calls[own]], host.end_ns[calls[own]])
        times -= Intervals.union(stalls.start_ns[inside], stalls.end_ns[inside])
        yield Occurrences("host", rows[0].name, np.full(len(times), thread, np.int64), times.start, times.end)


def _of_calls(stalls: _Stalls, calls: I64) -> _Stalls:
    """The stalls in some calls."""
    own = np.isin(stalls.call, calls)
    return _Stalls(stalls.call[own], stalls.start_ns[own], stalls.end_ns[own])


def _kind(name: str) -> str:
    if is_zero_grad(name):
        return "zero_grad"
    return "step" if marks.is_optimizer_step(name) else "other"


def _launched(context: Context, calls: I64, of_row: I64) -> tuple[I64, Bool, Bool]:
    """For each device event the group of the call that launched it, -1 for none; which are fills, and arithmetic."""
    trace, device = context.trace, context.trace.device
    launches = trace.launches
    call = host_activity.innermost(trace.host, calls, launches.thread, launches.start_ns)
    launched = take_or(of_row[call], context.links.launch, -1)
    is_elementwise = trace.names.where(_is_unfused)
    is_filling = trace.names.where(lambda name: "FillFunctor" in name or "fillBuffer" in name)
    is_kernel = device.category == Category.KERNEL
    fills = (device.category == Category.MEMSET) | (is_kernel & is_filling[device.name])
    arithmetic = is_kernel & is_elementwise[device.name]
    return launched, (launched >= 0) & fills, (launched >= 0) & arithmetic


def _is_unfused(kernel: str) -> bool:
    """Whether a kernel is arithmetic on one tensor, which no compiler made."""
    return kernel_class(kernel) is KernelClass.ELEMENTWISE and not is_generated(kernel)


def _starved(context: Context, calls: I64, of_row: I64, count: int) -> I64:
    """Per group: idle time of the device that ends with a launch of a call, as far as it lies in the call."""
    host, launches = context.trace.host, context.trace.launches
    gaps = context.cached(starvation)
    call = host_activity.innermost(host, calls, launches.thread[gaps.launch], launches.start_ns[gaps.launch])
    inside = call != NO_PARENT
    call = call[inside]
    waited = gaps.end_ns[inside] - np.maximum(gaps.start_ns[inside], host.start_ns[call])
    return sum_by(of_row[call], np.maximum(waited, 0), count)


def _operators(context: Context, calls: I64, of_row: I64) -> list[dict[str, Any]]:
    """Per group, by field: calls of operators on lists, the most frequent operators, in-place arithmetic."""
    host, names = context.trace.host, context.trace.names
    rows = _called(context)
    call = host_activity.innermost(host, calls, host.thread[rows], host.start_ns[rows])
    inside = call != NO_PARENT
    rows = rows[inside]
    rows_of = rows_by(of_row[call[inside]])
    on_lists = names.where(lambda name: "_foreach_" in name or "_fused_" in name)
    in_place = names.where(IN_PLACE.__contains__)
    figures: list[dict[str, Any]] = []
    for number in range(int(of_row.max(initial=-1)) + 1):
        operators = rows[rows_of(number)]
        codes = host.name[operators]
        figures.append(
            {
                "list_operators": int(on_lists[codes].sum()),
                "operators": _most_frequent(context, codes),
                **_in_place(host.dur_ns[operators[in_place[codes]]]),
            }
        )
    return figures


def _in_place(durations: I64) -> dict[str, int]:
    """By field: how many operators work in place, and their time without the longest."""
    return {"in_place": len(durations), "in_place_ns": int(durations.sum() - durations.max(initial=0))}


def _most_frequent(context: Context, codes: Array) -> tuple[OperatorCount, ...]:
    """The names that occur most often, by their codes."""
    codes, counts = np.unique(codes, return_counts=True)
    names = [context.trace.names[code] for code in codes.tolist()]
    by_calls = sorted(zip((-counts).tolist(), names, strict=True))
    return tuple(OperatorCount(name, -calls) for calls, name in by_calls[:_OPERATORS_SHOWN])


_OPTIMIZERS = Need(
    Text("skip-no-optimizers", "the trace has no range of an optimizer"),
    lambda context: len(context.cached(ranges)) > 0,
)
ANALYSES = (Analysis(420, "optimizers", Optimizers, analyze, needs=(_OPTIMIZERS,), is_of_steps=True),)
