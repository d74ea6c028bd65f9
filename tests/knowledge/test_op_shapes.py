"""What input shapes alone imply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.knowledge.inputs import Shape
from traceanalyzer.knowledge.op_shapes import Implied, broadcast, implied


@pytest.mark.parametrize(
    ("operator", "shapes", "output", "moved"),
    [
        ("aten::mul", [(8, 1), (1, 5)], 40, 8 + 5 + 40),
        ("aten::relu_", [(4, 5)], 20, 40),
        ("aten::copy_", [(4, 5), (5,)], 20, 45),
        ("aten::mm", [(3, 4), (4, 5)], 15, 12 + 20 + 15),
        ("aten::addmm", [(5,), (3, 4), (4, 5), (), ()], 15, 5 + 12 + 20 + 15),
        ("aten::linear", [(2, 3, 4), (5, 4), ()], 30, 24 + 20 + 30),
        ("aten::bmm", [(2, 3, 4), (2, 4, 5)], 30, 24 + 40 + 30),
        ("aten::baddbmm", [(2, 3, 5), (2, 3, 4), (2, 4, 5)], 30, 30 + 24 + 40 + 30),
    ],
)
def test_elements(operator: str, shapes: list[Shape], output: int, moved: int) -> None:
    assert implied(operator, shapes) == Implied(output, moved)


@pytest.mark.parametrize(
    ("operator", "shapes"),
    [
        ("aten::mm", [(3, 4), (5, 4)]),
        ("aten::mul", [(3,), (4,)]),
        ("aten::bmm", [(3, 4), (4, 5)]),
        ("aten::sum", [(3, 4)]),
        ("aten::linear", [(2, 4), (5, 3)]),
        ("aten::relu", [()]),
        ("aten::copy_", [(), (4,)]),
    ],
)
def test_no_model(operator: str, shapes: list[Shape]) -> None:
    assert implied(operator, shapes) is None


SHAPES = st.lists(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=3).map(tuple), min_size=1, max_size=3)


@given(SHAPES)
def test_broadcast_is_numpys(shapes: list[Shape]) -> None:
    try:
        wanted = np.broadcast_shapes(*shapes)
    except ValueError:
        wanted = None
    assert broadcast(shapes) == wanted
