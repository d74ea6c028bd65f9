"""What a batch says about all files: the index in two formats, and the summary as a table."""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest

from tests.batching.making import batch, population, trace, write
from tests.builders import A100, TraceBuilder
from tests.builders.memory_snapshot import MemoryRecorder
from tests.cli.running import TRAINING, call
from traceanalyzer.batching import ReportOptions, index, summary


class Page(HTMLParser):
    """Texts of the cells by row, links, and everything that is loaded from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        values = dict(attrs)
        assert not values.keys() & {"src", "onclick", "onload"}
        if tag == "tr":
            self.rows.append([])
        self.in_cell = self.in_cell or tag in ("td", "th")
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "a":
            self.links.append(unquote(values["href"] or ""))

    def handle_data(self, data: str) -> None:
        if self.in_cell:
            self.rows[-1][-1] += data.strip()

    def handle_endtag(self, tag: str) -> None:
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def column(self, title: str) -> list[str]:
        """Cells of a column of the table of runs, or of the first one with this title."""
        head = next(number for number, row in enumerate(self.rows) if title in row)
        width, at = len(self.rows[head]), self.rows[head].index(title)
        below = itertools.takewhile(lambda row: len(row) == width, self.rows[head + 1 :])
        return [row[at] for row in below]


def page(folder: Path) -> Page:
    return Page((folder / "index.html").read_text("utf-8"))


def test_runs_by_wasted_time(tmp_path: Path) -> None:
    for busy in (70, 5, 40):
        write(tmp_path / "in" / f"busy_{busy:02}.json", trace(busy))
    batch(tmp_path / "in", tmp_path / "out")
    shown = page(tmp_path / "out")
    assert shown.column("Run") == ["busy_05.json", "busy_40.json", "busy_70.json"]
    assert shown.column("Wasted GPU time") == ["95.00 us", "60.00 us", "30.00 us"]
    assert shown.column("GPU busy") == ["5.00 %", "40.00 %", "70.00 %"]
    assert shown.column("Typical step") == ["100.0 us"] * 3
    assert (
        shown.column("Parts of the step")[1]
        == "Other: 50.00 %, Kernels: 40.00 %, Launches and other GPU calls: 5.00 %, CPU in operators: 5.00 %"
    )


def test_what_hardly_has_work_is_not_in_the_sums(tmp_path: Path) -> None:
    """A recording of 10 s with one short kernel would make 99 % of all GPU time wasted."""
    working, hollow = TraceBuilder(), TraceBuilder()
    for built, length, kernels in ((working, 100_000, (40_000, 20_000)), (hollow, 10_000_000, (10,))):
        built.step(1, 0, length)
        for number, busy in enumerate(kernels):
            built.launch_kernel("ampere_sgemm_128x64_nn", 100 + 45_000 * number, busy, at=8 + number)
    write(tmp_path / "in" / "working.json", working.to_bytes())
    write(tmp_path / "in" / "hollow.json", hollow.to_bytes())
    batch(tmp_path / "in", tmp_path / "out")
    text = (tmp_path / "out" / "index.md").read_text("utf-8")
    assert "40.00 ms" in text
    assert "40.00 %" in text
    assert "Files with hardly any GPU work or without a typical step (not included in these sums): 1" in " ".join(
        text.replace("*", "").split()
    )
    ranked = [row[0] for row in page(tmp_path / "out").rows if row and row[0] in ("working.json", "hollow.json")]
    assert ranked == ["working.json", "hollow.json"]


def test_a_run_without_a_step_is_no_waste(tmp_path: Path) -> None:
    """Start-up is no step: its length and its idle time are nobody's to gain."""
    write(tmp_path / "in" / "busy.json", trace(40))
    loads = TraceBuilder()
    for number in range(4):
        loads.launch_kernel("ampere_sgemm_128x64_nn", 1000 * number + 20, 900, at=1000 * number)
    loads.launch("cuModuleLoadData", 100, 5000)
    write(tmp_path / "in" / "loads.json", loads.to_bytes())
    batch(tmp_path / "in", tmp_path / "out")
    shown = page(tmp_path / "out")
    assert dict(zip(shown.column("Run"), shown.column("Status"), strict=True))["loads.json"] == "No step"
    assert shown.column("Wasted GPU time")[shown.column("Run").index("loads.json")] == "unknown"
    assert shown.column("Typical step")[shown.column("Run").index("loads.json")] == "unknown"


