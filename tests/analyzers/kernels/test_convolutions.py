"""Ways in which the same convolution runs, and the batch norms that follow convolutions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import Call, addition, kernel, training
from tests.rules.kernels.test_conv_bias_before_batchnorm import TRAINING, network
from tests.rules.kernels.test_cudnn_benchmark_off import FAST, SLOW, convolution, fires, trap_unknown_strides
from traceanalyzer.analyzers.kernels import convolutions
from traceanalyzer.analyzers.kernels.convolutions import ConvolutionAlgorithms, ConvolutionNorms
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.model import Trace


def algorithms(trace: TraceBuilder) -> ConvolutionAlgorithms:
    return convolutions.algorithms(Context(read_built(trace)))


def test_equal_inputs_in_two_ways() -> None:
    found = algorithms(fires())
    assert found.convolutions == 1
    (row,) = found.rows
    assert [(a.kernel, a.calls, a.device_ns) for a in row.algorithms] == [(FAST, 3, 3_000_000), (SLOW, 3, 9_000_000)]
    assert row.saving_ns == 6_000_000
    assert row.name == "aten::cudnn_convolution"


def test_a_way_is_its_set_of_kernels_in_any_order() -> None:
    one, other = convolution(FAST, 1000), convolution(FAST, 1000)
    turn = kernel("void cudnn::ops::nchwToNhwcKernel<float>", 100)
    first = Call(one.op, [turn, *one.kernels], one.shapes, one.types, one.concrete)
    second = Call(other.op, [*other.kernels, turn], other.shapes, other.types, other.concrete)
    assert algorithms(training([first, second])).rows == ()
    twice = Call(one.op, [turn, turn, *one.kernels], one.shapes, one.types, one.concrete)
    (row,) = algorithms(training([first, twice])).rows
    assert [a.device_ns for a in row.algorithms] == [3_300_000, 3_600_000]


def test_a_way_that_was_seen_once_proves_nothing() -> None:
    (row,) = algorithms(training([convolution(FAST, 1000), *[convolution(SLOW, 3000)] * 5], steps=1)).rows
    assert row.saving_ns == 0


def test_strides_are_part_of_the_inputs() -> None:
    found = algorithms(training([convolution(FAST, 1000), convolution(SLOW, 3000, stride=2)]))
    assert (found.rows, found.convolutions) == ((), 2)


def test_algorithms_need_convolutions_with_known_strides() -> None:
    for trace, reason in (
        (trap_unknown_strides(), "stride and padding"),
        (training([addition(10)]), "no convolutions"),
    ):
        found = convolutions.ANALYSES[0].missing(Context(read_built(trace)))
        assert found is not None
        assert reason in found.text


def norms(trace: TraceBuilder) -> ConvolutionNorms:
    return convolutions.norms(Context(read_built(trace)))


def test_a_pair_in_inference() -> None:
    found = norms(network())
    assert (found.convolutions, found.with_norm, found.with_bias) == (3, 3, 3)
    assert (found.bias_ns, found.norm_ns, found.bias_gradient_ns) == (1_500_000, 1_800_000, 0)
    assert (found.trains, found.has_backward) == (False, False)
    (row,) = found.rows
    assert (row.name, row.calls, row.bias_ns, row.norm_ns) == ("aten::conv2d", 3, 1_500_000, 1_800_000)
    assert row.input_shapes.startswith("[[8,64,56,56],[64,64,3,3],[64]")


def test_training_counts_its_batches_in_between() -> None:
    found = norms(network(norm=TRAINING, backward=True, gradient_us=400))
    assert (found.with_norm, found.with_bias) == (3, 3)
    assert found.bias_gradient_ns == 1_200_000
    assert (found.trains, found.has_backward) == (True, True)


def test_what_comes_in_between_parts_them() -> None:
    assert norms(network(between="aten::relu")).with_norm == 0
    assert norms(network(between="aten::add_")).with_norm == 0, "a residual connection is no counter"
    assert norms(network(swapped=True)).with_norm == 0
    assert norms(network(norm_op="aten::layer_norm")).with_norm == 0


def test_a_bias_is_known_by_its_shape_even_if_no_kernel_adds_it() -> None:
    fused, none = norms(network(bias_us=0)), norms(network(bias_us=None))
    assert (fused.with_bias, fused.bias_ns) == (3, 0)
    assert (none.with_norm, none.with_bias) == (3, 0)


def test_norms_need_convolutions() -> None:
    reason = convolutions.ANALYSES[1].missing(Context(read_built(training([addition(10)]))))
    assert reason is not None
    assert "no convolutions" in reason.text


@pytest.mark.parametrize(
    ("name", "calls"), [("resnet50_v100_workers0_memory", 6 * 53), ("train_v100_ns_timestamps", 5 * 53)]
)
def test_every_convolution_of_a_real_resnet_has_a_norm_and_no_bias(corpus: Path, name: str, calls: int) -> None:
    trace = corpus_files.trace_of(corpus / "corpus" / f"{name}.json.gz")
    assert isinstance(trace, Trace)
    found = convolutions.norms(Context(trace))
    assert (found.convolutions, found.with_norm, found.with_bias) == (calls, calls, 0)
    assert (found.trains, found.has_backward) == (True, True)


def test_no_convolution_of_a_real_alexnet_has_a_norm(corpus: Path) -> None:
    trace = corpus_files.trace_of(corpus / "corpus" / "alexnet_a100_cuda_sync.json.gz")
    assert isinstance(trace, Trace)
    found = convolutions.norms(Context(trace))
    assert (found.convolutions, found.with_norm) == (10, 0)
