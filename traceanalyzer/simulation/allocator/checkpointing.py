"""Activation checkpointing: parts of a model whose activations are computed again instead of being kept.

The parts are the layers of a model. They run the same lines, so they show themselves by stacks that repeat.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from traceanalyzer.simulation.allocator.changes import DropBlocks
from traceanalyzer.simulation.allocator.savings import MemoryProposal
from traceanalyzer.structure.block_lifetimes import Lifetimes
from traceanalyzer.trace.table import I64

_LEAST_SHARE = 0.1
"""Part of the bytes that stacks must hold which occur once in each layer (own choice): two masks are no two layers."""


def repeated_parts(blocks: Lifetimes, rows: I64) -> tuple[I64, ...]:
    """The activations of each layer, in the order of the forward pass; none if nothing repeats.

    The number of layers is how often stacks occur; where one occurs several times as often, a layer has several blocks
    of it. Other stacks are outside of the layers; of several numbers the one counts that leaves out the fewest bytes.

    Args:
        blocks: All blocks.
        rows: Activations of one forward pass.
    """
    rows = rows[np.argsort(blocks.born[rows], kind="stable")]
    own: dict[int, list[int]] = defaultdict(list)
    held: Counter[int] = Counter()
    columns = (rows, blocks.frames[rows], blocks.requested[rows])
    for row, stack, size in zip(*(column.tolist() for column in columns), strict=True):
        if stack >= 0:
            own[stack].append(row)
            held[stack] += size
    layers = _layers(held, own)
    if layers is None:
        return ()
    parts: list[list[int]] = [[] for _ in range(layers)]
    for of_stack in own.values():
        if len(of_stack) % layers == 0:
            each = len(of_stack) // layers
            for number, row in enumerate(of_stack):
                parts[number // each].append(row)
    return tuple(np.array(sorted(part), np.int64) for part in parts)


def _layers(held: Counter[int], own: Mapping[int, Sequence[int]]) -> int | None:
    """How many layers there are, by the bytes and the blocks of each stack; None if nothing repeats."""
    exactly: Counter[int] = Counter()
    for stack, size in held.items():
        exactly[len(own[stack])] += size
    least = _LEAST_SHARE * held.total()
    found = [count for count, size in exactly.items() if count > 1 and size >= least]
    if not found:
        return None
    within = {count: sum(size for other, size in exactly.items() if other % count == 0) for count in found}
    return max(found, key=lambda count: (within[count], count))


def checkpoint(blocks: Lifetimes, parts: Sequence[I64]) -> MemoryProposal:
    """Keep the activations of one part of the model at a time, the largest: the others are computed again when needed.

    Of equal ones the first stays, which the backward pass needs last: it stands for the part that is just computed
    again. What a part begins with is kept, and that is what the part before it ends with: the cautious estimate keeps
    the last block of each.

    Args:
        blocks: All blocks.
        parts: Rows of the activations of each part, in the order of their allocation.
    """
    held = [int(blocks.requested[part].sum()) for part in parts]
    largest = held.index(max(held)) if held else 0
    others = [part for number, part in enumerate(parts) if number != largest]
    return MemoryProposal((_drop(others),), (_drop([part[:-1] for part in others]),))


def _drop(parts: Sequence[I64]) -> DropBlocks:
    return DropBlocks(np.concatenate((np.zeros(0, np.int64), *parts)))
