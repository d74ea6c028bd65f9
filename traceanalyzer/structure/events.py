"""Sets of events of a recording: those that one row of a table counts, or idle time of one cause.

Findings say with them what their advice is about: the same set decides what is edited in the causal model, where the
finding is in the timeline, and which findings are about the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from enum import StrEnum
from functools import wraps
from inspect import unwrap
from typing import Concatenate, ParamSpec

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.structure.context import Context
from traceanalyzer.structure.sums import members, rows_by
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, take_or
from traceanalyzer.trace.tree import NO_PARENT

P = ParamSpec("P")


class Of(StrEnum):
    """What the events of a set are."""

    LOADER = "loader"
    """Waits for a DataLoader."""
    COMMUNICATION = "communication"
    """Kernels or calls of collectives."""
    OPERATOR = "operator"
    """Calls of an operator, with all that they launch."""
    KERNEL = "kernel"
    """Runs of a kernel."""
    COPIES = "copies"
    """Copies or fills of one kind."""
    OWNER = "owner"
    """Host time of a mark, module or function of the program."""
    IDLE = "idle"
    """Idle time of the busiest device for one cause."""
    ANALYSIS = "analysis"
    """Events that an analysis finds by a search of its own."""
    OTHER = "other"
    """Time whose events no table counts in one row; only compared with other claims of the same name."""


class Population(StrEnum):
    """Over what the time per step of a set of events is a mean."""

    STEP = "typical step"
    """The typical steps, one of which the set's time is of."""
    RECORDING = "recording"
    """All recorded steps, because the events come now and then, such as at a new epoch."""
    OUTSIDE = "outside"
    """None of the steps: the events come again and again between them."""


class EventSet(msgspec.Struct, frozen=True):
    """A description of events: those with one name, idle time of one cause, or what a search of an analysis finds.

    It holds no rows: it is small, it is equal to others of the same events, results of analyses and messages between
    processes may contain it, and the events are searched for when somebody needs them.
    """

    of: Of
    name: str = ""
    """As the table has it, without wildcards; empty for all waits for a loader and all collectives."""
    shapes: str | None = None
    """Shapes of the inputs of an operator's calls; None for all calls."""
    search: Callable[..., EventSet] | None = None
    """Of what an analysis finds: the function made by `event_set` that described it."""
    arguments: tuple[Hashable, ...] = ()
    options: tuple[tuple[str, Hashable], ...] = ()
    """Arguments of the search by position and by name."""
    population: Population = Population.STEP

    @classmethod
    def operator(cls, name: str, shapes: str | None = None) -> EventSet:
        """Calls of an operator, all or those with these shapes of inputs."""
        return cls(Of.OPERATOR, name, shapes)

    @classmethod
    def kernel(cls, name: str) -> EventSet:
        """Runs of a kernel."""
        return cls(Of.KERNEL, name)

    @classmethod
    def copies(cls, name: str) -> EventSet:
        """Copies or fills of one kind, such as `Memcpy HtoD (Pageable -> Device)`."""
        return cls(Of.COPIES, name)

    @classmethod
    def owner(cls, name: str) -> EventSet:
        """Host time of a mark, module or function."""
        return cls(Of.OWNER, name)

    @classmethod
    def idle(cls, cause: str) -> EventSet:
        """Idle time of the busiest device for one of `gap_causes.CAUSES`; waiting for the loader is the loader's."""
        return LOADER if cause == "dataloader" else cls(Of.IDLE, cause)

    @classmethod
    def other(cls, name: str) -> EventSet:
        """Time whose events no table counts in one row."""
        return cls(Of.OTHER, name)

    def found(self, context: Context) -> tuple[Occurrences, ...]:
        """What an analysis finds, searched for at the first request only; nothing for sets that have only a name."""
        return context.cached(_found, self)


def event_set(find: Callable[Concatenate[Context, P], Iterable[Occurrences]]) -> Callable[P, EventSet]:
    """Makes a function that finds events describe them: called without the context, it returns their set."""

    @wraps(find)
    def describe(*arguments: P.args, **options: P.kwargs) -> EventSet:
        return EventSet(Of.ANALYSIS, find.__name__, None, describe, arguments, tuple(sorted(options.items())))

    return describe


def of_whole_recording(describe: Callable[P, EventSet]) -> Callable[P, EventSet]:
    """Makes the sets of a function with `event_set` those of events that come now and then in the whole recording."""
    return _of(Population.RECORDING, describe)


