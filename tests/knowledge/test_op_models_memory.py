"""Operations and bytes of operators that memory limits, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from test_op_models import B, F, H, L, flops, moved, work

from traceanalyzer.knowledge.op_models import Family

X, C, G = ((2, 3, 4, 5), F), ((3,), F), ((2, 3, 4, 5), F)  # 120 elements, 3 channels
ROWS = ((2, 3, 1, 1), F)


@pytest.mark.parametrize(
    ("arguments", "operations", "elements"),
    [
        (("cudnn_batch_norm", X, C, C, C, C, "True", "0.1", "1e-05"), 5 * 120, 2 * 120 + 4 * 3),
        (("cudnn_batch_norm", X, C, C, C, C, "False", "0.1", "1e-05"), 2 * 120, 2 * 120 + 4 * 3),
        (("native_layer_norm", X, "[5]", ((5,), F), ((5,), F), "1e-05"), 5 * 120, 2 * 120 + 10),
        (("native_group_norm", X, C, C, "2", "3", "20", "3", "1e-05"), 5 * 120, 2 * 120 + 6),
        (("_fused_rms_norm", X, "[5]", ((5,), F), "1e-05"), 4 * 120, 2 * 120 + 5),
        # gradient, input, mean and rstd, weight and bias are read, three gradients written
        (
            ("native_layer_norm_backward", G, X, "[4, 5]", ROWS, ROWS, ((4, 5), F), ((4, 5), F), "[True, True, True]"),
            9 * 120,
            3 * 120 + 2 * 6 + 4 * 20,
        ),
        (
            ("native_layer_norm_backward", G, X, "[4, 5]", ROWS, ROWS, "", "", "[True, False, False]"),
            9 * 120,
            3 * 120 + 2 * 6,
        ),
        (("cudnn_batch_norm_backward", X, G, C, C, C, C, C, "1e-05"), 9 * 120, 3 * 120 + 5 * 3 + 2 * 3),
        (("_fused_rms_norm_backward", G, X, "[5]", ROWS, ((5,), F), "[True, True]"), 6 * 120, 3 * 120 + 6 + 2 * 5),
    ],
)
def test_normalization(arguments: tuple[Any, ...], operations: int, elements: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.NORMALIZATION, operations, 4 * elements)


@pytest.mark.parametrize(
    ("arguments", "operations", "size"),
    [
        (("add", ((4, 5), F), ((4, 5), F), "1"), 20, 4 * 60),
        (("add", ((4, 5), B), ((5,), B), "1"), 20, 2 * 45),  # broadcast
        (("mul", ((4, 1), F), ((1, 5), F)), 20, 4 * 29),
        (("mul", ((4, 5), H), ((4, 5), F)), 20, 2 * 20 + 4 * 20 + 4 * 20),  # the result is fp32
        (("mul", ((4, 5), H), ((), "double")), 20, 2 * 40 + 8),  # a number does not make the result fp64
        (("add_", ((4, 5), H), ((4, 5), F), "1"), 20, 2 * 20 + 4 * 20 + 2 * 20),  # in place it stays fp16
        (("relu", ((4, 5), F)), 20, 4 * 40),
        (("eq", ((4, 5), L), "0"), 20, 8 * 20 + 20),  # truth values take a byte
        (("where", ((4, 5), "bool"), ((4, 5), H), ((4, 5), H)), 20, 20 + 2 * 60),
        (("addcmul", ((4, 5), F), ((4, 5), F), ((4, 5), F), "1"), 60, 4 * 80),
        (("copy_", ((4, 5), F), ((4, 5), B), "False"), 0, 4 * 20 + 2 * 20),
        (("copy_", ((4, 5), F), ((5,), F), "False"), 0, 4 * 25),
        (("clone", ((4, 5), F), ""), 0, 4 * 40),
        (("fill_", ((4, 5), F), "1"), 0, 4 * 20),
        (("zero_", ((4, 5), H)), 0, 2 * 20),
        (("native_dropout", ((4, 5), F), "0.1", "True"), 20, 4 * 40 + 20),
        (("threshold_backward", ((4, 5), F), ((4, 5), F), "0"), 20, 4 * 60),
    ],
)
def test_elementwise(arguments: tuple[Any, ...], operations: int, size: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.ELEMENTWISE, operations, size)


@pytest.mark.parametrize(
    ("arguments", "operations", "size"),
    [
        (("sum", ((4, 5), F), "[0]", "False", ""), 20, 4 * 25),
        (("sum", ((4, 5), F), "[-1]", "True", ""), 20, 4 * 24),
        (("sum", ((4, 5), F), "[0, 1]", "False", ""), 20, 4 * 21),
        (("sum", ((4, 5), F), ""), 20, 4 * 21),
        (("mean", ((4, 5), H), "[]", "False", ""), 20, 2 * 21),
        (("linalg_vector_norm", ((4, 5), F), "2", "[1]", "True", ""), 20, 4 * 24),
        (("argmax", ((4, 5), F), "1", "False"), 20, 4 * 20 + 8 * 4),
        (("any", ((4, 5), "bool"), "1", "False"), 20, 20 + 4),
        (("var_mean", ((4, 5), F), "[1]", "1", "False"), 20, 4 * 20 + 2 * 4 * 4),
        (("cumsum", ((4, 5), F), "1", ""), 20, 4 * 40),
        (("_softmax", ((4, 5), H), "1", "False"), 100, 2 * 40),
        (("_softmax", ((4, 5), H), "1", "True"), 100, 2 * 20 + 4 * 20),
        (("_log_softmax_backward_data", ((4, 5), F), ((4, 5), F), "1", "6"), 80, 4 * 60),
    ],
)
def test_reductions(arguments: tuple[Any, ...], operations: int, size: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.REDUCTION, operations, size)


def test_tensors_that_do_not_broadcast_have_no_model() -> None:
    assert work("add", ((4, 5), F), ((4, 6), F), "1") is None


def test_an_unknown_type_leaves_bytes_unknown() -> None:
    assert (flops("relu", ((4, 5), "c10::Brand_New")), moved("relu", ((4, 5), "c10::Brand_New"))) == (20, None)
