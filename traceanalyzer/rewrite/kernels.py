"""What stands for the name of a kernel: public names as they are, the rest hashed with its class kept."""

from __future__ import annotations

import re
from functools import cache

from traceanalyzer.knowledge.generated_kernels import generated, is_generated
from traceanalyzer.knowledge.kernel_classes import kernel_class
from traceanalyzer.knowledge.kernel_names import is_communication, is_library_collective, uses_tensor_cores
from traceanalyzer.rewrite.public_names import LONGEST, public
from traceanalyzer.rewrite.secret import Secret

_TRIES = 40
_UNITS = ("", "hmma_", "simt_")
_CLASS_WORDS = (
    "custom", "gemm", "conv2d", "attn_fwd", "flash_fwd", "layer_norm", "elementwise", "rotary", "quant", "reduce",
    "softmax", "nll_loss", "copy_kernel", "memcpy", "store_kvcache", "gather", "nccl", "cross_device_reduce",
    "multi_tensor_apply", "adam_kernel", "triton_poi_fused_add_", "triton_poi_fused_clone_", "triton_red_fused_sum_",
    "triton_red_fused_layer_norm_", "triton_per_fused_sum_", "triton_per_fused_layer_norm_", "triton_tem_fused_mm_",
    "triton_tem_fused_convolution_", "triton_tem_fused_attention_", "triton_tem_fused_grouped_mm_", "triton_for_fused_",
    "triton_spl_fused_", "triton_", "embedding", "sort", "sampling", "lstm", "pool", "fused_moe", "routing", "getrf",
)  # fmt: skip
_WORDS = tuple(unit + word for word in _CLASS_WORDS for unit in _UNITS)
"""What a hidden name may begin with, so that it is of the class of the name that it hides, on the same units."""

_SIDES = r"(Pageable|Pinned|Device|Array|Managed|Unified|Device Static|Managed Static|Unknown|Host)"
_COPY = re.compile(
    rf"(Memcpy ([HDPAS]to[HDPAS]|Unknown|PtoP)|Memset)( \((Unknown|{_SIDES}( -> {_SIDES})?)\))?", re.ASCII
)
_FUSED = re.compile(r"(triton_(?:poi|per|red|for|tem|split_scan|mix)_fused)(_.*?)?(_[0-9]{1,6})?", re.DOTALL | re.ASCII)
_SPECIALIZED = re.compile(r"triton_(_([0-9]{1,3}[dce]{0,2}){1,60})?", re.ASCII)
_TOKEN = re.compile(
    r"([A-Za-z_][A-Za-z0-9_]*)|([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?[uUlL]{0,3}f?)|([ <>,:*&()\[\]{}#~+.=!|^%/-])"
)
_BASE = re.compile(r"(?:(?:void|int|float|double|bool) )?([^<( ]*(?:\(anonymous namespace\)[^<( ]*)*)")
_NUMBERS = re.compile(r"[0-9]+")
_FAMILY = re.compile(
    r"(ampere|volta|turing|maxwell|pascal|hopper|sm[0-9]{2,3}|cutlass(?:[0-9]|_[0-9]{2})?|nvjet|xmma|fmha|cask|Cijk|cudnn(?:_infer|_train)?"
    r"|nccl(?:Dev)?Kernel|_5x_cudnn)_(?=[A-Za-z0-9_])"
)
_LONGEST_FUSED = 600


class KernelNames:
    """Names of kernels of one file."""

    def __init__(self, secret: Secret, *, hash_generated: bool) -> None:
        """Set the key, and whether names that the compiler made of operators are hashed, too."""
        self._secret = secret
        self._hash_generated = hash_generated

    def of(self, name: str) -> str:
        """The anonymized name of a kernel or a copy."""
        if _COPY.fullmatch(name):
            return name
        if name.startswith("triton_"):
            return self._generated(name)
        found = self._in_parts(name) if len(name) <= LONGEST and name.isascii() else None
        return found if found is not None and _facts(found) == _facts(name) else self._whole(name)

    def _generated(self, name: str) -> str:
        if self._hash_generated:
            return self._whole(name)
        if _SPECIALIZED.fullmatch(name):
            return name
        match = _FUSED.fullmatch(name) if len(name) <= _LONGEST_FUSED else None
        if match is None:
            return self._whole(name)
        operators = match[2] or ""
        if not operators or operators[1:].isdecimal() or _are_operators(operators[1:]):
            return name
        hidden = f"{match[1]}_{self._secret.hide(operators, 'ops').removeprefix('ops_')}{match[3] or ''}"
        return hidden if _facts(hidden) == _facts(name) else self._whole(name)

    def _in_parts(self, name: str) -> str | None:
        """Replace unknown identifiers by hashes; None if the name of the kernel itself is unknown."""
        base = _BASE.match(name)
        if base is None or not base[1] or _unknown(base[1]):
            return None
        parts = []
        at = 0
        while at < len(name):
            token = _TOKEN.match(name, at)
            if token is None:
                return None
            parts.append(self._identifier(token[1]) if token[1] else token[0])
            at = token.end()
        return "".join(parts)

    def _identifier(self, word: str) -> str:
        if word in public("kernels"):
            return word
        family = _FAMILY.match(word)
        if family is None:
            return self._secret.hide(word, "type")
        return family[0] + "_".join(map(self._piece, word[family.end() :].split("_")))

    def _piece(self, piece: str) -> str:
        return piece if _is_word(piece) else self._secret.hide(piece, "x").removeprefix("x_")

    def _whole(self, name: str) -> str:
        facts = _facts(name)
        for attempt in range(_TRIES):  # digits of a hash may look like the shape of a matrix instruction
            hidden = self._secret.hide(f"{name}#{attempt}" if attempt else name, "kernel").removeprefix("kernel")
            for word in _WORDS:
                if _facts(word + hidden) == facts:
                    return word + hidden
        return self._secret.hide(name, "kernel")


def _unknown(base: str) -> bool:
    """Some part of the qualified name of a kernel is unknown."""
    words = [match[1] for match in _TOKEN.finditer(base) if match[1]]
    return not words or not all(word in public("kernels") or _FAMILY.match(word) for word in words)


def _is_word(piece: str) -> bool:
    """A word of a name scheme, with any numbers."""
    return piece == "" or _NUMBERS.sub("#", piece) in public("kernel_words")


@cache
def _operator_words() -> frozenset[str]:
    return frozenset(name.rpartition("::")[2] for name in public("operators")) | {"fused", "prepare_softmax_online"}


def _are_operators(text: str) -> bool:
    """Names of operators, joined by underscores."""
    known = _operator_words()
    pieces = text.split("_")
    reached = [True] + [False] * len(pieces)
    for end in range(1, len(pieces) + 1):
        reached[end] = any(
            reached[start] and "_".join(pieces[start:end]) in known for start in range(max(0, end - 12), end)
        )
    return reached[-1]


def _facts(kernel: str) -> tuple[object, ...]:
    """The facts that analyses read from the name of a kernel."""
    communicates = is_communication(kernel), is_library_collective(kernel)
    made = generated(kernel)
    kind = made.kind if made else is_generated(kernel)
    return kernel_class(kernel), kind, uses_tensor_cores(kernel), *communicates
