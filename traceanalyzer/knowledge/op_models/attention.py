"""Work of fused attention: its matrix products, and every operand and result once.

Softmax, masks and dropout are left out, as in the papers on FlashAttention. Pairs that a causal mask hides are not
counted. Packed sequences of different lengths (`cum_seq`) have no model, because their lengths are data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec

from traceanalyzer.knowledge.op_models.call import Call, Family, Tensor, Work, read_bytes, size, total

Mask = Literal["none", "top-left", "bottom-right"]


class _Places(msgspec.Struct, frozen=True):
    """Positions of arguments in a signature of ATen/native/native_functions.yaml (or of flash-attn)."""

    query: int
    """Position of the query; key and value follow it."""
    causal: int
    """Position of the causal flag, or of the mask type."""
    heads_first: bool
    """Whether tensors are (batch, heads, length, size), not (batch, length, heads, size)."""
    lengths: int | None = None
    """Position of the cumulative lengths of packed sequences."""
    bias: int | None = None
    mask_numbers: bool = False
    """Whether the mask is a number: 0 for none, 1 for causal, 2 for causal from the bottom right (CUTLASS)."""


def pairs(queries: int, keys: int, mask: Mask) -> int:
    """Number of pairs of query and key that a mask leaves.

    `top-left`: query i sees keys 0 to i. `bottom-right`: the last query sees all keys, each one before it one less.
    """
    if mask == "none":
        return queries * keys
    if mask == "top-left":
        ramp = min(queries, keys)
        return ramp * (ramp + 1) // 2 + (queries - ramp) * keys
    ramp = min(queries, keys)
    return ramp * (ramp + 1) // 2 + ramp * (keys - ramp)


def _mask(places: _Places, call: Call) -> Mask | None:
    if places.mask_numbers:
        numbers = call.integers(places.causal)
        known: dict[int, Mask] = {0: "none", 1: "top-left", 2: "bottom-right"}
        return known.get(numbers[0]) if numbers else None
    causal = call.flag(places.causal)
    return None if causal is None else ("top-left" if causal else "none")


def _products(places: _Places, call: Call) -> tuple[int, int, tuple[Tensor, Tensor, Tensor]] | None:
    """Number of pairs over all heads times the key size, the same times the value size, and the three operands."""
    query, key, value = (call.tensor(places.query + i) for i in range(3))
    mask = _mask(places, call)
    if query is None or key is None or value is None or mask is None:
        return None
    if any(len(tensor.shape) != 4 for tensor in (query, key, value)):
        return None
    if places.lengths is not None and call.tensor(places.lengths) is not None:
        return None
    heads, length = (1, 2) if places.heads_first else (2, 1)
    if query.shape[3] != key.shape[3] or key.shape[length] != value.shape[length]:
        return None
    count = query.shape[0] * query.shape[heads] * pairs(query.shape[length], key.shape[length], mask)
    return count * key.shape[3], count * value.shape[3], (query, key, value)


def _forward(places: _Places, call: Call) -> Work | None:
    """Work of two products: scores, and the weighted sum of values."""
    products = _products(places, call)
    if products is None:
        return None
    scores, sums, (query, key, value) = products
    bias = call.tensor(places.bias) if places.bias is not None else None
    result = query.numel // query.shape[3] * value.shape[3] if query.shape[3] else 0
    moved = total(read_bytes((query, key, value, bias)), size(result, query.dtype))
    return Work(Family.ATTENTION, 2 * (scores + sums), moved, query.dtype)


def _backward(places: _Places, call: Call) -> Work | None:
    """Work of five products: scores again, and gradients of values, weights, queries and keys."""
    products = _products(places, call)
    grad = call.tensor(0)
    if products is None or grad is None:
        return None
    scores, sums, (query, key, value) = products
    out = next((t for t in call.arguments[places.query + 3 :] if t is not None and t.shape == grad.shape), None)
    gradients = [size(tensor.numel, tensor.dtype) for tensor in (query, key, value)]
    moved = total(read_bytes((grad, query, key, value, out)), *gradients)
    return Work(Family.ATTENTION, 2 * (3 * scores + 2 * sums), moved, query.dtype)


MODELS: dict[str, Callable[[Call], Work | None]] = {
    "scaled_dot_product_attention": partial(_forward, _Places(0, 5, True)),
    "_scaled_dot_product_flash_attention": partial(_forward, _Places(0, 4, True)),
    "_scaled_dot_product_efficient_attention": partial(_forward, _Places(0, 6, True, bias=3)),
    "_scaled_dot_product_cudnn_attention": partial(_forward, _Places(0, 6, True, bias=3)),
    "_flash_attention_forward": partial(_forward, _Places(0, 8, False, lengths=3)),
    "_efficient_attention_forward": partial(_forward, _Places(0, 9, False, lengths=4, bias=3, mask_numbers=True)),
    "_cudnn_attention_forward": partial(_forward, _Places(0, 10, True, lengths=4, bias=3)),
    "flash_attn::_flash_attn_forward": partial(_forward, _Places(0, 5, False)),
    "_scaled_dot_product_flash_attention_backward": partial(_backward, _Places(1, 11, True, lengths=6)),
    "_scaled_dot_product_efficient_attention_backward": partial(_backward, _Places(1, 11, True)),
    "_scaled_dot_product_cudnn_attention_backward": partial(_backward, _Places(1, 14, True, lengths=9)),
    "_flash_attention_backward": partial(_backward, _Places(1, 11, False, lengths=6)),
    "_efficient_attention_backward": partial(_backward, _Places(1, 14, False, lengths=6, mask_numbers=True)),
    "flash_attn::_flash_attn_backward": partial(_backward, _Places(1, 11, False)),
}
