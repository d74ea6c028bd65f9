"""Stacks with weights as the rows of a flame graph: the frames that weigh most, depth first, the others summed up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import count
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)


class StackRow(NamedTuple):
    """One frame, or all that are left out below the same frame."""

    frame: int
    """Number of the frame; -1 for those that are left out."""
    depth: int
    """Number of frames around it."""
    weight: int
    """Of the frame and everything inside it."""
    frames: int
    """Number of frames in the row: 1, or those that are left out."""


class _Node(Generic[T]):
    """One frame of the tree of stacks."""

    __slots__ = ("inner", "number", "weight")

    def __init__(self, number: int) -> None:
        self.number, self.weight = number, 0
        self.inner: dict[T, _Node[T]] = {}

    def size(self) -> int:
        """The number of frames in it, this one included."""
        found = 0
        left = [self]  # without recursion, as stacks may be thousands deep
        while left:
            found += 1
            left += left.pop().inner.values()
        return found


def stack_rows(stacks: Iterable[tuple[Sequence[T], int]], frames: dict[T, int], most: int) -> tuple[StackRow, ...]:
    """The rows of a flame graph.

    Args:
        stacks: Stacks, the outermost frame first, with their weights.
        frames: Numbers of known frames; new ones are added.
        most: Most frames with rows of their own, those with most weight.
    """
    root: _Node[T] = _Node(-1)
    nodes = list(_grown(root, stacks))
    kept = set(nlargest(most, range(len(nodes)), key=lambda number: (nodes[number].weight, -number)))
    rows: list[StackRow] = []
    left: list[tuple[_Node[T], T | None, int]] = [(root, None, -1)]
    while left:
        node, owner, depth = left.pop()
        if owner is not None:
            rows.append(StackRow(frames.setdefault(owner, len(frames)), depth, node.weight, 1))
        left += (
            (node.inner[name], name, depth + 1) for name in reversed(node.inner) if node.inner[name].number in kept
        )
        if hidden := [inner for inner in node.inner.values() if inner.number not in kept]:
            weights, sizes = ([inner.weight for inner in hidden], [inner.size() for inner in hidden])
            rows.append(StackRow(-1, depth + 1, sum(weights), sum(sizes)))
    return tuple(rows)


def _grown(root: _Node[T], stacks: Iterable[tuple[Sequence[T], int]]) -> Iterator[_Node[T]]:
    """Put stacks below a node; yields the new nodes in their order."""
    number = count()
    for stack, weight in stacks:
        node = root
        for frame in stack:
            if frame not in node.inner:
                node.inner[frame] = _Node(next(number))
                yield node.inner[frame]
            node = node.inner[frame]
            node.weight += weight
