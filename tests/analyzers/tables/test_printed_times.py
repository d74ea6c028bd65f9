"""Steps, parts of the host's time, and times between events, as printed tables show them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.analyzers.tables.making import MS, document, row, table
from traceanalyzer.analyzers.tables import printed_times
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.kinds import classify
from traceanalyzer.analyzers.tables.printed_times import HostParts, divide_host_time
from traceanalyzer.analyzers.tables.runs import PrintedRun, analyze
from traceanalyzer.trace.document import TableRow

OPERATORS = [row(f"aten::op{number}", calls=100 * (number + 1)) for number in range(10)]
SPANS = (row("aten::conv2d", 4, 3), row("aten::empty", 2, 1), row("aten::cudnn_convolution", 80, 85))


def count(rows: list[TableRow], *loops: int) -> tuple[int, str | None]:
    return printed_times.count_steps(list(zip(rows, classify(rows), strict=True)), loops)


def test_a_loop_that_calls_every_operator_each_time_counts() -> None:
    assert count(OPERATORS, 100) == (100, "range(100)")


def test_an_operator_that_only_the_first_time_calls_more_often_does_not_matter() -> None:
    assert count([*OPERATORS, row("aten::add_", calls=1063)], 100) == (100, "range(100)")


@pytest.mark.parametrize("loop", [1, 0, 7, 200])
def test_a_loop_that_does_not_fit_the_calls_is_none_of_the_profile(loop: int) -> None:
    assert count(OPERATORS, loop) == (1, None)


def test_the_nearest_loop_that_fits_counts() -> None:
    assert count(OPERATORS, 3, 50, 100) == (50, "range(50)")


def test_few_operators_are_multiples_by_chance() -> None:
    assert count(OPERATORS[:4], 100) == (1, None)


def test_rows_of_steps_count_before_loops() -> None:
    assert count([*OPERATORS, row("Optimizer.step#SGD.step", calls=20)], 100) == (20, "Optimizer.step#SGD.step")


def trained(steps: int, marks: int, *, updates: int | None = None) -> list[TableRow]:
    """Rows of a training with so many complete steps, marks and updates."""
    names = [row(f"aten::op{number}", calls=steps * (number + 1)) for number in range(10)]
    update = row("Optimizer.step#SGD.step", calls=steps if updates is None else updates)
    return [row("ProfilerStep*", calls=marks), update, *names]


def test_a_mark_after_the_last_complete_step_is_no_step() -> None:
    """A loop that marks the end of each step leaves one more mark than steps if the profile goes on after it."""
    assert count(trained(3, 4)) == (3, "ProfilerStep*")
    assert count(trained(4, 4)) == (4, "ProfilerStep*")
    assert count(trained(4, 4, updates=3)) == (4, "ProfilerStep*"), "one update was skipped, as with scaled gradients"
    assert count(trained(1, 2)) == (2, "ProfilerStep*"), "too few to tell"


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
