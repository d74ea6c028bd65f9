"""Finds where steps begin and end: marked steps, extended to the last kernel that they launched.

The algorithm is that of the PyTorch TensorBoard profiler plugin (`run_generator`/`event_parser` of
torch_tb_profiler), except that steps marked on the device are not steps and that every launching call of
any vendor counts.
"""

from __future__ import annotations

from itertools import pairwise

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.knowledge.marks import step_number
from traceanalyzer.structure.host_tree import Links, NodeKind
from traceanalyzer.trace.distinct import ascending
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, U8, Bool, take_or
from traceanalyzer.trace.tables import Category

ON_DEVICE = "device-events"
"""How the step of a recording is found in which nothing of the program was recorded but what it does on devices."""
_TAIL_SHARE = 0.8
"""A last step with less than this share of its predecessor's device events was cut by the end of the trace."""

_NEVER = np.iinfo(np.int64).max
NESTED = 16
"""A step that starts within so many others is left out: marks of merged processes overlap, a few at a time."""


class Steps(msgspec.Struct, frozen=True):
    """Consecutive steps that do not overlap; empty if the trace has no events to make one of."""

    names: tuple[str, ...]
    start_ns: I64
    end_ns: I64
    found_by: str | None
    """`ProfilerStep`, `whole-trace`, `device-events`, `host-annotations`, the name of an annotation, or None."""

    cut: int = 0
    """Steps at the end that were left out because the recording ended within them."""
    mark_ns: tuple[I64, I64] | None = None
    """Start and end of the marks themselves, before the steps were extended by the device's work; None if they are the
    same."""
    nested: int = 0
    """Steps that were left out because they start within `NESTED` others."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def window(self) -> tuple[int, int] | None:
        """Time from the start of the first to the end of the last step, gaps included."""
        return (int(self.start_ns[0]), int(self.end_ns[-1])) if len(self) else None

    @property
    def has_length(self) -> bool:
        """Whether there are steps, and time in them."""
        return self.window is not None and self.window[1] > self.window[0]

    @property
    def length_ns(self) -> int:
        """Duration of all steps together."""
        return int((self.end_ns - self.start_ns).sum())

    def at(self, times: I64) -> I64:
        """Find the step that contains each point in time: its row, or -1 between steps."""
        start, end = self.start_ns, self.end_ns
        if (start[1:] >= end[:-1]).all() and (end >= start).all():
            bounds = np.column_stack((start, end)).ravel()
            passed = np.arange(len(bounds) + 1)  # within a step, one more has begun than has ended
            number = np.where(passed % 2, passed // 2, -1)
            found: I64 = number[np.searchsorted(bounds, times, side="right")]
            return found
        step = np.searchsorted(start, times, side="right") - 1
        inside = (step >= 0) & (times < take_or(end, step, 0))
        return np.where(inside, step, -1)

    def rows_of(self, times: I64) -> tuple[I64, I64]:
        """For each step the first of some ascending times that lie in it, and the one after the last."""
        first = np.searchsorted(times, self.start_ns, side="left")
        next_ns = np.append(self.start_ns[1:], _NEVER)[: len(self)]
        last = np.searchsorted(times, np.minimum(self.end_ns, next_ns))
        return first, np.maximum(first, last)

    def contain(self, times: I64) -> Bool:
        """Which points in time lie in a step."""
        if len(self) and (self.start_ns[1:] >= self.end_ns[:-1]).all():  # steps that touch are looked up as one
            return Intervals.union(self.start_ns, self.end_ns).contains(times)
        inside: Bool = self.at(times) >= 0
        return inside

    @property
    def of_host(self) -> Steps:
        """When the host did its part: the marks, where most of that lies outside of the steps because it runs ahead."""
        if self.mark_ns is None or not len(self):
            return self
        start, end = self.mark_ns
        marks, steps = Intervals.union(start, end), Intervals.union(self.start_ns, self.end_ns)
        is_ahead = 2 * (marks & steps).length < marks.length
        return replace(self, start_ns=start, end_ns=end) if is_ahead else self

    def take(self, rows: slice | I64) -> Steps:
        """Keep some of the steps."""
        marks = None if self.mark_ns is None else (self.mark_ns[0][rows], self.mark_ns[1][rows])
        start, end = self.start_ns[rows], self.end_ns[rows]
        names = self.names[rows] if isinstance(rows, slice) else tuple(self.names[row] for row in rows.tolist())
        return replace(self, names=names, start_ns=start, end_ns=end, mark_ns=marks)


def find(trace: Trace, kind: U8, links: Links) -> Steps:
    """The steps that the step breakdown uses.

    Args:
        trace: The trace.
        kind: The kind of every host row, from `host_tree.kinds`.
        links: Launches of device events.
    """
    host = trace.host
    marked = np.flatnonzero(kind == NodeKind.STEP)
    around = _levels(host.start_ns[marked], host.start_ns[marked] + host.dur_ns[marked])
    nested, marked = int((around >= NESTED).sum()), marked[around < NESTED]
    if len(marked):
        names = tuple(str(step_number(trace.names[n])) for n in host.name[marked].tolist())
        start, end = host.start_ns[marked], host.start_ns[marked] + host.dur_ns[marked]
        raw = Steps(names, start, end, "ProfilerStep", mark_ns=(start, end))
        return replace(extend(trace, links, raw, drop_tail=True), nested=nested)
    operators = np.flatnonzero((host.category == Category.OPERATOR) | (host.category == Category.PYTHON))
    if len(operators):
        return extend(
            trace,
            links,
            _one(host.start_ns[operators], host.dur_ns[operators], "whole-trace"),
            drop_tail=True,
        )
    if len(trace.device):
        return _one(trace.device.start_ns, trace.device.dur_ns, ON_DEVICE)
    if len(host):
        return _one(host.start_ns, host.dur_ns, "host-annotations")
    return Steps((), np.empty(0, np.int64), np.empty(0, np.int64), None)


def _levels(start: I64, end: I64) -> I64:
    """Number of earlier steps that have not ended when each step starts."""
    return np.arange(len(start)) - np.searchsorted(ascending(end), start, side="right")


def host_part(trace: Trace, steps: Steps) -> tuple[I64, I64]:
    """When the host did its part of each step: starts and ends of the marks.

    Of a whole recording without operators, this is from its first to its last call; so it is of one in which the host
    is done before the work from before the recording is, after which the step begins. Where the host goes on after
    that, its part begins before the step.
    """
    whole = steps.start_ns, steps.end_ns
    if steps.mark_ns is not None or steps.found_by not in ("whole-trace", ON_DEVICE) or len(steps) != 1:
        return steps.mark_ns or whole
    own, calls = (
        np.isin(trace.host.category, (Category.OPERATOR, Category.PYTHON)),
        trace.launches,
    )
    start = np.concatenate((trace.host.start_ns[own], calls.start_ns))
    end = np.concatenate((trace.host.end_ns[own], calls.end_ns))
    by_device = trace.device.end_ns.max(initial=0) == steps.end_ns[0]
    if not len(start) or not by_device:
        return whole
    if own.any() and end.max() > steps.start_ns[0]:
        return np.minimum(steps.start_ns, start.min()), steps.end_ns
    return np.array([start.min()]), np.array([end.max()])


def infer(trace: Trace, kind: U8, links: Links) -> Steps | None:
    """Infer steps from the starts of optimizer steps, else of waits for the loader; None if neither repeats.

    Step i lasts from start i to start i + 1, the last one until the last device event that it launched.
    """
    for wanted, name in (
        (NodeKind.OPTIMIZER, "Optimizer.step"),
        (NodeKind.DATALOADER, "enumerate(DataLoader)"),
    ):
        rows = np.flatnonzero(kind == wanted)
        if len(rows) > 1:
            host = trace.host
            start = host.start_ns[rows]
            end = np.append(start[1:], int((host.end_ns).max()))
            raw = Steps(tuple(map(str, range(len(rows)))), start, end, name)
            last = launched_in(trace, links, raw)[-1]
            device_end = int((trace.device.start_ns[last] + trace.device.dur_ns[last]).max()) if len(last) else None
            if device_end is not None:
                end[-1] = max(device_end, start[-1])
            return raw
    return None


def step_names(steps: Steps, times: I64) -> list[str | None]:
    """For each time the name of the step that contains it, None between steps."""
    return [steps.names[step] if step >= 0 else None for step in steps.at(times).tolist()]


def _one(start: I64, dur: I64, found_by: str) -> Steps:
    return Steps(("0",), np.array([start.min()]), np.array([(start + dur).max()]), found_by)


def launched_in(trace: Trace, links: Links, steps: Steps) -> list[I64]:
    """For each step, the device events whose launch is completely within it."""
    events, counts = _launched(trace, links, steps)
    after = np.cumsum(counts).tolist()
    return [events[first:last] for first, last in pairwise([0, *after])]


def _launched(trace: Trace, links: Links, steps: Steps) -> tuple[I64, I64]:
    """The device events whose launch is completely within a step, step by step, and how many each step has."""
    launches = trace.launches
    by_launch = np.argsort(links.launch, kind="stable")
    launch = links.launch[by_launch]
    # events in the order of their launches: those of a step lie together
    first = np.searchsorted(launch, np.searchsorted(launches.start_ns, steps.start_ns, side="left"))
    last = np.searchsorted(launch, np.searchsorted(launches.start_ns, steps.end_ns, side="right"))
    begun = last - first
    step = np.repeat(np.arange(len(steps)), begun)
    rows = np.arange(len(step)) + np.repeat(first - np.cumsum(begun) + begun, begun)
    inside = launches.end_ns[launch[rows]] <= steps.end_ns[step]
    return by_launch[rows[inside]], np.bincount(step[inside], minlength=len(steps))


def extend(trace: Trace, links: Links, raw: Steps, *, drop_tail: bool) -> Steps:
    """Extend each step to the last kernel that it launched; the next step starts only there."""
    launched, counts = _launched(trace, links, raw)
    if not len(launched):
        return raw
    device_end = trace.device.end_ns
    previous = int(raw.start_ns[0])
    if counts[0]:
        first = int(trace.device.start_ns[launched[: counts[0]]].min())
        foreign = np.ones(len(trace.device), np.bool_)
        foreign[launched] = False
        leftover = device_end[foreign & (device_end < first)]
        previous = max(previous, int(leftover.max())) if len(leftover) else previous
    done = raw.start_ns.copy()  # when the work is done that a step launched
    works = np.flatnonzero(counts)
    done[works] = np.maximum.reduceat(device_end[launched], (np.cumsum(counts) - counts)[works])
    start, end = [], []
    for begins, ends, last in zip(raw.start_ns.tolist(), raw.end_ns.tolist(), done.tolist(), strict=True):
        start.append(max(previous, begins))
        previous = max(ends, last, start[-1])
        end.append(previous)
    kept = _without_tail(counts) if drop_tail and len(raw) > 1 else len(raw)
    bounds = np.array(start, np.int64), np.array(end, np.int64)
    return Steps(raw.names, *bounds, raw.found_by, len(raw) - kept, raw.mark_ns).take(slice(0, kept))


def _without_tail(counts: I64) -> int:
    """Number of steps, without those at the end that were cut off with the trace."""
    last = int(np.flatnonzero(counts)[-1])
    cut = last > 0 and _TAIL_SHARE * counts[last - 1] > counts[last]
    return last if cut else last + 1
