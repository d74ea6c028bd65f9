"""Tests of the rule `conv-layout-transposes`: numbers worked out by hand, and edges of thresholds.

The programs: changes of layout around convolutions.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import TF32_CONVOLUTION, Call, addition, kernel, training
from tests.rules.judging import findings
from tests.rules.kernels.test_tensor_cores_unused import printed

TO_LAST = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(x)"
TO_FIRST = "void cudnn::ops::nhwcToNchwKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(x)"


def model(turning_us: int, convolution: str = TF32_CONVOLUTION) -> TraceBuilder:
    """A convolution of 6 ms, before and after which the layout changes."""
    works = [kernel(TO_LAST, turning_us), kernel(convolution, 6000), kernel(TO_FIRST, turning_us)]
    return training([Call("aten::cudnn_convolution", works), addition(2000)], device=A100)


def fires() -> TraceBuilder:
    """Changes of layout take 2 of 10 ms."""
    return model(1000)


def fires_in_a_table() -> str:
    """The same program in a printed table."""
    return printed([(TF32_CONVOLUTION, "60.000ms"), (TO_LAST, "20.000ms"), ("elementwise_kernel<128, 2>", "20.000ms")])


def quiet() -> TraceBuilder:
    """Model and input are in channels last."""
    return training([Call("aten::cudnn_convolution", [kernel(TF32_CONVOLUTION, 6000)]), addition(2000)], device=A100)


def trap_already_in_channels_last() -> TraceBuilder:
    """Only the input of the network is turned."""
    return model(50)


def trap_convolutions_in_fp32() -> TraceBuilder:
    """Outside of Tensor Cores, convolutions do not want channels last."""
    return model(1000, "cudnn_infer_ampere_scudnn_128x64_relu_medium_nn_v1")


RULE = "conv-layout-transposes"


def test_at_least_half_of_the_turning_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert {place.name for place in finding.evidence[0].where} == {TO_FIRST, TO_LAST}
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1e6, 2e6))
    assert finding.summary.params["calls"] == 2


def test_convolutions_of_volumes_have_a_layout_of_their_own() -> None:
    works = [kernel(TO_LAST, 1000), kernel(TF32_CONVOLUTION, 6000), kernel(TO_FIRST, 1000)]
    (finding,) = findings(training([Call("aten::conv3d", works), addition(2000)], device=A100), RULE)
    assert finding.code is not None
    assert finding.code.count("torch.channels_last_3d") == 2
    (finding,) = findings(fires(), RULE)
    assert "3d" not in (finding.code or "")


def test_a_table_tells_by_names() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((10e6, 20e6))
    assert finding.evidence[0].where[0].kind == "row"


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.2}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.2 - 1e-9})


def test_a_real_training_in_channels_first(corpus: Path) -> None:
    measured = corpus_files.report_of(corpus / "corpus" / "ddp_a100_nccl_rank0.json.gz")
    (finding,) = [f for f in measured.findings if f.rule == RULE]
    assert finding.evidence[0].observed == pytest.approx(0.0915, abs=0.001)
    assert (finding.latent, finding.blocked_by) == (True, "host")
