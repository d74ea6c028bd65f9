"""Layers by stacks that repeat, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.simulation.allocator.snapshots import MIB, recorded
from tests.simulation.allocator.written import A, Written
from traceanalyzer.analyzers.memory.block_kinds import BlockKind, kinds_of
from traceanalyzer.simulation.allocator.changes import DropBlocks
from traceanalyzer.simulation.allocator.checkpointing import checkpoint, repeated_parts
from traceanalyzer.simulation.allocator.recording import RecordedMemory, recorded_memory
from traceanalyzer.simulation.allocator.replaying import replay
from traceanalyzer.simulation.allocator.savings import MemoryProposal, savings
from traceanalyzer.simulation.allocator.sizes import AllocatorSettings


def forward(layers: int = 3) -> RecordedMemory:
    """An embedding, layers of four blocks (5, 2, 2 and 3 MiB), a block with a stack of its own in one, and a head."""
    written = Written()
    written.reserve(A, 100)
    cursor = A

    def make(mib: int, at: str) -> None:
        nonlocal cursor
        written.alloc(cursor, mib, at=at)
        cursor += mib * MIB

    make(4, "embedding.py")
    for layer in range(layers):
        make(5, "attention.py")
        make(2, "norm.py")
        if layer == 1:
            make(6, "extra.py")
        make(2, "norm.py")
        make(3, "mlp.py")
    make(7, "head.py")
    make(4, "")
    make(4, "")
    return written.recorded()


def parts_of(memory: RecordedMemory) -> list[list[int]]:
    rows = np.arange(len(memory.blocks))
    return [part.tolist() for part in repeated_parts(memory.blocks, rows[::-1])]


def dropped(changes: object) -> list[int]:
    assert isinstance(changes, tuple)
    (change,) = changes
    assert isinstance(change, DropBlocks)
    return change.rows.tolist()


def test_layers() -> None:
    assert parts_of(forward()) == [[1, 2, 3, 4], [5, 6, 8, 9], [10, 11, 12, 13]]


def test_a_stack_that_occurs_otherwise_is_in_no_layer() -> None:
    """The embedding runs the line of the attention: four times are no multiple of three layers."""
    memory = forward()
    memory.blocks.frames[0] = memory.blocks.frames[1]
    assert parts_of(memory) == [[2, 3, 4], [6, 8, 9], [11, 12, 13]]


def test_two_masks_are_no_two_layers() -> None:
    """Four layers, and two small blocks of one stack: halves of the model would leave nothing out either."""
    memory = forward(4)
    frames = memory.blocks.frames
    frames[0] = frames[-3]
    assert [len(part) for part in parts_of(memory)] == [2 * 4 + 1] * 2
    memory.blocks.requested[[0, -3]] = 1000
    assert [len(part) for part in parts_of(memory)] == [4] * 4


@pytest.mark.parametrize("layers", [0, 1])
def test_nothing_repeats(layers: int) -> None:
    memory = forward(layers)
    memory.blocks.frames[:] = np.arange(len(memory.blocks))
    assert parts_of(memory) == []
    assert dropped(checkpoint(memory.blocks, ()).changes) == []


def test_the_largest_layer_stays() -> None:
    """Of the others, at least the last block stays, with which the next layer begins."""
    memory = forward()
    parts = [np.array(part) for part in parts_of(memory)]
    proposal = checkpoint(memory.blocks, [*parts[:1], np.append(parts[1], 7), *parts[2:]])
    assert dropped(proposal.changes) == [1, 2, 3, 4, 10, 11, 12, 13]
    assert dropped(proposal.cautious) == [1, 2, 3, 10, 11, 12]
    found = savings(memory, [proposal]).together
    assert (found.requested_least, found.requested_most) == (18 * MIB, 24 * MIB)
    assert isinstance(proposal, MemoryProposal)


@pytest.mark.corpus
def test_the_layers_of_a_recorded_step(corpus: Path) -> None:
    """36 equal layers; to keep one of them saves nearly all activations of the peak."""
    found = recorded(corpus / "field" / "memory" / "cs336_nh_full.pickle")
    memory = recorded_memory(found.devices[0], AllocatorSettings())
    assert isinstance(memory, RecordedMemory)
    kinds = kinds_of(memory.blocks, found.stacks)
    alive = memory.blocks.alive_at(replay(memory).requested_peak_entry)
    parts = repeated_parts(memory.blocks, alive[kinds[alive] == BlockKind.ACTIVATIONS])
    held = {int(memory.blocks.requested[part].sum()) for part in parts}
    assert (len(parts), len(held)) == (36, 1)
    saved = savings(memory, [checkpoint(memory.blocks, parts)]).together
    assert 0.9 * 35 * held.pop() < saved.requested_least < saved.requested_most
