"""Tables of torch before 1.7 print device times only with all that an operator calls: which of them add up?"""

from __future__ import annotations

from tests.analyzers.tables.making import MS, document, row, table
from traceanalyzer.analyzers.tables import grouping
from traceanalyzer.analyzers.tables.runs import PrintedRun, analyze
from traceanalyzer.trace.document import TableRow

OLD = ("name", "self_cpu_ns", "cpu_total_ns", "device_total_ns", "calls")


def old_row(name: str, own: int, total: int, device: int) -> TableRow:
    """A row of torch before 1.7; times in ms."""
    return row(name, own, device, cpu_total_ns=total * MS, self_device_ns=None)


def run_of(*rows: TableRow, cpu: int) -> PrintedRun:
    """The run of one such table."""
    (view,) = grouping.group(document(table(*rows, cpu=cpu, columns=OLD, has_plain_names=True)))
    return analyze(view)


CONVOLUTIONS = (
    old_row("conv2d", 1, 40, 90),
    old_row("_convolution", 2, 39, 90),
    old_row("cudnn_convolution", 36, 37, 89),
    old_row("relu_", 10, 10, 21),
)


def test_only_operators_that_call_no_others_count() -> None:
    run = run_of(*CONVOLUTIONS, cpu=50)
    assert (run.device_ns, run.device_from_operators, run.device_hidden_ns) == (110 * MS, True, None)
    assert [(hot.name, hot.device_self_ns, hot.device_total_ns) for hot in run.operators] == [
        ("cudnn_convolution", 89 * MS, None),
        ("relu_", 21 * MS, None),
        ("_convolution", None, 90 * MS),
        ("conv2d", None, 90 * MS),
    ]


def test_spans_that_are_about_as_long_as_the_host_s_time_may_be_waits_for_it() -> None:
    rows = (old_row("conv2d", 1, 40, 41), old_row("cudnn_convolution", 39, 39, 40), old_row("relu_", 10, 10, 11))
    run = run_of(*rows, cpu=50)
    assert (run.device_ns, run.has_event_spans) == (None, True)


def test_tables_with_own_device_times_keep_them() -> None:
    (view,) = grouping.group(document(table(row("aten::mm", 10, 5), row("aten::linear", 10, None), device=5)))
    run = analyze(view)
    assert (run.device_ns, run.device_from_operators) == (5 * MS, False)
