"""Tells optimizers that compute matrices of their own from those that do arithmetic on parameters."""

from __future__ import annotations

import re

from traceanalyzer.analyzers.optimizer import Optimizer

_SECOND_ORDER = re.compile("shampoo|soap|kfac|k_fac", re.IGNORECASE)
_ORTHOGONAL = re.compile("muon|#dion|zeropower|newton_?schulz|orthogonal", re.IGNORECASE)
"""Names of optimizers whose update itself is a matrix made orthogonal, so that it cannot be an old one."""
_PRODUCTS = frozenset({"aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm"})
_DECOMPOSES = re.compile("linalg_|svd|eig|qr|cholesky|inverse")
_ITERATIONS = 5
"""Matrix multiplications of an update from which on they are iterations that make a matrix orthogonal, if nothing is
decomposed (own choice: Newton and Schulz need three in each of five iterations, for each matrix)."""


def kind(row: Optimizer) -> str | None:
    """What it computes: `second-order` preconditioners, or an `orthogonal` update; None for plain arithmetic."""
    if _SECOND_ORDER.search(row.name):
        return "second-order"
    return "orthogonal" if _is_orthogonal(row) else None


def _is_orthogonal(row: Optimizer) -> bool:
    """Whether it makes its update orthogonal, by its name or by matrix multiplications without a decomposition."""
    products = sum(entry.calls for entry in row.operators if entry.name in _PRODUCTS)
    is_iterating = products >= _ITERATIONS * row.calls
    is_iterating &= not any(_DECOMPOSES.search(entry.name) for entry in row.operators)
    return is_iterating or _ORTHOGONAL.search(row.name) is not None
