"""How many operations and bytes a call of an operator stands for, from what the profiler records of its inputs.

One file per family; this is the table of contents. An operator without a model has none: nothing is guessed.
Bytes are the least that must move if nothing stays in a cache: every operand and every result once.
"""

from __future__ import annotations

from traceanalyzer.trace import (
    op_models_attention,
    op_models_convolution,
    op_models_elementwise,
    op_models_gemm,
    op_models_normalization,
    op_models_reduction,
)
from traceanalyzer.trace.op_models_call import Call, Family, Work, parse

__all__ = ["MODELS", "Call", "Family", "Work", "family", "parse", "work"]

_BY_FAMILY = {
    Family.GEMM: op_models_gemm.MODELS,
    Family.CONVOLUTION: op_models_convolution.MODELS,
    Family.ATTENTION: op_models_attention.MODELS,
    Family.NORMALIZATION: op_models_normalization.MODELS,
    Family.ELEMENTWISE: op_models_elementwise.MODELS,
    Family.REDUCTION: op_models_reduction.MODELS,
}
MODELS = {name: model for models in _BY_FAMILY.values() for name, model in models.items()}
"""Per operator, without `aten::`, the function from a call to its work."""

_FAMILIES = {name: found for found, models in _BY_FAMILY.items() for name in models}
_NAMESPACES = ("aten::", "flash_attn::")


def family(name: str) -> Family | None:
    """Which models know an operator of this name (with its namespace); None for all others."""
    if not name.startswith(_NAMESPACES):
        return None
    return _FAMILIES.get(name.removeprefix("aten::"))


def work(call: Call) -> Work | None:
    """What a call has to do; None where there is no model, or where it would need what was not recorded."""
    model = MODELS.get(call.name)
    return None if model is None else model(call)
