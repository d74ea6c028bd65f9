"""Device times of the first profiler, which are spans between events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzers.tables.making import MS, document, row, table
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.runs import PrintedRun, analyze
from traceanalyzer.trace.document import TableRow

SPANS = (row("aten::conv2d", 4, 3), row("aten::empty", 2, 1), row("aten::cudnn_convolution", 80, 85))


def run_of(*rows: TableRow, cpu: int, device: int) -> PrintedRun:
    (view,) = group(document(table(*rows, cpu=cpu, device=device)))
    return analyze(view)


def test_spans_that_sum_to_the_hosts_time_say_nothing_of_the_device() -> None:
    for device in (80, 100, 125):
        run = run_of(*SPANS, cpu=100, device=device)
        assert (run.device_ns, run.device_share_at_most, run.has_event_spans) == (None, None, True)


@pytest.mark.parametrize("device", [79, 126])
def test_other_sums_do(device: int) -> None:
    run = run_of(*SPANS, cpu=100, device=device)
    assert (run.device_ns, run.has_event_spans) == (device * MS, False)


def test_other_devices_never_had_such_times() -> None:
    (view,) = group(document(replace(table(*SPANS, cpu=100, device=100), device="XPU")))
    assert analyze(view).device_ns == 100 * MS


def test_times_of_kernels_are_no_spans() -> None:
    assert run_of(*SPANS, row("cudnn_kernel", 0, 85), cpu=100, device=100).device_ns == 100 * MS
    assert run_of(row("aten::mm", 80, 85), row("aten::empty", 20, 0), cpu=100, device=100).device_ns == 100 * MS
