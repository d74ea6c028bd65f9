"""Can a change be predicted from its parts? For pairs of recordings, one before a change of a program and one after.

The changes that the second recording shows are applied to the first as edits: first only the speedups of kernels, then
also the calls of operators that are gone, the host work in their place, and the time outside of operators. So this is a
test of the model, not of any advice: the changed parts are known, and the duration of the step is predicted.

python scripts/whatif_pairs.py BEFORE AFTER    print the predictions for a pair
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import traceanalyzer
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.simulation import model, variation
from traceanalyzer.simulation.edits import Edit, HostEdit, ScaleEdit, UnblockEdit
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.event_rows import EventRows, of_nodes
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import F64, I64, Array, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_PRODUCTS = frozenset({"attention", "gemm", "reduction", "convolution"})
"""Classes between which fusion or a compiler may move work. All other classes move data, as copies do."""


@dataclass(frozen=True)
class PairPrediction:
    """A prediction and the measurement; times are those of the typical step in ns."""

    put_in: str
    before_ns: float
    low_ns: float
    point_ns: float
    high_ns: float
    measured_ns: float

    @property
    def is_inside(self) -> bool:
        """Whether the measured step lies in the interval."""
        return self.low_ns <= self.measured_ns <= self.high_ns

    @property
    def error_share(self) -> float:
        """Difference of the predicted and the measured step as a share of the measured one."""
        return abs(self.point_ns - self.measured_ns) / self.measured_ns

    @property
    def width_share(self) -> float:
        """Width of the interval of the saving as a share of its middle; infinite if the middle is 0."""
        middle = abs(self.before_ns - (self.low_ns + self.high_ns) / 2)
        return (self.high_ns - self.low_ns) / middle if middle else float("inf")


def predictions(before: Context, after: Context) -> Iterator[PairPrediction]:
    """The step after a change, predicted from the measured changes of its parts.

    The interval for kernels lies between speedups by class and a single speedup of all kernels. The interval for all
    parts lies between replays with and without the speedups of the remaining kernels, and with and without the change
    outside of operators.
    """
    first, second = model.require(before), model.require(after)
    every = first.graph.device.row
    yield _prediction("kernels", first, second, _speedups(first, second, every), [_one_speedup(first, second)])
    gone = _gone(before, after)
    calls, outside = _replaced(before, after, gone), _outside(before, after)
    kernels = _speedups(first, second, np.setdiff1d(every, gone.device))
    others = [calls, [*calls, *kernels], [*calls, *outside]]
    yield _prediction("all", first, second, [*calls, *kernels, *outside], others)


def _prediction(
    put_in: str, before: Model, after: Model, changes: list[Edit], others: Sequence[list[Edit]]
) -> PairPrediction:
    low, point, high = before.what_if(changes, others).predicted_ns
    low, high = variation.combined((low, high), point, variation.USUAL * before.recorded_ns)
    return PairPrediction(put_in, before.recorded_ns, low, point, high, after.recorded_ns)


def _speedups(before: Model, after: Model, rows: I64) -> list[Edit]:
    """Speedups of some device events, after which each class takes as long as in the second recording."""
    (here, label, ns), (_, other, other_ns) = _classes(before), _classes(after)
    kept = np.isin(here, rows)
    here, label, ns = here[kept], label[kept], ns[kept]
    known = sorted(set(label.tolist()))
    return [ScaleEdit(here[label == kind], other_ns[other == kind].sum() / ns[label == kind].sum()) for kind in known]


def _one_speedup(before: Model, after: Model) -> list[Edit]:
    (rows, _, ns), (_, _, other_ns) = _classes(before), _classes(after)
    return [ScaleEdit(rows, other_ns.sum() / ns.sum())]


def _classes(found: Model) -> tuple[I64, Array, F64]:
    """Device rows of a model, the kind of work of each, and the time per step in ns."""
    trace, device = found.context.trace, found.context.trace.device
    rows = found.graph.device.row
    codes, place = np.unique(device.name[rows], return_inverse=True)
    classes = [kernel_class(trace.names[code]) for code in codes.tolist()]
    is_product = np.array([each is not None and each.value in _PRODUCTS for each in classes])[place]
    label = np.where(is_product & (device.category[rows] == Category.KERNEL), "products", "other")
    return rows, label, device.dur_ns[rows] / len(found.bounds.part)


def _outermost(context: Context) -> dict[str, I64]:
    """Outermost operators, by name."""
    tree, is_operator = context.host.tree, context.host.kind == NodeKind.OPERATOR
    around = take_or(tree.nearest(is_operator), tree.parent, NO_PARENT)
    nodes = np.flatnonzero(is_operator & (around == NO_PARENT))
    codes = context.host.name[nodes]
    return {context.trace.names[code]: nodes[codes == code] for code in np.unique(codes).tolist()}


def _surplus(own: dict[str, I64], other: dict[str, I64]) -> I64:
    """Calls of operators that the other recording does not have; equal calls are chosen evenly over time."""
    found = [np.empty(0, np.int64)]
    for name, nodes in own.items():
        more = len(nodes) - len(other.get(name, ()))
        if more > 0:
            found.append(nodes[np.linspace(0, len(nodes) - 1, more).round().astype(np.int64)])
    return np.concatenate(found)


def _gone(before: Context, after: Context) -> EventRows:
    """Calls that the second recording does not have, with the device work that they launch."""
    nodes = np.sort(_surplus(_outermost(before), _outermost(after)))
    return of_nodes(before, "", nodes) or EventRows("operator", "")


def _replaced(before: Context, after: Context, gone: EventRows) -> list[Edit]:
    """Removed calls leave no device work; new calls of the second recording take their place on the host."""
    new = _surplus(_outermost(after), _outermost(before))
    tree = after.host.tree
    comes = sum(
        _working(after, thread, tree.start_ns[rows], tree.end_ns[rows]) for thread, rows in _by_thread(tree.thread, new)
    )
    goes = sum(
        _working(before, thread, gone.start_ns[rows], gone.end_ns[rows])
        for thread, rows in _by_thread(gone.thread, np.arange(len(gone.thread)))
    )
    factor = comes / goes if goes else 0.0
    return [
        ScaleEdit(gone.device, 0.0),
        UnblockEdit(gone.calls),
        HostEdit(gone.thread, gone.start_ns, gone.end_ns, factor),
    ]


def _by_thread(threads: Array, rows: I64) -> Iterator[tuple[int, I64]]:
    for thread in np.unique(threads[rows]).tolist():
        yield thread, rows[threads[rows] == thread]


def _outside(before: Context, after: Context) -> list[Edit]:
    """The host's time outside of operators, which is mostly Python."""
    here, there = _unnamed(before), _unnamed(after)
    times = [
        sum(_working(context, thread, found.start, found.end) for thread, found in own.items())
        for context, own in ((before, here), (after, there))
    ]
    factor = times[1] / times[0] if times[0] else 1.0
    return [HostEdit(np.full(len(found), thread), found.start, found.end, factor) for thread, found in here.items()]


