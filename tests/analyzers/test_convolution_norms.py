"""Convolutions and the batch norms that follow them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import addition, training
from tests.rules.kernels.test_conv_bias_before_batchnorm import TRAINING, network
from traceanalyzer.analyzers.kernels import convolution_norms
from traceanalyzer.analyzers.kernels.convolution_norms import ConvolutionNorms
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace


def analyze(trace: TraceBuilder) -> ConvolutionNorms:
    return convolution_norms.analyze(Context(read_built(trace)))


def test_a_pair_in_inference() -> None:
    found = analyze(network())
    assert (found.convolutions, found.with_norm, found.with_bias) == (3, 3, 3)
    assert (found.bias_ns, found.norm_ns, found.bias_gradient_ns) == (1_500_000, 1_800_000, 0)
    assert (found.trains, found.has_backward) == (False, False)
    (row,) = found.rows
    assert (row.name, row.calls, row.bias_ns, row.norm_ns) == ("aten::conv2d", 3, 1_500_000, 1_800_000)
    assert row.input_shapes.startswith("[[8,64,56,56],[64,64,3,3],[64]")


def test_training_counts_its_batches_in_between() -> None:
    found = analyze(network(norm=TRAINING, backward=True, gradient_us=400))
    assert (found.with_norm, found.with_bias) == (3, 3)
    assert found.bias_gradient_ns == 1_200_000
    assert (found.trains, found.has_backward) == (True, True)


def test_what_comes_in_between_parts_them() -> None:
    assert analyze(network(between="aten::relu")).with_norm == 0
    assert analyze(network(between="aten::add_")).with_norm == 0, "a residual connection is no counter"
    assert analyze(network(swapped=True)).with_norm == 0
    assert analyze(network(norm_op="aten::layer_norm")).with_norm == 0


def test_a_bias_is_known_by_its_shape_even_if_no_kernel_adds_it() -> None:
    fused, none = analyze(network(bias_us=0)), analyze(network(bias_us=None))
    assert (fused.with_bias, fused.bias_ns) == (3, 0)
    assert (none.with_norm, none.with_bias) == (3, 0)


def test_needs_convolutions() -> None:
    reason = convolution_norms.ANALYSES[0].missing(Context(read_built(training([addition(10)]))))
    assert reason is not None
    assert "no convolutions" in reason.text


@pytest.mark.parametrize(
    ("name", "convolutions"), [("resnet50_v100_workers0_memory", 6 * 53), ("train_v100_ns_timestamps", 5 * 53)]
)
def test_every_convolution_of_a_real_resnet_has_a_norm_and_no_bias(corpus: Path, name: str, convolutions: int) -> None:
    trace = corpus_files.trace_of(corpus / "corpus" / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    found = convolution_norms.analyze(Context(trace))
    assert (found.convolutions, found.with_norm, found.with_bias) == (convolutions, convolutions, 0)
    assert (found.trains, found.has_backward) == (True, True)


def test_no_convolution_of_a_real_alexnet_has_a_norm(corpus: Path) -> None:
    trace = corpus_files.trace_of(corpus / "corpus" / "alexnet_a100_cuda_sync.json.gz")
    assert isinstance(trace, Trace)
    found = convolution_norms.analyze(Context(trace))
    assert (found.convolutions, found.with_norm) == (10, 0)
