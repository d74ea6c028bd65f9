"""How much longer do operators on the CPU take than their work explains, where threads outnumber cores?

A capture says how many threads an operator uses and how many cores the process may use. For operators with a model in
`knowledge.op_models`, the time is compared with the time that a single core needs at most for the operations and bytes
that their inputs imply. Time beyond that is waiting: for threads without a core, or for memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge import op_models
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.operator_times import works_of
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.table import I64
from traceanalyzer.trace.tree import NO_PARENT

FLOPS_PER_NS = 24.0
"""Operations per ns that one core reaches in products of float32 matrices (own choice: a core with SSE alone has 24 at
3 GHz, one with AVX2 96 at its peak)."""
BYTES_PER_NS = 4.0
"""Bytes per ns that one core moves (own choice: cores of today's servers reach 10 and more)."""
CALL_NS = 6_000
"""Time that a call takes at most beside its work (own choice: PyTorch takes 1 to 10 us on a CPU)."""


class ThreadContention(msgspec.Struct, frozen=True):
    """Operators on a CPU whose threads outnumber the cores; times in ns are sums over the typical steps."""

    steps: int
    """Number of typical steps."""
    cpus: int
    """Cores that the process could use."""
    threads: int
    """Threads that one operator uses."""
    operators: int
    """Operators whose work is known from their inputs."""
    host_ns: int
    """Their host time."""
    beyond_ns: int
    """Part of the time that exceeds what one core needs for the work, by a generous estimate."""
    slowest: str | None
    """Name of the operators with most of that part; null without any."""
    start_ns: int
    """Start of the call with most of that part in ns since the first event; -1 without any."""


class _Slow(msgspec.Struct, frozen=True):
    """Operators of typical steps whose work is known."""

    node: I64
    beyond_ns: I64
    """How much longer than needed each takes."""


def analyze(context: Context) -> ThreadContention:
    """Compare operators with the work that their inputs imply."""
    capture, tree, host = context.trace.info.capture, context.host.tree, context.host
    assert capture is not None, "the needs were asked first"  # noqa: S101
    nodes = (slow := context.cached(_slow)).node
    beyond = slow.beyond_ns
    by_name = sum_by(host.name[nodes], beyond, len(context.trace.names))
    found = bool(beyond.sum())
    return ThreadContention(
        steps=len(program_steps(context).typical),
        cpus=capture.host.cpus or 0,
        threads=capture.host.threads or 0,
        operators=len(nodes),
        host_ns=int((tree.end_ns[nodes] - tree.start_ns[nodes]).sum()),
        beyond_ns=int(beyond.sum()),
        slowest=context.trace.names[int(by_name.argmax())] if found else None,
        start_ns=int(tree.start_ns[nodes[beyond.argmax()]]) if found else -1,
    )


@event_set
def slow_at(context: Context) -> Iterator[Occurrences]:
    """When operators run longer than their work explains."""
    slow = context.cached(_slow)
    tree = context.host.tree
    end = tree.end_ns[slow.node]
    yield Occurrences("host", "operators", tree.thread[slow.node].astype(np.int64), end - slow.beyond_ns, end)


def _slow(context: Context) -> _Slow:
    tree = context.host.tree
    steps = program_steps(context).typical
    nodes = _outermost(context)
    nodes = nodes[steps.at(tree.start_ns[nodes]) >= 0] if len(steps) else nodes[:0]
    works, _, groups = works_of(context, nodes)
    needs = np.array([_needed_ns(work) for work in works], np.float64)
    needed = needs[groups] if len(nodes) else np.empty(0)
    known = needed >= 0
    nodes = nodes[known]
    needed = needed[known]
    time = tree.end_ns[nodes] - tree.start_ns[nodes]
    return _Slow(nodes, np.maximum(0, time - needed).astype(np.int64))


def _outermost(context: Context) -> I64:
    """Operators of a kind whose work is known, in no other such operator."""
    host, names = context.host, context.trace.names
    known = host.is_row & names.where(lambda name: op_models.family(name) is not None)[host.name]
    around = np.append(host.tree.nearest(known), NO_PARENT)[host.tree.parent]
    return np.flatnonzero(known & (around == NO_PARENT))


def _needed_ns(work: op_models.Work | None) -> float:
    """Time in ns that one core needs for a call at most; -1 where its work is not known."""
    if work is None or work.bytes is None:
        return -1.0
    return CALL_NS + (work.flops or 0) / FLOPS_PER_NS + work.bytes / BYTES_PER_NS


def _knows_threads(context: Context) -> bool:
    capture = context.trace.info.capture
    return capture is not None and None not in (capture.host.cpus, capture.host.threads)


def _has_too_many_threads(context: Context) -> bool:
    capture = context.trace.info.capture
    return bool(capture and (capture.host.threads or 0) > (capture.host.cpus or 0))


_CAPTURE = Need(
    Text(
        "skip-threads-unknown",
        "how many threads operators use and how many cores there are is only known of recordings by traceanalyzer "
        "capture",
    ),
    _knows_threads,
)
_NO_DEVICE = Need(
    Text("skip-threads-device", "a device worked: what operators on the CPU take is not what a step consists of"),
    lambda context: not (len(context.trace.device) or len(context.trace.accelerator)),
)
_MORE_THREADS = Need(
    Text("skip-threads-fit", "operators use no more threads than there are cores"), _has_too_many_threads
)
ANALYSES = (Analysis(490, "thread_contention", ThreadContention, analyze, needs=(_CAPTURE, _NO_DEVICE, _MORE_THREADS)),)
