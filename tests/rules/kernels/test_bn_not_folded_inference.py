"""Tests of the rule `bn-not-folded-inference`: numbers worked out by hand, and edges of thresholds.

The programs: batch norms after convolutions, in inference and in training.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.rules.cpu_work import Call, program
from tests.rules.judging import findings, skipped
from tests.rules.kernels.test_conv_bias_before_batchnorm import TRAINING, network, printed


def fires() -> TraceBuilder:
    """Inference: the batch norm takes 0.6 of 5 ms, adding the bias 0.5."""
    return network()


def fires_without_a_bias() -> TraceBuilder:
    """The folded bias may need a kernel of its own."""
    return network(bias_us=None)


def fires_in_a_table() -> str:
    """Kernels of batch norms for inference."""
    return printed(additions=30)


def quiet() -> TraceBuilder:
    """Training: the batch norm computes statistics."""
    return network(norm=TRAINING, backward=True)


def quiet_in_a_table() -> str:
    """A printed table of a training."""
    return printed(additions=30, norm_kernel=TRAINING, backward=True)


def trap_evaluation_within_training() -> TraceBuilder:
    """Statistics are fixed, but a backward pass follows."""
    return network(backward=True)


def trap_norm_before_the_convolution() -> TraceBuilder:
    """It cannot be folded into the next convolution, because the activation is between them."""
    return network(swapped=True)


def trap_shared_norms_in_a_table() -> str:
    """More norms than convolutions: which belong together is not known."""
    return printed(additions=10, norms=40)


def on_a_cpu(*extra: Call) -> TraceBuilder:
    """Two convolutions of 1 ms, each with a batch norm of 200 us, on a CPU."""
    layer = [Call("aten::mkldnn_convolution", 1000, within=("aten::conv2d", "aten::convolution"))]
    layer += [Call("aten::native_batch_norm", 200, within=("aten::batch_norm", "aten::_batch_norm_impl_index")), *extra]
    return program(layer * 2)


def fires_on_a_cpu() -> TraceBuilder:
    """A sixth of the step."""
    return on_a_cpu()


def trap_counting_on_a_cpu() -> TraceBuilder:
    """Each norm counts its batches, as in training."""
    return on_a_cpu(Call("aten::add_", 3, [[], []], ["long int", "Scalar"]))


RULE = "bn-not-folded-inference"


def test_with_a_bias_the_norm_goes_away_for_sure_and_the_addition_if_it_is_fused() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.12)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((600_000, 1_100_000))


def test_without_a_bias_the_folded_one_may_cost_as_much() -> None:
    (finding,) = findings(fires_without_a_bias(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(600_000))
    assert "at least 0" in finding.saving.basis.text


def test_a_table_tells_inference_by_the_kernels_of_batch_norms() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((20e6, 35e6))
    assert "equally often" in (skipped(trap_shared_norms_in_a_table(), RULE) or "")


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.12}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.12 - 1e-9})


def test_worked_number_of_document_000(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("000_*")
    (finding,) = [f for f in corpus_files.report_of(document).findings if f.rule == RULE]
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((6.63e6, 6.63e6 + 6.03e6), abs=0.01e6)
    assert finding.evidence[0].observed == pytest.approx(0.151, abs=0.0005)
    assert (finding.latent, finding.blocked_by) == (True, "loader")


def test_on_a_cpu_nearly_all_of_the_norms_goes_away() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((360_000, 400_000), rel=0.01)
    assert "of the step" in finding.summary.text
