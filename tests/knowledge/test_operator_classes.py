"""What operators do, by their names."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.operator_classes import operator_class


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
