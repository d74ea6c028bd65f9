"""What kernels do, by examples of every library: at least one for each line of the table."""

from __future__ import annotations

import pytest
from class_examples import ALL, EXAMPLES
from kernel_examples import MATRIX_UNITS, PLAIN_ARITHMETIC

from traceanalyzer.knowledge import kernel_classes
from traceanalyzer.knowledge.kernel_classes import (
    KINDS,
    Generated,
    KernelClass,
    generated,
    is_generated,
    kernel_class,
    operator_class,
    operators_of,
)


@pytest.mark.parametrize(("wanted", "name"), [(k, name) for k, names in EXAMPLES.items() for name in names])
def test_class(wanted: str, name: str) -> None:
    assert kernel_class(name).value == wanted


def test_every_class_has_examples() -> None:
    assert set(EXAMPLES) == {found.value for found in KernelClass}


@pytest.mark.parametrize("line", range(len(kernel_classes._TABLE.patterns)))
def test_every_line_of_the_table_decides_about_an_example(line: int) -> None:
    def decides(name: str) -> bool:
        return next((i for i, (p, _) in enumerate(kernel_classes._TABLE.patterns) if p.search(name)), None) == line

    assert any(map(decides, ALL)), kernel_classes._TABLE.patterns[line][0].pattern


@pytest.mark.parametrize("name", ["my_kernel", "", "kernel", "{lambda(int)#1}", "unknown"])
def test_names_that_do_not_tell(name: str) -> None:
    assert kernel_class(name) is KernelClass.OTHER


@pytest.mark.parametrize("name", [name for names in MATRIX_UNITS.values() for name in names])
def test_what_uses_matrix_units_multiplies(name: str) -> None:
    multiplies = (KernelClass.GEMM, KernelClass.MOE, KernelClass.CONVOLUTION, KernelClass.ATTENTION)
    assert kernel_class(name) in multiplies


@pytest.mark.parametrize(
    "name", [name for names in PLAIN_ARITHMETIC.values() for name in names if "thrust" not in name]
)
def test_known_kernels_have_a_class(name: str) -> None:
    assert kernel_class(name) is not KernelClass.OTHER


# Facts in names of generated kernels.


@pytest.mark.parametrize(
    ("name", "kind", "operators"),
    [
        ("triton_poi_fused_add_mul_3", "pointwise", ("add", "mul")),
        ("triton_poi_fused_add_mul", "pointwise", ("add", "mul")),
        ("triton_poi_fused_0", "pointwise", ()),
        ("triton_poi_fused_log2_5", "pointwise", ("log2",)),
        ("triton_poi_fused__to_copy_1", "pointwise", ("_to_copy",)),
        ("triton_red_fused__unsafe_view_add_mean_2", "reduction", ("_unsafe_view", "add", "mean")),
        (
            "triton_per_fused__fused_rms_norm__fused_rms_norm_backward_add_view_7",
            "persistent reduction",
            ("_fused_rms_norm", "_fused_rms_norm_backward", "add", "view"),
        ),
        ("triton_tem_fused__to_copy_mm_t_884", "template", ("_to_copy", "mm", "t")),
        ("triton_for_fused_3", "foreach", ()),
        ("triton_spl_fused_cumsum_0", "split scan", ("cumsum",)),
    ],
)
def test_kind_and_operators(name: str, kind: str, operators: tuple[str, ...]) -> None:
    assert generated(name) == Generated(kind, operators)
    assert is_generated(name)
    assert kind in KINDS.values()


@pytest.mark.parametrize(
    "name", ["triton__0d1d2d", "ampere_sgemm_128x64_nn", "fused_add_mul_3", "", "triton_poi_add_0"]
)
def test_other_names_tell_no_operators(name: str) -> None:
    assert generated(name) is None


def test_only_compilers_generate() -> None:
    assert is_generated("triton__0d1d2d")
    assert is_generated("fused__autocast_to__15680171862954066917")
    assert not is_generated("fused_moe_kernel")
    assert not is_generated("_fwd_kernel_aligned_0d1d2d3de")


def test_the_longest_known_name_is_an_operator() -> None:
    assert operators_of("native_layer_norm_backward_mul") == ("native_layer_norm_backward", "mul")
    assert operators_of("native_layer_norm_mul") == ("native_layer_norm", "mul")
    assert operators_of("my_own_mul") == ("my", "own", "mul")


# What operators do, by their names.


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "gemm"),
        ("addmm", "gemm"),
        ("aten::convolution_backward", "convolution"),
        ("cudnn_convolution", "convolution"),
        ("aten::convolution_overrideable", "convolution"),
        ("aten::_flash_attention_forward", "attention"),
        ("aten::native_layer_norm", "normalization"),
        ("aten::mul_", "elementwise"),
        ("aten::copy_", "elementwise"),
        ("aten::sum", "reduction"),
        ("aten::_index_put_impl_", "copy"),
        ("aten::embedding_dense_backward", "embedding"),
        ("_C::onednn_mm", "other"),
        ("c10d::allreduce_", "communication"),
        ("MyFunction", "other"),
    ],
)
def test_names(name: str, kind: str) -> None:
    assert operator_class(name).value == kind


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("triton_red_fused_mm_6", KernelClass.GEMM),
        ("triton_red_fused__to_copy_mm_mul_silu_1", KernelClass.GEMM),
        ("triton_red_fused__to_copy_mean_mm_mul_pow_rsqrt_1", KernelClass.NORMALIZATION),
        ("triton_red_fused_addmm_sum_2", KernelClass.REDUCTION),
        ("triton_poi_fused_mm_silu_2", KernelClass.ELEMENTWISE),
    ],
)
def test_products_of_a_row_are_written_as_sums(name: str, kind: KernelClass) -> None:
    assert kernel_class(name) is kind
