"""Parts of a table's host time that are not the program's own work."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import MS, document, row, table
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.printed_times import HostParts, divide_host_time
from traceanalyzer.analyzers.tables.runs import analyze
from traceanalyzer.trace.document import TableRow


def parts(*rows: TableRow, steps: int = 1, is_device_known: bool = True) -> HostParts:
    (view,) = group(document(table(*rows)))
    return divide_host_time(view.by_name, steps, is_device_known=is_device_known)


def test_what_no_row_shows_is_unknown() -> None:
    assert parts(row("aten::mm", 5, 3)) == (None, None, None)


def test_copies_that_last_are_waits() -> None:
    lasting, quick = row("cudaMemcpyAsync", 40, calls=10), row("hipMemcpyWithStream", 1, calls=20)
    assert parts(lasting, quick, row("cudaStreamSynchronize", 2)).waits_ns == 42 * MS


@pytest.mark.parametrize(
    ("name", "calls", "steps", "is_startup"),
    [
        ("cudaFree", 6, 1, True),
        ("cudaFree", 100, 50, False),  # recurs in each step
        ("cudaMalloc", 500, 1, False),  # as long as allocations take
        ("cudaMemsetAsync", 4, 1, True),
        ("cuModuleLoadData", 900, 1, True),
        ("cudaLaunchKernel", 40_000, 1, False),
        ("cudaDeviceSynchronize", 1, 1, False),
    ],
)
def test_calls_that_take_far_too_long_load_or_allocate(name: str, calls: int, steps: int, is_startup: bool) -> None:
    assert (parts(row(name, 400, calls=calls), steps=steps).startup_ns == 400 * MS) is is_startup


def test_a_launch_that_takes_long_may_wait_for_a_device_that_was_not_recorded() -> None:
    assert not parts(row("cudaLaunchKernel", 400, calls=4), is_device_known=False).startup_ns
    assert parts(row("cudaMalloc", 400, calls=4), is_device_known=False).startup_ns == 400 * MS


def test_a_launch_that_takes_as_long_as_a_kernel_waits_for_a_full_queue() -> None:
    assert not parts(row("cudaLaunchKernel", 3000, calls=2000), row("conv_kernel", 0, 3000, calls=2000)).startup_ns
    assert parts(row("cudaLaunchKernel", 9000, calls=2000), row("conv_kernel", 0, 3000, calls=2000)).startup_ns


def test_overheads_are_the_profilers_or_the_drivers() -> None:
    found = parts(row("Activity Buffer Request", 3), row("Lazy Function Loading", 2))
    assert (found.profiler_ns, found.startup_ns) == (3 * MS, 2 * MS)


def test_the_times_of_a_run_are_those_of_its_rows() -> None:
    (view,) = group(document(table(row("aten::mm", 5, 3), row("cudaMalloc", 20), row("Buffer Flush", 4), device=9)))
    run = analyze(view)
    assert (run.startup_ns, run.profiler_ns, run.sync_ns) == (20 * MS, 4 * MS, None)
