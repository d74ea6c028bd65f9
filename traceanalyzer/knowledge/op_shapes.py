"""Counts from input shapes alone the output elements of a call, and the elements read and written; sides of products.

Only operators whose output shape follows from the input shapes have a model. Elements are counted, not bytes, because
printed tables have shapes but no types. `op_models` computes more from the arguments in traces.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from traceanalyzer.knowledge.inputs import Inputs, Shape


def words(text: str) -> frozenset[str]:
    """Split a text into the set of its words."""
    return frozenset(text.split())


BINARY = words(
    "mul add sub rsub div mul_ add_ sub_ div_ maximum minimum pow eq ne lt le gt ge logical_and logical_or "
    "bitwise_and bitwise_or threshold_backward sigmoid_backward tanh_backward gelu_backward silu_backward "
    "addcmul addcdiv where masked_fill masked_fill_ mse_loss lerp atan2 fmod remainder"
)
"""Operators whose result has the broadcast shape of their tensors."""
UNARY = words(
    "relu relu_ clamp_min clamp_max clamp clamp_ neg exp log sqrt rsqrt sigmoid tanh gelu silu abs sin cos erf "
    "reciprocal bitwise_not logical_not dropout native_dropout _softmax _log_softmax softmax log_softmax clone "
    "contiguous fill_ zero_ hardtanh leaky_relu elu square ceil floor round sign cumsum"
)
"""Operators whose result has the shape of their first tensor."""
_AXES = {"mm": 2, "addmm": 2, "_addmm_activation": 2, "_scaled_mm": 2, "_int_mm": 2, "bmm": 3, "baddbmm": 3}
"""Axes of the operands of products, without `aten::`."""
_AFTER_BIAS = frozenset({"addmm", "baddbmm", "_addmm_activation"})
"""Products whose operands come after a tensor that is added."""


class Implied(msgspec.Struct, frozen=True):
    """Numbers of elements of a call."""

    output: int
    moved: int
    """Number of elements of all inputs and of the output, each once."""


def implied(operator: str, shapes: Sequence[Shape]) -> Implied | None:
    """Elements of one call of an operator, or None without a model."""
    name = operator.removeprefix("aten::")
    tensors = [shape for shape in shapes if shape]
    output = _output(name, shapes, tensors)
    if output is None:
        return None
    size = math.prod(output)
    return Implied(size, size + sum(map(math.prod, tensors)))


def _output(name: str, shapes: Sequence[Shape], tensors: Sequence[Shape]) -> Shape | None:
    if not tensors:
        return None
    if name in UNARY:
        return tensors[0]
    if name in BINARY:
        return broadcast(tensors)
    if name == "copy_":
        return shapes[0] or None
    return _product(name, shapes, tensors)


def _product(name: str, shapes: Sequence[Shape], tensors: Sequence[Shape]) -> Shape | None:
    if name in ("mm", "addmm", "linear"):
        return _matrix_product(name, shapes, tensors)
    if name in ("bmm", "baddbmm") and len(tensors) >= 2:
        a, b = tensors[-2:]
        return (a[0], a[1], b[2]) if len(a) == len(b) == 3 and a[2] == b[1] else None
    return None


def _matrix_product(name: str, shapes: Sequence[Shape], tensors: Sequence[Shape]) -> Shape | None:
    """Output shape of `mm(a, b)`, `addmm(bias, a, b)`, `linear(x, weight, bias)`; None if the shapes do not fit."""
    if name == "linear":
        if len(tensors) < 2 or len(tensors[1]) != 2 or tensors[0][-1] != tensors[1][1]:
            return None
        return (*tensors[0][:-1], tensors[1][0])
    operands = shapes[1:3] if name == "addmm" else shapes[:2]
    if len(operands) < 2 or any(len(shape) != 2 for shape in operands) or operands[0][1] != operands[1][0]:
        return None
    return (operands[0][0], operands[1][1])


def broadcast(shapes: Sequence[Shape]) -> Shape | None:
    """The broadcast shape of tensors, or None if their shapes do not fit."""
    result: list[int] = []
    for axis in range(1, max(map(len, shapes)) + 1):
        sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


class Sides(msgspec.Struct, frozen=True):
    """A product of an `m` by `k` and a `k` by `n` matrix, `batch` times."""

    batch: int
    m: int
    n: int
    k: int


def sides(name: str, input_shapes: str | None) -> Sides | None:
    """The sides of a product; None for other operators, or if the shapes do not fit."""
    return sides_of(name, Inputs(input_shapes).shapes or ()) if name.removeprefix("aten::") in _AXES else None


def sides_of(name: str, shapes: Sequence[Shape]) -> Sides | None:
    """The sides of a product from the shapes of its inputs; None as in `sides`."""
    base = name.removeprefix("aten::")
    axes = _AXES.get(base)
    operands = shapes[1:3] if base in _AFTER_BIAS else shapes[:2]
    if axes is None or len(operands) < 2 or any(len(shape) != axes for shape in operands):
        return None
    a, b = operands
    if a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    return Sides(a[0] if axes == 3 else 1, a[-2], b[-1], a[-1])
