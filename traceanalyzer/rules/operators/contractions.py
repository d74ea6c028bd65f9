"""Code in place of operators: of a sum over a huge broadcast tensor, and of a loop."""

from __future__ import annotations

import string
from collections.abc import Iterable
from math import prod

from traceanalyzer.rules.engine.facts import OperatorFact

OF_LOOPS = {
    "groups": "sums = x.new_zeros(groups, *x.shape[1:]).index_add_(0, labels, x)  # of all groups at once",
    "boxes": "keep = torchvision.ops.batched_nms(boxes, scores, classes, 0.5)  # of all classes at once",
    "frames": "torch.stft(signals, n_fft, hop, window=window, center=False, return_complex=True)  # all frames at once",
}
"""One call that does all of a loop, by what that computes."""

_SQUARES = frozenset({"aten::pow", "aten::pow_", "aten::square", "aten::mul", "aten::mul_", "aten::abs", "aten::norm"})
"""What follows a difference that is part of a distance."""
_CDIST = "d = torch.cdist(a, b).square()  # instead of ((a[:, None] - b) ** 2).sum(-1)"

_OF_AN_AXIS = frozenset({"argmax", "argmin", "max", "min", "softmax", "cumsum"})
"""Operators whose call may be written with nothing but an axis."""
_ACTS = frozenset(
    {"relu", "leaky_relu", "prelu", "hardtanh", "softplus", "sigmoid", "tanh", "gelu", "silu", "elu", "exp"}
)
_BENDS = _ACTS | {"clamp", "clamp_min", "clamp_max", "threshold", "maximum", "minimum", "where", "masked_fill"}
"""Operators after which the sum of products is no product of matrices."""


def is_bent(rows: Iterable[OperatorFact], elements: int) -> bool:
    """Whether something acts on each of so many elements that no contraction does, such as a margin's clamp."""
    bending = (row for row in rows if row.name.removeprefix("aten::").removesuffix("_") in _BENDS)
    return any(row.inputs.tensors and prod(row.inputs.tensors[0]) == elements for row in bending)


def on_gpu(operator: str) -> str | None:
    """Code that computes an operator where its input is; None for that of the rule, which sorts; else empty."""
    if operator in ("aten::sort", "aten::argsort"):
        return None
    base = operator.removeprefix("aten::")
    return f"found = scores.{base}(dim=1)  # on the GPU; copy only the result" if base in _OF_AN_AXIS else ""


def instead(root: OperatorFact, members: Iterable[OperatorFact]) -> str | None:
    """Code in place of operators on a tensor that one of them makes; None for that of the rule, empty for none.

    Args:
        root: The operator that makes the tensor.
        members: All operators on tensors of its size.
    """
    name = root.name.removesuffix("_")
    if name == "aten::sub":
        return _CDIST if _are_distances(root, members) else ""
    if name.startswith("aten::mul"):
        return _einsum(root)
    return None if name in ("aten::mm", "aten::bmm", "aten::matmul", "aten::addmm", "aten::baddbmm") else ""


def _are_distances(root: OperatorFact, members: Iterable[OperatorFact]) -> bool:
    """Whether differences of all pairs of vectors are made and squared: [n, 1, d] less [1, k, d]."""
    shapes = root.inputs.tensors
    if len(shapes) != 2 or min(map(len, shapes)) < 2 or not any(row.name in _SQUARES for row in members):
        return False
    (*_, rows, size), (*_, columns, other) = shapes
    return size == other > 1 and min(rows, columns) == 1 < max(rows, columns)


def _einsum(root: OperatorFact) -> str | None:
    """Code for two tensors that share one axis, which must be the summed one; None if shapes do not show it."""
    operands = root.inputs.tensors
    if len(operands) != 2 or len(operands[0]) != len(operands[1]):
        return None
    shared = [axis for axis, sizes in enumerate(zip(*operands, strict=True)) if min(sizes) > 1]
    if len(shared) != 1:
        return None
    letters = string.ascii_lowercase[: len(operands[0])]
    left = letters.replace(letters[shared[0]], "")
    return f'y = torch.einsum("{letters},{letters}->{left}", a, b)  # instead of (a * b).sum({shared[0]})'
