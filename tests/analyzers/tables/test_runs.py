"""Which tables form a run, and the figures of a run."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import MS, SHAPED, document, row, table
from traceanalyzer.analyzers import tables
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.runs import PrintedRun, analyze, analyze_all
from traceanalyzer.pipeline import analyze as report_on
from traceanalyzer.sections.tables import build
from traceanalyzer.structure.recording import Recording
from traceanalyzer.trace.document import ProfilerTable


def run_of(*found: ProfilerTable) -> PrintedRun:
    (view,) = group(document(*found))
    return analyze(view)


def test_tables_of_equal_totals_are_one_run() -> None:
    by_cpu = table(row("aten::mm", 10, 40), cpu=100, device=80, title="by CPU")
    by_device = table(row("gemm_kernel", 0, 40), cpu=100, device=80, title="by CUDA")
    after = table(row("aten::mm", 5, 4), cpu=50, device=8)
    views = group(document(by_cpu, by_device, after))
    assert [view.positions for view in views] == [(0, 1), (2,)]
    assert [view.id for view in views] == ["run-1", "run-2"]


def test_tables_of_one_run_need_not_be_neighbours() -> None:
    one, other = table(row("aten::mm", 1), cpu=100), table(row("aten::mm", 2), cpu=90)
    assert [view.positions for view in group(document(one, other, one))] == [(0, 2), (1,)]


def test_a_cut_table_belongs_to_the_run_of_its_section() -> None:
    whole = table(row("aten::mm", 10), section="Before")
    cut = table(row("aten::mm", 9), cpu=None, section="Before")
    elsewhere = table(row("aten::mm", 9), cpu=None, section="After")
    assert [view.positions for view in group(document(whole, cut, elsewhere))] == [(0, 1), (2,)]


def test_a_row_that_is_printed_in_two_tables_counts_once() -> None:
    shared = row("aten::mm", 10, 40, calls=3)
    run = run_of(table(shared, row("aten::relu", 5, 20), device=80), table(shared, row("aten::add", 1, 20), device=80))
    assert {hot.name: hot.device_self_ns for hot in run.operators} == {
        "aten::mm": 40 * MS,
        "aten::relu": 20 * MS,
        "aten::add": 20 * MS,
    }


def test_rows_of_one_name_with_overloads_are_one_operator() -> None:
    run = run_of(table(row("aten::add", 10, 4, calls=2), row("aten::add", 3, 5, calls=1), device=20))
    (add,) = run.operators
    assert (add.calls, add.device_self_ns, add.host_self_ns) == (3, 9 * MS, 13 * MS)
    assert add.device_share == pytest.approx(9 / 20)


def test_cut_names_may_be_different_kernels() -> None:
    cut = "void at::native::elementwise_kernel<128, 2, at::nati..."
    run = run_of(table(row(cut, 0, 9, name_truncated=True), row(cut, 0, 3, name_truncated=True), device=12))
    assert [kernel.device_self_ns for kernel in run.kernels] == [9 * MS, 3 * MS]


def test_operators_and_their_kernels_are_never_added() -> None:
    run = run_of(table(row("aten::mm", 10, 40), row("volta_sgemm_128x64_nn", 0, 40), device=40))
    assert [hot.name for hot in run.operators] == ["aten::mm"]
    assert [hot.name for hot in run.kernels] == ["volta_sgemm_128x64_nn"]
    assert run.device_hidden_share == 0


def test_device_spans_of_annotations_are_no_kernels() -> None:
    run = run_of(
        table(
            row("forward", 20, 0), row("forward", 0, 70), row("backward", 0, 50), row("gemm_kernel", 0, 40), device=40
        )
    )
    assert [hot.name for hot in run.kernels] == ["gemm_kernel"]
    assert run.annotations_in_total is False


def test_a_total_that_counts_spans_is_told() -> None:
    run = run_of(table(row("forward", 0, 60), row("gemm_kernel", 0, 40), device=100))
    assert run.annotations_in_total is True


def test_whether_spans_are_in_the_total_is_unknown_where_rows_are_missing() -> None:
    run = run_of(table(row("forward", 0, 30), row("gemm_kernel", 0, 40), device=100))
    assert run.annotations_in_total is None


def test_spans_that_a_total_counts_are_subtracted_if_the_host_has_them_too() -> None:
    """A kernel of 40 ms, and its range, which lasts 50; the last printed row says that no other takes 2 ms."""
    rows = [row("layer", 0, 50), row("gemm_kernel", 0, 40), row("layer", 9, 0, device_total_ns=40 * MS)]
    run = run_of(table(*rows, device=90, cpu=20))
    assert (run.annotations_in_total, run.device_ns, run.device_share_at_most) == (True, 40 * MS, 1)
    run = run_of(table(*rows, row("aten::relu", 9, 0, device_total_ns=2 * MS), device=95, cpu=20))
    assert (run.annotations_in_total, run.device_ns) == (True, 45 * MS)
    run = run_of(table(*rows, row("aten::relu", 9, 0, device_total_ns=20 * MS), device=95, cpu=20))
    assert (run.annotations_in_total, run.device_ns) == (None, 95 * MS), "three hidden kernels are possible"


def test_without_self_times_and_totals_it_is_unknown_what_bounds_a_run() -> None:
    only_with_nested = row("MulBackward0", None, calls=2, cpu_total_ns=400 * MS)
    report = report_on(document(table(only_with_nested, cpu=None)))
    assert not report.headlines
    assert "q-no-self-times" in {warning.id for warning in report.warnings}
    recording = report.result("recording", Recording)
    assert recording
    assert recording.workload == "training", "rows that are not printed may have the rest"


def test_a_total_that_one_call_exceeds_is_unknown() -> None:
    """Ranges that end on another thread have negative self times, which other releases do not print."""
    long = row("forward", 3, calls=2, cpu_total_ns=400 * MS)
    run = run_of(table(long, cpu=100, device=20))
    assert (run.total_cannot_be, run.cpu_ns, run.wall_estimate_ns_per_step) == (True, None, None)
    nested = row("aten::to", 3, calls=4, cpu_total_ns=400 * MS)
    run = run_of(table(nested, cpu=100, device=20))
    assert (run.total_cannot_be, run.cpu_ns, run.wall_estimate_ns_per_step) == (False, 100 * MS, 100 * MS)
    remote = row("rpc_async#aten::add", 0, cpu_total_ns=400 * MS, is_async=True)
    assert run_of(table(remote, cpu=100)).total_cannot_be, "what runs elsewhere takes its time, too"
    negative = document(table(long, cpu=-7, device=20))
    assert "q-total-cannot-be" in {warning.id for warning in report_on(negative).warnings}
    assert not report_on(negative).headlines


@pytest.mark.parametrize(
    ("names", "steps", "by"),
    [
        (["ProfilerStep*", "Optimizer.step#SGD.step"], 7, "ProfilerStep*"),
        (
            ["Optimizer.step#SGD.step", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"],
            7,
            "Optimizer.step#SGD.step",
        ),
        (
            ["enumerate(DataLoader)#_MultiProcessingDataLoaderIter..."],
            7,
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter...",
        ),
        (["aten::mm"], 1, None),
    ],
)
def test_steps_are_counted_by_the_best_row(names: list[str], steps: int, by: str | None) -> None:
    rows = [row(name, 5, calls=7 + i, name_truncated=name.endswith("...")) for i, name in enumerate(names)]
    run = run_of(table(*rows))
    assert (run.steps, run.steps_from) == (steps, by)


def test_one_row_per_step_of_old_torch() -> None:
    run = run_of(table(row("ProfilerStep#3", 5), row("ProfilerStep#4", 5), row("aten::mm", 1)))
    assert (run.steps, run.steps_from) == (2, "ProfilerStep")


def test_the_estimate_of_wall_time_is_the_larger_of_host_and_device() -> None:
    run = run_of(table(row("ProfilerStep*", 1, calls=10), row("aten::mm", 99, 30), cpu=100, device=30))
    assert run.wall_estimate_ns_per_step == 10 * MS
    assert run.device_share_at_most == pytest.approx(0.3)
    busy = run_of(table(row("ProfilerStep*", 1, calls=10), row("aten::mm", 99, 300), cpu=100, device=300))
    assert busy.wall_estimate_ns_per_step == 30 * MS
    assert busy.device_share_at_most == 1


def test_waits_copies_and_allocations() -> None:
    run = run_of(
        table(
            row("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 30, calls=5),
            row("cudaStreamSynchronize", 8, calls=9),
            row("cudaLaunchKernel", 4),
            row("Memcpy HtoD (Pageable -> Device)", 0, 6, calls=5),
            row("aten::mm", 1, 20, self_device_mem_bytes=1000),
            row("aten::relu", 1, 5, self_device_mem_bytes=-400),
            device=31,
        )
    )
    assert run.dataloader_ns == 30 * MS
    assert run.sync_ns == 8 * MS
    assert [(copy.name, copy.calls, copy.device_ns) for copy in run.copies] == [
        ("Memcpy HtoD (Pageable -> Device)", 5, 6 * MS)
    ]
    assert run.allocated_bytes == 1000


def test_what_no_row_shows_is_unknown() -> None:
    run = run_of(table(row("aten::mm", 10), cpu=None))
    assert run.cpu_ns is None
    assert run.wall_estimate_ns_per_step is None
    assert run.dataloader_ns is None
    assert run.sync_ns is None
    assert run.allocated_bytes is None
    assert run.device_hidden_share is None


def test_rows_that_the_limit_cut_away_have_a_share() -> None:
    run = run_of(table(row("aten::mm", 60, 30), row("gemm_kernel", 0, 30), cpu=100, device=40))
    assert run.cpu_hidden_share == pytest.approx(0.4)
    assert run.device_hidden_share == pytest.approx(0.25)


def test_shapes_come_from_the_tables_that_are_grouped_by_them() -> None:
    flat = table(row("aten::mm", 10, 40, calls=4), device=40)
    shaped = table(
        row("aten::mm", 5, 30, calls=2, input_shapes="[[8, 8], [8, 8]]"),
        row("aten::mm", 5, 10, calls=2, input_shapes="[[4, 4], [4, 4]]"),
        device=40,
        columns=SHAPED,
    )
    run = run_of(flat, shaped)
    assert [hot.calls for hot in run.operators] == [4]
    assert [cost.calls for cost in run.shape_costs] == [2, 2]


def test_doubts_name_their_run() -> None:
    printed = document(table(row("aten::mm", 50)))
    results, skipped = tables.run(printed, group(printed))
    assert [(doubt.id, doubt.params["run"]) for doubt in tables.doubts(results)] == [
        ("q-table-truncated", "run-1"),
        ("q-no-steps-in-table", "run-1"),
    ]
    assert "gpu" in skipped


def test_doubts_of_several_tables_are_said_once() -> None:
    printed = document(*(table(row("aten::mm", 50 + n), cpu=100 + n) for n in range(3)))
    results, _ = tables.run(printed, group(printed))
    told, steps = tables.doubts(results)
    assert (told.id, told.count, told.params["all"]) == ("q-tables-truncated", 3, 3)
    assert told.params["share"] == pytest.approx(0.5)  # 50 of 100 ms are hidden in the first, a little less in others
    assert (steps.id, steps.count, steps.params) == ("q-no-steps-in-tables", 3, {"all": 3})


def test_a_doubt_about_one_of_several_tables_names_it() -> None:
    whole = table(row("ProfilerStep*", 100, calls=2))
    cut = table(row("ProfilerStep*", 30, calls=2), cpu=60)
    printed = document(whole, cut)
    results, _ = tables.run(printed, group(printed))
    assert [(doubt.id, doubt.params["run"]) for doubt in tables.doubts(results)] == [("q-table-truncated", "run-2")]


@pytest.mark.parametrize(
    ("titles", "ids"),
    [
        (["rank 1", "Rank: 0"], ["rank-1", "rank-0"]),
        (["rank 1", "rank 1, again"], ["run-1", "run-2"]),
        (["rank 1", "frank 2"], ["run-1", "run-2"]),
        ([f"=== [rank{n}] ===" for n in range(6)], [f"rank-{n}" for n in range(6)]),
        (["rank 7", *"abcd"], [f"table-{n}" for n in range(1, 6)]),
        (["rank 7"], ["run-1"]),
    ],
)
def test_ranks_are_told_by_their_headings(titles: list[str], ids: list[str]) -> None:
    found = document(*(table(row("aten::mm", 10), cpu=100 + n, title=title) for n, title in enumerate(titles)))
    assert [view.id for view in group(found)] == ids


@pytest.mark.parametrize(
    ("other", "is_like"),
    [
        (table(row("a", 1), row("b", 1), cpu=125), True),
        (table(row("a", 1), row("b", 1), cpu=126), False),
        (table(row("a", 1), cpu=101), True),
        (table(row("a", 1), row("c", 1), row("d", 1), cpu=101), False),
        (table(row("a", 1), row("b", 1), cpu=None), False),
        (table(row("a", 1), row("b", 1), cpu=100, device=5), False),
    ],
)
def test_tables_are_alike_by_rows_and_totals(other: ProfilerTable, is_like: bool) -> None:
    runs = analyze_all(group(document(table(row("a", 1), row("b", 1), cpu=100), other)))
    assert [run.like for run in runs] == [None, "run-1" if is_like else None]


def test_of_many_tables_that_are_alike_one_is_shown() -> None:
    """Two phases on each of four ranks, printed one after another."""
    found = [
        table(row(name, 10), cpu=cpu + n, title=None)
        for n in range(4)
        for name, cpu in (("prefill", 500), ("decode", 80))
    ]
    report = report_on(document(*found))
    sections = {section.id: section for section in build(report, 10)}
    assert sections["runs"].title.id == "runs-tables-compared-title"
    assert [key for key in sections if key.startswith("table-") and key.count("-") == 1] == ["table-1", "table-2"]
    assert (sections["table-1"].title.id, sections["table-1"].title.params) == ("runs-table-title", {"number": "1"})
    assert sections["table-2"].messages[1].text == (
        "3 more have mostly the same rows and about the same totals: table-4, table-6, table-8."
    )
    assert [warning.id for warning in report.warnings] == ["q-tables-truncated", "q-no-steps-in-tables"]


def test_many_tables_are_listed_and_not_compared() -> None:
    report = report_on(document(*(table(row("aten::mm", 10 + n), cpu=100 + n) for n in range(16))))
    sections = {section.id: section for section in build(report, 10)}
    assert "runs-operators" not in sections
    assert "tables with 16 different totals" in sections["runs"].messages[0].text
    (listed,) = sections["runs"].tables
    assert len(listed.rows) == 16
    assert all(any(row[column] is not None for row in listed.rows) for column in range(len(listed.columns)))


def test_a_run_without_any_of_the_operators_has_no_column() -> None:
    report = report_on(document(table(row("aten::mm", 10, 5), device=10), table(row("gemm_kernel", 0, 7), device=11)))
    sections = {section.id: section for section in build(report, 10)}
    assert len(sections["runs-operators"].tables[0].columns) == 2


def test_totals_that_a_copy_lacks_follow_from_the_largest_shares() -> None:
    rows = (
        row("aten::mm", 30, 9, self_cpu_share=0.6, self_device_share=0.3),
        row("aten::mul", 5, 3, self_cpu_share=0.0999, self_device_share=0.0999),
    )
    run = run_of(table(*rows, cpu=None))
    assert (run.cpu_ns, run.device_ns, run.wall_estimate_ns_per_step) == (50 * MS, 30 * MS, 50 * MS)
    assert run.totals_from_shares
    assert not run_of(table(*rows, cpu=50, device=30)).totals_from_shares


def test_a_tiny_share_gives_no_total() -> None:
    run = run_of(table(row("aten::mul", 5, self_cpu_share=0.0024), cpu=None))
    assert (run.cpu_ns, run.wall_estimate_ns_per_step, run.totals_from_shares) == (None, None, False)


def test_a_negative_total_is_unknown_and_so_are_shares_of_it() -> None:
    run = run_of(table(row("DistributedDataParallel.forward", -5, self_cpu_share=0.25), cpu=-20))
    assert (run.cpu_ns, run.wall_estimate_ns_per_step) == (None, None)
    run = run_of(table(row("aten::mm", 10, self_cpu_share=0.5), row("forward", -5), cpu=None))
    assert run.cpu_ns == 20 * MS


def test_device_time_of_printed_operators_is_not_hidden() -> None:
    """Tables that are sorted by calls, or of the first profiler, have no rows of kernels."""
    run = run_of(table(row("aten::mm", 10, 30), row("aten::mul", 5, 10), device=50))
    assert run.device_hidden_share == pytest.approx(0.2)
    both = run_of(table(row("aten::mm", 10, 30), row("gemm_kernel", 0, 30), row("add_kernel", 0, 15), device=50))
    assert both.device_hidden_share == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("name", "hidden", "workload", "evidence"),
    [
        ("aten::mm", 0, "inference", "no-backward"),
        ("aten::mm", 5, "fragment", "no-backward-printed"),
        ("aten::addcdiv_", 0, "training", "optimizer-operators"),
        ("aten::_fused_adamw_", 5, "training", "optimizer-operators"),
        ("aten::addcdiv", 0, "inference", "no-backward"),
        ("aten::mm", 60, "fragment", "hidden-rows"),
        ("aten::threshold_backward", 0, "micro-benchmark", "backward-without-optimizer"),
        ("aten::threshold_backward", 5, "training", "backward-operators"),
    ],
)
def test_what_row_limit_hides_is_not_called_absent(name: str, hidden: int, workload: str, evidence: str) -> None:
    """Ranges of optimizers and of autograd have hardly any self time, so they are the first rows that are cut."""
    report = report_on(document(table(row(name, 100 - hidden, calls=20))))
    found = report.result("recording", Recording)
    assert found
    assert (found.workload, [reason.kind for reason in found.evidence]) == (workload, [evidence])
