"""The numbers that real documents must give, and what no document may do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import traceanalyzer as ta
from tests import corpus_files
from traceanalyzer.analyzers.tables.grouping import PrintedTable
from traceanalyzer.analyzers.tables.runs import PrintedRun
from traceanalyzer.errors import TraceAnalyzerError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "key_averages"
ARTICLE = (FIXTURES / "article.md").read_bytes()


def report_of(folder: Path, number: str) -> ta.Report:
    (path,) = (folder / "documents").glob(f"{number}_*")
    return corpus_files.report_of(path)


def runs_of(folder: Path, number: str) -> tuple[PrintedRun, ...]:
    return report_of(folder, number).result("runs", tuple[PrintedRun, ...]) or ()


def ms(value: float | None) -> float | None:
    return None if value is None else round(value / 1e6, 2)


@pytest.mark.corpus
@pytest.mark.parametrize(("number", "rows"), [("000", [30, 30]), ("002", [40] * 6), ("004", [63])])
def test_every_table_and_row_is_read(corpus: Path, number: str, rows: list[int]) -> None:
    tables = report_of(corpus, number).result("tables", tuple[PrintedTable, ...]) or ()
    assert [len(table.rows) for table in tables] == rows
    assert all(table.complete for table in tables)
    unread = {(row["name"], key) for table in tables for row in table.rows for key in table.columns if row[key] is None}
    assert not unread


@pytest.mark.corpus
def test_document_000(corpus: Path) -> None:
    (run,) = runs_of(corpus, "000")
    assert run.steps == 100
    assert ms(run.wall_estimate_ns_per_step) == 174.76
    assert ms((run.device_ns or 0) / run.steps) == 44.05
    assert ms((run.dataloader_ns or 0) / run.steps) == 165.16
    assert ms((run.sync_ns or 0) / run.steps) == 3.46
    costs = {hot.name: hot for hot in run.operators}
    assert ms((costs["aten::add_"].device_self_ns or 0) / 100) == 6.03
    assert costs["aten::add_"].device_share == pytest.approx(0.137, abs=5e-4)
    assert costs["aten::cudnn_batch_norm"].device_share == pytest.approx(0.151, abs=5e-4)


@pytest.mark.corpus
def test_document_002(corpus: Path) -> None:
    before, after = runs_of(corpus, "002")
    assert (before.steps, after.steps) == (50, 50)
    assert (before.device_ns, after.device_ns) == (28_157_000_000, 506_149_000)
    assert ms((before.device_ns or 0) / 50) == 563.14
    assert ms((before.cpu_ns or 0) / 50) == 584.76
    assert before.device_share_at_most == pytest.approx(0.963, abs=5e-4)
    top = before.shape_costs[0]
    assert (top.name, top.input_shapes) == ("aten::mul", "[[8, 128, 984, 1], [8, 128, 984, 128]]")
    assert ms(top.device_ns_per_call) == 51.51
    assert top.peer is not None
    assert ms(top.peer.device_ns_per_call) == 2.21
    assert ms(top.peer.saving_ns / 50) == 295.81


@pytest.mark.corpus
def test_before_and_after_stand_side_by_side(corpus: Path) -> None:
    text = ta.render(report_of(corpus, "002"), "markdown")
    (line,) = (line for line in text.splitlines() if line.startswith("| Device |"))
    assert "563.1 ms" in line
    assert "10.12 ms" in line
    assert "2.211 ms" in text


@pytest.mark.corpus
def test_document_004_has_no_device(corpus: Path) -> None:
    (run,) = runs_of(corpus, "004")
    assert run.device_ns is None
    assert run.cpu_ns == 9_217_000_000
    assert run.operators[0].name == "aten::mkldnn_convolution_backward_input"
    assert not run.kernels


@pytest.mark.corpus
@pytest.mark.parametrize("number", ["001", "003"])
def test_documents_without_a_table_say_what_was_looked_for(corpus: Path, number: str) -> None:
    with pytest.raises(TraceAnalyzerError) as caught:
        report_of(corpus, number)
    assert "\n" not in str(caught.value)
    assert re.search(r"key_averages\(\)\.table\(\)|torch\.profiler\.profile", str(caught.value))


@pytest.mark.parametrize("path", sorted(FIXTURES.iterdir()), ids=lambda path: path.name)
def test_every_fixture_gives_a_report_or_one_line(path: Path) -> None:
    if path.name in ("README.md", "look_alikes.md"):
        with pytest.raises(TraceAnalyzerError, match=r"contains (neither|output of memory_profiler)"):
            ta.load(path)
        return
    report = corpus_files.report_of(path)
    assert report.result("tables", tuple[PrintedTable, ...])
    assert ta.render(report, "markdown").startswith("<!-- traceanalyzer report")
    assert path.name in ta.render(report, "terminal")


@given(cut=st.floats(0, 1), flips=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=12))
def test_damage_never_escapes(
    cut: float, flips: list[tuple[float, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray(ARTICLE[: int(cut * len(ARTICLE))])
    for where, byte in flips:
        if data:
            data[min(int(where * len(data)), len(data) - 1)] = byte
    path = tmp_path_factory.mktemp("damaged") / "article.md"
    path.write_bytes(bytes(data))
    try:
        report = corpus_files.report_of(path)
    except TraceAnalyzerError as error:
        outcome = [str(error)]
    else:
        outcome = [ta.render(report, form)[:1] for form in ("markdown", "terminal", "json")]
    assert all(outcome)
    assert len(outcome) == 3 or "\n" not in outcome[0]
