"""Work of elementwise operators: one operation per element, and every operand and result once.

Copies, fills and random numbers count no operations. Fused operators count each fused operation: `addcmul` 3.
An exponential counts as one operation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from traceanalyzer.knowledge.op_models.call import Call, Family, Tensor, Work, promoted, read_bytes, size, total
from traceanalyzer.knowledge.op_shapes import BINARY, UNARY, broadcast, words

_NOT_HERE = words("softmax log_softmax _softmax _log_softmax cumsum dropout")
"""Operators of the shape models that are reductions, or that only call other operators."""
_COPIES = words("copy clone contiguous")
_WRITES = words("fill zero uniform normal random exponential bernoulli cauchy log_normal geometric")
"""Operators that overwrite their first tensor without reading it."""
_COMPARISONS = words("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf")
_MORE_UNARY = words(
    "relu6 hardswish hardsigmoid mish softplus exp2 expm1 log2 log10 log1p tan atan asin acos sinh cosh trunc frac "
    "sgn isnan isinf nan_to_num erfc erfinv conj_physical threshold clip"
)
_MORE_BINARY = words(
    "logical_xor bitwise_xor fmin fmax hypot copysign xlogy heaviside floor_divide true_divide elu_backward "
    "hardswish_backward hardsigmoid_backward hardtanh_backward leaky_relu_backward softplus_backward "
    "mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss binary_cross_entropy mish_backward "
    "binary_cross_entropy_backward binary_cross_entropy_with_logits native_dropout_backward l1_loss"
)
_PER_ELEMENT = {"addcmul": 3, "addcdiv": 3, "lerp": 3}


def _elementwise(base: str, call: Call) -> Work | None:
    """Work of an operator whose result has the broadcast shape of its tensors, or that of the first if in place.

    Args:
        base: The name without the underscore of the in-place variant.
        call: The call.
    """
    in_place = call.name.endswith("_")
    tensors = call.tensors
    if not tensors or (in_place and call.tensor(0) is None):
        return None
    axes = [tensor.shape for tensor in tensors if tensor.shape]
    shape = tensors[0].shape if in_place else (broadcast(axes) if axes else ())
    if shape is None:
        return None
    elements = math.prod(shape)
    free = base in _COPIES or (base in _WRITES and in_place)
    flops = 0 if free else _PER_ELEMENT.get(base, 1) * elements
    result = _result(base, tensors, in_place)
    moved = total(_read(base, tensors, in_place), size(elements, result))
    if base == "native_dropout":
        moved = total(moved, elements)  # the mask: one byte per element
    return Work(Family.ELEMENTWISE, flops, moved, result if base in _COPIES else promoted(tensors))


def _read(base: str, tensors: list[Tensor], in_place: bool) -> int | None:
    if in_place and base in _WRITES:
        return 0
    return read_bytes(tensors[1:] if in_place and base in _COPIES else tensors)


def _result(base: str, tensors: list[Tensor], in_place: bool) -> str | None:
    if in_place:
        return tensors[0].dtype
    if base in _COMPARISONS:
        return "bool"
    return promoted(tensors[1:] if base == "where" and len(tensors) > 1 else tensors)


def _models() -> dict[str, Callable[[Call], Work | None]]:
    found: dict[str, Callable[[Call], Work | None]] = {}
    for name in sorted((UNARY | BINARY | _MORE_UNARY | _MORE_BINARY | _COPIES | _WRITES) - _NOT_HERE):
        base = name.removesuffix("_")
        found[base] = found[base + "_"] = partial(_elementwise, base)
    return found


MODELS: dict[str, Callable[[Call], Work | None]] = _models()
