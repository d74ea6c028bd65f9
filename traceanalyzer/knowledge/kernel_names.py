"""Detects by name whether a kernel communicates, whether it uses tensor cores, its type, and the GPUs it is for.

Names that the writer left mangled are demangled first, so that these tables need to know them in one form.

In each table of patterns the first match decides; tests/knowledge/test_kernel_names.py has an example of each line.
"""

from __future__ import annotations

import re
from functools import lru_cache

from traceanalyzer.knowledge.first_match import FirstMatch
from traceanalyzer.report.names import readable

_LIBRARY = re.compile(
    r"^(void )?(nccl|rccl|msccl|oneccl|ccl_|hccl|xccl)"
    r"|^(allreduce|allgather|reduce_scatter)_kernel|oneapi::ccl|ccl_kernel",
    re.IGNORECASE,
)

_CUSTOM = FirstMatch(
    (pattern, True)
    for pattern in (
        # vLLM, SGLang, AITER, TensorRT-LLM and FlashInfer: reductions over peers' memory, also fused with other work.
        r"cross_device_reduce|(one|two)_?shot_?(all_?reduce|lamport)|all_?reduce_\w*(one|two)_?shot",
        r"all_?reduce_fusion|quick_?reduce|lamport_style|userbuffers_",
        r"(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)\w*kernel",
        # PyTorch's symmetric memory, NVSHMEM, and Microsoft's libraries.
        r"multimem_|symmetric_memory|symm_mem|all_to_all_vdev|\b(barrier|put_signal|wait_signal)_kernel",
        r"nvshmem|mscclpp|ctran_|hcom_|lccl",
        # Token exchange between experts: DeepEP, MORI, TensorRT-LLM.
        r"deep_ep::\w+::(dispatch|combine|notify|cached_notify|barrier|clean)|(\b|\d)Ep(Dispatch|Combine)\w*",
        r"moe_?all_?to_?all|moe_a2a_|mnnvl_moe",
    )
)
_ARGUMENTS = re.compile(r"[<(].*", re.DOTALL)

_MATRIX_UNITS: tuple[tuple[str, bool | None], ...] = (
    # Generated code: numbers in its names are serial numbers. Templates (tem) are matrix products on an unknown unit.
    (r"^triton_tem_", None),
    (r"^triton_(poi|per|red|for)_", False),
    # Auxiliary kernels of libraries whose names would match a pattern of products below.
    (r"flash_bwd_(dot_do_o|convert_d|clear_d)|splitkv_?combine|BwdPreprocess|BwdPostprocess|FwdCombine|repack", False),
    (r"prepare_varlen|attention\w*_reduce_kernel|deep_gemm::(transpose|pack|smxx_(layout|clean))", False),
    (r"SubTensorOp|OpTensor", False),
    (r"^(void )?at::native::(?!tinygemm)|at_cuda_detail|cub::|thrust::|multi_tensor_apply", False),
    # Arithmetic on vector units, as named by the library.
    (r"simt|ffma|sgemm|scudnn|gemv|gemmSN|gemmk1|dot_kernel|splitKreduce|f32_aligned\w*_sm(50|70|75)", False),
    (r"xmma_\w*_f32f32_f32f32_f32_", False),  # says ffma at the end, which printed tables cut; with TF32 tf32f32
    (r"miopenGcnAsmConv1x1|winograd|fft|precomputed_convolve|(dgrad|wgrad)_(engine|alg0|alg1)", False),
    # NVIDIA: the shape of the matrix instruction, or the library's name for it.
    (r"(?<![a-z])[hsdci](884|1688|8816|16816|16832|161616|16864)(?!\d)|(?<![a-z])d884gemm", True),
    (r"tensorop|tensor\d+x\d+x\d+|[hiqdb]mma(?![a-z])|wgmma|gmma|umma|tcgen05|MMA_Atom|CollectiveMma|tinygemm", True),
    (r"nvjet|xmma_(cudnn|(\w+_)?implicit_gemm|gemm|sparse|warp_specialized)|sm\d+_xmma", True),
    (r"first_layer_wgrad_kernel|conv1x1|conv2d_c1_k1|direct_group|dgrad_1x1_stride_2x2", True),  # cuDNN, fp16
    (r"flash_(fwd|bwd)|flash::|fmha|FlashAttn|mha_(fwd|bwd)|native_sdpa|deep_gemm|marlin|machete", True),
    # AMD: MFMA (CDNA) and WMMA (RDNA) instructions; Tensile writes MI16x16, CK xdl(ops), MIOpen gtcx.
    (r"mfma|wmma|xdlops|xdl_|_xdl|Cijk_.*_MI\d|igemm_\w+_gtcx|ck_tile.*(Fmha|Gemm)", True),
    # Products whose names would show matrix units if they used them.
    (r"dgemm|cgemm|zgemm|implicit_convolve|Cijk_.*(_MT\d|PostGSU)", False),
)
_NO_PRODUCTS: tuple[tuple[str, bool | None], ...] = (
    (r"elementwise|reduce|softmax|batch_?norm|bn_|layer_?norm|rms_?norm|rotary|silu|gelu|activation", False),
    (r"nchwToNhwc|nhwcToNchw|transpose|copy|fill|memset|memcpy|pool|dropout|index|gather|scatter|sort", False),
    (r"embedding|cat_?array|sampl|topk|argmax", False),
)

