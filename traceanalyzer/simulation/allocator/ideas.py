"""What could be changed in a program to need less memory, as far as its blocks show that it is possible.

Each idea is a change of the blocks of all steps, as it may be worth most, and least. Whether it is worth anything is
what the replay says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from traceanalyzer.analyzers.memory.block_kinds import BlockKind, forward_passes, late_gradients, zeroed_gradients
from traceanalyzer.analyzers.memory.snapshot_peak import StackNames, graph_rows, unfreed
from traceanalyzer.knowledge.allocation_places import AllocationPlace, Frames
from traceanalyzer.simulation.allocator.changes import (
    DropBlocks,
    FreeBlocks,
    LeaveOut,
    MemoryChange,
    ResizeBlocks,
    UseExpandableSegments,
)
from traceanalyzer.simulation.allocator.checkpointing import checkpoint, repeated_parts
from traceanalyzer.simulation.allocator.recording import RecordedMemory
from traceanalyzer.simulation.allocator.savings import MemoryProposal
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.table import I64, U8, Bool

_LEAST_QUANTIZED = 16_384
"""Bytes of 4,096 values of 4 bytes: smaller states stay as they are (bitsandbytes, `min_8bit_size`)."""
_SCALES = 1 / 64
"""Bytes of scales over those of values in 8 bits: 4 bytes for 256 values (bitsandbytes)."""
_CHUNKS = 8
"""Parts in which a loss is computed (own choice: what torchtune and Liger do by default is as many or more)."""
_LAYERS_ALIVE = 2
"""Blocks of a forward pass without a graph that live at once, at the cautious estimate: an input and a result."""
_LEAST_COPIED = 0.5
"""Share of the gradients from which on blocks of the same sizes are a second copy of them (own choice)."""
_LOSS = re.compile(r"^(?!.*(?:fused|chunk|liger)).*(?:cross_entropy|nll_loss|log_softmax)", re.IGNORECASE)
_BUCKETS = re.compile(
    r"_ddp_init_helper|_rebuild_buckets|c10d::Reducer::(?:Reducer|initialize_buckets|rebuild_buckets)"
)
_QUANTIZED = re.compile(r"bitsandbytes|8bit|low_bit_optim", re.IGNORECASE)


class MemoryIdea(StrEnum):
    """Something to change in a program."""

    CHECKPOINT = "checkpoint"
    """Layers keep only what they begin with, and compute their activations again."""
    HALVED = "halved"
    """Activations of half the size: a smaller micro-batch, or 2 instead of 4 bytes each."""
    LOGITS = "logits"
    """The loss is computed in parts, so that never all logits are in memory."""
    STATE = "state"
    """States of the optimizer in 8 bits."""
    GRADIENTS_FREED = "gradients-freed"
    """Gradients are freed before the next forward pass."""
    GRADIENTS_ZEROED = "gradients-zeroed"
    """Gradients are freed before the next forward pass instead of being filled with zeros."""
    GRADIENTS_ONCE = "gradients-once"
    """Gradients have no second copy."""
    NO_GRAPH = "no-graph"
    """Nothing is saved for a backward pass that never comes."""
    NOT_KEPT = "not-kept"
    """Results of steps are not kept on the device."""
    EXPANDABLE = "expandable"
    """Segments grow (`expandable_segments:True`)."""


class ProposedChange(NamedTuple):
    """An idea for the blocks of a program."""

    idea: MemoryIdea
    rows: I64
    """The blocks that it is about."""
    proposal: MemoryProposal
    parts: int | None = None
    """Number of layers; None where there are none."""


class _Program(NamedTuple):
    blocks: Lifetimes
    kinds: U8
    names: StackNames
    kept_lines: frozenset[str]

    def of(self, kind: BlockKind) -> I64:
        return np.flatnonzero(self.kinds == kind)

    def made_in(self, pattern: re.Pattern[str]) -> Bool:
        """Which blocks have a frame (`file:function`) that matches in their stack."""
        return self.of_stacks([_shows(pattern, stack) for stack in self.names.stacks])

    def of_stacks(self, answers: Sequence[bool]) -> Bool:
        """The answer for the stack of each block; False without one."""
        return np.append(np.array(answers, np.bool_), np.False_)[self.blocks.frames]


def _shows(pattern: re.Pattern[str], stack: Frames) -> bool:
    return any(pattern.search(f"{file}:{function}") for file, _, function in stack)


def proposed(
    memory: RecordedMemory, kinds: U8, names: StackNames, kept_lines: Sequence[str]
) -> Iterator[ProposedChange]:
    """What could be changed, in the order of `MemoryIdea`.

    Args:
        memory: The recording.
        kinds: What each block holds.
        names: The stacks of the snapshot.
        kept_lines: Lines that keep block after block.
    """
    program = _Program(memory.blocks, kinds, names, frozenset(kept_lines))
    for find in _FINDERS:
        found = find(program)
        if found is not None and len(found.rows):
            yield found
    if not memory.settings.expandable_segments:
        change = MemoryProposal((UseExpandableSegments(),), (UseExpandableSegments(from_start=False),))
        yield ProposedChange(MemoryIdea.EXPANDABLE, np.zeros(0, np.int64), change)


def _checkpoint(program: _Program) -> ProposedChange | None:
    blocks = program.blocks
    passes = [repeated_parts(blocks, rows) for rows in forward_passes(blocks, program.kinds, program.names.stacks)]
    # A layer that keeps one block is checkpointed already.
    passes = [parts for parts in passes if len(parts) > 1 and any(len(part) > 1 for part in parts)]
    if not passes:
        return None
    most: tuple[MemoryChange, ...] = ()
    least: tuple[MemoryChange, ...] = ()
    for parts in passes:
        one = checkpoint(blocks, parts)
        most, least = (*most, *one.changes), (*least, *(one.cautious or ()))
    rows = np.concatenate([part for parts in passes for part in parts])
    return ProposedChange(MemoryIdea.CHECKPOINT, rows, MemoryProposal(most, least), max(map(len, passes)))


def _halved(program: _Program) -> ProposedChange | None:
    """Copies of weights in another type do not shrink with the batch: the cautious estimate leaves their sizes out."""
    blocks = program.blocks
    passes = forward_passes(blocks, program.kinds, program.names.stacks)
    if not passes:
        return None
    rows = np.concatenate(passes)
    weights = blocks.requested[program.of(BlockKind.GRADIENTS)]
    is_other = ~np.isin(blocks.requested[rows], np.concatenate((weights, weights // 2)))
    places = [program.names.place(stack) for stack in range(len(program.names.stacks))]
    runs = program.of_stacks([one in (AllocationPlace.FORWARD, AllocationPlace.BACKWARD) for one in places])
    also = np.flatnonzero((program.kinds == BlockKind.TEMPORARY) & runs)
    proposal = MemoryProposal((ResizeBlocks(np.concatenate((rows, also)), 0.5),), (ResizeBlocks(rows[is_other], 0.5),))
    return ProposedChange(MemoryIdea.HALVED, rows, proposal)


def _logits(program: _Program) -> ProposedChange | None:
    """Copies that the loss makes; and at best the logits and their gradients, which have the size of one of these."""
    blocks = program.blocks
    is_fleeting = np.isin(program.kinds, (BlockKind.ACTIVATIONS, BlockKind.TEMPORARY))
    of_loss = np.flatnonzero(program.made_in(_LOSS) & is_fleeting)
    if not len(of_loss):
        return None
    size = int(blocks.requested[of_loss].max())
    whole = of_loss[blocks.requested[of_loss] == size]
    alike = np.flatnonzero(is_fleeting & ((blocks.requested == size) | (2 * blocks.requested == size)))
    proposal = MemoryProposal((ResizeBlocks(alike, 1 / _CHUNKS),), (ResizeBlocks(whole, 1 / _CHUNKS),))
    return ProposedChange(MemoryIdea.LOGITS, alike, proposal)


def _state(program: _Program) -> ProposedChange | None:
    """Values of 4 bytes at best, of 2 at the cautious estimate; none where states are smaller than gradients."""
    blocks, rows = program.blocks, program.of(BlockKind.OPTIMIZER_STATE)
    gradients = blocks.requested[program.of(BlockKind.GRADIENTS)]
    rows = rows[(blocks.requested[rows] >= _LEAST_QUANTIZED) & ~program.made_in(_QUANTIZED)[rows]]
    if not len(rows) or (len(gradients) and blocks.requested[rows].max() < gradients.max()):
        return None
    most, least = (ResizeBlocks(rows, values * (1 + _SCALES)) for values in (1 / 4, 1 / 2))
    return ProposedChange(MemoryIdea.STATE, rows, MemoryProposal((most,), (least,)))


def _gradients_freed(program: _Program) -> ProposedChange:
    rows, starts = late_gradients(program.blocks, program.kinds, program.names.stacks)
    return ProposedChange(MemoryIdea.GRADIENTS_FREED, rows, MemoryProposal((FreeBlocks(rows, starts - 1),)))


def _gradients_zeroed(program: _Program) -> ProposedChange:
    """At the cautious estimate they come back as the backward pass makes blocks of their sizes, at best at its end."""
    gaps = zeroed_gradients(program.blocks, program.kinds, program.names.stacks)
    most, least = (LeaveOut(gaps.rows, gaps.since, until) for until in (gaps.until_most, gaps.until_least))
    return ProposedChange(MemoryIdea.GRADIENTS_ZEROED, distinct(gaps.rows), MemoryProposal((most,), (least,)))


def _gradients_once(program: _Program) -> ProposedChange | None:
    """Buckets of DDP beside gradients, or blocks of a line that have the sizes of gradients and are made after them."""
    blocks, gradients = program.blocks, program.of(BlockKind.GRADIENTS)
    if not len(gradients):
        return None
    rows = np.flatnonzero(program.made_in(_BUCKETS))
    if not len(rows):
        rows = _copies(program, gradients)
    held, size = _most_at_once(blocks, gradients), int(blocks.requested[rows].sum())
    if size < _LEAST_COPIED * held or size > 2 * held:
        return None
    return ProposedChange(MemoryIdea.GRADIENTS_ONCE, rows, MemoryProposal((DropBlocks(rows),)))


def _copies(program: _Program, gradients: I64) -> I64:
    blocks = program.blocks
    since: dict[int, int] = {}
    for row in gradients.tolist():
        size = int(blocks.requested[row])
        since[size] = min(since.get(size, blocks.entries), int(blocks.born[row]))
    others = np.flatnonzero((program.kinds == BlockKind.UNKNOWN) & (blocks.born > BEFORE))
    is_copy = [
        blocks.born[row] > since.get(int(blocks.requested[row]), blocks.entries)
        and program.names.place(int(blocks.frames[row])) is AllocationPlace.OTHER
        for row in others.tolist()
    ]
    rows = others[np.array(is_copy, np.bool_)]
    # A line may make other blocks of such a size: a copy has no more of a size than there are gradients.
    left = Counter(blocks.requested[gradients].tolist())
    chosen = []
    for row in rows.tolist():
        size = int(blocks.requested[row])
        if left[size] > 0:
            left[size] -= 1
            chosen.append(row)
    return np.array(chosen, np.int64)


def _most_at_once(blocks: Lifetimes, rows: I64) -> int:
    """Most bytes of some blocks that live at once."""
    ends = np.concatenate((blocks.died[rows], blocks.born[rows]))
    change = np.concatenate((-blocks.requested[rows], blocks.requested[rows]))
    return int(np.cumsum(change[np.argsort(ends, kind="stable")]).max())


def _no_graph(program: _Program) -> ProposedChange | None:
    """Nothing of it is needed at best; at the cautious estimate each block until two others were made after it."""
    blocks, rows = program.blocks, graph_rows(program.blocks, program.names.stacks)
    if rows is None or not len(rows):
        return None
    born = blocks.born[rows]
    until = np.append(born[_LAYERS_ALIVE:], np.full(min(_LAYERS_ALIVE, len(born)), blocks.entries))
    proposal = MemoryProposal((DropBlocks(rows),), (FreeBlocks(rows, until),))
    return ProposedChange(MemoryIdea.NO_GRAPH, rows, proposal)


def _not_kept(program: _Program) -> ProposedChange | None:
    found = [rows for line, rows in unfreed(program.blocks, program.names).items() if line in program.kept_lines]
    if not found:
        return None
    rows = np.array(sorted(row for own in found for row in own), np.int64)
    return ProposedChange(MemoryIdea.NOT_KEPT, rows, MemoryProposal((DropBlocks(rows),)))


_FINDERS = (
    _checkpoint,
    _halved,
    _logits,
    _state,
    _gradients_freed,
    _gradients_zeroed,
    _gradients_once,
    _no_graph,
    _not_kept,
)
"""What looks for each idea, in their order."""
