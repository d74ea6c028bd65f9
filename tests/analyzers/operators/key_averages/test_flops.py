"""FLOPs by torch's formulas, numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.analyzers.operators.key_averages.averaged import by_name
from tests.builders import TraceBuilder

FLOAT = ["float", "float", "float"]


def flops(name: str, shapes: list[Any], **inputs: Any) -> int:
    trace = TraceBuilder(options=["record_shapes", "with_flops"])
    trace.op(name, 0, 10, shapes=shapes, **({"types": FLOAT} | inputs))
    return by_name(trace)[name].flops


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", [[2, 3], [3, 5]], 2 * 2 * 3 * 5),
        ("aten::addmm", [[5], [2, 3], [3, 5]], 2 * 2 * 3 * 5),
        ("aten::bmm", [[7, 2, 3], [7, 3, 5]], 2 * 7 * 2 * 3 * 5),
        ("aten::baddbmm", [[5], [7, 2, 3], [7, 3, 5]], 2 * 7 * 2 * 3 * 5),
        ("aten::add", [[4, 5], [5]], 20),  # of the first input, whatever the second is broadcast to
        ("aten::mul", [[], [5]], 1),
        ("aten::mm", [[2, 0], [0, 5]], 0),
        ("aten::mm", [[0, 3], [3, 5]], 0),
        ("aten::bmm", [[0, 2, 3], [0, 3, 5]], 0),
        ("aten::mm", [[2, 3]], 0),
        ("aten::sub", [[4, 5], [5]], 0),
        ("aten::add_", [[4, 5], [5]], 0),
    ],
)
def test_formulas(name: str, shapes: list[Any], expected: int) -> None:
    assert flops(name, shapes) == expected


def test_a_number_has_no_operations() -> None:
    assert flops("aten::add", [[], [5]], types=["Scalar", "float"]) == 0
    assert flops("aten::mul", [[[2], [3]], []], types=["TensorList", "Scalar"]) == 0


def convolution(*values: str, size: tuple[int, ...] = (2, 6, 8, 8), kernel: tuple[int, ...] = (4, 3, 3, 3)) -> int:
    shapes: list[Any] = [list(size), list(kernel), [], [], [], [], []]
    types = ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"]
    return flops("aten::conv2d", shapes, types=types, concrete=["", "", "", *values])


def test_a_convolution_needs_stride_padding_dilation_and_groups() -> None:
    assert convolution("[1, 1]", "[0, 0]", "[1, 1]", "1") == 2 * 2 * 6 * 6 * 3 * 3 * 6 * 4
    assert convolution("[2, 1]", "[1, 0]", "[1, 2]", "2") == 2 * 2 * 4 * 4 * 3 * 3 * 6 * 4 // 2


@pytest.mark.parametrize(
    "values",
    [("[1, 1]", "same", "[1, 1]", "1"), ("[0, 1]", "[0, 0]", "[1, 1]", "1"), ("[1]", "[0]", "[1]", "1"), ()],
)
def test_a_convolution_without_them_has_none(values: tuple[str, ...]) -> None:
    assert convolution(*values) == 0


def test_a_convolution_of_one_image_without_a_batch_has_none() -> None:
    assert convolution("[1, 1]", "[0, 0]", "[1, 1]", "1", size=(6, 8, 8)) == 0


def test_calls_of_different_shapes_add_up() -> None:
    trace = TraceBuilder(options=["with_flops", "record_shapes"])
    trace.op("aten::mm", 0, 10, shapes=[[2, 3], [3, 5]])
    trace.op("aten::mm", 20, 10, shapes=[[1, 1], [1, 1]])
    trace.op("aten::mm", 40, 10, shapes=[[2, 3], [3, 5]])
    assert by_name(trace)["aten::mm"].flops == 60 + 2 + 60


def test_without_the_option_nothing_is_counted() -> None:
    trace = TraceBuilder(options=["record_shapes"])
    trace.op("aten::mm", 0, 10, shapes=[[2, 3], [3, 5]])
    assert by_name(trace)["aten::mm"].flops == 0
