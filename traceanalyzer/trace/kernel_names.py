"""What the name of a kernel tells: whether it communicates, whether it uses tensor cores.

Tables of patterns, first match wins; tests/trace/test_kernel_names.py holds an example of each line.
"""

from __future__ import annotations

import re
from functools import lru_cache

_COMMUNICATION = re.compile(
    r"^(void )?(nccl|rccl|oneccl|ccl_|hccl|xccl)|^(allreduce|allgather|reduce_scatter)_kernel|oneapi::ccl|ccl_kernel",
    re.IGNORECASE,
)

_MATRIX_UNITS: tuple[tuple[str, bool], ...] = (
    # NVIDIA, by the shape of the instruction that the library puts into the name.
    (r"[hs]884|[hs]1688|16816|16832|1688|i8816|c1688|hmma|imma|dmma|qgmma|hgmma|igmma|bgmma|_884", True),
    (r"wgmma|gmma|tcgen05|utcmma", True),
    (r"tensorop|nvjet|xmma_(implicit_gemm|gemm|sparse|warp_specialized)", True),
    (r"first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group|dgrad_1x1_stride_2x2", True),  # cuDNN, fp16
    (r"flash_(fwd|bwd)|flash::|fmha|FlashAttn|mha_(fwd|bwd)|cudnn_generated_fort_native_sdpa", True),
    (r"(sm(80|86|89|90|100|103|120)_xmma|cutlass.*_(bf16|f16|tf32|e4m3|e5m2)_)", True),
    (r"deep_gemm|marlin|machete", True),
    # AMD: MFMA (CDNA) and WMMA (RDNA) instructions; Tensile writes them as MI16x16, CK as xdl(ops).
    (r"mfma|wmma|xdlops|xdl_|_xdl|Cijk_.*_MI\d|Cijk_.*MFMA", True),
    (r"ck_tile.*(Fmha|Gemm)|FmhaFwd|FmhaBwd", True),
    # Plain arithmetic, by name.
    (
        r"sgemm|dgemm|scudnn|ffma|simt|gemv|gemmSN|gemmk1|splitKreduce|splitKreduce_kernel|dot_kernel|cgemm",
        False,
    ),
    (r"winograd|fft|implicit_convolve_sgemm|precomputed_convolve|(dgrad|wgrad)_(engine|alg0|alg1)", False),
    (r"Cijk_", False),  # Tensile without a matrix instruction
    (r"at::native|at_cuda_detail|elementwise|reduce|softmax|batch_?norm|bn_|layer_?norm|rms_?norm", False),
    (
        r"nchwToNhwc|nhwcToNchw|transpose|copy|fill|memset|memcpy|pool|dropout|index|gather|scatter|sort",
        False,
    ),
    (r"triton_(poi|per|red)_", False),  # inductor: pointwise and reductions; templates (tem) may be either
    (r"multi_tensor_apply|cub::|thrust::|DeviceReduce|DeviceScan|embedding|cat_?array|CatArray", False),
    (r"rotary|silu|gelu|activation|sampl|topk|argmax", False),
)

_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), used) for pattern, used in _MATRIX_UNITS)


@lru_cache(maxsize=1 << 16)
def is_communication(name: str) -> bool:
    """A kernel of a collective library (NCCL, RCCL, oneCCL, HCCL), by its own name."""
    return _COMMUNICATION.search(name) is not None


@lru_cache(maxsize=1 << 16)
def uses_tensor_cores(name: str) -> bool | None:
    """Whether a kernel computes on matrix units (tensor cores, MFMA); None when its name does not tell."""
    if is_communication(name):
        return False
    for pattern, used in _COMPILED:
        if pattern.search(name):
            return used
    return None