READ = 1000
"""Number of characters of a name that are searched. In all 544 names of the corpus, of which the longest has 5,123
characters, the deciding word is within the first 600; searching more only takes time."""

NAMES_KEPT = 1 << 20
"""Number of names in the cache, which several analyses and rules use. In a trace with more distinct names no lookup
would hit, because each pass over the names evicts those that the next pass needs first."""


_TABLE = FirstMatch(_MATRIX_UNITS)
_BESIDE = FirstMatch(_NO_PRODUCTS)
_MAY_MULTIPLY = re.compile(
    r"(?<!fb)gemm|gemv|matmul|(?<!ge)mm_|_mm|conv|attn|attention|sdpa|mha|mla_|moe|linear(?!iz|comb)|ssd|chunk|mlp|dot",
    re.IGNORECASE,
)
"""Words of kernels that may contain a matrix product among other work."""

_FP32 = re.compile(
    r"sgemm|scudnn|simt_s|ffma|winograd|convolve_sgemm|[dw]grad\w{0,32}_(engine|alg\d)|f32f32_f32f32"
    r"|^(?>.*?cudnn::\w).*<float",
    re.IGNORECASE,
)
_HALF = r"half|bfloat|bf16|fp16|(?<!t)f16|h884|h1688|h16816|hgemm|hmma|hcudnn"
_HALF_NAME = re.compile(_HALF + r"|nvjet_[ht]", re.IGNORECASE)
_HALF_OR_OTHER = re.compile(_HALF + r"|i8|imma|int8|e4m3|e5m2|fp8|d884|dmma|dgemm|zgemm|cgemm", re.IGNORECASE)
_TF32 = re.compile(r"tf(loat)?32|(?<![a-z])s1688(?!\d)|nvjet_s", re.IGNORECASE)
_FP32_ATTENTION = re.compile(r"fmha|attention|attn|sdpa", re.IGNORECASE)
_FP32_TYPE = re.compile(r"_f32_|fp32|<float\b", re.IGNORECASE)
_ARCHITECTURES = FirstMatch(
    (
        (r"sm100|blackwell|tcgen05", (10, 0)),
        (r"sm90|hopper|nvjet", (9, 0)),
        (r"sm8\d|ampere|cutlass_8\d", (8, 0)),
        (r"turing|cutlass_75", (7, 5)),
        (r"volta|cutlass_70", (7, 0)),
    )
)
"""A kernel that was built for a generation runs on it or on a newer one."""
_FP64_PRODUCT = re.compile(r"dgemm|d884|dmma|f64f64", re.IGNORECASE)
_FP64_NAME = re.compile(r"dgemm|dgemv|d884|dmma|f64f64|\bdouble\b")


@lru_cache(NAMES_KEPT)
def is_library_collective(name: str) -> bool:
    """Whether a kernel's name is that of a collective library (NCCL, RCCL, oneCCL, HCCL)."""
    return _LIBRARY.search(readable(name)) is not None


@lru_cache(NAMES_KEPT)
def is_communication(name: str) -> bool:
    """Whether a kernel's name shows an exchange of data with other devices, by a collective library or other code."""
    if is_library_collective(name):
        return True
    base = _ARGUMENTS.sub("", readable(name)[:READ].replace("(anonymous namespace)", ""))
    return not base.startswith("triton_") and _CUSTOM.find(base) is True


@lru_cache(NAMES_KEPT)
def uses_tensor_cores(name: str) -> bool | None:
    """Whether a kernel computes on matrix units (tensor cores, MFMA); None if its name does not show it."""
    if is_communication(name):
        return False
    text = readable(name)[:READ]
    answer = _TABLE.find(text)
    if answer is not None or _MAY_MULTIPLY.search(text) or text.startswith("triton_tem_"):
        return answer
    return _BESIDE.find(text)


def is_fp32(name: str, tensor_cores: bool | None) -> bool:
    """Whether the name of a kernel shows fp32; False for a name without a type."""
    name = readable(name)
    return tensor_cores is False and not _HALF_OR_OTHER.search(name) and _FP32.search(name) is not None


def is_half(name: str) -> bool:
    """Whether the name of a kernel shows a type of 16 bits."""
    return _HALF_NAME.search(readable(name)[:READ]) is not None


def is_tf32(name: str) -> bool:
    """Whether the name of a kernel shows a product of fp32 numbers that are rounded to TF32."""
    name = readable(name)
    return _TF32.search(name) is not None and not _HALF_OR_OTHER.search(name)


def is_fp32_attention(name: str) -> bool:
    """Whether the name of a kernel shows fused attention on fp32 numbers."""
    text = readable(name)[:READ]
    return bool(_FP32_ATTENTION.search(text) and _FP32_TYPE.search(text)) and not _HALF_OR_OTHER.search(text)


def is_fp64(name: str) -> bool:
    """Whether the name of a kernel shows fp64, and no other type."""
    name = readable(name)
    return _FP64_NAME.search(name) is not None and "float" not in name


def is_fp64_product(name: str) -> bool:
    """Whether the name of a kernel shows a matrix product in fp64."""
    return _FP64_PRODUCT.search(readable(name)) is not None


def built_for(name: str) -> tuple[int, int] | None:
    """Compute capability of the GPUs that a kernel was built for by its name; None if it names none."""
    return _ARCHITECTURES.find(readable(name))
