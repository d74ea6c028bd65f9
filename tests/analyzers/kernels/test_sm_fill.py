"""Multiprocessors without a block. The V100 of the builder has 80."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import MI300X, V100
from tests.reading import read, read_built
from tests.rules.gpu_work import addition, training
from traceanalyzer.analyzers.kernels import sm_fill
from traceanalyzer.analyzers.kernels.sm_fill import SmFill
from traceanalyzer.structure.context import Context


def analyze(*launched: tuple[str, int, int, int, int]) -> SmFill:
    """Kernels as name, start, duration, blocks, stream."""
    trace = TraceBuilder(devices=(V100,))
    for name, start, dur, blocks, stream in launched:
        trace.kernel(name, start, dur, grid=(blocks, 1, 1), stream=stream)
    return sm_fill.sm_fill(Context(read_built(trace)))


def test_alone_a_kernel_fills_what_its_blocks_fill() -> None:
    found = analyze(("small", 0, 10, 20, 7), ("large", 20, 10, 160, 7))
    (row,) = found.rows
    assert (row.kernel, row.calls, row.total_ns, row.operator) == ("small", 1, 10_000, None)
    assert (row.blocks_per_sm, row.fill) == (pytest.approx(0.25), pytest.approx(0.25))
    assert found.total_ns == 20_000


def test_kernels_of_other_streams_fill_the_rest_while_they_run() -> None:
    # half of the time beside 60 blocks, which makes the device full, the other half alone
    small, other = sorted(analyze(("small", 0, 10, 20, 7), ("other", 5, 10, 60, 8)).rows, key=lambda r: r.blocks_per_sm)
    assert small.fill == pytest.approx((0.25 + 1) / 2)
    assert other.fill == pytest.approx((1 + 0.75) / 2)


def test_more_blocks_than_multiprocessors_fill_no_more_than_all() -> None:
    small = analyze(("small", 0, 10, 20, 7), ("large", 0, 5, 800, 8)).rows[0]
    assert small.fill == pytest.approx((1 + 0.25) / 2)


def test_grids_are_rows_of_their_own_and_collectives_are_none() -> None:
    found = analyze(
        ("small", 0, 10, 20, 7), ("small", 20, 30, 40, 7), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 60, 90, 4, 7)
    )
    assert [(row.grid, row.total_ns) for row in found.rows] == [("[40,1,1]", 30_000), ("[20,1,1]", 10_000)]


def test_needs_blocks_per_multiprocessor() -> None:
    trace = TraceBuilder(devices=(MI300X,))
    trace.kernel("small", 0, 10, blocks_per_sm=None, grid=(0, 0, 0))
    reason = sm_fill.ANALYSES[0].missing(Context(read_built(trace)))
    assert reason is not None
    assert "blocks per multiprocessor" in reason.text
    assert sm_fill.ANALYSES[0].missing(Context(read_built(training([addition(10)])))) is None


def test_kernels_of_an_unknown_device_are_left_out() -> None:
    """It is unknown which kernels share its multiprocessors."""
    trace = TraceBuilder(devices=(V100,))
    trace.kernel("small", 0, 10, grid=(20, 1, 1))
    assert sm_fill.ANALYSES[0].missing(Context(read_built(trace))) is None
    unknown = Context(read(trace.to_bytes().replace(b'"device": 0', b'"device": "?"')))
    assert sm_fill.ANALYSES[0].missing(unknown) is not None
    assert sm_fill.sm_fill(unknown).rows == ()


def test_absurd_numbers_of_blocks_do_not_swallow_the_others() -> None:
    trace = TraceBuilder(devices=(V100,))
    for start in (0, 10, 20):
        trace.kernel("absurd", start, 10, grid=(160, 1, 1), stream=8)
        trace.kernel("absurd", start, 10, grid=(160, 1, 1), stream=9)
    trace.kernel("small", 30, 10, grid=(20, 1, 1))
    written = b'"blocks per SM": 2.000000'
    assert written in trace.to_bytes()
    absurd = read(trace.to_bytes().replace(written, b'"blocks per SM": 1e308'))
    (row,) = sm_fill.sm_fill(Context(absurd)).rows
    assert row.fill == pytest.approx(0.25)