def _unnamed(context: Context) -> dict[int, Intervals]:
    """Time of each host thread of the model within the steps and outside of operators."""
    found, tree = model.require(context), context.host.tree
    steps = Intervals.none()
    for part in found.windows:
        steps |= Intervals.union(part.step_start_ns, part.step_end_ns)
    times = {}
    for thread in np.unique(found.graph.host.thread).tolist():
        own = (tree.thread == thread) & (context.host.kind == NodeKind.OPERATOR)
        times[thread] = steps - Intervals.union(tree.start_ns[own], tree.end_ns[own])
    return times


def _working(context: Context, thread: int, start: I64, end: I64) -> int:
    """Host time in ns of a thread in some intervals, without calls that wait for the device."""
    waits = context.cached(host_activity.waits)
    own = waits.thread == thread
    return (Intervals.union(start, end) - Intervals.union(waits.start_ns[own], waits.end_ns[own])).length


def context_of(path: Path | str) -> Context:
    """A trace, ready for analyses.

    Raises:
        TypeError: The file contains printed tables.
    """
    trace = traceanalyzer.load(path)
    if not isinstance(trace, Trace):
        raise TypeError(f"{path} is no trace")
    return Context(trace)


def main(given: Sequence[str]) -> int:
    """Print the predictions for a pair."""
    if len(given) != 2:
        print(__doc__)
        return 2
    for each in predictions(context_of(given[0]), context_of(given[1])):
        low, point, high = (ns / 1e6 for ns in (each.low_ns, each.point_ns, each.high_ns))
        print(
            f"{each.put_in}: {each.before_ns / 1e6:.3f} -> {point:.3f} ms ({low:.3f} to {high:.3f}), measured "
            f"{each.measured_ns / 1e6:.3f}, inside: {each.is_inside}, width {each.width_share:.0%}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
