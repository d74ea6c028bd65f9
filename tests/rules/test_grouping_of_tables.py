"""What a printed table is grouped by decides nothing: shapes, stacks and overloads only add rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from traceanalyzer.analyzers.tables.grouping import RunView, group
from traceanalyzer.analyzers.tables.kinds import is_device_row
from traceanalyzer.analyzers.tables.runs import analyze
from traceanalyzer.pipeline import analyze as report_on
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.facts.sources import of_tables as facts
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow, TableTotals

PLAIN = ("name", "self_cpu_ns", "cpu_total_ns", "self_device_ns", "device_total_ns", "self_device_mem_bytes", "calls")
HOST = (
    "aten::cudnn_convolution",
    "aten::cudnn_batch_norm",
    "aten::add_",
    "aten::mul",
    "aten::mm",
    "aten::copy_",
    "aten::_to_copy",
    "aten::contiguous",
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::bmm",
    "aten::softmax",
    "aten::select",
    "MmBackward0",
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    "Optimizer.step#Adam.step",
    "Optimizer.zero_grad#Adam.zero_grad",
    "DataParallel.forward",
    "ProfilerStep*",
)
DEVICE = (
    "Memcpy HtoD (Pageable -> Device)",
    "Memcpy HtoD (Pinned -> Device)",
    "volta_sgemm_128x64_nn",
    "volta_dgemm_64x64_nn",
    "void cudnn::ops::nchwToNhwcKernel<float, float>()",
    "void at::native::elementwise_kernel<4>()",
    "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float>()",
)
MS = 1_000_000


@st.composite
def profiles(draw: st.DrawFn) -> list[TableRow]:
    """Rows of a table that is grouped by shape."""
    names = draw(st.lists(st.sampled_from(HOST + DEVICE), min_size=1, max_size=12, unique=True))
    shapes = st.lists(st.sampled_from(["[[8, 3]]", "[[8, 64, 7, 7], [3]]", "[]"]), min_size=1, max_size=3, unique=True)
    return [_row(draw, name, own) for name in names for own in draw(shapes if name in HOST else st.just(["[]"]))]


def _row(draw: st.DrawFn, name: str, shapes: str) -> TableRow:
    host = draw(st.integers(1, 400)) if name in HOST else 0
    device = draw(st.integers(1 - min(host, 1), 400))
    return TableRow(
        line=1,
        name=name,
        self_cpu_ns=host * MS,
        cpu_total_ns=host * MS,
        self_device_ns=device * MS,
        device_total_ns=device * MS,
        self_device_mem_bytes=draw(st.integers(-100, 100)),
        calls=draw(st.integers(1, 300)),
        input_shapes=shapes,
    )


def flat(rows: Sequence[TableRow]) -> list[TableRow]:
    """What torch prints without shapes."""
    found: dict[str, TableRow] = {}
    for row in rows:
        before = found.get(row.name)
        sums = {name: getattr(row, name) + (getattr(before, name) if before else 0) for name in PLAIN[1:]}
        found[row.name] = replace(row, input_shapes=None, **sums)
    return list(found.values())


def table(rows: Sequence[TableRow], *details: str) -> ProfilerTable:
    host = sum(row.self_cpu_ns or 0 for row in rows)
    device = sum(row.self_device_ns or 0 for row in rows if is_device_row(row)) or None
    totals = TableTotals(self_cpu_ns=max(host, 1), self_device_ns=device)
    columns = (*PLAIN, *details)
    return ProfilerTable(
        title=None, section=None, line=1, columns=columns, device="CUDA", rows=tuple(rows), totals=totals
    )


def report(*tables: ProfilerTable) -> Report:
    found = report_on(TableDocument(name="tables.txt", size_bytes=None, tables=tables))
    assert not [entry for entry in found.skipped if entry.reason.id == "rule-failed"]
    return found


@given(profiles())
def test_findings_do_not_depend_on_grouping_by_shape(rows: list[TableRow]) -> None:
    """With its shapes hidden, a grouped table gives every rule the same figures as the flat table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunView, "by_shape", [])
        ungrouped, grouped = report(table(flat(rows))), report(table(rows, "input_shapes"))
    assert ungrouped.findings == grouped.findings
    assert ungrouped.skipped == grouped.skipped
    assert ungrouped.headlines == grouped.headlines


def test_an_operator_of_one_shape_is_told_without_it() -> None:
    """Its sum over shapes is its only row, which must not look as if the shape had been asked for."""
    times = {
        "aten::item": (1, 0),
        "aten::contiguous": (1, 1),
        "Memcpy HtoD (Pageable -> Device)": (0, 1),
        "aten::copy_": (1, 1),
    }
    shaped = [
        TableRow(
            line=1,
            name=name,
            self_cpu_ns=host * MS,
            cpu_total_ns=host * MS,
            self_device_ns=device * MS,
            device_total_ns=device * MS,
            self_device_mem_bytes=0,
            calls=1,
            input_shapes="[[8, 3]]" if host else "[]",
        )
        for name, (host, device) in times.items()
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunView, "by_shape", [])
        ungrouped, grouped = report(table(flat(shaped))), report(table(shaped, "input_shapes"))
    assert [finding.rule for finding in ungrouped.findings]
    assert ungrouped.findings == grouped.findings


@given(profiles())
def test_a_flat_table_adds_nothing_to_one_that_is_grouped(rows: list[TableRow]) -> None:
    grouped, both = report(table(rows, "input_shapes")), report(table(flat(rows)), table(rows, "input_shapes"))
    assert both.findings == grouped.findings
    assert both.skipped == grouped.skipped
    assert both.headlines == grouped.headlines


@pytest.mark.parametrize("detail", ["input_shapes", "source_location", "overload_name"])
def test_events_in_two_tables_count_once(detail: str) -> None:
    values = {
        "input_shapes": ("[[1]]", "[[2]]"),
        "source_location": (("a.py",), ("b.py",)),
        "overload_name": ("x", "y"),
    }
    rows = [
        TableRow(line=1, name="aten::add", self_cpu_ns=MS * n, self_device_ns=0, calls=n, **{detail: value})
        for n, value in enumerate(values[detail], 2)
    ]
    whole = TableRow(line=1, name="aten::add", self_cpu_ns=MS * 5, self_device_ns=0, calls=5)
    (view,) = group(TableDocument(name="t", size_bytes=None, tables=(table([whole]), table(rows, detail))))
    assert [(hot.calls, hot.host_self_ns) for hot in analyze(view).operators] == [(5, 5 * MS)]
    (alone,) = group(TableDocument(name="t", size_bytes=None, tables=(table(rows, detail),)))
    assert [(hot.calls, hot.host_self_ns) for hot in analyze(alone).operators] == [(5, 5 * MS)]


def test_rules_see_every_name_once() -> None:
    rows = [
        TableRow(line=1, name="aten::add_", self_cpu_ns=MS, self_device_ns=0, calls=6, input_shapes=shapes)
        for shapes in ("[[1]]", "[[2]]")
    ]
    views = group(TableDocument(name="t", size_bytes=None, tables=(table(rows, "input_shapes"),)))
    (found,) = facts(views, {"runs": [analyze(view) for view in views]})
    assert isinstance(found, Facts)
    assert [(row.name, row.calls) for row in found.operators] == [("aten::add_", 12)]
    assert [(row.shapes, row.calls) for row in found.shaped] == [("[[1]]", 6), ("[[2]]", 6)]
