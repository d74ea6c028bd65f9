"""What advice changes of a call: each variant as code, and which of them fit a call or the rule of a finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traceanalyzer.reproduction import arguments
from traceanalyzer.reproduction.arguments import RecordedTensor
from traceanalyzer.reproduction.calls import RecordedCall

CONTIGUOUS, CHANNELS_LAST, BFLOAT16, FLOAT32 = "contiguous", "channels_last", "bfloat16", "float32"
PADDED, TF32, COMPILED, FUSED = "padded", "tf32", "compiled", "fused"

OF_TENSORS = {
    CONTIGUOUS: "lambda t: t.contiguous()",
    CHANNELS_LAST: "lambda t: t.to(memory_format=torch.channels_last) if t.dim() == 4 else t",
    BFLOAT16: "lambda t: t.to(torch.bfloat16) if t.dtype == torch.float32 else t",
    FLOAT32: "lambda t: t.to(torch.float32) if t.dtype == torch.float64 else t",
    PADDED: "lambda t: F.pad(t, [p for n in t.shape[:-3:-1] for p in (0, -n % 8)])",
}
"""Variants that change the tensors of a call."""

_ADVISED = {
    "copies-materialized": (CONTIGUOUS, COMPILED),
    "conv-layout-transposes": (CHANNELS_LAST,),
    "mixed-precision-unused": (BFLOAT16,),
    "tensor-cores-unused": (BFLOAT16, PADDED),
    "matmul-dims-misaligned": (PADDED,),
    "gemm-degenerate": (PADDED,),
    "gemm-below-roof": (CONTIGUOUS, PADDED, BFLOAT16),
    "shape-roofline-gap": (CONTIGUOUS, CHANNELS_LAST),
    "fp64-on-gpu": (FLOAT32,),
    "product-left-wide": (BFLOAT16,),
    "tf32-disabled": (TF32,),
    "elementwise-fusion-chain": (COMPILED,),
    "launch-bound-small-kernels": (COMPILED,),
    "broadcast-blowup": (COMPILED,),
    "attention-unfused": (FUSED, COMPILED),
    "sdpa-math": (FUSED,),
}
"""Variants that the advice of a rule names."""
_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "_addmm_activation"})
_ALIGNED = frozenset({"mm", "bmm", "addmm", "baddbmm"})
"""Products all of whose axes may be longer."""
_CONVOLUTIONS = ("conv", "cudnn_conv", "miopen_conv", "mkldnn_conv", "_conv", "slow_conv", "thnn_conv")
_ATTENTIONS = frozenset({"_scaled_dot_product_attention_math", "scaled_dot_product_attention"})


@dataclass(frozen=True)
class Variant:
    """A variant of the calls."""

    name: str
    is_advised: bool
    """Whether the advice of the finding names it."""


def of(calls: Sequence[RecordedCall], rule: str | None) -> tuple[Variant, ...]:
    """The variants of some calls that follow each other: those that advice names, then others that fit."""
    advised = _ADVISED.get(rule or "", ())
    tensors = [tensor for call in calls for tensor in arguments.of(call.short, call.inputs).tensors]
    fitting = _fitting(calls, tensors)
    possible = {*fitting, TF32, COMPILED} - ({FUSED} if FUSED not in fitting else set())
    named = [name for name in advised if name in possible]
    return tuple(Variant(name, name in named) for name in dict.fromkeys((*named, *fitting)))


def _fitting(calls: Sequence[RecordedCall], tensors: Sequence[RecordedTensor]) -> list[str]:
    """The variants that change something of the calls."""
    names = {call.short for call in calls}
    kinds = {tensor.kind for tensor in tensors}
    is_convolution = any(name.startswith(_CONVOLUTIONS) for name in names)
    is_product = is_convolution or bool(names & (_PRODUCTS | _ATTENTIONS))
    fits = {
        FUSED: is_fusable(calls),
        COMPILED: len(calls) > 1,
        CONTIGUOUS: not all(tensor.is_contiguous for tensor in tensors),
        CHANNELS_LAST: is_convolution and any(len(tensor.shape) == 4 for tensor in tensors),
        BFLOAT16: is_product and "float32" in kinds,
        FLOAT32: is_product and "float64" in kinds,
        PADDED: names <= _ALIGNED and any(size % 8 for tensor in tensors for size in tensor.shape[-2:]),
    }
    return [name for name, does_fit in fits.items() if does_fit]


def is_fusable(calls: Sequence[RecordedCall]) -> bool:
    """Whether the calls are an attention that one call can compute."""
    names = [call.short for call in calls]
    pieces = len(names) == 3 and names[0] in ("bmm", "baddbmm") and "softmax" in names[1] and names[2] == "bmm"
    return pieces or (len(names) == 1 and names[0] in _ATTENTIONS)
