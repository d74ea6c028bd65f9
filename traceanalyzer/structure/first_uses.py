"""Times in which code was most likely compiled or loaded although nothing is recorded of that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_activity import FIRST_USE_NS
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.distinct import ascending, distinct, is_among
from traceanalyzer.trace.table import I32, I64, SliceTable, column
from traceanalyzer.trace.tables import Category, HostEvents

_is_fused = finds(r"^fused_|^prim::(CudaFusion|TensorExpr)\w{0,16}Group|^nvfuser")
"""Whether an operator is one that a fuser of TorchScript (NNC, NVFuser) made of several."""
_is_fallback = finds(r"^fallback_function$")
"""Whether an operator is the way to code of TorchScript that may be fused."""
_HUNDRED = 100
"""A first call that takes this many times as long as the work itself compiles it."""
_LATER_CALLS = 3
"""Least calls of an operator that show what it needs, besides the first (own choice)."""
_PROFILED = 2
"""So many first calls of a method of TorchScript may compile: the first is profiled, the next one is optimized."""
_is_scripted = finds(r"^[A-Za-z_]\w*$")
"""Whether an operator may be a method or function of TorchScript: it has a plain name, of no library."""


class FirstUses(SliceTable):
    """Times in which code was most likely compiled or loaded although nothing is recorded of that."""

    name: I32 = column("i4", "", "operator around it", pool="names")
    start_ns: I64 = column("i8", "ns", "start")
    dur_ns: I64 = column("i8", "ns", "duration")
    thread: I32 = column("i4", "", "row of the thread", pool="threads")


@cached
def first_uses(context: Context) -> FirstUses:
    """Silence inside of an operator, up to the first call of a fused operator that takes a hundredth of it or less.

    Also that at the beginning of the first two calls of a method of TorchScript, a hundred times that of later calls.
    """
    host = context.trace.host
    fused = np.flatnonzero(context.trace.names.where(_is_fused)[host.name])
    _, first_of_name = np.unique(host.name[fused], return_index=True)
    fallbacks = np.flatnonzero(context.trace.names.where(_is_fallback)[host.name])
    calls = ascending(fused[first_of_name]).tolist()
    uses = (_first_use(context, row, _start_with_fallbacks(host, row, fallbacks)) for row in calls)
    found = [use for use in uses if use is not None]
    within = {(start, thread) for _, start, _, thread in found}
    scripted = [use for use in _first_of_methods(context) if use[1::2] not in within]
    context.release(_moments)
    return _table(sorted((*found, *scripted), key=lambda use: use[1]))


def _first_of_methods(context: Context) -> Iterator[tuple[int, int, int, int]]:
    """Name, start, duration and thread of the silence at the beginning of calls in which TorchScript compiles."""
    host, tree = context.host, context.host.tree
    is_operator = (host.category == Category.OPERATOR) & (host.kind == NodeKind.OPERATOR) & host.is_row & ~host.merged
    holds_others = tree.after - np.arange(len(tree)) > 1
    rows = np.flatnonzero(is_operator & holds_others & context.trace.names.where(_is_scripted)[host.name])
    for name, own in members(host.name[rows]):
        calls = rows[own][np.argsort(tree.start_ns[rows[own]], kind="stable")]
        if len(calls) < 2 or tree.dur_ns[calls[:_PROFILED]].max() < FIRST_USE_NS:
            continue
        first = min(_PROFILED, len(calls) - 1)
        silent = [_silence_at_begin(context, node) for node in calls.tolist()]
        usual = float(np.median([length for length, _ in silent[first:]]))
        for node, (length, thread) in zip(calls[:first].tolist(), silent, strict=False):
            if length >= max(FIRST_USE_NS, _HUNDRED * usual):
                yield name, int(tree.start_ns[node]), length, thread


def _silence_at_begin(context: Context, node: int) -> tuple[int, int]:
    """Time from the start of an operator to the next event of its thread, in ns, and the thread."""
    start = int(context.host.tree.start_ns[node])
    thread = int(context.trace.host.thread[context.host.row[node]])
    moments = context.cached(_moments, thread)
    return int(moments[np.searchsorted(moments, start) + 1]) - start, thread


@cached
def cold_calls(context: Context) -> FirstUses:
    """The longest silence in the first call of an operator that launches, a hundred times its own time in later calls.

    Libraries are loaded, handles created and kernels chosen at the first use; of much of that nothing is recorded.
    """
    host, tree = context.host, context.host.tree
    is_operator = (host.category == Category.OPERATOR) & ~host.merged
    slow = np.flatnonzero(is_operator & (tree.dur_ns >= FIRST_USE_NS))
    slow = slow[tree.count_in(slow, context.links.node) > 0]
    alike = np.flatnonzero(is_operator & is_among(host.name, distinct(host.name[slow])))
    own_ns = host_activity.own_times(context)[alike]
    slow = slow[own_ns[np.searchsorted(alike, slow)] >= FIRST_USE_NS]
    codes, found = {*host.name[slow].tolist()}, []
    for code, rows in members(host.name[alike]):
        calls = rows[np.argsort(tree.start_ns[alike[rows]], kind="stable")]
        if code in codes and _is_cold(own_ns[calls]):
            found.append((code, *_longest_silence(context, int(alike[calls[0]]))))
    context.release(_moments)
    return _table(sorted((use for use in found if use[2] >= FIRST_USE_NS), key=lambda use: use[1]))


def _is_cold(own_ns: I64) -> bool:
    """Whether the first of some calls takes far longer than the later ones."""
    are_many = len(own_ns) > _LATER_CALLS
    return are_many and bool(own_ns[0] >= max(FIRST_USE_NS, _HUNDRED * float(np.median(own_ns[1:]))))


def _table(uses: list[tuple[int, int, int, int]]) -> FirstUses:
    """Names, starts, durations and threads as a table."""
    name, start, duration, thread = np.array(uses, np.int64).reshape(-1, 4).T
    return FirstUses(name.astype(np.int32), start, duration, thread.astype(np.int32))


def _longest_silence(context: Context, node: int) -> tuple[int, int, int]:
    """Start, duration and thread of the longest time within an operator in which its thread begins or ends nothing."""
    tree, row = context.host.tree, context.host.row[node]
    thread = int(context.trace.host.thread[row])
    moments = context.cached(_moments, thread)
    own = moments[slice(*np.searchsorted(moments, (tree.start_ns[node], tree.end_ns[node] + 1)))]
    longest = int(np.argmax(np.diff(own)))
    return int(own[longest]), int(own[longest + 1] - own[longest]), thread


def _first_use(context: Context, row: int, start: int) -> tuple[int, int, int, int] | None:
    """Name of the operator around, start, duration and thread of the silence before a call; None if it is short.

    Args:
        context: The trace.
        row: The host row of the call.
        start: When it begins, fallbacks included.
    """
    host = context.trace.host
    thread = int(host.thread[row])
    moments = context.cached(_moments, thread)
    before = int(np.searchsorted(moments, start)) - 1
    since = int(moments[max(0, before)])
    if start - since < max(FIRST_USE_NS, _HUNDRED * int(host.dur_ns[row])):
        return None
    around = _operator_around(context, thread, since, start)
    return None if around is None else (int(host.name[around]), since, start - since, thread)


def _operator_around(context: Context, thread: int, start: int, end: int) -> int | None:
    """The row of the innermost operator of a thread that begins before a time and ends after it; None without."""
    host = context.trace.host
    is_open = (host.thread == thread) & (host.start_ns <= start) & (host.end_ns > end)
    rows = np.flatnonzero(is_open & host_activity.operator_rows(context))
    return int(rows[-1]) if len(rows) else None  # rows are in the order of time


def _start_with_fallbacks(host: HostEvents, row: int, fallbacks: I64) -> int:
    """When a call begins, or the first of the fallbacks around it."""
    same_thread = fallbacks[host.thread[fallbacks] == host.thread[row]]
    is_around = (host.start_ns[same_thread] <= host.start_ns[row]) & (host.end_ns[same_thread] >= host.end_ns[row])
    return int(host.start_ns[same_thread[is_around]].min(initial=host.start_ns[row]))


def _moments(context: Context, thread: int) -> I64:
    """When a thread begins and ends operators, marks and calls, ascending."""
    tables = context.trace.host, context.trace.launches
    bounds = (times[table.thread == thread] for table in tables for times in (table.start_ns, table.end_ns))
    return ascending(np.concatenate([*bounds]))
