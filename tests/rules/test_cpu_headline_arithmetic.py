"""Kinds of arithmetic in the headline of a program without a GPU."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import finish
from tests.rules.judging import said


@pytest.mark.parametrize(
    ("other", "loss", "told"),
    [
        (60, "aten::_log_softmax", "most of all the output layer of 6,000 classes (600 us)."),
        (80, "aten::_log_softmax", "most of all matrix multiplications (680 us)."),
        (60, "aten::_softmax", "most of all matrix multiplications (660 us)."),
    ],
)
def test_an_output_layer_that_is_nearly_all_of_the_matrix_multiplications_is_named(
    other: int, loss: str, told: str
) -> None:
    """A softmax alone may be that of an attention."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(3):
        trace.step(number, at, 1400)
        for name, dims, dur in (
            ("aten::mm", [[1600, 256], [256, 6000]], 600),
            ("aten::mm", [[1600, 256], [256, 256]], other),
            (loss, [[1600, 6000], [], []], 500),
        ):
            trace.op(name, at, dur, args={"Input Dims": dims, "Input type": ["float"] * len(dims)})
            at += dur
        at += 1400 - 1100 - other
    assert told in said(finish(trace))


def test_arithmetic_of_a_cpu_is_named_by_its_kind_with_its_sum() -> None:
    """Four operators of a pass multiply matrices for 88 of 138 ms, of which the longest takes 31 ms."""
    calls = {"aten::mm": 31, "aten::addmm": 29, "aten::bmm": 20, "mkldnn::_linear_pointwise": 8, "aten::copy_": 27}
    trace, at = TraceBuilder(devices=()), 0
    for name, time in calls.items():
        trace.op(name, at, 1000 * time)
        at += 1000 * time
    for _ in range(2):
        trace.op("aten::_softmax", at, 11_500)
        at += 11_500
    told = said(trace)
    assert told.startswith("Limited by the CPU: mostly matrix multiplications, 88 of the 138 ms of the trace.")
    assert "What takes most of it: aten::mm 31 ms, aten::addmm 29 ms, aten::copy_ 27 ms." in told


def test_a_kind_of_arithmetic_is_named_only_where_it_takes_longest() -> None:
    def told(sort: int) -> str:
        trace, at = TraceBuilder(devices=()), 0
        for name, time in (("mkldnn_convolution", 200), ("slow_conv3d_forward", 200), ("sort", sort), ("add_", 100)):
            trace.op(f"aten::{name}", at, 1000 * time)
            at += 1000 * time
        return said(trace)

    assert told(390).startswith("Limited by the CPU for all 890 ms of the trace, most of all convolutions (400 ms).")
    assert told(410).startswith("Limited by the CPU for all 910 ms of the trace, longest in aten::sort (410 ms).")


def test_a_layer_counts_with_all_that_it_calls() -> None:
    """A quantized LSTM calls small operators for each element of its sequences, and multiplies beside that."""
    trace = TraceBuilder(devices=())
    trace.op("aten::quantized_lstm", 0, 60_000)
    for number in range(500):
        trace.op(("aten::sigmoid", "quantized::linear_dynamic")[number % 2], 10 + 110 * number, 90)
    trace.op("aten::mm", 60_000, 30_000)
    assert said(trace).startswith("Limited by the CPU: mostly recurrent layers, 60 of the 90 ms of the trace.")


def test_elementwise_operations_of_a_cpu_are_named_with_their_sum() -> None:
    """A loss written by hand takes half of a pass in six operators, each less than the multiplication of matrices."""

    def told(division: int) -> str:
        trace, at = TraceBuilder(devices=()), 0
        for name, time in (("mm", 40), ("mul", 15), ("add", 12), ("div", division), ("log", 12), ("copy_", 9)):
            trace.op(f"aten::{name}", at, 1000 * time)
            at += 1000 * time
        return said(trace)

    assert told(12).startswith("Limited by the CPU: mostly elementwise operations, 51 of the 100 ms of the trace.")
    assert told(120).startswith("Limited by the CPU for all 208 ms of the trace, longest in aten::div (120 ms).")


def test_the_sentence_names_marks_rather_than_little_arithmetic() -> None:
    trace = TraceBuilder(devices=())
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.annotation("masks", at, 700)
        trace.op("aten::mm", at + 710, 280)
    assert said(trace).startswith("Limited by the CPU, mostly in `masks`: 0.70 of the 1.0 ms of each step.")


def running(*calls: tuple[str, ...]) -> TraceBuilder:
    """Calls of 20 ms each, of operators with those around them first, and of a matrix multiplication of 15."""
    trace, at = TraceBuilder(devices=()), 0
    for names in calls:
        for depth, name in enumerate(names):
            trace.op(name, at + depth, 20_000 - 2 * depth)
        at += 20_000
    trace.op("aten::mm", at, 15_000)
    return finish(trace)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (("aten::randn", "aten::normal_"), "mostly random numbers, "),
        (("aten::index_select",), "mostly gathering rows by an index, "),
        (("aten::to", "aten::_to_copy", "aten::copy_"), "most of all type conversions ("),
        (("aten::contiguous", "aten::clone", "aten::copy_"), "most of all copies into contiguous tensors ("),
        (("aten::copy_",), "longest in aten::copy_ ("),
    ],
)
def test_what_moves_or_draws_numbers_on_a_cpu_is_named_by_its_purpose(call: tuple[str, ...], told: str) -> None:
    assert told in said(running(call, call))
