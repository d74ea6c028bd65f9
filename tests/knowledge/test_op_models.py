"""Operations and bytes of one call, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.knowledge import op_models
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.op_models import Family, Work
from traceanalyzer.knowledge.op_models.attention import Mask, pairs

F, H, B, L = "float", "c10::Half", "c10::BFloat16", "long int"
FP8 = "c10::Float8_e4m3fn"
Argument = Any


def work(name: str, *arguments: Argument, strides: list[list[int]] | None = None) -> Work | None:
    """The work of a call; a tensor is (shape, type), everything else the text of its value."""
    tensors = [a if isinstance(a, tuple) else None for a in arguments]
    shapes = [list(t[0]) if t else [] for t in tensors]
    types = [t[1] if t else ("" if a == "" else "Scalar") for t, a in zip(tensors, arguments, strict=True)]
    values = ["" if t else a for t, a in zip(tensors, arguments, strict=True)]
    texts = [json.dumps(part) for part in (shapes, types, strides or [], values)]
    call = op_models.call_of(f"aten::{name}", Inputs(*texts))
    assert call is not None
    return op_models.work(call)


def flops(name: str, *arguments: Argument) -> int | None:
    found = work(name, *arguments)
    return None if found is None else found.flops


def moved(name: str, *arguments: Argument, strides: list[list[int]] | None = None) -> int | None:
    found = work(name, *arguments, strides=strides)
    return None if found is None else found.bytes


@pytest.mark.parametrize(
    ("arguments", "operations", "size"),
    [
        # 3x5 = 3x4 times 4x5: 15 sums of 4 products; 12 + 20 + 15 elements
        (("mm", ((3, 4), F), ((4, 5), F)), 120, 4 * 47),
        (("mm", ((3, 4), H), ((4, 5), H), ((3, 5), H)), 120, 2 * 47),  # the third is where the result goes
        (("addmm", ((5,), F), ((3, 4), F), ((4, 5), F), "1", "1"), 135, 4 * 52),
        (("addmm", ((5,), F), ((3, 4), F), ((4, 5), F), "0", "1"), 120, 4 * 47),  # beta 0: nothing is added
        (("bmm", ((2, 3, 4), B), ((2, 4, 5), B)), 240, 2 * 94),
        (("baddbmm", ((2, 3, 5), F), ((2, 3, 4), F), ((2, 4, 5), F), "1", "1"), 270, 4 * 124),
        (("addbmm", ((3, 5), F), ((2, 3, 4), F), ((2, 4, 5), F), "1", "1"), 255, 4 * (15 + 24 + 40 + 15)),
        (("mv", ((3, 4), F), ((4,), F)), 24, 4 * 19),
        (("dot", ((7,), F), ((7,), F)), 14, 4 * 15),
        (("linear", ((2, 3, 4), F), ((5, 4), F), ((5,), F)), 270, 4 * (24 + 20 + 5 + 30)),
        (("linear", ((2, 3, 4), F), ((5, 4), F), ""), 240, 4 * (24 + 20 + 30)),
        # a result of 15 elements in bf16 (type 15); the scales are left out
        (("_scaled_mm", ((3, 4), FP8), ((4, 5), FP8), ((), F), ((), F), "", "", "15", "True"), 120, 32 + 30),
        (("mm", ((3, 4), "c10::complex<float>"), ((4, 5), "c10::complex<float>")), 480, 8 * 47),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_products(arguments: tuple[Argument, ...], operations: int, size: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.GEMM, operations, size)


@pytest.mark.parametrize(
    "arguments",
    [
        ("mm", ((3, 4), F), ((5, 4), F)),
        ("bmm", ((2, 3, 4), F), ((3, 4, 5), F)),
        ("mm", ((3, 4), F)),
        ("linear", ((2, 4), F), ((5, 3), F), ""),
        ("dot", ((7,), F), ((8,), F)),
    ],
)
def test_operands_that_do_not_fit_have_no_model(arguments: tuple[Argument, ...]) -> None:
    assert work(*arguments) is None


# 2 images of 3 channels, 8x8; 4 filters of 3x3; stride 2, padding 1: 4x4
X, W, Y = ((2, 3, 8, 8), F), ((4, 3, 3, 3), F), 2 * 4 * 4 * 4
LISTS = ("[2, 2]", "[1, 1]", "[1, 1]")


@pytest.mark.parametrize(
    ("arguments", "operations", "elements"),
    [
        (("convolution", X, W, "", *LISTS, "False", "[0, 0]", "1"), 2 * Y * 27, 384 + 108 + Y),
        (("convolution", X, W, ((4,), F), *LISTS, "False", "[0, 0]", "1"), 2 * Y * 27 + Y, 384 + 108 + 4 + Y),
        (("conv2d", X, W, "", *LISTS, "1"), 2 * Y * 27, 384 + 108 + Y),
        # padding before stride, and no bias, in cuDNN's; MIOpen's has a bias
        (("cudnn_convolution", X, W, "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * Y * 27, 384 + 108 + Y),
        (("cudnn_convolution", X, W, "", "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * Y * 27, 384 + 108 + Y),
        (("miopen_convolution", X, W, "", "[1, 1]", "[2, 2]", "[1, 1]", "1"), 2 * Y * 27, 384 + 108 + Y),
        # one number for both axes; dilation 2 needs 5x5: (8 + 2 - 4 - 1) // 2 + 1 = 3
        (("conv2d", X, W, "", "[2]", "[1]", "[2]", "1"), 2 * 72 * 27, 384 + 108 + 72),
        # 3 groups of one channel: 9 inputs for each of 6 * 16 results per image
        (("conv2d", X, ((6, 1, 3, 3), F), "", *LISTS, "3"), 2 * 192 * 9, 384 + 54 + 192),
        # transposed, 2 groups: each input of 4 channels goes to 1 * 9; (4 - 1) * 2 - 2 + 2 + 1 + 1 = 8 per axis
        (
            ("convolution", ((1, 4, 4, 4), F), ((4, 1, 3, 3), F), "", *LISTS, "True", "[1, 1]", "2"),
            2 * 64 * 9,
            64 + 36 + 2 * 64,
        ),
        # backward: two passes; gradient, input and weight are read, the latter two and a bias written
        (
            ("convolution_backward", ((2, 4, 4, 4), F), X, W, "[4]", *LISTS, "False", "[0, 0]", "1",
             "[True, True, True]"),
            2 * 2 * Y * 27 + Y,
            Y + 2 * 384 + 2 * 108 + 4,
        ),
        (
            ("convolution_backward", ((2, 4, 4, 4), F), X, W, "[4]", *LISTS, "False", "[0, 0]", "1",
             "[False, True, False]"),
            2 * Y * 27,
            Y + 384 + 108,
        ),
        (("cudnn_convolution_backward_input", "[2, 3, 8, 8]", ((2, 4, 4, 4), F), W), 2 * Y * 27, Y + 108 + 384),
        (("cudnn_convolution_backward_weight", "[4, 3, 3, 3]", ((2, 4, 4, 4), F), X), 2 * Y * 27, Y + 384 + 108),
    ],
)  # fmt: skip
def test_convolutions(arguments: tuple[Argument, ...], operations: int, elements: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.CONVOLUTION, operations, 4 * elements)


def test_without_recorded_values_a_convolution_has_no_model() -> None:
    shapes, types = json.dumps([[2, 3, 8, 8], [4, 3, 3, 3], [], [], [], []]), json.dumps([F, F, "", "", "", ""])
    call = op_models.call_of("aten::conv2d", Inputs(shapes, types))
    assert call is not None
    assert op_models.work(call) is None


Q = ((2, 4, 6, 8), H)  # 2 batches, 4 heads, 6 queries, size 8
PAIRS = 2 * 4 * 36


@pytest.mark.parametrize(
    ("arguments", "operations", "elements"),
    [
        (("_scaled_dot_product_flash_attention", Q, Q, Q, "0.", "False", "False"), 4 * PAIRS * 8, 4 * 384),
        (("_scaled_dot_product_flash_attention", Q, Q, Q, "0.", "True", "False"), 4 * 2 * 4 * 21 * 8, 4 * 384),
        # the same in (batch, length, heads, size)
        (
            ("_flash_attention_forward", *[((2, 6, 4, 8), H)] * 3, "", "", "6", "6", "0.", "True", "False"),
            4 * 2 * 4 * 21 * 8,
            4 * 384,
        ),
        # 2 heads of keys for 4 of queries, 9 keys, values of size 16
        (
            ("_scaled_dot_product_efficient_attention", Q, ((2, 2, 9, 8), H), ((2, 2, 9, 16), H), "", "True", "0.",
             "False"),
            2 * 2 * 4 * 54 * (8 + 16),
            384 + 288 + 576 + 768,
        ),
        (
            ("_efficient_attention_forward", *[((2, 6, 4, 8), H)] * 3, "", "", "", "", "", "0.", "2", "True"),
            4 * 2 * 4 * 21 * 8,
            4 * 384,
        ),
        # backward: five products; gradient, q, k, v and the result are read, three gradients written
        (
            ("_scaled_dot_product_flash_attention_backward", Q, Q, Q, Q, Q, ((2, 4, 6), F), "", "", "6", "6", "0.",
             "False"),
            10 * PAIRS * 8,
            8 * 384,
        ),
    ],
)  # fmt: skip
def test_attention(arguments: tuple[Argument, ...], operations: int, elements: int) -> None:
    found = work(*arguments)
    assert found is not None
    assert (found.family, found.flops, found.bytes) == (Family.ATTENTION, operations, 2 * elements)


def test_packed_sequences_have_no_model() -> None:
    packed = ((12, 4, 8), H)
    arguments = (packed, packed, packed, ((3,), "int"), ((3,), "int"), "6", "6", "0.", "False", "False")
    assert work("_flash_attention_forward", *arguments) is None


@given(st.integers(0, 40), st.integers(0, 40), st.sampled_from(["none", "top-left", "bottom-right"]))
def test_pairs_that_a_mask_leaves(queries: int, keys: int, mask: Mask) -> None:
    shift = {"none": keys, "top-left": 0, "bottom-right": keys - queries}[mask]
    seen = [min(keys, max(0, keys if mask == "none" else query + 1 + shift)) for query in range(queries)]
    assert pairs(queries, keys, mask) == sum(seen)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30))
def test_a_product_and_its_transpose_are_equal_work(m: int, n: int, k: int) -> None:
    assert work("mm", ((m, k), F), ((k, n), F)) == work("mm", ((n, k), F), ((k, m), F))


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 4), st.integers(1, 4))
def test_a_convolution_of_single_points_is_a_product(batch: int, size: int, channels: int, filters: int) -> None:
    found = flops(
        "conv2d", ((batch, channels, size, size), F), ((filters, channels, 1, 1), F), "", "[1]", "[0]", "[1]", "1"
    )
    assert found == flops("mm", ((batch * size * size, channels), F), ((channels, filters), F))


def test_shapes_without_types_tell_operations_but_no_bytes() -> None:
    call = op_models.call_of("aten::mm", Inputs("[[3,4],[4,5]]"))
    assert call is not None
    found = op_models.work(call)
    assert found is not None
    assert (found.flops, found.bytes, found.dtype) == (120, None, None)


def test_expanded_operands_are_read_once() -> None:
    small = moved("mul", ((4, 5), F), ((4, 5), F), strides=[[5, 1], [0, 1]])
    assert small == 4 * (20 + 5 + 20)


@pytest.mark.parametrize("text", ["", "null", "[[3,4]", "7", '"x"'])
def test_no_shapes_no_call(text: str) -> None:
    assert op_models.call_of("aten::mm", Inputs(text)) is None


@pytest.mark.parametrize("name", ["aten::index_put_", "aten::sort", "aten::matmul", "mm", "my::mm", ""])
def test_operators_without_a_model(name: str) -> None:
    assert op_models.family(name) is None


ODD = ("[]", "[[]]", "[[],[],[]]", "[[[1,2],[3]],[4]]", '["x",null]', "[[0,3],[3,0]]", "[[1],[1],[1],[1],[1],[1]]")


def test_every_model_survives_arguments_that_it_does_not_expect() -> None:
    for name in op_models.MODELS:
        for shapes in ODD:
            for types in ("", '["float","float","float","float"]', '["TensorList","",""]'):
                for values in ("", '["x","y","z","[","9"]'):
                    call = op_models.call_of(name, Inputs(shapes, types, shapes, values))
                    found = op_models.work(call) if call else None
                    assert found is None or found.flops >= 0


@pytest.mark.parametrize("kind", ["{}", "[]", "3", "null", '"no type"'])
def test_types_that_are_no_names_are_unknown(kind: str) -> None:
    call = op_models.call_of("aten::mm", Inputs("[[3, 4], [4, 5]]", f"[{kind}, {kind}]"))
    assert call is not None
    assert op_models.work(call) in (None, Work(Family.GEMM, 120, None, None))


# Operations and bytes of operators that memory limits, worked out by hand.


NORMED, C, G = ((2, 3, 4, 5), F), ((3,), F), ((2, 3, 4, 5), F)  # 120 elements, 3 channels
ROWS = ((2, 3, 1, 1), F)


@pytest.mark.parametrize(
    ("arguments", "operations", "elements"),
    [
        (("cudnn_batch_norm", NORMED, C, C, C, C, "True", "0.1", "1e-05"), 5 * 120, 2 * 120 + 4 * 3),
        (("cudnn_batch_norm", NORMED, C, C, C, C, "False", "0.1", "1e-05"), 2 * 120, 2 * 120 + 4 * 3),
        (("native_layer_norm", NORMED, "[5]", ((5,), F), ((5,), F), "1e-05"), 5 * 120, 2 * 120 + 10),
        (("native_group_norm", NORMED, C, C, "2", "3", "20", "3", "1e-05"), 5 * 120, 2 * 120 + 6),
        (("_fused_rms_norm", NORMED, "[5]", ((5,), F), "1e-05"), 4 * 120, 2 * 120 + 5),
        # gradient, input, mean and rstd, weight and bias are read, three gradients written
        (
            (
                "native_layer_norm_backward",
                G,
                NORMED,
                "[4, 5]",
                ROWS,
                ROWS,
                ((4, 5), F),
                ((4, 5), F),
                "[True, True, True]",
            ),
            9 * 120,
            3 * 120 + 2 * 6 + 4 * 20,
        ),
        (
            ("native_layer_norm_backward", G, NORMED, "[4, 5]", ROWS, ROWS, "", "", "[True, False, False]"),
            9 * 120,
            3 * 120 + 2 * 6,
        ),
        (("cudnn_batch_norm_backward", NORMED, G, C, C, C, C, C, "1e-05"), 9 * 120, 3 * 120 + 5 * 3 + 2 * 3),
        (("_fused_rms_norm_backward", G, NORMED, "[5]", ROWS, ((5,), F), "[True, True]"), 6 * 120, 3 * 120 + 6 + 2 * 5),
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
