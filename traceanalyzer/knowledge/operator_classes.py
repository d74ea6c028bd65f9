"""Tells from its name what an operator does on a device, for tables that do not show its kernels."""

from __future__ import annotations

from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_patterns import KernelClass
from traceanalyzer.knowledge.op_models import Family, family

_OF_FAMILY = {
    Family.GEMM: KernelClass.GEMM,
    Family.CONVOLUTION: KernelClass.CONVOLUTION,
    Family.ATTENTION: KernelClass.ATTENTION,
    Family.NORMALIZATION: KernelClass.NORMALIZATION,
    Family.ELEMENTWISE: KernelClass.ELEMENTWISE,
    Family.REDUCTION: KernelClass.REDUCTION,
}
_COLLECTIVES = ("c10d::", "_c10d_functional::", "c10d_functional::")
_MOVING = """
_index_put_impl_ cat gather index index_add_ index_copy_ index_put_ index_select masked_fill_ masked_scatter_
masked_select repeat roll scatter_ scatter_add_ slice_backward stack take
"""
_MOVES = frozenset(_MOVING.split())
"""Operators that move elements without a model of how many."""


def operator_class(name: str) -> KernelClass:
    """What an operator does; `OTHER` when its name does not tell. Until torch 1.7 names have no `aten::`."""
    if name.startswith(_COLLECTIVES):
        return KernelClass.COMMUNICATION
    base = name.removeprefix("aten::")
    known = family(f"aten::{base}")
    if known is not None:
        return _OF_FAMILY[known]
    return KernelClass.COPY if base in _MOVES else kernel_class(name)
