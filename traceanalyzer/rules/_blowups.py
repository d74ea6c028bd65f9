"""Finds operators that create, use and sum up tensors far larger than their inputs, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from traceanalyzer.knowledge.op_shapes import BINARY, Shape, broadcast
from traceanalyzer.rules._products import sides_of

_REDUCTIONS = frozenset(
    {"sum", "mean", "amax", "amin", "max", "min", "logsumexp", "norm", "linalg_vector_norm", "prod"}
)
_FAMILY = (
    BINARY | _REDUCTIONS | frozenset({"copy_", "neg", "exp", "abs", "sqrt", "relu", "clamp_min", "tanh", "sigmoid"})
)


def blown_up(name: str, shapes: Sequence[Shape], expansion: float) -> tuple[int, float] | None:
    """Elements of the result, and their ratio to those of the largest input, if the result is that much larger."""
    base, tensors = name.removeprefix("aten::"), [shape for shape in shapes if shape]
    if base in BINARY and len(tensors) > 1:
        result = broadcast(tensors)
        made = math.prod(result) if result else 0
    else:
        found = sides_of(name, shapes)
        made = found.batch * found.m * found.n if found is not None and found.k == 1 else 0
    largest = max((math.prod(shape) for shape in tensors), default=0)
    return (made, made / largest) if largest and made >= expansion * largest else None


def reduced(name: str, shapes: Sequence[Shape]) -> int | None:
    """Elements of the tensor that a reduction sums up, as `sum` or as a product with one column."""
    if name.removeprefix("aten::") in _REDUCTIONS:
        return math.prod(shapes[0]) if shapes and shapes[0] else None
    found = sides_of(name, shapes)
    return found.batch * found.m * found.k if found is not None and found.n == 1 else None


def belongs(name: str, shapes: Sequence[Shape], elements: int) -> bool:
    """Whether an operator reads or writes a tensor of that size, and is not a real matrix product."""
    found = sides_of(name, shapes)
    sizes = {math.prod(shape) for shape in shapes if shape}
    if found is not None:
        return 1 in (found.m, found.n, found.k) and elements in sizes | {found.batch * found.m * found.n}
    if name.removeprefix("aten::") not in _FAMILY:
        return False
    tensors = [shape for shape in shapes if shape]
    result = broadcast(tensors) if name.removeprefix("aten::") in BINARY and tensors else None
    return elements in sizes or (result is not None and math.prod(result) == elements)
