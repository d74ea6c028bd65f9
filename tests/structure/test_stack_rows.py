"""Trees of stacks, and the rows of flame graphs, however deep stacks are."""

from __future__ import annotations

from traceanalyzer.structure.stack_rows import NO_FRAME, StackRow, StackTree, stack_rows


def test_what_is_left_out_may_be_deeper_than_python_calls_itself() -> None:
    tree = StackTree[int]()
    (kept, hidden) = stack_rows(tree, [(tree.below(NO_FRAME, range(5000)), 7)], {}, 1)
    assert (kept.depth, kept.frames) == (0, 1)
    assert (hidden.weight, hidden.frames) == (7, 4999)


def test_stacks_share_their_outer_frames() -> None:
    """Each is one frame deeper than the one before it: the tree has a node for each stack, not for each frame."""
    tree = StackTree[int]()
    nodes = [tree.below(NO_FRAME, range(depth + 1)) for depth in range(100)]
    assert len(tree.frame) == 100
    assert tree.stack(nodes[2]) == (0, 1, 2)
    assert tree.depth[nodes[-1]] == 100


def test_rows_are_depth_first_and_count_what_is_inside() -> None:
    tree = StackTree[str]()
    stacks = [(tree.below(NO_FRAME, stack), weight) for stack, weight in (("ab", 1), ("c", 2), ("a", 4), ("ad", 8))]
    frames: dict[str, int] = {}
    assert stack_rows(tree, stacks, frames, 9) == (
        StackRow(0, 0, 13, 1),
        StackRow(1, 1, 1, 1),
        StackRow(2, 1, 8, 1),
        StackRow(3, 0, 2, 1),
    )
    assert list(frames) == ["a", "b", "d", "c"]
