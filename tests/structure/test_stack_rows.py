"""Rows of flame graphs, however deep their stacks are."""

from __future__ import annotations

from traceanalyzer.structure.stack_rows import stack_rows


def test_what_is_left_out_may_be_deeper_than_python_calls_itself() -> None:
    (kept, hidden) = stack_rows([(["f"] * 5000, 7)], {}, 1)
    assert (kept.depth, kept.frames) == (0, 1)
    assert (hidden.weight, hidden.frames) == (7, 4999)
