"""Counts the operations and bytes of an operator call from its recorded inputs.

Each family has one file; this is the table of contents. Operators without a model get no estimate.
Bytes are the least that must move if nothing stays in a cache: every operand and every result once.
"""

from __future__ import annotations

from traceanalyzer.knowledge.op_models import attention, convolution, elementwise, gemm
from traceanalyzer.knowledge.op_models.call import Call, Family, Work, call_of

__all__ = ["MODELS", "Call", "Family", "Work", "call_of", "family", "work"]

_BY_FAMILY = {
    Family.GEMM: gemm.MODELS,
    Family.CONVOLUTION: convolution.MODELS,
    Family.ATTENTION: attention.MODELS,
    Family.NORMALIZATION: elementwise.NORMALIZATIONS,
    Family.ELEMENTWISE: elementwise.ELEMENTWISE,
    Family.REDUCTION: elementwise.REDUCTIONS,
}
MODELS = {name: model for models in _BY_FAMILY.values() for name, model in models.items()}
"""For each operator, without `aten::`, the function that computes the work of a call."""

_FAMILIES = {name: found for found, models in _BY_FAMILY.items() for name in models}
_NAMESPACES = ("aten::", "flash_attn::")


def family(name: str) -> Family | None:
    """The family of an operator (name with namespace); None for operators without a model."""
    if not name.startswith(_NAMESPACES):
        return None
    return _FAMILIES.get(name.removeprefix("aten::"))


def work(call: Call) -> Work | None:
    """Operations and bytes of a call; None without a model, or if it needs data that was not recorded."""
    model = MODELS.get(call.name)
    return None if model is None else model(call)
