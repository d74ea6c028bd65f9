"""Stacks as a tree of frames, and as the rows of a flame graph: the frames that weigh most, the others summed up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from heapq import nlargest
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T", bound=Hashable)

NO_FRAME = -1
"""What is above the outermost frames of a tree of stacks."""


class StackTree(Generic[T]):
    """Stacks that share their outer frames: each node is a frame below another node, and stands for the stack to it.

    Stacks may be thousands of frames deep, so nothing here takes time or memory for each frame of each stack.
    """

    def __init__(self) -> None:
        self.frame: list[T] = []
        """Frame of each node."""
        self.above: list[int] = []
        """The node above each, which has a lower number; -1 above the outermost ones."""
        self.depth: list[int] = []
        """Number of frames of each node's stack, its own included."""
        self._nodes: dict[tuple[int, T], int] = {}

    def node(self, above: int, frame: T) -> int:
        """The node of a frame below another node, or below none (-1); it is added if it is new."""
        found = self._nodes.setdefault((above, frame), len(self.frame))
        if found == len(self.frame):
            self.frame.append(frame)
            self.above.append(above)
            self.depth.append(1 if above == NO_FRAME else self.depth[above] + 1)
        return found

    def below(self, above: int, frames: Iterable[T]) -> int:
        """The node of the last of some frames, each below the one before it, the first below a node or none (-1)."""
        for frame in frames:
            above = self.node(above, frame)
        return above

    def stack(self, node: int) -> tuple[T, ...]:
        """The frames from the outermost to that of a node."""
        found = []
        while node != NO_FRAME:
            found.append(self.frame[node])
            node = self.above[node]
        return tuple(reversed(found))

    def visited(self, nodes: Iterable[int]) -> dict[int, list[int]]:
        """What lies directly below each node of some stacks, in the order in which they first have it.

        The outermost frames are below -1. Keys are in the same order, each after the one above it.
        """
        inner: dict[int, list[int]] = {NO_FRAME: []}
        for node in nodes:
            outer, new = node, []
            while outer not in inner:
                new.append(outer)
                outer = self.above[outer]
            for each in reversed(new):
                inner[each] = []
                inner[self.above[each]].append(each)
        return inner

    def depth_first(self, nodes: Iterable[int]) -> dict[int, int]:
        """The place of each node of some stacks, depth first; siblings in the order of their first occurrence."""
        inner = self.visited(nodes)
        place: dict[int, int] = {}
        left = inner[NO_FRAME][::-1]
        while left:
            node = left.pop()
            place[node] = len(place)
            left += reversed(inner[node])
        return place


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


def stack_rows(
    tree: StackTree[T], stacks: Sequence[tuple[int, int]], frames: dict[T, int], most: int
) -> tuple[StackRow, ...]:
    """The rows of a flame graph.

    Args:
        tree: The frames.
        stacks: Nodes whose stacks are drawn, with their weights.
        frames: Numbers of known frames; new ones are added.
        most: Most frames with rows of their own, those with most weight.
    """
    inner = tree.visited(node for node, _ in stacks)
    weights, sizes = _inclusive(tree, inner, stacks)
    order = [node for node in inner if node != NO_FRAME]
    kept = {order[i] for i in nlargest(most, range(len(order)), key=lambda i: (weights[order[i]], -i))}
    rows: list[StackRow] = []
    left = [NO_FRAME]
    while left:
        node = left.pop()
        depth = 0
        if node != NO_FRAME:
            depth = tree.depth[node]
            number = frames.setdefault(tree.frame[node], len(frames))
            rows.append(StackRow(number, depth - 1, weights[node], 1))
        left += (each for each in reversed(inner[node]) if each in kept)
        if hidden := [each for each in inner[node] if each not in kept]:
            rows.append(StackRow(-1, depth, sum(weights[each] for each in hidden), sum(sizes[each] for each in hidden)))
    return tuple(rows)


def _inclusive(
    tree: StackTree[T], inner: dict[int, list[int]], stacks: Iterable[tuple[int, int]]
) -> tuple[dict[int, int], dict[int, int]]:
    """Weight and number of frames of each node and everything below it."""
    weights, sizes = dict.fromkeys(inner, 0), dict.fromkeys(inner, 1)
    for node, weight in stacks:
        weights[node] += weight
    for node in reversed(inner):
        if node != NO_FRAME:
            weights[tree.above[node]] += weights[node]
            sizes[tree.above[node]] += sizes[node]
    return weights, sizes