def outside_of_steps(describe: Callable[P, EventSet]) -> Callable[P, EventSet]:
    """Makes the sets of a function with `event_set` those of events that come again and again outside of the steps."""
    return _of(Population.OUTSIDE, describe)


def _of(population: Population, describe: Callable[P, EventSet]) -> Callable[P, EventSet]:
    @wraps(describe)
    def spread(*arguments: P.args, **options: P.kwargs) -> EventSet:
        return replace(describe(*arguments, **options), search=spread, population=population)

    return spread


def _found(context: Context, events: EventSet) -> tuple[Occurrences, ...]:
    if events.search is None:
        return ()
    return tuple(unwrap(events.search)(context, *events.arguments, **dict(events.options)))


LOADER = EventSet(Of.LOADER)
COMMUNICATION = EventSet(Of.COMMUNICATION)
WAITS = EventSet.idle("synchronization")
"""Idle time after a wait for the device that emptied its queue."""
ITS_OWN = EventSet.other("its own")
"""What goes with other events by itself: the calls that launch work of a device, or the work that calls launch."""


class Occurrences(msgspec.Struct, frozen=True):
    """Events of one kind, or idle time: when each runs, and on which device or thread."""

    kind: str
    """`device`, `host`, `call` or `idle`, as in `report.selection.Selection`."""
    name: str
    place: I64
    """Device or thread of each time."""
    start_ns: I64
    end_ns: I64

    @classmethod
    def on_device(cls, context: Context, name: str, rows: I64) -> Occurrences:
        """Events of the device table."""
        device = context.trace.device
        return cls("device", name, device.device[rows].astype(np.int64), device.start_ns[rows], device.end_ns[rows])

    @classmethod
    def of_calls(cls, context: Context, name: str, rows: I64) -> Occurrences:
        """Runtime calls: rows of the launch table."""
        launches = context.trace.launches
        return cls("call", name, launches.thread[rows].astype(np.int64), launches.start_ns[rows], launches.end_ns[rows])

    @classmethod
    def of_host(cls, context: Context, name: str, rows: I64) -> Occurrences:
        """Operators, marks and other work of threads: rows of the host table."""
        host = context.trace.host
        return cls("host", name, host.thread[rows].astype(np.int64), host.start_ns[rows], host.end_ns[rows])

    @classmethod
    def of_nodes(cls, context: Context, name: str, nodes: I64) -> Occurrences:
        """Operators and other work of threads: nodes of the host tree."""
        tree = context.host.tree
        return cls("host", name, tree.thread[nodes].astype(np.int64), tree.start_ns[nodes], tree.end_ns[nodes])

    @classmethod
    def launched_in(cls, context: Context, name: str, nodes: I64) -> Occurrences:
        """Device events that some nodes of the host tree, and all nodes inside them, launched."""
        chosen = np.zeros(len(context.host.tree), np.bool_)
        chosen[nodes] = True
        within = take_or(context.host.tree.nearest(chosen), context.links.device_node(), NO_PARENT)
        return cls.on_device(context, name, np.flatnonzero(within != NO_PARENT))

    @classmethod
    def idle(cls, name: str, device: int, start_ns: I64, end_ns: I64) -> Occurrences:
        """Idle time of a device."""
        return cls("idle", name, np.full(len(start_ns), device, np.int64), start_ns, end_ns)

    def without_inner(self, context: Context, nodes: I64) -> Occurrences:
        """The same times without the nodes of the host tree directly inside of some, except where these are among them.

        Args:
            context: The trace.
            nodes: The nodes whose times these are.
        """
        tree = context.host.tree
        own = np.zeros(len(tree), np.bool_)
        own[nodes] = True
        inner = np.flatnonzero(take_or(own, tree.parent, missing=False) & ~own)
        columns = [np.empty((3, 0), np.int64)]
        of_thread, own_of_thread = rows_by(tree.thread[inner]), rows_by(tree.thread[nodes])
        for thread, mine in members(self.place):
            theirs, deeper = inner[of_thread(thread)], nodes[own_of_thread(thread)]
            left = Intervals.union(self.start_ns[mine], self.end_ns[mine])
            for depth, level in members(tree.depth[theirs]):  # some of the nodes may lie within inner ones again
                at = theirs[level]
                deeper = deeper[tree.depth[deeper] > depth]
                left -= Intervals.union(tree.start_ns[at], tree.end_ns[at])
                left |= Intervals.union(tree.start_ns[deeper], tree.end_ns[deeper])
            columns.append(np.stack((np.full(len(left), thread), left.start, left.end)))
        return Occurrences(self.kind, self.name, *np.concatenate(columns, axis=1))
