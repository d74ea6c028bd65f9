"""Which threads does autograd work on, and which thread waits for it?"""

from __future__ import annotations

from collections import Counter

import numpy as np

from traceanalyzer.structure import host_activity
from traceanalyzer.structure.autograd import graph
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I32

_OF_PROGRAM = (NodeKind.STEP, NodeKind.DATALOADER, NodeKind.OPTIMIZER)
"""Marks that only the thread of a program's own loop has."""


def engines(context: Context) -> dict[int, int]:
    """For each thread of autograd's own, the thread of its process that calls for the backward pass.

    A thread that evaluates functions is autograd's own if it does nothing else of a training.
    """
    threads = context.host.tree.thread
    loops = Counter(_threads(context.trace.host.thread[np.isin(context.kind, _OF_PROGRAM)]))
    forward = _count(threads[context.once(graph).node])
    evaluating = _threads(threads[context.once(owners).is_evaluation])
    own = [thread for thread in evaluating if thread not in loops and thread not in forward]
    calling: dict[str, int] = {}
    candidates = sorted(loops.keys() | forward.keys() | _marked(context), key=lambda t: (t in loops, forward[t], -t))
    for thread in candidates:
        if thread not in own:
            calling[context.trace.threads[thread].pid] = thread
    pids = {thread: context.trace.threads[thread].pid for thread in own}
    return {thread: calling[pid] for thread, pid in pids.items() if pid in calling}


def critical_threads(context: Context) -> tuple[int, ...]:
    """The thread that launches most, and, where it waits for autograd, the busiest thread of autograd's own.

    The thread of the program stands first. Empty where nothing is known to be launched.
    """
    launching, waiting = host_activity.launching_threads(context), context.once(engines)
    if not launching:
        return ()
    main = waiting.get(launching[0], launching[0])
    engine = next((thread for thread in launching if waiting.get(thread) == main), None)
    return (main,) if engine is None else (main, engine)


def _marked(context: Context) -> set[int]:
    """Threads that have annotations."""
    return set(_threads(context.trace.host.thread[context.kind == NodeKind.NONE]))


def _threads(column: I32) -> list[int]:
    found: list[int] = distinct(column).tolist()
    return found


def _count(column: I32) -> Counter[int]:
    numbers, rank = ranked(column)
    return Counter(dict(zip(numbers.tolist(), np.bincount(rank, minlength=len(numbers)).tolist(), strict=True)))
