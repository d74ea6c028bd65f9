"""Counts the operations and bytes of a call of an operator, from what the profiler records of its inputs.

One file per family; this is the table of contents. An operator without a model has none: nothing is guessed.
Bytes are the least that must move if nothing stays in a cache: every operand and every result once.
"""

from __future__ import annotations

from traceanalyzer.knowledge.op_models import attention, convolution, elementwise, gemm, normalization, reduction
from traceanalyzer.knowledge.op_models.call import Call, Family, Work, parse

__all__ = ["MODELS", "Call", "Family", "Work", "family", "parse", "work"]

_BY_FAMILY = {
    Family.GEMM: gemm.MODELS,
    Family.CONVOLUTION: convolution.MODELS,
    Family.ATTENTION: attention.MODELS,
    Family.NORMALIZATION: normalization.MODELS,
    Family.ELEMENTWISE: elementwise.MODELS,
    Family.REDUCTION: reduction.MODELS,
}
MODELS = {name: model for models in _BY_FAMILY.values() for name, model in models.items()}
"""For each operator, without `aten::`, the function from a call to its work."""

_FAMILIES = {name: found for found, models in _BY_FAMILY.items() for name in models}
_NAMESPACES = ("aten::", "flash_attn::")


def family(name: str) -> Family | None:
    """The family of models that knows an operator of this name (with its namespace); None for all others."""
    if not name.startswith(_NAMESPACES):
        return None
    return _FAMILIES.get(name.removeprefix("aten::"))


def work(call: Call) -> Work | None:
    """Operations and bytes of a call; None without a model, or if it would need what was not recorded."""
    model = MODELS.get(call.name)
    return None if model is None else model(call)
