"""Lifetimes of blocks, and why some histories cannot be replayed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulation.allocator.snapshots import MIB
from tests.simulation.allocator.written import A, B, Written
from traceanalyzer.structure.block_lifetimes import Obstacle, lifetimes, obstacle


def program() -> Written:
    """One block from before and one that is freed in the history, with one that lives on."""
    written = Written()
    written.reserve(A, 20)
    written.alloc(A, 6, stream=0, at="before.py")
    written.alloc(A + 6 * MIB, 1.5, 1.5)
    written.alloc(A + 8 * MIB, 1.9, 2, at="train.py")
    written.free(A + 6 * MIB)
    written.alloc(A + 12 * MIB, 3, at="train.py")
    return written


def test_blocks_by_address_and_then_as_they_were_allocated() -> None:
    """Entries: 0 reserves, 1 to 3 allocate, 4 and 5 free, 6 allocates."""
    device = program().memory()
    blocks = lifetimes(device)
    assert blocks.born.tolist() == [1, 2, 3, 6]
    assert blocks.died.tolist() == [7, 5, 7, 7]
    assert blocks.requested.tolist() == [6 * MIB, 1.5 * MIB, round(1.9 * MIB), 3 * MIB]
    assert blocks.size.tolist() == [6 * MIB, -1, 2 * MIB, 3 * MIB]
    assert blocks.segment.tolist() == [0, 0, 0, 0]
    assert blocks.alive_at(3).tolist() == [0, 1, 2]
    assert blocks.alive_at(5).tolist() == [0, 2]
    assert len(blocks) == 4


def test_blocks_from_before_the_history() -> None:
    """Stacks of what the ring has lost are known from the dump, if it lives there."""
    whole, cut = lifetimes(program().memory()), lifetimes(program().lose(4).memory())
    assert cut.born.tolist() == [-1, -1, -1, 2]
    assert cut.died.tolist() == [3, 1, 3, 3]
    assert cut.requested.tolist() == whole.requested.tolist()
    assert cut.address.tolist() == whole.address.tolist()
    assert cut.frames.tolist() == [0, -1, 1, 1]
    assert cut.alive_at(-1).tolist() == [0, 1, 2]


def test_a_segment_that_is_reserved_again() -> None:
    """What lay at its address before has another segment, which is not in the dump."""
    written = Written()
    for stream in (0, 3):
        written.reserve(A, 12, stream=stream)
        written.alloc(A, 12, stream=stream)
        if not stream:
            written.free(A)
            written.release(A)
    assert lifetimes(written.memory()).segment.tolist() == [-1, 0]
    assert lifetimes(written.memory()).stream.tolist() == [0, 3]


def stopped() -> Written:
    """A block is gone although its free was not recorded."""
    written = program()
    del written.blocks[A]
    return written


def started_again() -> Written:
    """A block is there although its allocation was not recorded."""
    written = program()
    written.alloc(A + 6 * MIB, 1)
    del written.entries[-1]
    return written


def given_twice() -> Written:
    """The free between two allocations of one address is missing."""
    written = program()
    del written.entries[5]
    written.alloc(A + 6 * MIB, 1)
    return written


def freed_twice() -> Written:
    """The allocation between two frees of one address is missing."""
    written = program()
    written.alloc(A + 6 * MIB, 1)
    written.free(A + 6 * MIB)
    del written.entries[7]
    return written


def elsewhere() -> Written:
    """The history is of other addresses than the segments."""
    written = program()
    written.alloc(B, 1)
    return written


def behind_the_last_segment() -> Written:
    """By one byte."""
    written = program()
    written.alloc(A + 20 * MIB, 1)
    return written


def nothing_is_allocated() -> Written:
    """Only a free was recorded."""
    written = program()
    written.entries = [one for one in written.entries if one["action"] == "free_completed"]
    return written


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (program(), None),
        (Written(), Obstacle.NO_HISTORY),
        (nothing_is_allocated(), Obstacle.NO_HISTORY),
        (stopped(), Obstacle.STOPPED),
        (started_again(), Obstacle.STOPPED),
        (given_twice(), Obstacle.CONTRADICTION),
        (freed_twice(), Obstacle.CONTRADICTION),
        (elsewhere(), Obstacle.OUTSIDE),
        (behind_the_last_segment(), Obstacle.OUTSIDE),
    ],
    ids=lambda value: str(value) if isinstance(value, Obstacle) else None,
)
def test_obstacles(written: Written, expected: Obstacle | None) -> None:
    device = written.memory()
    if expected is Obstacle.OUTSIDE:
        # The dump must hold the block, or recording seems to have stopped before it.
        address = max(written.blocks)
        blocks = device.blocks
        blocks.address[-1], blocks.state[-1] = np.uint64(address), 1
    assert obstacle(device) is expected
