"""Work of reductions: one operation per input element, and every operand and result once.

Softmax counts 5 per element (maximum, difference, exponential, sum, quotient), its gradient 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from traceanalyzer.knowledge.op_models.call import Call, Family, Work, size, total


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

MODELS: dict[str, Callable[[Call], Work | None]] = {
    **dict.fromkeys(("softmax", "log_softmax", "_softmax", "_log_softmax"), _softmax),
    **dict.fromkeys(("_softmax_backward_data", "_log_softmax_backward_data"), _softmax_backward),
    **dict.fromkeys(_SAME_TYPE, partial(_reduction, 1, None, 1)),
    **dict.fromkeys(("norm", "linalg_vector_norm", "linalg_norm"), partial(_reduction, 2, None, 1)),
    **dict.fromkeys(("all", "any"), partial(_reduction, 1, "bool", 1)),
    **dict.fromkeys(("argmax", "argmin", "count_nonzero"), partial(_reduction, 1, "long int", 1)),
    **dict.fromkeys(("var_mean", "std_mean"), partial(_reduction, 1, None, 2)),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
}
