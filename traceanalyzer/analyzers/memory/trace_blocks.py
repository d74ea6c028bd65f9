"""The blocks of a trace's memory records, as those of a snapshot: when each lives, and which stack allocated it.

Records have the bytes that the allocator gave, rounded, and no segments. Their stacks are what ran at their time: the
operator, the line of the program, the modules around it, and the part of the training step, in the words of the stacks
that the allocator records itself (`knowledge/allocation_places.py`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from traceanalyzer.analyzers.memory.levels import Ledger, ledgers
from traceanalyzer.knowledge import python_frames
from traceanalyzer.knowledge.allocation_places import AllocationPlace, Frames
from traceanalyzer.knowledge.marks import is_optimizer_step
from traceanalyzer.structure import autograd, host_activity
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import class_name, owners
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I32, I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

MOST_BLOCKS = 200_000
"""Blocks of a device whose kinds are told (own choice: it takes seconds)."""
_ZEROES, _AGAIN = 6, 7
"""Gradients are given up; modules run again in the backward pass. They follow the numbers of `AllocationPlace`."""
_CALL = ("/torch/nn/modules/module.py", 0, "_call_impl")
_ENGINE = ("??", 0, "torch::autograd::Engine::evaluate_function")
_MARKS: dict[int, Frames] = {
    AllocationPlace.FORWARD: (_CALL,),
    AllocationPlace.BACKWARD: (_ENGINE,),
    AllocationPlace.OPTIMIZER: (("/torch/optim/optimizer.py", 0, "step"),),
    _ZEROES: (("/torch/optim/optimizer.py", 0, "zero_grad"),),
    _AGAIN: (_CALL, _ENGINE),
}
"""The frames that a stack of the allocator has for the part of the step."""


class TraceBlocks(NamedTuple):
    """The blocks of one device; entries are positions in its ledger."""

    ledger: Ledger
    blocks: Lifetimes
    stacks: tuple[Frames, ...]


def stacked(context: Context) -> tuple[TraceBlocks, ...]:
    """The blocks of each accelerator whose records have addresses, with their stacks."""
    found = []
    for ledger in context.cached(ledgers):
        blocks = lifetimes(context, ledger)
        if ledger.number != UNKNOWN and 0 < len(blocks) <= MOST_BLOCKS:
            found.append(_stacked(context, ledger, blocks))
    return tuple(found)


def lifetimes(context: Context, ledger: Ledger) -> Lifetimes:
    """The blocks of a device, without stacks: first those from before the trace, then the others as allocated.

    A block lasts until the next record of its address: its release, or, if that was not recorded, the next
    allocation there. A release without an allocation is a block from before the trace.
    """
    count = len(ledger.rows)
    address = context.trace.memory.address[ledger.rows]
    records = np.flatnonzero((address != 0) & ~ledger.is_foreign & (ledger.change_bytes != 0))
    records = records[np.argsort(address[records], kind="stable")]
    same = np.diff(address[records]) == 0
    following = np.append(np.where(same, records[1:], count), count)[: len(records)]
    taken = ledger.change_bytes[records] > 0
    unseen = ~taken & ~np.append(False, same)[: len(records)]
    order = np.argsort(records[taken], kind="stable")
    born = np.concatenate((np.full(int(unseen.sum()), BEFORE), records[taken][order]))
    died = np.concatenate((records[unseen], following[taken][order]))
    row = np.concatenate((records[unseen], records[taken][order]))
    unknown = np.full(len(born), UNKNOWN)
    return Lifetimes(
        born=born,
        died=died,
        address=address[row].astype(np.uint64),
        requested=np.abs(ledger.change_bytes[row]),
        size=unknown,
        stream=np.zeros(len(born), np.int64),
        segment=unknown.astype(np.int32),
        frames=unknown.astype(np.int32),
        freed_frames=unknown.astype(np.int32),
        entries=count,
    )


def _stacked(context: Context, ledger: Ledger, blocks: Lifetimes) -> TraceBlocks:
    """The blocks with the stacks of their allocations and releases."""
    used = distinct(np.concatenate((blocks.born[blocks.born > BEFORE], blocks.died[blocks.died < blocks.entries])))
    number, stacks = _stacks(context, ledger.rows[used])
    of_entry = np.full(blocks.entries + 1, UNKNOWN, np.int32)  # the last is for blocks from before, or that stay
    of_entry[used] = number
    made, freed = of_entry[blocks.born], of_entry[blocks.died]
    return TraceBlocks(ledger, replace(blocks, frames=made, freed_frames=freed), stacks)


class _StackKey(NamedTuple):
    """What a stack consists of: codes of names, -1 for none."""

    place: int
    line: int
    operator: int
    modules: tuple[str, ...]


def _stacks(context: Context, rows: I64) -> tuple[I32, tuple[Frames, ...]]:
    """The number of the stack at each memory record, and the stacks."""
    where = context.trace.memory.thread[rows], context.trace.memory.start_ns[rows]
    node = take_or(context.host.top, context.host.tree.innermost(*where), NO_PARENT)
    paths, path = _paths(context, take_or(context.cached(owners).module, node, NO_PARENT))
    columns = (
        _places(context, *where, node),
        context.cached(host_activity.own_line_tree).names_at(*where),
        take_or(context.host.name, asking(context, node), np.int32(-1)),
        path,
    )
    first, groups = group(*columns)
    order = np.argsort(first)  # stacks are numbered by their first record
    number = np.argsort(order).astype(np.int32)
    codes = np.column_stack([column[first[order]] for column in columns]).tolist()
    stacks = [_StackKey(place, line, operator, paths[of_path]) for place, line, operator, of_path in codes]
    return number[groups], tuple(_frames(stack, context.trace.names) for stack in stacks)


def asking(context: Context, node: I64) -> I64:
    """The innermost operator that is not `aten::empty`, else the innermost operator, else -1."""
    empty = context.trace.names.where(lambda name: name.startswith("aten::empty"))
    is_row = context.host.is_row
    innermost, asked = (
        take_or(context.host.tree.nearest(wanted), node, NO_PARENT)
        for wanted in (is_row, is_row & ~empty[context.host.name])
    )
    return np.where(asked == NO_PARENT, innermost, asked)


def _places(context: Context, thread: I32, times: I64, node: I64) -> I64:
    """The part of the step that runs at each record."""
    owned, table = context.cached(owners), context.trace.host
    around = take_or(context.host.tree.nearest(_is_forward(context)), node, NO_PARENT)
    place = np.where(around == NO_PARENT, int(AllocationPlace.OTHER), int(AllocationPlace.FORWARD))
    is_within = take_or(owned.evaluation, node, NO_PARENT) != NO_PARENT
    is_again = is_within & take_or(owned.is_module, take_or(owned.owner, node, NO_PARENT), False)
    place[is_within] = AllocationPlace.BACKWARD
    place[is_again] = _AGAIN
    call = host_activity.innermost(table, context.cached(autograd.ranges), thread, times)
    within = np.flatnonzero(call != NO_PARENT)
    name = table.name[call[within]]
    for wanted, number in ((is_optimizer_step, int(AllocationPlace.OPTIMIZER)), (autograd.is_zero_grad, _ZEROES)):
        place[within[context.trace.names.where(wanted)[name]]] = number
    return place


def _is_forward(context: Context) -> Bool:
    """Nodes of the forward pass: modules, and outermost operators in which a function of the graph is created."""
    is_module = context.cached(owners).is_module
    outermost = _outermost(context.host.tree.parent)
    return is_module | np.isin(outermost, outermost[context.cached(autograd.graph).node])


def _outermost(parent: I32) -> I64:
    """The outermost node around each, by doubling the steps upwards."""
    above = np.where(parent == NO_PARENT, np.arange(len(parent)), parent).astype(np.int64)
    while True:
        higher = above[above]
        if np.array_equal(higher, above):
            return above
        above = higher


def _paths(context: Context, module: I64) -> tuple[list[tuple[str, ...]], I64]:
    """The classes of the modules around some module calls, the innermost first, and the number of those of each call.

    A call of -1 has none around it.
    """
    host, names = context.host, context.trace.names
    around = take_or(context.cached(owners).module, host.tree.parent, NO_PARENT)
    known: dict[int, tuple[str, ...]] = {NO_PARENT: ()}
    class_of = cache(lambda name: class_name(names[name]))
    calls, of_call = ranked(module)
    numbers: dict[tuple[str, ...], int] = {}
    number = []
    for call in calls.tolist():
        missing, outer = [], call
        while outer not in known:
            missing.append(outer)
            outer = int(around[outer])
        path = known[outer]
        for inner in reversed(missing):
            path = known[inner] = (class_of(int(host.name[inner])), *path)
        number.append(numbers.setdefault(path, len(numbers)))
    return list(numbers), np.array(number, np.int64)[of_call]


def _frames(key: _StackKey, names: Strings) -> Frames:
    """A stack in the words of the allocator's own, the innermost frame first."""
    line = None if key.line < 0 else python_frames.parse(names[key.line])
    own = () if line is None else ((line.path, line.line, line.function),)
    inner = () if key.operator < 0 else (("??", 0, names[key.operator]),)
    return (*inner, *own, *(("", 0, name) for name in key.modules), *_MARKS.get(key.place, ()))
