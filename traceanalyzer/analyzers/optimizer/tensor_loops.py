"""Where does the program work through tensors in a loop, such as its parameters, with the same in-place arithmetic?

`structure.tensor_loops` has which operators are such a loop.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import OPERATORS, SHAPES, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, summed
from traceanalyzer.structure.owners import owner_index
from traceanalyzer.structure.tensor_loops import by_place, tensor_loops
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tree import NO_PARENT


class TensorLoop(msgspec.Struct, frozen=True):
    """All runs of one loop."""

    operators: tuple[str, ...]
    """Names of the operators of one turn, in order."""
    owner: str | None
    """The part of the program that runs it: a line, mark or module; null where only operators were recorded."""
    runs: int
    """How often the program came to the loop."""
    turns: int
    """Number of tensors of the longest run."""
    host_ns: int
    """Time in ns from the start of the first to the end of the last operator of each run, summed."""
    launches: int
    """Number of kernels, copies and fills that the runs put on devices."""
    device_ns: int
    """Sum of their durations in ns."""
    exposed: tuple[IdleTime, ...]
    """How much earlier the device could have gone on if the runs took no time, by cause."""
    start_ns: int
    """Start of the longest run in ns since the first event."""


class TensorLoops(msgspec.Struct, frozen=True):
    """Loops over tensors, those that take the host longest first."""

    rows: tuple[TensorLoop, ...]
    """One row per place and sequence of operators, the most host time first."""


def analyze(context: Context) -> TensorLoops:
    """The loops that begin in the chosen steps, or all."""
    loops = context.cached(tensor_loops)
    rows = [_row(context, runs) for runs in by_place(context, loops)]
    return TensorLoops(tuple(sorted(rows, key=lambda row: (-row.host_ns, row.start_ns))))


def _row(context: Context, runs: I64) -> TensorLoop:
    """The loop of some runs."""
    loops, tree, host = context.cached(tensor_loops), context.host.tree, context.host
    first, last = loops.first[runs], loops.last[runs]
    start, end = tree.start_ns[first], tree.end_ns[last]
    longest = int((end - start).argmax())
    begin = int(np.searchsorted(loops.nodes, first[longest]))
    turn = loops.nodes[begin : begin + int(loops.period[runs[longest]])]
    launched = _launched(context, tree.thread[first].astype(np.int64), start, end)
    index = context.cached(owner_index)
    owner = int(index.of_host_rows(context, host.row[first[longest : longest + 1]].astype(np.int64))[0])
    return TensorLoop(
        operators=tuple(context.trace.names[code] for code in host.name[turn].tolist()),
        owner=None if owner == NO_PARENT else index.places[owner],
        runs=len(runs),
        turns=int(loops.turns[runs].max()),
        host_ns=int((end - start).sum()),
        launches=len(launched),
        device_ns=int(context.trace.device.dur_ns[launched].sum()),
        exposed=summed(ended_earlier(context, start, end, end - start)),
        start_ns=int(start[longest]),
    )


def _launched(context: Context, thread: I64, start: I64, end: I64) -> I64:
    """The device events that are launched by a thread within some times."""
    launches, launch = context.trace.launches, context.links.launch
    called = take_or(launches.start_ns, launch, -1)
    run = np.searchsorted(start, called, side="right") - 1
    inside = (launch != NO_PARENT) & (run >= 0) & (called < take_or(end, run, 0))
    return np.flatnonzero(inside & (take_or(launches.thread, launch, -1) == take_or(thread, run, -2)))


@event_set
def tensor_loops_at(context: Context, start_ns: int) -> Iterator[Occurrences]:
    """When a loop runs, of which the longest run starts at a time."""
    loops, tree = context.cached(tensor_loops), context.host.tree
    for runs in by_place(context, loops):
        start, end = tree.start_ns[loops.first[runs]], tree.end_ns[loops.last[runs]]
        if start_ns in start:
            yield Occurrences("host", "loop over tensors", tree.thread[loops.first[runs]].astype(np.int64), start, end)


_LOOPS = Need(
    Text("skip-no-tensor-loops", "no loop over tensors does arithmetic on each of them"),
    lambda context: len(context.cached(tensor_loops).first) > 0,
)
ANALYSES = (Analysis(425, "tensor_loops", TensorLoops, analyze, needs=(OPERATORS, SHAPES, _LOOPS), is_of_steps=True),)
