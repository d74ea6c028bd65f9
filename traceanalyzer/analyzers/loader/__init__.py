"""How long does the program wait for each batch, who prepares it, and which waits stand out?

A wait is one call of a loader's `__next__` (`enumerate(DataLoader)#<iterator>.__next__` and the like); the iterator's
name shows whether batches are prepared in the program's own process. Nested waits count once.

At the end of an epoch the iterator of a loader ends its workers, and that of the next epoch starts new ones, unless
they are persistent. Two waits follow each other with nothing of the model between: the last one, which finds no batch
and ends the workers, and the first one of the next epoch, for which new workers prepare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from traceanalyzer.analyzers.host.stalls import stalled_times
from traceanalyzer.knowledge import host_roles
from traceanalyzer.knowledge.loaders import maker_of
from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_waits
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set, of_whole_recording
from traceanalyzer.structure.host_activity import own_line_tree
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.host_waits import epoch_turns, is_in_process, loader_waits, outermost_loads, turn_starts
from traceanalyzer.structure.owners.critical import critical
from traceanalyzer.structure.steps import step_names
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT

_JOIN_NS, _TIMES_USUAL, _SEVERAL = 3_000_000, 2, 2
"""Processes end in no less, in waits of so many times the usual one, at so many ends of epochs at least (own choices: a
process with torch ends in tens of milliseconds, and another program may delay one wait)."""
_START_NS = 1_000_000_000
"""A first wait of this length, where later ones are short, is more than loading a batch (own choice: starting a process
that imports torch takes some seconds)."""
_SHOWN = 5
LONG = 5
"""A wait of more than this many medians stands out (own choice: batches vary by a factor of two or three)."""
_DRAWS = frozenset({"aten::multinomial", "aten::randperm", "aten::randint"})
"""Operators with which samplers draw the order of samples, once for an epoch."""
_SAMPLER = re.compile(r"torch[/\\]utils[/\\]data[/\\](?:sampler|distributed)\.py\(\d+\): __iter__")
_STARTS = re.compile(r"_MultiProcessingDataLoaderIter|multiprocessing[/\\](?:popen_\w+|process|context)\.py")


class LongWait(msgspec.Struct, frozen=True):
    """One of the longest waits of a loader."""

    start_ns: int
    """Start of the wait in ns since the first event of the trace."""
    duration_ns: int
    """Duration of the wait in ns."""
    exposed_ns: int
    """Part of the wait in which no device works, in ns."""
    step: str | None
    """Number of the step in which the wait starts; null between steps."""
    is_first: bool
    """Whether it is the first counted wait of the loader."""


class Loader(msgspec.Struct, frozen=True):
    """All waits for the batches of one kind of iterator, by its name."""

    name: str
    """Name of the range in which the program waits for a batch, as recorded."""
    in_process: bool | None
    """Whether the waiting process itself prepares the batches; null if the name does not show it."""
    calls: int
    """Number of waits, one per batch."""
    total_ns: int
    """Duration of all waits in ns."""
    exposed_ns: int
    """Part of all waits in which no device works, in ns."""
    median_ns: float
    """Median duration of a wait in ns."""
    p95_ns: int
    """The shortest duration in ns that 95 % of the waits do not exceed, without time in which the thread stands still
    (`host_stalls`)."""
    first_ns: int
    """Duration of the first wait in ns."""
    first_excess_ns: float
    """Part of the first wait in which no device works, in ns, but at most its excess over the median."""
    excess_ns: float
    """Exposed time in ns of the waits that take more than five times the median, for each wait at most its excess over
    the median; the first wait does not count, nor does time in which the thread stands still."""
    long_calls: int
    """Number of waits that take more than five times the median, without the first wait."""
    longest: tuple[LongWait, ...]
    """The longest waits of this loader, the longest first."""
    asleep_ns: int | None = None
    """Part of all waits in ns in which the waiting process itself waits: for a clock, a file, a network or another
    process; null without Python frames."""
    sampler_ns: int = 0
    """Part of all waits in ns in which the waiting process draws the order of samples, which workers would not do."""
    sampler_operator: str | None = None
    """The operator with which it draws longest; null where nothing shows that it draws within the waits."""
    made_by: str | None = None
    """Library that creates the loader, such as `transformers.pipeline`, by the Python frames around the first wait;
    null if the program creates it or the frames do not show it."""


class DataLoader(msgspec.Struct, frozen=True):
    """Loaders, the one that is waited for longest first; at most 200."""

    loaders: tuple[Loader, ...]
    """Loaders by name, the one that is waited for longest first."""


def analyze(context: Context) -> DataLoader:
    """Waits that start in the chosen steps, or all."""
    tree, names = context.host.tree, context.host.name
    rows = outermost_loads(context)
    rows = rows[np.argsort(tree.start_ns[rows], kind="stable")]
    rows = rows[context.in_scope(tree.start_ns[rows])]
    busy = gaps.any_busy(context)
    waits = dict(members(names[rows]))
    time = {code: int((tree.end_ns[rows[own]] - tree.start_ns[rows[own]]).sum()) for code, own in waits.items()}
    described = set(sorted(waits, key=lambda code: (-time[code], context.trace.names[code]))[: host_waits.LOADERS])
    loaders = [_loader(context, code, rows[own], busy) for code, own in waits.items() if code in described]
    return DataLoader(tuple(sorted(loaders, key=lambda row: (-row.total_ns, row.name))))


def _loader(context: Context, code: int, rows: I64, busy: Intervals) -> Loader:
    start = context.host.tree.start_ns[rows]
    end = context.host.tree.end_ns[rows]
    length = end - start
    exposed = length - busy.within(start, end)
    median = float(np.median(length))
    steady = length - context.cached(stalled_times).within(start, end)
    excess = np.minimum(exposed, np.maximum(steady - median, 0))
    long = steady > LONG * median
    long[0] = False
    chosen = np.lexsort((start, -length))[:_SHOWN]
    columns = (start[chosen].tolist(), length[chosen].tolist(), exposed[chosen].tolist())
    steps = step_names(context.steps, start[chosen])
    name = context.trace.names[code]
    return Loader(
        name=name,
        in_process=is_in_process(name),
        calls=len(rows),
        total_ns=int(length.sum()),
        exposed_ns=int(exposed.sum()),
        median_ns=median,
        p95_ns=int(np.sort(steady)[(95 * len(length) + 99) // 100 - 1]),
        first_ns=int(length[0]),
        first_excess_ns=float(excess[0]),
        excess_ns=float(excess[long].sum()),
        long_calls=int(long.sum()),
        longest=tuple(map(LongWait, *columns, steps, (chosen == 0).tolist())),
        asleep_ns=_asleep(context, rows),
        **_sampler(context, start, end),
        made_by=_maker(context, int(rows[0])),
    )


def _asleep(context: Context, waits: I64) -> int | None:
    """Time of some waits in calls that wait; None without Python frames."""
    frames, tree = context.trace.frames, context.host.tree
    if not len(frames):
        return None
    rows = np.flatnonzero(context.trace.names.where(host_roles.is_waiting)[frames.name])
    calls = Intervals.union(frames.start_ns[rows], frames.end_ns[rows])
    return int(calls.within(tree.start_ns[waits], tree.end_ns[waits]).sum())


def _sampler(context: Context, start: I64, end: I64) -> dict[str, Any]:
    """Time in ns in which samplers draw within some waits, by frames, else by operators, and the longest operator.

    Without frames, operators that come in most waits may belong to the dataset, which draws for each batch or sample.
    """
    host, tree, frames = context.host, context.host.tree, context.trace.frames
    draws = context.trace.names.where(_DRAWS.__contains__)[host.name]
    drawing = np.flatnonzero((host.kind == NodeKind.OPERATOR) & draws)
    waits = Intervals.union(start, end)
    times = waits.within(tree.start_ns[drawing], tree.end_ns[drawing])
    drawing, times = drawing[times > 0], times[times > 0]
    sampling = Intervals.union(tree.start_ns[drawing], tree.end_ns[drawing])
    if len(frames):
        is_sampler = context.trace.names.where(lambda name: _SAMPLER.search(name) is not None)[frames.name]
        sampling = Intervals.union(frames.start_ns[is_sampler], frames.end_ns[is_sampler])
        times = sampling.within(tree.start_ns[drawing], tree.end_ns[drawing])
    elif 2 * len(drawing) > len(start):
        return {}
    if not times.any():
        return {}
    operator = context.trace.names[host.name[drawing[times.argmax()]]]
    return {"sampler_ns": int(sampling.within(start, end).sum()), "sampler_operator": operator}


def _maker(context: Context, wait: int) -> str | None:
    """The innermost library that creates loaders, around a wait."""
    lines = context.cached(own_line_tree)
    waits = context.host.tree
    if not len(lines.tree):
        return None
    around = int(lines.tree.innermost(waits.thread[[wait]], waits.start_ns[[wait]])[0])
    while around != NO_PARENT:
        found = maker_of(context.trace.names[int(lines.name[around])])
        if found is not None:
            return found.title
        around = int(lines.tree.parent[around])
    return None


class EpochTurn(msgspec.Struct, frozen=True):
    """The end of one epoch and the beginning of the next one."""

    start_ns: int
    """Start of the last wait of the epoch in ns since the first event."""
    duration_ns: int
    """Time in ns from there to the end of the first wait of the next epoch."""
    wait_ns: int
    """Part of this time in ns in the two waits."""
    starts_processes: bool | None
    """Whether processes are started between the waits, as frames show; without frames true if epochs end with waits in
    which processes end, else null."""


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

    @property
    def usual_total_ns(self) -> float:
        """What as many other waits take in ns, two for each change."""
        return 2 * self.turns * self.usual_ns


def epochs(context: Context) -> LoaderEpochs:
    """The changes of epochs, and what waits take otherwise."""
    (last, first), (start, end) = epoch_turns(context), loader_waits(context)
    others = np.delete(end - start, np.concatenate((last, first)))
    begins, has_paused = turn_starts(context), host_waits.pauses(context)[last] > 0
    waits = np.where(has_paused, 0, (end - start)[last]) + (end - start)[first]
    length = end[first] - begins
    starts = _starts_processes(context, end[last], start[first])
    restarts = _end_processes((end - start)[last], others) or _start_late((end - start)[first[has_paused]])
    if starts is None and context.trace.info.capture is None and restarts:
        starts = np.ones(len(last), np.bool_)
    order = np.lexsort((begins, -length))[:_SHOWN]
    columns = (begins[order], length[order], waits[order])
    told = [None] * len(order) if starts is None else starts[order].tolist()
    return LoaderEpochs(
        turns=len(last),
        total_ns=int(length.sum()),
        wait_ns=int(waits.sum()),
        usual_ns=float(np.median(others)) if len(others) else 0.0,
        excess_ns=_excess(context, start[last]),
        longest=tuple(map(EpochTurn, *(column.tolist() for column in columns), told)),
    )


@of_whole_recording
@event_set
def turns_at(context: Context) -> Iterator[Occurrences]:
    """When one epoch ends and the next one begins."""
    (last, first), (_, end) = epoch_turns(context), loader_waits(context)
    main = context.cached(critical).main
    thread = np.full(len(last), 0 if main is None else main, np.int64)
    yield Occurrences("host", "DataLoader", thread, turn_starts(context), end[first])


def _excess(context: Context, turns: I64) -> float | None:
    """By how much the steps in which some changes begin are longer than others; None without others."""
    steps = context.steps
    own = context.steps.at(turns)
    length = steps.end_ns - steps.start_ns
    others = np.delete(length, own)
    if not len(others):
        return None
    return float(np.maximum(0.0, length[distinct(own)] - np.median(others)).sum())


def _end_processes(last: I64, others: I64) -> bool:
    """Whether the last waits of epochs take so long that workers end in them: those that stay end nothing.

    Args:
        last: Duration in ns of each of these waits.
        others: Duration in ns of the waits within epochs.
    """
    least = max(_JOIN_NS, _TIMES_USUAL * float(np.median(others)) if len(others) else 0.0)
    return len(last) >= _SEVERAL and bool(np.median(last) >= least)


def _start_late(first: I64) -> bool:
    """Whether the first waits of epochs, each after a pause, take so long that workers most likely start in them."""
    return len(first) >= _SEVERAL and bool(np.median(first) >= _START_NS)


def _starts_processes(context: Context, since: I64, until: I64) -> Bool | None:
    """Whether processes are started in each of some times; None without Python frames."""
    frames = context.trace.frames
    if not len(frames):
        return None
    starting = context.trace.names.where(lambda name: _STARTS.search(name) is not None)[frames.name]
    begins = np.sort(frames.start_ns[starting])
    return np.searchsorted(begins, until) > np.searchsorted(begins, since)


_LOADER = Need(
    Text(
        "skip-no-dataloader",
        "the trace has no wait for a DataLoader: the program uses none, or its loader leaves no marks in the trace",
    ),
    lambda context: (context.kind == NodeKind.DATALOADER).any(),
)
_NEEDED = Need(
    Text("skip-no-epochs", "no epoch of a loader with worker processes ends and begins in the steps"),
    lambda context: len(epoch_turns(context)[0]),
)
_LOADER_EPOCHS_QUESTION = "What does the change from one epoch to the next cost, where the loader has worker processes?"
ANALYSES = (
    Analysis(190, "dataloader", DataLoader, analyze, needs=(_LOADER,)),
    Analysis(195, "loader_epochs", LoaderEpochs, epochs, needs=(_NEEDED,), question=_LOADER_EPOCHS_QUESTION),
)
