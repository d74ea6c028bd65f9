"""Ways in which the same convolution runs."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import Call, addition, kernel, training
from tests.rules.kernels.test_cudnn_benchmark_off import FAST, SLOW, convolution, fires, trap_unknown_strides
from traceanalyzer.analyzers.kernels import convolution_algorithms
from traceanalyzer.analyzers.kernels.convolution_algorithms import ConvolutionAlgorithms
from traceanalyzer.structure.context import Context


def analyze(trace: TraceBuilder) -> ConvolutionAlgorithms:
    return convolution_algorithms.analyze(Context(read_built(trace)))


def test_equal_inputs_in_two_ways() -> None:
    found = analyze(fires())
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
    assert analyze(training([first, second])).rows == ()
    twice = Call(one.op, [turn, turn, *one.kernels], one.shapes, one.types, one.concrete)
    (row,) = analyze(training([first, twice])).rows
    assert [a.device_ns for a in row.algorithms] == [3_300_000, 3_600_000]


def test_a_way_that_was_seen_once_proves_nothing() -> None:
    (row,) = analyze(training([convolution(FAST, 1000), *[convolution(SLOW, 3000)] * 5], steps=1)).rows
    assert row.saving_ns == 0


def test_strides_are_part_of_the_inputs() -> None:
    found = analyze(training([convolution(FAST, 1000), convolution(SLOW, 3000, stride=2)]))
    assert (found.rows, found.convolutions) == ((), 2)


def test_needs_convolutions_with_known_strides() -> None:
    for trace, reason in (
        (trap_unknown_strides(), "stride and padding"),
        (training([addition(10)]), "no convolutions"),
    ):
        found = convolution_algorithms.ANALYSES[0].missing(Context(read_built(trace)))
        assert found is not None
        assert reason in found.text
