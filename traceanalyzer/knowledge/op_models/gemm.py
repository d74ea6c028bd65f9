"""Work of products of matrices and vectors: 2 M N K operations, and M N more for an addend."""

from __future__ import annotations

import math
from collections.abc import Callable

from traceanalyzer.knowledge.op_models.call import Call, Family, Tensor, Work, is_complex, read_bytes, size, total


def _work(
    a: Tensor, b: Tensor, inner: int, result: int, addend: Tensor | None = None, dtype: str | None = None
) -> Work:
    """Work of the product of `a` and `b` with `result` elements, each a sum of `inner` products.

    Args:
        a: Left operand.
        b: Right operand.
        inner: Length of the sums.
        result: Number of elements of the result.
        addend: Tensor that is added to the product, or None.
        dtype: Type of the result, or None for that of the operands.
    """
    factor = 4 if is_complex(a.dtype) else 1
    flops = factor * 2 * result * inner + (result if addend is not None else 0)
    moved = total(read_bytes((a, b, addend)), size(result, dtype or a.dtype))
    return Work(Family.GEMM, flops, moved, a.dtype)


def _mm(call: Call, first: int = 0, addend: int | None = None) -> Work | None:
    """Work of `mm(a, b)`, or of `addmm(c, a, b, beta, alpha)`, whose operands come later."""
    a, b = call.tensor(first), call.tensor(first + 1)
    if a is None or b is None or not _fit(a, b, 2):
        return None
    return _work(a, b, a.shape[1], a.shape[0] * b.shape[1], _addend(call, addend))


def _addmm(call: Call) -> Work | None:
    return _mm(call, 1, 0)


def _bmm(call: Call, first: int = 0, addend: int | None = None) -> Work | None:
    a, b = call.tensor(first), call.tensor(first + 1)
    if a is None or b is None or not _fit(a, b, 3) or a.shape[0] != b.shape[0]:
        return None
    return _work(a, b, a.shape[2], a.shape[0] * a.shape[1] * b.shape[2], _addend(call, addend))


def _baddbmm(call: Call) -> Work | None:
    return _bmm(call, 1, 0)


def _addbmm(call: Call) -> Work | None:
    """Work of the sum over the batch: one product with a longer inner axis."""
    a, b = call.tensor(1), call.tensor(2)
    if a is None or b is None or not _fit(a, b, 3) or a.shape[0] != b.shape[0]:
        return None
    return _work(a, b, a.shape[0] * a.shape[2], a.shape[1] * b.shape[2], _addend(call, 0))


def _mv(call: Call, first: int = 0, addend: int | None = None) -> Work | None:
    a, x = call.tensor(first), call.tensor(first + 1)
    if a is None or x is None or len(a.shape) != 2 or x.shape != a.shape[1:]:
        return None
    return _work(a, x, a.shape[1], a.shape[0], _addend(call, addend))


def _addmv(call: Call) -> Work | None:
    return _mv(call, 1, 0)


def _dot(call: Call) -> Work | None:
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or len(a.shape) != 1 or a.shape != b.shape:
        return None
    return _work(a, b, a.shape[0], 1)


def _linear(call: Call) -> Work | None:
    """Work of `linear(x, weight, bias)`, where the weight is transposed."""
    x, weight = call.tensor(0), call.tensor(1)
    if x is None or weight is None or not x.shape or len(weight.shape) != 2 or x.shape[-1] != weight.shape[1]:
        return None
    return _work(x, weight, x.shape[-1], math.prod(x.shape[:-1]) * weight.shape[0], call.tensor(2))


def _scaled_mm(call: Call) -> Work | None:
    """Work of `_scaled_mm(a, b, scale_a, scale_b, bias, scale_result, out_dtype, use_fast_accum)` without scales."""
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not _fit(a, b, 2):
        return None
    return _work(a, b, a.shape[1], a.shape[0] * b.shape[1], call.tensor(4), call.dtype(6))


def _int_mm(call: Call) -> Work | None:
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or not _fit(a, b, 2):
        return None
    return _work(a, b, a.shape[1], a.shape[0] * b.shape[1], None, "int")


def _fit(a: Tensor, b: Tensor, axes: int) -> bool:
    return len(a.shape) == len(b.shape) == axes and a.shape[-1] == b.shape[-2]


def _addend(call: Call, position: int | None) -> Tensor | None:
    """The tensor that is added, or None if its factor (beta, the first value after the operands) is 0."""
    if position is None:
        return None
    return None if call.value(3) in ("0", "0.", "0.0") else call.tensor(position)


MODELS: dict[str, Callable[[Call], Work | None]] = {
    "mm": _mm,
    "addmm": _addmm,
    "addmm_": _addmm,
    "_addmm_activation": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "baddbmm_": _baddbmm,
    "addbmm": _addbmm,
    "mv": _mv,
    "addmv": _addmv,
    "addmv_": _addmv,
    "dot": _dot,
    "vdot": _dot,
    "linear": _linear,
    "_scaled_mm": _scaled_mm,
    "_int_mm": _int_mm,
}
