"""Facts in names of generated kernels."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.generated_kernels import KINDS, Generated, generated, is_generated, operators_of


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
