"""Charts as files: whole by themselves, the same every time, readable on light and dark ground."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.damage import clean
from tests.cli.running import spawn
from tests.formats import readback
from tests.formats.samples import FIXTURES, HOSTILE, TRAINING, marked, report_of
from tests.reading import read_built
from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.formats import chart_files, charts, language, png, report_charts
from traceanalyzer.formats.charts import Bars, Chart, Curves, LaneBox, Lanes, Series, StackedBars
from traceanalyzer.formats.markdown import DocumentPicture, render
from traceanalyzer.pipeline import analyze

EN, ZH = language.of("en"), language.of("zh")
SVG = "{http://www.w3.org/2000/svg}"
PARTS = (Series("Kernel", "kernel", (5e6, 6e6)), Series("Other </svg>", "other", (1e6, 1e6)))
STACKS = StackedBars("chart-x", "Steps <of> &", "What & why", "ns", ("1", "2"), PARTS, 6e6, (1,))
BARS = Bars("chart-b", "Idle", "Why", ("<b>", "$x$"), ("1 ms", "2 ms"), Series("Idle", "runtime", (2e6, 1e6)))
CURVES = Curves("chart-c", "Memory", "GPU0", "bytes", ((0.0, 5e6),), (Series("Allocated", "cpu_exec", (0.0, 2e9)),))
LATE = Curves(
    "chart-l", "Memory", "GPU0", "bytes", ((0.0, 1e12),), (Series("Allocated", "cpu_exec", (0.0, 1000 * 2**30)),)
)
BOXES = (LaneBox(0, 0.1, 0.9, 0.0, 4e6, "kernel"), LaneBox(1, 0.1, 0.9, 5e6, 1e7, "runtime", 0.5))
LANES = Lanes("chart-r", "Ranks", "D", ("Rank 0", "Rank 1"), 1e7, (), BOXES, (Series("Computes", "kernel", ()),))
each_chart = pytest.mark.parametrize("chart", [STACKS, BARS, CURVES], ids=lambda chart: type(chart).__name__)
each_form = pytest.mark.parametrize("form", ["svg", "png"])


def svg(chart: Chart) -> ET.Element:
    form, data = chart_files.draw(chart, EN, "svg")
    assert form == "svg"
    return ET.fromstring(data)


@each_chart
@each_form
def test_the_same_chart_gives_the_same_bytes(chart: Chart, form: str) -> None:
    first = chart_files.draw(chart, EN, form)
    assert first == chart_files.draw(chart, EN, form)
    assert first[0] == form
    assert (b"\x89PNG" in first[1][:8]) == (form == "png")
    assert b"traceanalyzer" in first[1][:100]
    assert b"matplotlib.org" not in first[1]


@each_chart
def test_svg_says_what_it_is(chart: Chart) -> None:
    root = svg(chart)
    texts = ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]
    assert root.findtext(f"{SVG}title") == chart.title
    assert root.findtext(f"{SVG}desc") == chart.description
    assert chart.title in texts
    assert chart.description in texts
    legend = () if isinstance(chart, Bars) else chart.series
    assert [text for text in texts if text in {part.label for part in legend}] == [part.label for part in legend]
    assert root.get("width") == str(charts.WIDE + 2 * chart_files.MARGIN)
    assert (root.get("viewBox") or "").split()[2:] == [root.get("width"), root.get("height")]


@each_chart
def test_svg_has_a_colour_for_the_dark_in_place_of_each(chart: Chart) -> None:
    text = chart_files.draw(chart, EN, "svg")[1].decode()
    style, _, drawing = text.partition("</style>")
    used = set(re.findall(r'(fill|stroke)="(#[0-9a-f]{6})"', drawing))
    assert used
    assert used <= {(kind, light) for kind in ("fill", "stroke") for light in charts.PALETTE.values()}
    for kind, light in used:
        assert f'[{kind}="{light}"]{{{kind}:' in style
    assert charts.DARK.keys() == charts.PALETTE.keys()
    assert "<script" not in text


def test_the_dark_colours_are_those_of_the_page() -> None:
    css = (Path(__file__).parents[2] / "report_templates" / "html" / "style.css").read_text("utf-8")
    page = dict(re.findall(r"--([\w-]+): light-dark\(#[0-9a-f]{6}, (#[0-9a-f]{6})\)", css))
    assert {role: page[role.replace("_", "-")] for role in charts.DARK} == charts.DARK


def test_a_line_of_many_steps_has_no_legend_of_parts() -> None:
    many = charts.MOST_BARS + 1
    parts = tuple(Series(part.label, part.role, (1e6,) * many) for part in PARTS)
    root = svg(StackedBars("chart-x", "T", "D", "ns", tuple(map(str, range(many))), parts, 1e6, ()))
    assert "Kernel" not in ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_png_without_glyphs_becomes_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    chart = Bars("chart-b", "Idle \U0010fffd", "Why", ("a",), ("1 ms",), Series("Idle", "runtime", (1.0,)))
    assert chart_files.draw(chart, EN, "png")[0] == "svg"
    monkeypatch.setattr(png, "fonts_with", lambda _: None)
    assert chart_files.draw(BARS, EN, "png")[0] == "svg"


def test_fonts_are_those_that_have_the_glyphs() -> None:
    assert png.fonts_with(frozenset("abc \n")) == ("DejaVu Sans",)
    assert png.fonts_with(frozenset("a\U0010fffd")) is None


@pytest.mark.parametrize("code", ["en", "ru"])
@pytest.mark.parametrize("chart", [STACKS, BARS, CURVES, LANES, LATE], ids=lambda chart: chart.id)
def test_nothing_is_cut_off_at_the_edges(chart: Chart, code: str) -> None:
    form, data = chart_files.draw(chart, language.of(code), "png")
    assert form == "png"
    image = pytest.importorskip("matplotlib.image").imread(io.BytesIO(data))
    edges = [image[0], image[-1], image[:, 0], image[:, -1]]
    assert all((edge == edge[0]).all() for edge in edges)


# Of a report


@each_form
def test_a_report_draws_its_charts_for_its_sections(form: str) -> None:
    report = report_of(TRAINING)
    drawn = list(chart_files.draw_all(report, EN, form, "my report"))
    assert len({asset.name for asset in drawn}) == len(drawn) >= 3
    assert {asset.section for asset in drawn} >= {"overview", "idle"}
    assert all(re.fullmatch(rf"my-report-[\w-]+\.{form}", asset.name) for asset in drawn)
    assert drawn == list(chart_files.draw_all(report, EN, form, "my report"))


def test_markdown_shows_pictures_in_place_of_bars_of_text() -> None:
    report = report_of(FIXTURES / "captured" / "transformer_memory.json.gz")
    drawn = [DocumentPicture(a.section, a.text, a.name) for a in chart_files.draw_all(report, EN, "svg", "r")]
    text = render(report, pictures=drawn)
    readback.check_structure(text, is_pictured=True)
    images = [token for token in readback.inline(text) if token.type == "image"]
    assert sorted(str(image.attrs["src"]) for image in images) == sorted(picture.target for picture in drawn)
    assert {image.content.replace("\\", "") for image in images} == {picture.text for picture in drawn}
    bars = "| █"
    assert bars not in text
    assert bars in render(report)


@pytest.mark.parametrize("name", HOSTILE[:24], ids=lambda name: ascii(name)[:30])
def test_hostile_names_do_not_leave_the_files(name: str) -> None:
    drawn = chart_files.draw_all(marked(name), EN, "svg", name)
    assert drawn
    for asset in drawn:
        assert re.fullmatch(r"[\w.-]+\.svg", asset.name)
        root = ET.fromstring(asset.data)
        assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
            "svg", "title", "desc", "style", "g", "path", "text", "rect",
        }  # fmt: skip


def test_memory_of_one_moment_is_no_curve() -> None:
    trace = clean()
    for allocated in (512, 1024):
        trace.memory(512, 30, allocated=allocated, reserved=2048, device=0)
    report = analyze(read_built(trace))
    assert report.result("memory", MemoryUse) is not None
    assert not [asset for asset in chart_files.draw_all(report, EN, "svg", "r") if asset.section == "memory"]


def test_steps_without_any_length_are_not_drawn() -> None:
    trace = TraceBuilder()
    trace.step(1, 10, 0)
    trace.step(2, 20, 0)
    assert "steps" not in dict(report_charts.of_report(analyze(read_built(trace)), language.ENGLISH))


def test_nobody_reads_where_matplotlib_keeps_its_cache(tmp_path: Path) -> None:
    """Its folder cannot be made below a file, which it says when it is imported."""
    (tmp_path / "file").write_text("")
    run = spawn(
        *("report", TRAINING, "-o", tmp_path / "x.md", "--assets", tmp_path / "charts", "--quiet"),
        *("--assets-format", "png"),
        env={"MPLCONFIGDIR": str(tmp_path / "file" / "cache")},
    )
    assert (run.code, run.err) == (0, "")
    assert list((tmp_path / "charts").glob("*.png"))
