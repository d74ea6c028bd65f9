"""What do optimizers do in `step` and `zero_grad`: how many launches, of what, and does the device wait for them?

By the ranges `Optimizer.step#SGD.step` and `Optimizer.zero_grad#SGD.zero_grad` on host threads; their projections
on streams are not read, so nothing counts twice. Optimizers that wrap another count once, as the outer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity, sums
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import has_closure, is_zero_grad, ranges
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, starvation, summed
from traceanalyzer.structure.sums import count_by, members, rows_by, sum_by
from traceanalyzer.trace.distinct import ascending, ranked
from traceanalyzer.trace.table import I64, Array, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

IN_PLACE = frozenset(f"aten::{name}_" for name in ("add", "mul", "addcmul", "addcdiv", "sqrt", "lerp", "div", "sub"))
"""Arithmetic of optimizers that update one parameter at a time."""
_STALL_NS = 3_000_000
"""Own choice: the scheduler gives the core of a thread to another one for some milliseconds."""
_TIMES = 4
"""A call is disturbed if it takes so many times as long as others with as many events (own choice)."""
_FEWEST = 5
"""Least number of such calls that show how long one takes as a rule (own choice)."""
_OPERATORS_SHOWN = 12
"""Names per range (own choice: an optimizer's arithmetic has fewer)."""


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
    """Time in ns by which calls exceed the median of those with as many host events in them, where they take
    milliseconds longer: threads lost their core."""
    closures: int = 0
    """Number of calls in which autograd runs: the program passed a closure that computes the loss and its gradients
    (LBFGS, PyTorch Lightning), so the time of the calls is mostly the program's and not the optimizer's."""

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


def _stalled(context: Context, calls: I64, group: I64) -> I64:
    """By how much each call exceeds the median of alike ones, if it is one of a few that take milliseconds longer."""
    host = context.trace.host
    start, dur = host.start_ns[calls], host.dur_ns[calls]
    inside = np.diff(np.searchsorted(np.sort(host.start_ns), np.stack((start, start + dur))), axis=0)[0]
    stalled = np.zeros(len(calls), np.int64)
    for _, rows in members(sums.group(group, inside)[1]):
        usual = int(np.median(dur[rows]))
        excess = dur[rows] - usual
        if len(rows) >= _FEWEST:
            stalled[rows] = np.where((excess >= _STALL_NS) & (dur[rows] >= _TIMES * usual), excess, 0)
    return stalled


def _figures(context: Context, calls: I64, group: I64, count: int) -> list[dict[str, Any]]:
    """Per group of calls, by field: its numbers and times, and its operators."""
    host = context.trace.host
    of_row = np.full(len(host) + 1, -1, np.int64)
    of_row[calls] = group
    columns = {
        "calls": count_by(group, count),
        "host_ns": sum_by(group, host.dur_ns[calls], count),
        "stalled_ns": sum_by(group, _stalled(context, calls, group), count),
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
    """When some optimizers are called."""
    calls = context.cached(ranges)
    host = context.trace.host
    is_named = context.trace.names.where({row.name for row in rows}.__contains__)
    yield Occurrences.of_host(context, rows[0].name, calls[is_named[host.name[calls]]])


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
    codes, name = ranked(device.name)
    is_elementwise = np.array([_is_unfused(trace.names[code]) for code in codes], np.bool_)
    is_filling = trace.names.where(lambda name: "FillFunctor" in name or "fillBuffer" in name)
    is_kernel = device.category == Category.KERNEL
    fills = (device.category == Category.MEMSET) | (is_kernel & is_filling[device.name])
    arithmetic = is_kernel & is_elementwise[name]
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
    nodes = np.flatnonzero(context.host.is_row)
    rows = ascending(context.host.row[nodes])
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
