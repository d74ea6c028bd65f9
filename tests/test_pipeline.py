"""Read, analyze, report: the whole story on small traces."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.builders import TraceBuilder, distributed_info
from tests.builders.situations import mtia
from tests.reading import plain, read_built
from traceanalyzer.analyzers import OnDemand
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.formats import render, terminal
from traceanalyzer.inputs.opening import load, load_report
from traceanalyzer.pipeline import ANALYSES, StepChoice, analyze, context_of, report_on
from traceanalyzer.report.model import Report
from traceanalyzer.structure.steps import Steps
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Trace

TABLE = """
---------  ------------  ------------  ------------  ------------  ------------  ------------
     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
---------  ------------  ------------  ------------  ------------  ------------  ------------
 aten::mm       100.00%       5.000us       100.00%       5.000us       5.000us             1
---------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 5.000us
"""


def training(steps: int = 4) -> TraceBuilder:
    """Steps 10, 11, ... of 100 us, each with an operator and a kernel that are longer every time."""
    trace = TraceBuilder()
    for i in range(steps):
        trace.step(10 + i, 100 * i, 100)
        trace.op("aten::mm", 100 * i + 10, 20 + i)
        trace.launch_kernel("my_kernel", 100 * i + 40, 10 + i, at=100 * i + 15)
    return trace


def numbers(*names: int) -> Steps:
    borders = np.arange(len(names) + 1) * 100
    return Steps(tuple(map(str, names)), borders[:-1], borders[1:], "ProfilerStep")


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (StepChoice(), ("5", "6", "7", "8")),
        (StepChoice(first=6), ("6", "7", "8")),
        (StepChoice(last=6), ("5", "6")),
        (StepChoice(first=6, last=7), ("6", "7")),
        (StepChoice(first=6, last=6), ("6",)),
        (StepChoice(first=-3, last=99), ("5", "6", "7", "8")),
        (StepChoice(skip_warmup=1), ("6", "7", "8")),
        (StepChoice(skip_warmup=3), ("8",)),
        (StepChoice(first=6, skip_warmup=1), ("6", "7", "8")),
        (StepChoice(first=6, skip_warmup=2), ("7", "8")),
    ],
)
def test_steps_are_chosen_by_number_and_warmup_by_position(choice: StepChoice, names: tuple[str, ...]) -> None:
    assert choice.of(numbers(5, 6, 7, 8)).names == names


@pytest.mark.parametrize(
    "choice", [StepChoice(first=9), StepChoice(last=4), StepChoice(first=7, last=6), StepChoice(skip_warmup=4)]
)
def test_a_choice_that_leaves_nothing_is_an_error_of_use(choice: StepChoice) -> None:
    with pytest.raises(UsageError, match="no step is left to analyze: the trace has steps 5 to 8"):
        choice.of(numbers(5, 6, 7, 8))


def test_a_trace_without_steps_leaves_nothing_to_choose() -> None:
    with pytest.raises(UsageError, match="the trace has no steps"):
        StepChoice(first=1).of(numbers())


def test_only_the_empty_choice_is_everything() -> None:
    assert StepChoice().is_everything
    assert not StepChoice(first=0).is_everything
    assert not StepChoice(skip_warmup=1).is_everything


def calls(report: Report) -> tuple[int, int, int]:
    """Calls of the operator, its device time in us, calls of the kernel."""
    (operator,) = plain(report)["operators"]["rows"]
    (kernel,) = plain(report)["kernels"]["rows"]
    return operator["calls"], operator["device_total_ns"] // 1000, kernel["calls"]


def test_everything_counts_by_default() -> None:
    report = analyze(read_built(training()))
    assert calls(report) == (4, 10 + 11 + 12 + 13, 4)
    assert analyze(read_built(training()), StepChoice()) == report


def test_chosen_steps_are_all_that_counts() -> None:
    report = analyze(read_built(training()), StepChoice(first=11, last=12))
    breakdown = plain(report)["step_breakdown"]
    assert [step["name"] for step in breakdown["steps"]] == ["11", "12"]
    assert breakdown["window"] == {"start_ns": 100_000, "end_ns": 300_000}
    assert breakdown["average"]["kernel_ns"] == 11_500
    assert calls(report) == (2, 11 + 12, 2)
    (device,) = plain(report)["gpu"]["devices"]
    assert device["utilization"] == pytest.approx(23 / 200)


def test_steps_of_a_part_are_those_of_the_whole() -> None:
    """Steps that are left out must not change the bounds of the others."""
    whole = plain(analyze(read_built(training())))["step_breakdown"]["steps"]
    part = plain(analyze(read_built(training()), StepChoice(skip_warmup=1)))["step_breakdown"]["steps"]
    assert part == whole[1:]


def test_choosing_steps_that_are_not_there() -> None:
    with pytest.raises(UsageError, match="the trace has steps 10 to 13"):
        analyze(read_built(training()), StepChoice(first=99))


def test_the_trace_in_a_few_facts() -> None:
    trace = training()
    trace.distributed = distributed_info(1, 4)
    trace.options = ("record_shapes",)
    report = analyze(read_built(trace))
    summary = report.trace
    assert summary is not None
    assert (summary.events, summary.span_ns, summary.base_ns) == (16, 400_000, 1_700_000_000_000_000_000)
    assert (summary.rank, summary.world_size, summary.steps_from) == (1, 4, "ProfilerStep")
    assert summary.options.record_shapes
    assert [(device.id, device.vendor, device.sm_count) for device in summary.devices] == [(0, "NVIDIA", 108)]


def test_losses_become_warnings() -> None:
    trace = training()
    trace.add("npu_op", "aclnnAdd", (1, 2), (1, 1), {})
    warnings = {warning.id: warning for warning in analyze(read_built(trace)).warnings}
    assert warnings["read-unsupported"].count == 1
    assert warnings["read-unsupported"].message.params["category"] == "npu_op"


def test_missing_data_is_a_result() -> None:
    report = analyze(read_built(mtia()))
    skipped = {entry.id: entry.reason.id for entry in report.skipped}
    assert skipped["kernels"] == "skip-no-kernels"
    assert skipped["gpu"] == "skip-no-kernels"
    assert "kernels" not in plain(report)


def test_no_step_and_no_operator() -> None:
    trace = TraceBuilder()
    trace.memory(64, 10, device=0)
    skipped = {entry.id: entry.reason.id for entry in analyze(read_built(trace)).skipped}
    assert skipped["step_breakdown"] == "skip-no-steps"
    assert skipped["operators"] == "skip-no-operators"


def test_the_content_decides_what_a_file_is(tmp_path: Path) -> None:
    for name in ("a.json", "a.txt", "a"):
        path = tmp_path / name
        path.write_bytes(training().to_bytes())
        assert isinstance(load(path), Trace)
        path.write_text(TABLE, encoding="utf-8")
        assert isinstance(load(path), TableDocument)


def test_printed_tables_are_analyzed_too(tmp_path: Path) -> None:
    path = tmp_path / "tables.txt"
    path.write_text(TABLE, encoding="utf-8")
    document = load(path)
    report = analyze(document)
    assert (report.source.format, report.source.name, report.trace) == ("key_averages", "tables.txt", None)
    assert len(plain(report)["tables"]) >= 1
    with pytest.raises(UsageError, match=r"tables\.txt: .*steps can only be chosen of a trace"):
        analyze(document, StepChoice(first=1))
    assert analyze(document, StepChoice()) == report


@pytest.mark.parametrize("text", ["", "no table in here\n", "[1, 2]", '{"a": 1}'])
def test_what_is_neither_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UnusableInputError, match=r"^other\.txt: [^\n]+$|other\.txt: is empty"):
        load(path)


def test_one_file_one_report(tmp_path: Path) -> None:
    """No clock, no folder, nothing of the machine in it."""
    reports = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        path = training().write(tmp_path / folder / "trace.json")
        reports.append(analyze(load(path)))
    assert reports[0] == reports[1]
    assert str(tmp_path) not in repr(reports[0])


def test_a_saved_report_is_read_by_a_function_of_its_own(tmp_path: Path) -> None:
    report = analyze(read_built(training()))
    saved = tmp_path / "report.json"
    saved.write_text(render(report, "json"))
    with pytest.raises(UnusableInputError, match=r"^report\.json: is a saved report .*traceanalyzer\.load_report"):
        load(saved)
    assert render(load_report(saved), "json") == saved.read_text()
    table = tmp_path / "table.txt"
    table.write_text(TABLE)
    with pytest.raises(UnusableInputError, match=r"^table\.txt: is not a report .*traceanalyzer\.load reads"):
        load_report(table)


FOR_FILES = {"callers", "flame_frames", "slices"}
GPU_TRAINING = Path(__file__).parents[1] / "fixtures" / "synthetic" / "gpu_training.json.gz"


def test_the_first_screen_does_without_what_only_files_show() -> None:
    trace = load(GPU_TRAINING)
    assert isinstance(trace, Trace)
    whole, shown = report_on(trace, "x"), report_on(trace, "x", for_screen=True)
    assert whole.analyses.keys() - shown.analyses.keys() == FOR_FILES
    assert terminal.render(shown) == terminal.render(whole)
    assert (shown.findings, shown.headlines) == (whole.findings, whole.headlines)
    assert {skip.id for skip in shown.skipped} == {skip.id for skip in whole.skipped}


def test_a_rule_may_ask_for_what_the_first_screen_does_without() -> None:
    trace = load(GPU_TRAINING)
    assert isinstance(trace, Trace)
    later = [analysis for analysis in ANALYSES if analysis.is_for_files]
    known = OnDemand(context_of(trace, None, None), {}, later)
    assert set(known) == FOR_FILES
    assert len(known) == len(FOR_FILES)
    assert known["callers"] == report_on(trace, "x").analyses["callers"]
    assert known.get("kernels") is None
