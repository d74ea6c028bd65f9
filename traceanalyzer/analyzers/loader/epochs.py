"""What does the change from one epoch to the next cost, where the loader has worker processes?

At the end of an epoch the iterator of a loader ends its workers, and that of the next epoch starts new ones, unless
they are persistent. Two waits follow each other with nothing of the model between: the last one, which finds no batch
and ends the workers, and the first one of the next epoch, for which new workers prepare.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_waits import is_in_process, outermost_loads
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool

_STARTS = re.compile(r"_MultiProcessingDataLoaderIter|multiprocessing[/\\](?:popen_\w+|process|context)\.py")
_LEAST_NS = 1_000_000
"""A process does not start in less (own choice: a fork of a program with torch takes some milliseconds)."""
_WORK = 0.1
"""Share of the time between two waits from which on operators are the program's own work (own choice)."""
_SHOWN = 5


class EpochTurn(msgspec.Struct, frozen=True):
    """The end of one epoch and the beginning of the next one."""

    start_ns: int
    """Start of the last wait of the epoch in ns since the first event."""
    duration_ns: int
    """Time in ns from there to the end of the first wait of the next epoch."""
    wait_ns: int
    """Part of this time in ns in the two waits."""
    starts_processes: bool | None
    """Whether frames show that processes are started between the waits; null without Python frames."""


class LoaderEpochs(msgspec.Struct, frozen=True):
    """Changes of epochs within the steps."""

    turns: int
    """Number of changes from one epoch to the next."""
    total_ns: int
    """Time of all of them in ns."""
    wait_ns: int
    """Part of this time in ns in waits for the loader."""
    usual_ns: float
    """Median of all other waits of these loaders in ns; 0 without any."""
    excess_ns: float | None
    """Time in ns by which the steps with changes are longer than the median of the other steps; null without others.
    After a change a step computes longer, too: new workers start beside it, and its memory is shared with them."""
    longest: tuple[EpochTurn, ...]
    """The longest changes, at most five."""


def analyze(context: Context) -> LoaderEpochs:
    """The changes of epochs, and what waits take otherwise."""
    (last, first), (start, end) = context.once(_turns), context.once(_waits)
    others = np.delete(end - start, np.concatenate((last, first)))
    waits = (end - start)[last] + (end - start)[first]
    length = end[first] - start[last]
    starts = _starts_processes(context, end[last], start[first])
    order = np.lexsort((start[last], -length))[:_SHOWN]
    columns = (start[last][order], length[order], waits[order])
    told = [None] * len(order) if starts is None else starts[order].tolist()
    return LoaderEpochs(
        turns=len(last),
        total_ns=int(length.sum()),
        wait_ns=int(waits.sum()),
        usual_ns=float(np.median(others)) if len(others) else 0.0,
        excess_ns=_excess(context, start[last]),
        longest=tuple(map(EpochTurn, *(column.tolist() for column in columns), told)),
    )


def _waits(context: Context) -> tuple[I64, I64]:
    """Start and end of the waits within steps for loaders with worker processes, in the order of time."""
    tree, names = context.host.tree, context.trace.names
    rows = outermost_loads(context)
    in_workers = names.where(lambda name: is_in_process(name) is False)[context.host.name[rows]]
    rows = rows[in_workers & (context.steps.at(tree.start_ns[rows]) >= 0)]
    rows = rows[np.argsort(tree.start_ns[rows], kind="stable")]
    return tree.start_ns[rows], tree.end_ns[rows]


def _turns(context: Context) -> tuple[I64, I64]:
    """Positions of the last wait of each epoch and of the first one of the next, among the waits."""
    start, end = context.once(_waits)
    host = context.trace.host
    since, until = end[:-1], start[1:]
    gap = until - since
    own = host_activity.operator_rows(context)
    work = Intervals.union(host.start_ns[own], host.end_ns[own]).within(since, np.maximum(since, until))
    launched = np.diff(np.searchsorted(context.trace.launches.start_ns, np.stack((since, until))), axis=0)[0]
    found = np.flatnonzero((gap >= _LEAST_NS) & (work <= _WORK * gap) & (launched <= 0))
    return found, found + 1


def _excess(context: Context, turns: I64) -> float | None:
    """By how much the steps in which some changes begin are longer than others; None without others."""
    steps, own = context.steps, context.steps.at(turns)
    length = steps.end_ns - steps.start_ns
    others = np.delete(length, own)
    if not len(others):
        return None
    return float(np.maximum(0.0, length[np.unique(own)] - np.median(others)).sum())


def _starts_processes(context: Context, since: I64, until: I64) -> Bool | None:
    """Whether processes are started in each of some times; None without Python frames."""
    frames = context.trace.frames
    if not len(frames):
        return None
    starting = context.trace.names.where(lambda name: _STARTS.search(name) is not None)[frames.name]
    begins = np.sort(frames.start_ns[starting])
    found: Bool = np.searchsorted(begins, until) > np.searchsorted(begins, since)
    return found


_NEEDED = Need(
    Text("skip-no-epochs", "no epoch of a loader with worker processes ends and begins in the steps"),
    lambda context: len(context.once(_turns)[0]),
)
ANALYSES = (Analysis(200, "loader_epochs", LoaderEpochs, analyze, needs=(_NEEDED,)),)
