"""Stacks with weights as the rows of a flame graph: the frames that weigh most, depth first, the others summed up.

Stacks that begin alike share frames: as a tree, stacks of all depths up to n have n frames instead of n * n / 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import nlargest
from typing import Generic, NamedTuple, TypeVar

from traceanalyzer.trace.tree import NO_PARENT

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


class StackTree(Generic[T]):
    """Stacks by their innermost frames: equal stacks have one number; -1 is the empty one."""

    def __init__(self) -> None:
        self.frame: list[T] = []
        """The innermost frame of each stack."""
        self.parent: list[int] = []
        """Number of each stack without that frame."""
        self._numbers: dict[tuple[int, T], int] = {}

    def push(self, stack: int, frame: T) -> int:
        """Number of a stack with one more frame."""
        number = self._numbers.setdefault((stack, frame), len(self.frame))
        if number == len(self.frame):
            self.frame.append(frame)
            self.parent.append(stack)
        return number

    def frames(self, stack: int) -> tuple[T, ...]:
        """All frames of a stack, the outermost first."""
        found = []
        while stack != NO_PARENT:
            found.append(self.frame[stack])
            stack = self.parent[stack]
        return tuple(reversed(found))


def stack_rows(stacks: Iterable[tuple[Sequence[T], int]], frames: dict[T, int], most: int) -> tuple[StackRow, ...]:
    """The rows of a flame graph.

    Args:
        stacks: Stacks, the outermost frame first, with their weights.
        frames: Numbers of known frames; new ones are added.
        most: Most frames with rows of their own, those with most weight.
    """
    tree: StackTree[T] = StackTree()
    weights: dict[int, int] = {}
    for stack, weight in stacks:
        number = NO_PARENT
        for frame in stack:
            number = tree.push(number, frame)
        weights[number] = weights.get(number, 0) + weight
    return tree_rows(tree.frame, tree.parent, weights, frames, most)


def tree_rows(
    frame: Sequence[T], parent: Sequence[int], weights: dict[int, int], frames: dict[T, int], most: int
) -> tuple[StackRow, ...]:
    """The rows of a flame graph of stacks that are given as a tree.

    Args:
        frame: The innermost frame of each stack, after that of the stack around it.
        parent: For each, the position of the stack around it, or -1.
        weights: Of the stacks that have a weight of their own, by position.
        frames: As of `stack_rows`.
        most: As of `stack_rows`.
    """
    weight = [weights.get(number, 0) for number in range(len(frame))]
    size = [1] * len(frame)
    inner: list[list[int]] = [[] for _ in range(len(frame) + 1)]  # the last has the outermost
    for number in reversed(range(len(frame))):
        around = parent[number]
        inner[around].append(number)
        if around != NO_PARENT:
            weight[around] += weight[number]
            size[around] += size[number]
    kept = set(nlargest(most, range(len(frame)), key=lambda number: (weight[number], -number)))
    rows: list[StackRow] = []
    left = [(NO_PARENT, -1)]
    while left:
        number, depth = left.pop()
        if number != NO_PARENT:
            own = frames.setdefault(frame[number], len(frames))
            rows.append(StackRow(own, depth, weight[number], 1))
        left += ((each, depth + 1) for each in inner[number] if each in kept)
        hidden = [each for each in inner[number] if each not in kept]
        if hidden:
            sums = (sum(values[each] for each in hidden) for values in (weight, size))
            rows.append(StackRow(-1, depth + 1, *sums))
    return tuple(rows)
