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


def _elementwise_models() -> dict[str, Callable[[Call], Work | None]]:
    models: dict[str, Callable[[Call], Work | None]] = {}
    for name in sorted((UNARY | BINARY | _MORE_UNARY | _MORE_BINARY | _COPIES | _WRITES) - _NOT_HERE):
        base = name.removesuffix("_")
        models[base] = models[base + "_"] = partial(_elementwise, base)
    return models


ELEMENTWISE: dict[str, Callable[[Call], Work | None]] = _elementwise_models()


# Work of reductions: one operation per input element, and every operand and result once.
#
# Softmax counts 5 per element (maximum, difference, exponential, sum, quotient), its gradient 4.


def _softmax(call: Call) -> Work | None:
    """Work of `_softmax(x, dim, half_to_float)`: five operations per element."""
    x = call.tensor(0)
    if x is None:
        return None
    result = "float" if call.name.startswith("_") and call.flag(2) else x.dtype
    return Work(Family.REDUCTION, 5 * x.numel, total(x.bytes, size(x.numel, result)), x.dtype)


def _softmax_backward(call: Call) -> Work | None:
    """Work of `_softmax_backward_data(grad, output, dim, input_dtype)`: a product, its sum, a difference, a product."""
    grad, output = call.tensor(0), call.tensor(1)
    if grad is None or output is None:
        return None
    moved = total(grad.bytes, output.bytes, size(grad.numel, call.dtype(3) or grad.dtype))
    return Work(Family.REDUCTION, 4 * grad.numel, moved, grad.dtype)


def _reduction(axes_at: int, result: str | None, results: int, call: Call) -> Work | None:
    """Work of a reduction over some axes, or over all if none are given.

    Args:
        axes_at: Position of the axes.
        result: Type of the result, or None for that of the input.
        results: Number of tensors that are returned.
        call: The call.
    """
    x = call.tensor(0)
    if x is None or any(call.tensor(position) is not None for position in range(1, axes_at + 1)):
        return None  # such as the maximum of two tensors
    if call.values is None and len(call.arguments) > axes_at:
        return None  # the axes were not recorded
    axes = call.integers(axes_at)
    reduced = {axis % len(x.shape) for axis in axes} if axes and x.shape else set(range(len(x.shape)))
    left = math.prod(n for axis, n in enumerate(x.shape) if axis not in reduced)
    moved = total(x.bytes, *[size(left, result or x.dtype)] * results)
    return Work(Family.REDUCTION, x.numel, moved, x.dtype)


def _scan(call: Call) -> Work | None:
    x = call.tensor(0)
    return None if x is None else Work(Family.REDUCTION, x.numel, total(x.bytes, size(x.numel, x.dtype)), x.dtype)


_SAME_TYPE = ("sum", "mean", "prod", "amax", "amin", "nansum", "logsumexp", "var", "std")

REDUCTIONS: dict[str, Callable[[Call], Work | None]] = {
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _softmax_backward),
    **dict.fromkeys(_SAME_TYPE, partial(_reduction, 1, None, 1)),
    **dict.fromkeys(("norm", "linalg_vector_norm", "linalg_norm"), partial(_reduction, 2, None, 1)),
    **dict.fromkeys(("all", "any"), partial(_reduction, 1, "bool", 1)),
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), partial(_reduction, 1, "long int", 1)),
    **dict.fromkeys(("var_mean", "std_mean"), partial(_reduction, 1, None, 2)),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
}


# Work of normalization: operations per element, and every operand and result once.
#
# Forward 5 per element: the mean (1), the variance (2), scale and shift (2). RMS norm has no mean: 4. With given
# statistics: 2. Backward 9 per element: the normalized input (2), two sums (3), and the gradient from both (4); RMS
# norm has one sum and no mean: 6. Work per channel or row is left out. All of these are far below the number of
# operations that a device computes while it moves the bytes.


def _normalization(per_element: int, training: int | None, call: Call) -> Work | None:
    """Forward work; the first argument is normalized.

    Args:
        per_element: Operations per element.
        training: Position of the flag for computing statistics.
        call: The call.
    """
    x = call.tensor(0)
    if x is None or len(x.shape) < 1:
        return None
    if training is not None and call.flag(training) is False:
        per_element = 2
    moved = total(read_bytes(call.tensors), size(x.numel, x.dtype))
    return Work(Family.NORMALIZATION, per_element * x.numel, moved, x.dtype)


def _normalization_backward(per_element: int, weight: int, mask: int | None, call: Call) -> Work | None:
    """Backward work; the first two arguments are the gradient and the input, in either order.

    Args:
        per_element: Operations per element.
        weight: Position of the weight.
        mask: Position of the mask of requested gradients.
        call: The call.
    """
    first, second = call.tensor(0), call.tensor(1)
    if first is None or second is None or first.numel != second.numel:
        return None
    wanted = (call.flags(mask) if mask is not None else None) or (True, True, True)
    scale = call.tensor(weight)
    gradients = [] if scale is None else [size(scale.numel, scale.dtype)] * sum(wanted[1:])
    if wanted[0]:
        gradients.append(size(first.numel, first.dtype))
    moved = total(read_bytes(call.tensors), *gradients)
    return Work(Family.NORMALIZATION, per_element * first.numel, moved, first.dtype)


NORMALIZATIONS: dict[str, Callable[[Call], Work | None]] = {
    "layer_norm": partial(_normalization, 5, None),
    "native_layer_norm": partial(_normalization, 5, None),
    "group_norm": partial(_normalization, 5, None),
    "native_group_norm": partial(_normalization, 5, None),
    "instance_norm": partial(_normalization, 5, 5),
    "batch_norm": partial(_normalization, 5, 5),
    "native_batch_norm": partial(_normalization, 5, 5),
    "cudnn_batch_norm": partial(_normalization, 5, 5),
    "miopen_batch_norm": partial(_normalization, 5, 5),
    "_native_batch_norm_legit": partial(_normalization, 5, 5),
    "_batch_norm_with_update": partial(_normalization, 5, None),
    "rms_norm": partial(_normalization, 4, None),
    "_fused_rms_norm": partial(_normalization, 4, None),
    "native_layer_norm_backward": partial(_normalization_backward, 9, 5, 7),
    "native_group_norm_backward": partial(_normalization_backward, 9, 4, 9),
    "native_batch_norm_backward": partial(_normalization_backward, 9, 2, 9),
    "cudnn_batch_norm_backward": partial(_normalization_backward, 9, 2, None),
    "miopen_batch_norm_backward": partial(_normalization_backward, 9, 2, None),
    "batch_norm_backward": partial(_normalization_backward, 9, 2, 8),
    "_fused_rms_norm_backward": partial(_normalization_backward, 6, 4, 5),
}
