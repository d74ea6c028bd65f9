"""Facts in kernel names, by examples of every library and architecture."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_examples import COMMUNICATION, COMPUTATION, MATRIX_UNITS, NOT_TOLD, PLAIN_ARITHMETIC

from traceanalyzer.knowledge import kernel_names
from traceanalyzer.knowledge.kernel_names import is_communication, uses_tensor_cores
from traceanalyzer.report.names import readable


def verdicts() -> Iterator[object]:
    for group, names in MATRIX_UNITS.items():
        yield from (pytest.param(name, True, id=f"{group}-{name[:60]}") for name in names)
    for group, names in PLAIN_ARITHMETIC.items():
        yield from (pytest.param(name, False, id=f"{group}-{name[:60]}") for name in names)
    yield from (pytest.param(name, None, id=f"not told-{name[:60]}") for name in NOT_TOLD)
    yield from (pytest.param(name, False, id=f"communication-{name[:60]}") for name in COMMUNICATION)


ALL_NAMES = [
    *(name for names in MATRIX_UNITS.values() for name in names),
    *(name for names in PLAIN_ARITHMETIC.values() for name in names),
    *NOT_TOLD,
]


@pytest.mark.parametrize(("name", "used"), list(verdicts()))
def test_tensor_cores(name: str, used: bool | None) -> None:
    assert uses_tensor_cores(name) is used


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication(name: str) -> None:
    assert is_communication(name)


@pytest.mark.parametrize("name", [*COMPUTATION, *ALL_NAMES])
def test_computation(name: str) -> None:
    assert not is_communication(name)


def deciding_line(name: str) -> int | None:
    """The line of the table that decides about a name."""
    matching = (i for i, (pattern, _) in enumerate(kernel_names._TABLE.patterns) if pattern.search(name))
    return next(matching, None)


@pytest.mark.parametrize("line", range(len(kernel_names._TABLE.patterns)))
def test_every_line_of_the_table_has_an_example(line: int) -> None:
    assert any(deciding_line(name) == line for name in ALL_NAMES), kernel_names._TABLE.patterns[line][0].pattern


def test_the_verdict_does_not_depend_on_how_often_one_asks() -> None:
    name = "nvjet_tst_192x208_64x4_2x1_v_bz_coopA_bias_TNN"
    assert [uses_tensor_cores(name) for _ in range(3)] == [True, True, True]


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_12ClampFunctorIfEENS_6detail5ArrayIPcLi2EEEEEviT0_T1_",
            "void at::native::vectorized_elementwise_kernel<4, at::native::ClampFunctor<float>, at::detail::Array",
        ),
        (
            "_Z23ncclDevKernel_AllReducePv24ncclDevKernelArgsStorageILm4096EE",
            "ncclDevKernel_AllReduce(void*, ncclDevKernelArgsStorage<4096ul>)",
        ),
        ("_ZN5cudnn3ops16nchwToNhwcKernelIfEEvPT_.kd", "void cudnn::ops::nchwToNhwcKernel<float>(float*)"),
        ("_ZN12_GLOBAL__N_14copyIxEEvPT_", "void (anonymous namespace)::copy<long long>(long long*)"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS...", ""),  # cut
        ("_Zombie", ""),
        ("ampere_sgemm_128x64_tn", ""),
    ],
)
def test_mangled_names_are_read(mangled: str, name: str) -> None:
    found = readable(mangled)
    assert found.startswith(name) if name else found == mangled


TF32 = (
    "sm80_xmma_wgrad_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16",
    "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4",
    "_ZN19cutlass_cudnn_train6KernelINS_4conv6kernelINS_10tfloat32_tE",
    "nvjet_sss_128x128_64x4_2x1_v_bz_TNN",
)
FP32_ATTENTION = (
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float, cutlass::arch::Sm80>)",
    "fmha_cutlassB_f32_aligned_64x64_k64_sm80",
)
NEITHER = (
    "void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_tn_align1>",
    "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn",
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "fmha_v2_flash_attention_fp16_fp32_S_128_D_64_sm80_kernel_nl",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(AttentionKernel<cutlass::bfloat16_t, cutlass::arch::Sm80>)",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>, float>",
    "ampere_sgemm_128x64_nn",
)


def test_what_computes_fp32_numbers_on_tensor_cores() -> None:
    assert [name for name in TF32 if not kernel_names.is_tf32(name)] == []
    assert [name for name in FP32_ATTENTION if not kernel_names.is_fp32_attention(name)] == []
    others = [name for name in (*NEITHER, *FP32_ATTENTION) if kernel_names.is_tf32(name)]
    assert others + [name for name in (*NEITHER, *TF32) if kernel_names.is_fp32_attention(name)] == []