def test_all_links_lead_to_reports(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 8, 2)
    write(source / "odd # name (1) [2]" / "a&b 100%.json", trace())
    batch(source, tmp_path / "out", options=ReportOptions(formats=("json", "markdown")))
    links = [link for link in page(tmp_path / "out").links if not link.startswith("#")]
    assert len(links) == 18
    assert all((tmp_path / "out" / link).is_file() for link in links)


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 2, 1)
    batch(source, tmp_path / "out")
    text = (tmp_path / "out" / "index.html").read_text("utf-8")
    assert not {"link", "img", "iframe", "object"} & set(Page(text).tags)
    assert "default-src &#39;none&#39;" in text
    assert "http://" not in text
    assert "https://" not in text
    assert str(tmp_path) not in text, "no path of this machine"


def test_hostile_names(tmp_path: Path) -> None:
    source = tmp_path / "in"
    write(source / "<script>alert(1)<" / "`|x|` [a](b).json", trace())
    write(source / "rank1_<b>.json", b"\0")
    batch(source, tmp_path / "out")
    assert page(tmp_path / "out").tags.count("script") == 2, "the page's own words and script"
    lines = (tmp_path / "out" / "index.md").read_text("utf-8").splitlines()
    rows = [line for line in lines if "alert" in line]
    assert rows
    heads = next(line for line in lines if line.startswith("| Run |"))
    assert {line.replace("\\|", "").count("|") for line in rows} == {heads.count("|")}


def test_more_rows_than_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "SHOWN", 3)
    batch(population(tmp_path / "in", 5, 0), tmp_path / "out")
    assert "3 of 5 rows; all files are in summary.csv." in (tmp_path / "out" / "index.html").read_text("utf-8")
    assert sum(row[0].startswith("part_") for row in page(tmp_path / "out").rows if row) == 3


def test_the_summary_has_the_figures_of_the_reports(tmp_path: Path) -> None:
    source = population(tmp_path / "in", 3, 1)
    batch(source, tmp_path / "out")
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == sorted(row["file"] for row in rows)
    assert [row["status"] for row in rows].count("failed") == 1
    for row in rows:
        if row["status"] == "failed":
            assert row["error"] == "is empty (0 bytes)"
            assert row["wasted_ns"] == ""
            continue
        report = json.loads((tmp_path / "out" / row["report"]).read_bytes())
        assert float(row["mean_step_ns"]) == report["analyses"]["recording"]["typical_step_ns"]
        (gpu,) = report["analyses"]["gpu"]["devices"]
        assert int(row["wasted_ns"]) == round(gpu["idle_share"] * int(row["window_ns"]))
        assert int(row["findings"]) == len(report["findings"])


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\uff1d"], ids=ascii)
def test_formulas_in_names_stay_text(tmp_path: Path, begin: str) -> None:
    write(tmp_path / "in" / f"{begin}1+1.json", trace())
    batch(tmp_path / "in", tmp_path / "out")
    (row,) = read_summary(tmp_path / "out")
    assert (row["file"], row["run"], row["status"]) == (f"'{begin}1+1.json", f"'{begin}1+1.json", "done")


