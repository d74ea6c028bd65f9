"""Rates of element-wise kernels on contiguous tensors: sums of 1024 x 1024 numbers in fp32 move 12.6 MB."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.gpu_work import ADDITION
from traceanalyzer.analyzers.kernels import contiguous
from traceanalyzer.analyzers.kernels.contiguous import ContiguousWork
from traceanalyzer.structure.context import Context

SIDE = 1024
BYTES = 12 * SIDE * SIDE


def rows(*durations: int, side: int = SIDE, name: str = ADDITION, beside: int | None = None) -> list[ContiguousWork]:
    """Sums that take these times in us, 1000 us apart; another kernel runs at a time on another stream."""
    trace = TraceBuilder(options=("record_shapes",))
    for number, dur in enumerate(durations):
        at = 1000 * number
        trace.op("aten::add", at, 20, shapes=[[side, side], [side, side], []], types=["float", "float", "Scalar"])
        trace.launch_kernel(name, at + 30, dur, at=at + 5)
    if beside is not None:
        trace.kernel("other", beside, 10, stream=9)
    return list(contiguous.analyze(Context(read_built(trace))).rows)


def test_the_first_launch_of_a_kernel_does_not_count() -> None:
    (row,) = rows(900, 100, 120, 100)
    assert (row.calls, row.total_ns, row.median_ns, row.bytes) == (3, 320_000, 100_000, BYTES)
    assert row.gb_per_s == pytest.approx(BYTES / 100_000)
    assert (row.operator, row.dtype) == ("aten::add", "float")


def test_one_launch_is_the_first() -> None:
    assert rows(100) == []


def test_kernels_beside_others_do_not_count() -> None:
    # the other kernel runs within the second of three launches
    (row,) = rows(100, 100, 100, beside=1050)
    assert row.calls == 1


def test_other_kernels_and_small_tensors_do_not_count() -> None:
    assert rows(100, 100, name=ADDITION.replace("vectorized_elementwise", "elementwise")) == []
    assert rows(100, 100, side=128) == []
