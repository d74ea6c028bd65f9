"""What the blocks of a memory snapshot hold: parameters, gradients, states of the optimizer, activations?

By the part of the program that allocates a block (`knowledge/allocation_places.py`), and by whether the block outlives
it. A block that does not is temporary, whatever it holds. Blocks from before the history often have no stack: those
that the backward pass frees are activations, those that `zero_grad` frees are gradients, and those that live throughout
are parameters if gradients, or else states of the optimizer, have their sizes. So are tensors that other code than that
of modules makes on the device before the first step. Without gradients, as in inference, such tensors are parameters if
the name of a function says that a model is made or read, as `load_weights` does.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from traceanalyzer.knowledge.allocation_places import (
    AllocationPlace,
    Frames,
    frees_gradients,
    frees_saved,
    has_native_frames,
    is_within_backward,
    loads_model,
    place_of,
)
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.structure.sums import members
from traceanalyzer.trace.table import I32, I64, U8, Bool, take_or


class BlockKind(IntEnum):
    """What a block holds."""

    UNKNOWN = 0
    PARAMETERS = 1
    """With buffers, and whatever else modules are made of."""
    GRADIENTS = 2
    OPTIMIZER_STATE = 3
    ACTIVATIONS = 4
    """What the forward pass leaves: for the backward pass, or because the program keeps it."""
    TEMPORARY = 5
    """Freed before the part of the program that allocated it is over."""


KIND_NAMES = {
    BlockKind.PARAMETERS: "parameters",
    BlockKind.GRADIENTS: "gradients",
    BlockKind.OPTIMIZER_STATE: "optimizer",
    BlockKind.ACTIVATIONS: "activations",
    BlockKind.TEMPORARY: "temporary",
    BlockKind.UNKNOWN: "unknown",
}
"""Kinds as results name them."""
_LEFT = {
    AllocationPlace.UNKNOWN: BlockKind.UNKNOWN,
    AllocationPlace.OTHER: BlockKind.UNKNOWN,
    AllocationPlace.SETUP: BlockKind.PARAMETERS,
    AllocationPlace.FORWARD: BlockKind.ACTIVATIONS,
    AllocationPlace.BACKWARD: BlockKind.GRADIENTS,
    AllocationPlace.OPTIMIZER: BlockKind.OPTIMIZER_STATE,
}
"""What blocks hold that outlive the part of the program that allocated them."""
_SIZED = (BlockKind.GRADIENTS, BlockKind.OPTIMIZER_STATE)
"""What has the size of a parameter."""


def kinds_of(blocks: Lifetimes, stacks: Sequence[Frames]) -> U8:
    """The `BlockKind` of each block.

    Args:
        blocks: The blocks of one device.
        stacks: Of the snapshot; `blocks.frames` holds positions in it.
    """
    place = _places(blocks, stacks)
    phases = _Phases(blocks, stacks)
    kind = np.array([int(_LEFT[one]) for one in AllocationPlace], np.uint8)[place]
    is_vague, is_new = kind == BlockKind.UNKNOWN, blocks.born > BEFORE
    running = phases.at(blocks.born)
    # Without a stack, a block of the history is of the part that runs; one from before it may be of any.
    outlives = phases.outlive(blocks, np.where(is_vague, running, place))
    is_saved = (blocks.died < blocks.entries) & (phases.at(blocks.died) == AllocationPlace.BACKWARD)
    kind[is_vague & is_saved & (running != AllocationPlace.BACKWARD)] = BlockKind.ACTIVATIONS
    kind[is_vague & (_of_stacks(stacks, frees_gradients, blocks.freed_frames) == 1)] = BlockKind.GRADIENTS
    kind[~outlives & (is_new | ~is_vague)] = BlockKind.TEMPORARY
    kind[_of_stacks(stacks, frees_saved, blocks.freed_frames) == 1] = BlockKind.ACTIVATIONS
    is_early = is_vague & (blocks.born < phases.first())
    _find_parameters(blocks, kind, is_early)
    stays = is_early & (kind == BlockKind.UNKNOWN) & (blocks.died == blocks.entries)
    kind[stays & (_of_stacks(stacks, loads_model, blocks.frames) == 1)] = BlockKind.PARAMETERS
    return kind


def late_gradients(blocks: Lifetimes, kinds: U8, stacks: Sequence[Frames]) -> tuple[I64, I64]:
    """Gradients that are freed only after the next forward pass has begun, and its first entry.

    Those that the next backward pass adds to are none of them.
    """
    phases = _Phases(blocks, stacks)
    forward, backward = (
        phases.begins(AllocationPlace.FORWARD),
        phases.begins(AllocationPlace.BACKWARD),
    )
    rows = np.flatnonzero((kinds == BlockKind.GRADIENTS) & (blocks.died < blocks.entries))
    start = take_or(forward, np.searchsorted(forward, blocks.born[rows], side="right"), blocks.entries)
    added = take_or(backward, np.searchsorted(backward, start, side="right"), blocks.entries)
    is_late = (start < blocks.died[rows]) & (blocks.died[rows] < added)
    return rows[is_late], start[is_late]


class ZeroedGradients(NamedTuple):
    """Times in which blocks live for nothing; a block may have several."""

    rows: I64
    since: I64
    """The entry after which each begins."""
    until_least: I64
    """The entry at which it ends at the earliest."""
    until_most: I64
    """The entry at which it ends at the latest."""


def zeroed_gradients(blocks: Lifetimes, kinds: U8, stacks: Sequence[Frames]) -> ZeroedGradients:
    """Gradients that live from an update of the optimizer through the next forward and backward pass."""
    phases = _Phases(blocks, stacks)
    backward, updates = (
        phases.begins(AllocationPlace.BACKWARD),
        phases.begins(AllocationPlace.OPTIMIZER),
    )
    found = [np.zeros((4, 0), np.int64)]
    for start in phases.begins(AllocationPlace.FORWARD).tolist():
        update, again = int(updates[updates < start].max(initial=BEFORE)), _next(backward, start)
        if again is None or (backward[backward < start] > update).any():  # a pass that adds to the one before it
            continue
        end = _next(phases.entry[phases.place != AllocationPlace.BACKWARD], again) or blocks.entries
        lives = (kinds == BlockKind.GRADIENTS) & (blocks.born < update) & (end < blocks.entries) & (blocks.died >= end)
        rows = np.flatnonzero(lives)
        least = _made_again(blocks, rows, again, end)
        found.append(np.stack((rows, np.full(len(rows), start - 1), least, np.full(len(rows), end))))
    return ZeroedGradients(*np.concatenate(found, axis=1))


def _made_again(blocks: Lifetimes, rows: I64, start: int, end: int) -> I64:
    """The entries at which a pass makes blocks of the sizes of some others, one for each; its start for the rest."""
    made: defaultdict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero((blocks.born >= start) & (blocks.born < end))[::-1].tolist():
        made[int(blocks.requested[row])].append(int(blocks.born[row]))
    entries = [own.pop() if (own := made[size]) else start for size in blocks.requested[rows].tolist()]
    return np.array(entries, np.int64)


def _next(entries: I64, after: int) -> int | None:
    """The first of some entries after another one."""
    place = int(np.searchsorted(entries, after, side="right"))
    return int(entries[place]) if place < len(entries) else None


def running_parts(blocks: Lifetimes, stacks: Sequence[Frames]) -> tuple[I64, I64]:
    """The entries at which another part of the program begins to run, and the `AllocationPlace` of each."""
    phases = _Phases(blocks, stacks)
    is_first = np.append(True, phases.place[1:] != phases.place[:-1])[: len(phases.entry)]
    return phases.entry[is_first], phases.place[is_first]


def forward_passes(blocks: Lifetimes, kinds: U8, stacks: Sequence[Frames]) -> tuple[I64, ...]:
    """The activations of each forward pass that a backward pass frees; of the last one those that are left, too.

    None if the history has no backward pass: then it is not known what would be computed again.
    """
    phases = _Phases(blocks, stacks)
    backward = phases.begins(AllocationPlace.BACKWARD)
    if not len(backward):
        return ()
    is_left = (blocks.died == blocks.entries) & (blocks.born > backward[-1])
    is_freed = (blocks.died < blocks.entries) & (phases.at(blocks.died) == AllocationPlace.BACKWARD)
    rows = np.flatnonzero((kinds == BlockKind.ACTIVATIONS) & (is_freed | is_left))
    number = np.searchsorted(backward, blocks.born[rows], side="right")
    return tuple(rows[own] for _, own in members(number))


class _Phases:
    """Which part of the program runs at each allocation, in the order of the history.

    Allocations that show no part belong to the one before them.
    """

    def __init__(self, blocks: Lifetimes, stacks: Sequence[Frames]) -> None:
        place = _places(blocks, stacks)
        is_backward = _of_stacks(stacks, is_within_backward, blocks.frames)
        shown = np.flatnonzero((blocks.born > BEFORE) & (place > AllocationPlace.OTHER))
        self._entries = blocks.entries
        self.entry: I64 = blocks.born[shown]
        self.own: I64 = place[shown]
        """The part that each allocation shows, which is the forward pass where activations are computed again."""
        self.place: I64 = np.where(is_backward[shown] == 1, int(AllocationPlace.BACKWARD), place[shown])

    def begins(self, place: AllocationPlace) -> I64:
        """The entries at which a part of the program begins to run."""
        is_first = np.append(True, self.place[1:] != self.place[:-1])[: len(self.entry)]
        found: I64 = self.entry[is_first & (self.place == place)]
        return found

    def first(self) -> int:
        """The entry at which a step begins to run, whichever part of it; that after the last one without any."""
        running = self.entry[self.place > AllocationPlace.SETUP]
        return int(running[0]) if len(running) else self._entries

    def at(self, entry: I64) -> I64:
        """The part that runs at each entry; `AllocationPlace.UNKNOWN` before the first."""
        return take_or(
            self.place,
            np.searchsorted(self.entry, entry, side="right") - 1,
            int(AllocationPlace.UNKNOWN),
        )

    def outlive(self, blocks: Lifetimes, place: I64) -> Bool:
        """Whether each block lives when another part than its own allocates, or at the dump if none does."""
        lives_on: Bool = blocks.died == blocks.entries
        for own in AllocationPlace:
            rows = np.flatnonzero(place == own)
            others = self.entry[(self.place != own) & (self.own != own)]
            following = np.searchsorted(others, blocks.born[rows], side="right")
            ends = take_or(others, following, blocks.entries)
            lives_on[rows] |= blocks.died[rows] > ends
        return lives_on


def _places(blocks: Lifetimes, stacks: Sequence[Frames]) -> I64:
    """The part of the program that allocates each block.

    If stacks have only frames of Python, the threads of autograd's engine have none at all.
    """
    place = _of_stacks(stacks, place_of, blocks.frames)
    if (place == AllocationPlace.FORWARD).any() and not any(has_native_frames(one) for one in stacks):
        place[(place == AllocationPlace.UNKNOWN) & (blocks.born > BEFORE)] = AllocationPlace.BACKWARD
    return place


def _of_stacks(stacks: Sequence[Frames], ask: Callable[[Frames], int], chosen: I32) -> I64:
    """The answer for each chosen stack; 0 without one."""
    return take_or(np.array([int(ask(one)) for one in stacks], np.int64), chosen, 0)


def _find_parameters(blocks: Lifetimes, kind: U8, is_early: Bool) -> None:
    """Parameters among blocks of an unknown kind that are made before any step and live throughout.

    Each has a gradient or states of its size.
    """
    throughout = is_early & (kind == BlockKind.UNKNOWN) & (blocks.died == blocks.entries)
    gradients, states = (Counter(blocks.requested[kind == one].tolist()) for one in _SIZED)
    sizes = gradients or states
    for row in np.flatnonzero(throughout).tolist():
        size = int(blocks.requested[row])
        if sizes[size] > 0:
            sizes[size] -= 1
            kind[row] = BlockKind.PARAMETERS