@pytest.mark.parametrize("name", ["=1", "\t=HYPERLINK(1)", "\r=1", "\n=1", "\uff0b1", "a\x1b[31m\u202eb"], ids=ascii)
def test_names_of_devices_do_nothing(tmp_path: Path, name: str) -> None:
    built = TraceBuilder(devices=(replace(A100, name=name),))
    built.step(1, 0, 100)
    write(tmp_path / "in" / "x.json", built.to_bytes())
    batch(tmp_path / "in", tmp_path / "out")
    (row,) = read_summary(tmp_path / "out")
    assert row["device"] == ("a\ufffd[31m\ufffdb" if name[0] == "a" else f"'{name}".replace("\r", " "))


def read_summary(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_parquet_holds_the_same(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    batch(population(tmp_path / "in", 3, 1), tmp_path / "out")
    rows = parquet.read_table(tmp_path / "out" / "summary.parquet").to_pylist()
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        plain = list(csv.DictReader(file))
    assert [{key: "" if v is None else str(v) for key, v in row.items()} for row in rows] == plain
    assert isinstance(rows[0]["wasted_ns"], int | None)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(summary, "import_module", missing)
    _, told = batch(population(tmp_path / "in", 1, 0), tmp_path / "out")
    assert told.notes == [], "nobody asked for Parquet; docs/batch.md names the extra"
    assert (tmp_path / "out" / "summary.csv").exists()
    assert not (tmp_path / "out" / "summary.parquet").exists()


def test_every_column_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "batch.md").read_text("utf-8")
    for name in (*("file", "run", "status", "error"), *(name for name, _, _ in summary.COLUMNS)):
        assert f"| `{name}` |" in text


def test_golden_traces(corpus: Path, tmp_path: Path) -> None:
    """Two ranks of one run, and the waste of the rest as their reports say it."""
    batch(corpus / "corpus", tmp_path / "out")
    page_text = (tmp_path / "out" / "index.md").read_text("utf-8")
    assert "2 of 128, missing: 2-127" in page_text
    with (tmp_path / "out" / "summary.csv").open(encoding="utf-8", newline="") as file:
        rows = {row["file"]: row for row in csv.DictReader(file)}
    assert {row["status"] for row in rows.values()} == {"done"}
    assert len(rows) == len(list((corpus / "corpus").glob("*.json.gz")))
    sampled = [row["run"] for name, row in rows.items() if name.startswith("sampled_rank")]
    assert len(sampled) == 2
    assert len(set(sampled)) == 1


def test_files_that_were_left_out_are_named(tmp_path: Path) -> None:
    write(tmp_path / "in" / "busy.json", trace(70))
    for number in range(25):
        (tmp_path / "in" / f"notes_{number:02}.md").write_text("no table")
    batch(tmp_path / "in", tmp_path / "out")
    named = [row[0] for row in page(tmp_path / "out").rows if row and row[0].startswith("notes_")]
    assert named == [f"notes_{number:02}.md" for number in range(20)]
    assert "Files left out" in (tmp_path / "out" / "index.md").read_text("utf-8")


def test_no_two_landmarks_have_one_name(tmp_path: Path) -> None:
    assert call("batch", TRAINING, "-q", "-o", tmp_path / "out", "--jobs", "1").code == 0
    text = (tmp_path / "out" / "index.html").read_text("utf-8")
    landmarks = re.findall(r"<(?:section|nav|[^>]*role=\"region\")[^>]*aria-label(?:ledby)?=\"([^\"]+)\"", text)
    assert landmarks
    assert len(set(landmarks)) == len(landmarks)


def test_what_limits_a_snapshot_of_memory_has_a_name(tmp_path: Path) -> None:
    memory = MemoryRecorder()
    memory.alloc(5 << 20)
    (tmp_path / "in").mkdir()
    memory.write(tmp_path / "in" / "snapshot.pickle")
    batch(tmp_path / "in", tmp_path / "out", options=ReportOptions(formats=("json",), language="ru"))
    shown = page(tmp_path / "out")
    assert "занятой памятью" in itertools.chain.from_iterable(shown.rows)
