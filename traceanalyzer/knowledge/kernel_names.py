"""Tells from a kernel's name whether it communicates, and whether it uses tensor cores.

Tables of patterns, first match wins; tests/knowledge/test_kernel_names.py holds an example of each line.
"""

from __future__ import annotations

import re
from functools import lru_cache

from traceanalyzer.knowledge.first_match import FirstMatch

_COMMUNICATION = re.compile(
    r"^(void )?(nccl|rccl|msccl|oneccl|ccl_|hccl|xccl)"
    r"|^(allreduce|allgather|reduce_scatter)_kernel|oneapi::ccl|ccl_kernel",
    re.IGNORECASE,
)

_MATRIX_UNITS: tuple[tuple[str, bool | None], ...] = (
    # Generated code: its numbers are serial numbers. Templates (tem) hold products, on which unit is not said.
    (r"^triton_tem_", None),
    (r"^triton_(poi|per|red|for)_", False),
    # Kernels beside the products, in libraries whose names would tell otherwise.
    (r"flash_bwd_(dot_do_o|convert_d|clear_d)|splitkv_combine|BwdPreprocess|BwdPostprocess|FwdCombine|repack", False),
    (r"^(void )?at::native::(?!tinygemm)|at_cuda_detail|cub::|thrust::|multi_tensor_apply", False),
    # Arithmetic outside of matrix units, by the library's own word.
    (r"simt|ffma|sgemm|scudnn|gemv|gemmSN|gemmk1|dot_kernel|splitKreduce|f32_aligned\w*_sm(50|70|75)", False),
    (r"miopenGcnAsmConv1x1|winograd|fft|precomputed_convolve|(dgrad|wgrad)_(engine|alg0|alg1)", False),
    # NVIDIA: the shape of the matrix instruction, or the library's word for it.
    (r"(?<![a-z])[hsdci](884|1688|8816|16816|16832|161616|16864)(?!\d)|(?<![a-z])d884gemm", True),
    (r"tensorop|tensor\d+x\d+x\d+|[hiqdb]mma(?![a-z])|wgmma|gmma|umma|tcgen05|MMA_Atom|CollectiveMma|tinygemm", True),
    (r"nvjet|xmma_(cudnn|(\w+_)?implicit_gemm|gemm|sparse|warp_specialized)|sm\d+_xmma", True),
    (r"first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group|dgrad_1x1_stride_2x2", True),  # cuDNN, half
    (r"flash_(fwd|bwd)|flash::|fmha|FlashAttn|mha_(fwd|bwd)|native_sdpa|deep_gemm|marlin|machete", True),
    # AMD: MFMA (CDNA) and WMMA (RDNA) instructions; Tensile writes MI16x16, CK xdl(ops), MIOpen gtcx.
    (r"mfma|wmma|xdlops|xdl_|_xdl|Cijk_.*_MI\d|igemm_\w+_gtcx|ck_tile.*(Fmha|Gemm)", True),
    # Everything else that is known not to be a product on matrix units.
    (r"dgemm|cgemm|zgemm|implicit_convolve|Cijk_", False),
    (r"elementwise|reduce|softmax|batch_?norm|bn_|layer_?norm|rms_?norm|rotary|silu|gelu|activation", False),
    (r"nchwToNhwc|nhwcToNchw|transpose|copy|fill|memset|memcpy|pool|dropout|index|gather|scatter|sort", False),
    (r"embedding|cat_?array|sampl|topk|argmax", False),
)

READ = 1000
"""Characters of a name that are looked at. What decides stands within the first 600 of all 544 names of the corpus, of
which the longest has 5,123; reading more only takes time."""

NAMES_KEPT = 1 << 20
"""Names whose answers are kept, because several analyses and rules ask for each. A trace with more distinct names would
find none of them again, as each pass over them would throw out what the next one needs first."""

_TABLE = FirstMatch(_MATRIX_UNITS)


@lru_cache(NAMES_KEPT)
def is_communication(name: str) -> bool:
    """Whether a kernel is one of a collective library (NCCL, RCCL, oneCCL, HCCL), by its own name."""
    return _COMMUNICATION.search(name) is not None


@lru_cache(NAMES_KEPT)
def uses_tensor_cores(name: str) -> bool | None:
    """Whether a kernel computes on matrix units (tensor cores, MFMA); None when its name does not tell."""
    return False if is_communication(name) else _TABLE.find(name[:READ])
