"""Parses the names of generated kernels: their kind, and the operators that Inductor fused in them.

Inductor calls a kernel `triton_<kind>_fused_<operators>_<number>`, with the names of the operators sorted and joined by
underscores (torch/_inductor/codegen/triton.py and wrapper.py). Operator names contain underscores too, so the longest
known name that fits is taken; a word that begins no known name counts as one operator.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from traceanalyzer.knowledge.kernel_names import NAMES_KEPT
from traceanalyzer.knowledge.kernel_patterns import KernelClass

KINDS = {
    "poi": "pointwise",
    "red": "reduction",
    "per": "persistent reduction",
    "tem": "template",
    "for": "foreach",
    "spl": "split scan",
}
"""Kinds by the three letters by which Inductor abbreviates them in names."""

_FUSED = re.compile(r"triton_(poi|red|per|tem|for|spl)_fused(?:_(.*?))??(?:_?(?<=_)(\d+))?", re.DOTALL | re.ASCII)
_GENERATED = re.compile(r"^triton_|^CudaCodeGen::|^fused_\w+_\d{12,}$")
_LONGEST = 600

_NAMES = """
_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _assert_async _batch_norm_with_update _embedding_bag
_flash_attention_forward _flash_attn_backward _flash_attn_forward _fused_adam _fused_rms_norm _fused_rms_norm_backward
_grouped_mm _int_mm _local_scalar_dense _log_softmax _log_softmax_backward_data _native_batch_norm_legit
_native_batch_norm_legit_functional _native_batch_norm_legit_no_training _prelu_kernel _prelu_kernel_backward
_scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
_scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
_scaled_dot_product_flash_attention_backward _scaled_mm _softmax _softmax_backward_data _to_copy _to_sparse
_unsafe_index _unsafe_index_put _unsafe_masked_index _unsafe_view _upsample_bicubic2d_aa _upsample_bilinear2d_aa
_weight_int8pack_mm _weight_norm_interface adaptive_avg_pool2d adaptive_avg_pool2d_backward adaptive_max_pool2d
add_inplace addcdiv addcmul all_gather all_gather_into_tensor all_reduce all_to_all_single as_strided avg_pool2d
avg_pool2d_backward avg_pool3d batch_norm batch_norm_backward binary_cross_entropy binary_cross_entropy_with_logits
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor broadcast_to bucketize clamp_max
clamp_min constant_pad_nd convert_element_type convolution_backward cross_entropy_loss cudnn_batch_norm
cudnn_batch_norm_backward diagonal_copy div_ elu_backward embedding_bag embedding_dense_backward empty_like
empty_strided expand_as fft_c2c fft_c2r fft_r2c flash_attn_func flex_attention flex_attention_backward floor_divide
full_like fused_rms_norm gather_backward gelu_backward glu_backward grid_sampler_2d group_norm grouped_mm
hardsigmoid_backward hardswish_backward hardtanh_backward huber_loss huber_loss_backward index_add index_copy
index_fill index_put index_select inductor_lookup_seed inductor_random inductor_seeds layer_norm leaky_relu
leaky_relu_backward lift_fresh lift_fresh_copy linalg_norm linalg_vector_norm log_sigmoid_backward log_sigmoid_forward
log_softmax logical_and logical_not logical_or logical_xor masked_fill masked_fill_backward masked_scatter
max_pool2d_with_indices max_pool2d_with_indices_backward mean_backward mkldnn_rnn_layer mm_backward moe_forward
moe_forward_shared mse_loss mse_loss_backward mul_inplace native_batch_norm native_batch_norm_backward native_dropout
native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm native_layer_norm_backward
new_empty new_empty_strided new_full new_ones new_zeros nll_loss2d_backward nll_loss2d_forward nll_loss_backward
nll_loss_forward nonzero_static ones_like permute_copy pixel_shuffle prepare_softmax_online prims_convert_element_type
rand_like randint_like randn_like reduce_scatter_tensor reflection_pad1d reflection_pad2d relu_backward
repeat_interleave replication_pad2d rms_norm rms_norm_backward rotary_embedding scalar_tensor
scaled_dot_product_attention scaled_mm scatter_add scatter_reduce select_backward select_scatter sigmoid_backward
silu_and_mul silu_backward slice_backward slice_scatter smooth_l1_loss smooth_l1_loss_backward soft_margin_loss
softmax_backward_data softplus_backward split_with_sizes split_with_sizes_copy squeeze_copy std_mean sum_to_size
sym_size tanh_backward threshold_backward to_copy topk_backward transpose_copy unsafe_index unsafe_index_put
unsafe_view unsqueeze_copy upsample_bicubic2d upsample_bilinear2d upsample_bilinear2d_backward upsample_nearest2d
upsample_nearest2d_backward var_mean wait_tensor weight_norm_interface where_self zeros_like
"""
_OF_SEVERAL_WORDS = frozenset(_NAMES.split())
"""Operators as Inductor writes them, without namespace and overload (native_functions.yaml, decompositions)."""

_MOST_WORDS = max(name.count("_") + 1 for name in _OF_SEVERAL_WORDS)
_MOVING = """
_to_copy _unsafe_index _unsafe_view as_strided cat clone constant_pad_nd convert_element_type copy copy_ diagonal_copy
empty empty_like expand fill full full_like gather index index_put index_select lift_fresh lift_fresh_copy new_empty
new_zeros ones ones_like permute repeat reshape roll scalar_tensor select select_backward select_scatter slice
slice_backward slice_scatter split split_with_sizes squeeze stack t to_copy transpose unbind unsqueeze view zeros
zeros_like
"""
_MOVES = frozenset(_MOVING.split())
_NORMS = re.compile(r"_norm(_|$)(?!.*vector)")
_PLAIN_NORMS = frozenset({"linalg_vector_norm", "linalg_norm", "_weight_norm_interface", "weight_norm_interface"})


class Generated(msgspec.Struct, frozen=True):
    """The parts of the name of a generated kernel."""

    kind: str
    """One of `KINDS`: `pointwise`, `reduction`, `persistent reduction`, `template`, `foreach` or `split scan`."""
    operators: tuple[str, ...]
    """The fused operators in the order of the name; empty if the name has none."""


def is_generated(name: str) -> bool:
    """Whether a kernel's name shows that a compiler generated it: Inductor, NNC, or TorchScript's fuser."""
    return _GENERATED.search(name[:_LONGEST]) is not None


@lru_cache(NAMES_KEPT)
def generated(name: str) -> Generated | None:
    """Parse the name of a kernel that Inductor generated; None for other names."""
    if not name.startswith("triton_") or len(name) > _LONGEST:
        return None
    match = _FUSED.fullmatch(name)
    if match is None:
        return None
    return Generated(KINDS[match[1]], operators_of(match[2] or ""))


def operators_of(joined: str) -> tuple[str, ...]:
    """Split the operators that Inductor joined; `_to_copy_add_native_layer_norm` contains three."""
    words = joined.split("_") if joined else []
    found, at = [], 0
    while at < len(words):
        length = next((n for n in range(min(_MOST_WORDS, len(words) - at), 1, -1) if _known(words[at : at + n])), 1)
        if length == 1 and not words[at] and at + 1 < len(words):
            length = 2  # the operator name begins with an underscore
        name = "_".join(words[at : at + length])
        at += length
        if name:
            found.append(name)
    return tuple(found)


def _known(words: list[str]) -> bool:
    return "_".join(words) in _OF_SEVERAL_WORDS


def class_of_generated(kernel: Generated) -> KernelClass:
    """The class of a generated kernel, by its kind and its operators."""
    operators = kernel.operators
    if kernel.kind == "template":
        return _class_of_template(operators)
    if kernel.kind == "foreach":
        return KernelClass.OPTIMIZER
    if kernel.kind == "split scan":
        return KernelClass.SORTING
    if kernel.kind == "pointwise":
        return KernelClass.COPY if operators and _MOVES.issuperset(operators) else KernelClass.ELEMENTWISE
    return KernelClass.NORMALIZATION if _normalizes(operators) else KernelClass.REDUCTION


def _class_of_template(operators: tuple[str, ...]) -> KernelClass:
    text = " ".join(operators)
    if "attention" in text:
        return KernelClass.ATTENTION
    if "convolution" in text:
        return KernelClass.CONVOLUTION
    return KernelClass.MOE if "grouped_mm" in text else KernelClass.GEMM


def _normalizes(operators: tuple[str, ...]) -> bool:
    """Whether operators contain a norm, or a written-out RMS norm: mean, square and inverse square root."""
    named = any(_NORMS.search(name) and name not in _PLAIN_NORMS for name in operators)
    return named or {"mean", "rsqrt"}.issubset(operators)
