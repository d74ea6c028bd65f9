"""Charts follow the theme of the page, have descriptions, and are deterministic."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from tests.builders import TraceBuilder
from tests.formats.samples import EVERY, report_of
from tests.reading import plain, read_built
from traceanalyzer.formats import chart_files, charts, html, pictures, report_charts
from traceanalyzer.formats.charts import Bars, Chart, Curves, LaneBox, Series, StackedBars
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.formats.svg import element
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report

STACKS = StackedBars(
    "chart-x",
    "Steps <of> 核心",
    "What & why",
    "ns",
    tuple(map(str, range(5))),
    (Series("Kernel", "kernel", (5e6, 6e6, 5e6, 9e6, 5e6)), Series("Other", "other", (1e6, 1e6, 0.0, 1e6, 1e6))),
    6e6,
    (3,),
)
BARS = Bars("chart-b", "Idle", "Why", ("核心 <b>", "$x$"), ("1 ms", "2 ms"), Series("Idle", "runtime", (2e6, 1e6)))
CURVES = Curves(
    "chart-c", "Memory", "GPU0", "bytes", ((0.0, 5e6, 9e6),), (Series("Allocated", "cpu_exec", (0.0, 2e9, 1e9)),)
)
ROLES = ("kernel", "other")
each_chart = pytest.mark.parametrize("chart", [STACKS, BARS, CURVES], ids=lambda chart: type(chart).__name__)
each_width = pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])


@each_chart
def test_the_same_chart_gives_the_same_bytes(chart: Chart) -> None:
    form, first = chart_files.draw(chart, ENGLISH, "svg")
    assert (form, first) == chart_files.draw(chart, ENGLISH, "svg")
    assert b"dc:date" not in first


@each_chart
@each_width
def test_in_the_page_it_has_the_colours_of_the_page(chart: Chart, width: int) -> None:
    text = element(chart, ENGLISH, width)
    assert not re.search(r"#[0-9a-f]{6}", text)
    assert 'style="' not in text
    assert "<style" not in text
    roles = set(re.findall(r"var\(--([\w-]+)\)", text))
    assert roles
    assert roles <= {role.replace("_", "-") for role in charts.PALETTE}
    assert chart.series if isinstance(chart, Bars) else all(s.role.replace("_", "-") in roles for s in chart.series)


@each_chart
def test_it_has_a_title_a_description_and_ids_of_its_own(chart: Chart) -> None:
    wide, narrow = (ET.fromstring(element(chart, ENGLISH, width)) for width in (charts.WIDE, charts.NARROW))
    assert wide.findtext("title") == chart.title
    assert wide.findtext("desc") == chart.description
    ids = [[part.get("id") for part in svg.iter() if part.get("id")] for svg in (wide, narrow)]
    assert not set(ids[0]) & set(ids[1])
    for svg, known in zip((wide, narrow), ids, strict=True):
        used = re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", ET.tostring(svg, encoding="unicode"))
        assert {a or b for a, b in used} <= set(known)


def test_texts_stay_text() -> None:
    texts = [element.text for element in ET.fromstring(element(BARS, ENGLISH, charts.WIDE)).iter("text")]
    assert {"核心 <b>", "$x$", "1 ms", "2 ms"} <= set(texts)


def test_every_bar_has_its_place_and_size() -> None:
    svg = ET.fromstring(element(STACKS, ENGLISH, charts.NARROW))
    kernel, other = (next(p.get("d") or "" for p in svg.iter("path") if p.get("fill") == f"var(--{r})") for r in ROLES)
    bars = [tuple(map(float, bar)) for bar in re.findall(r"M(\S+) (\S+)H(\S+)V(\S+)H", kernel)]
    assert [round(bottom - top, 1) for _, top, _, bottom in bars] == pytest.approx(
        [69.6, 83.6, 69.6, 125.4, 69.6], abs=0.2
    )
    assert {bottom for *_, bottom in bars} == {166}
    assert other.count("M") == 4  # what takes no time is not drawn
    marks = [text for text in svg.iter("text") if text.text == "▼"]
    assert [float(mark.get("x") or 0) for mark in marks] == pytest.approx([(bars[3][0] + bars[3][2]) / 2], abs=0.2)


def test_a_curve_keeps_each_level_until_the_next() -> None:
    svg = ET.fromstring(element(CURVES, ENGLISH, charts.NARROW))
    paths = [path for path in svg.iter("path") if path.get("stroke") == "var(--cpu-exec)"]
    left, right, ground = 52, charts.NARROW - 8, 166
    middle, high, low = left + (right - left) * 5 / 9, ground - 156 / 1.08, ground - 156 / 2.16
    points = [round(float(number), 1) for number in re.findall(r"[\d.]+", paths[0].get("d") or "")]
    assert points == pytest.approx([left, ground, middle, high, right, low], abs=0.06)
    area = next(path.get("d") for path in svg.iter("path") if path.get("fill-opacity"))
    assert area == f"{paths[0].get('d')}V{ground}H{left}Z"
    labels = {text.text for text in svg.iter("text")}
    assert {"0 GiB", "1 GiB", "0.0 ms", "5.0 ms"} <= labels


@each_width
def test_the_first_moment_of_a_curve_stands_beside_the_lowest_level(width: int) -> None:
    drawn = pictures.lay_out(CURVES, ENGLISH, width)
    (level,) = (label for label in drawn.labels if label.text.startswith("0") and label.anchor == "end")
    (moment,) = (label for label in drawn.labels if label.text.startswith("0") and label.anchor == "start")
    assert moment.x > level.x


def test_levels_below_0_and_a_single_moment_are_drawn() -> None:
    series = (Series("Allocated", "cpu_exec", (-1e6, 2e6)), Series("Reserved", "other", (0.0,)))
    below = Curves("chart-c", "Memory", "GPU0", "bytes", ((1e6, 2e6), (1e6,)), series)
    once = Curves("chart-c", "Memory", "GPU0", "bytes", ((1e6,),), (Series("Allocated", "cpu_exec", (0.0,)),))
    for chart in (below, once):
        numbers = re.findall(r"[MHV ](-?[\d.]+)", element(chart, ENGLISH, charts.WIDE))
        assert numbers
        assert all(0 <= float(number) <= charts.WIDE for number in numbers)


def test_parts_of_a_program_stand_above_the_curve_and_the_mark_leads_somewhere() -> None:
    """Names stand in boxes that have room for them; in a file the mark is a label only."""
    boxes = (
        LaneBox(0, 0.0, 1.0, 0.0, 5e6, "kernel", text="forward", title="forward: 5 ms"),
        LaneBox(1, 0.0, 1.0, 6e6, 6.01e6, "muted", text="zero_grad", title="zero_grad: 10 µs"),
    )
    chart = replace(CURVES, mark_ns=5e6, mark="Peak: 2 GB", above=boxes)
    plain_svg = ET.fromstring(element(chart, ENGLISH, charts.WIDE))
    texts = [text.text for text in plain_svg.iter("text")]
    assert {"forward", "Peak: 2 GB"} <= set(texts)
    assert "zero_grad" not in texts
    assert plain_svg.get("role") == "img"
    assert not list(plain_svg.iter("a"))
    linked = ET.fromstring(element(replace(chart, mark_link="#holders"), ENGLISH, charts.WIDE))
    (link,) = linked.iter("a")
    assert (link.get("href"), link.findtext("text")) == ("#holders", "Peak: 2 GB")
    assert linked.get("role") == "group"
    assert [path.findtext("title") for path in linked.iter("path") if len(path)] == ["forward: 5 ms"]
    highest = min(float(y) for path in linked.iter("path") for y in re.findall(r"M\S+ (\S+?)H", path.get("d") or ""))
    assert highest >= 0


@pytest.mark.parametrize(("top", "step"), [(0.7, 0.2), (4, 1), (4.1, 2), (9, 2.5), (18.3, 5), (1001, 500), (1, 0.25)])
def test_a_scale_has_round_steps(top: float, step: float) -> None:
    assert pictures.round_step(top) == step


def test_the_shortest_bar_is_seen() -> None:
    tiny = Bars("chart-b", "Idle", "Why", ("a", "b"), ("1 s", "1 ns"), Series("Idle", "runtime", (1e9, 1.0)))
    assert "H318.4" in element(tiny, ENGLISH, charts.WIDE)


def test_colours_tell_roles_apart() -> None:
    assert len(set(charts.PALETTE.values())) == len(charts.PALETTE)


def test_the_colours_of_a_theme_are_those_of_the_palette() -> None:
    """A chart in a separate file looks like the one in the light page."""
    style = html.source("style.css")
    for role in ("kernel", "memcpy", "memset", "communication", "runtime", "dataloader", "cpu_exec", "other", "grid"):
        assert f"--{role.replace('_', '-')}: light-dark({charts.PALETTE[role]}," in style


# From a report


def with_steps(durations_us: list[int]) -> Report:
    trace = TraceBuilder()
    start = 0
    for number, duration in enumerate(durations_us):
        trace.step(number, start, duration)
        trace.op("aten::mm", start + 10, duration - 20)
        trace.launch_kernel("gemm", start + 30, 20, at=start + 20)
        start += duration + 10
    return analyze(read_built(trace))


def test_steps_that_take_much_longer_are_marked() -> None:
    (chart,) = (
        c
        for owner, c in report_charts.of_report(with_steps([1000, 1000, 1500, 1000, 1100, 1000]), ENGLISH)
        if owner == "steps"
    )
    assert isinstance(chart, StackedBars)
    assert [chart.labels[i] for i in chart.marked] == ["2"]
    assert "Outliers, more than 20 % above it: 1." in chart.description


def test_many_steps_are_a_line() -> None:
    (chart,) = (c for owner, c in report_charts.of_report(with_steps([1000] * 300), ENGLISH) if owner == "steps")
    assert len(element(chart, ENGLISH, charts.WIDE)) < 20_000
    assert [label for _, label in html.picture(chart, ENGLISH).legend] == []
    assert [label for _, label in html.picture(STACKS, ENGLISH).legend] == ["Kernel", "Other"]


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_fixture_has_drawable_charts(path: object) -> None:
    report = report_of(path)  # type: ignore[arg-type]
    found = list(report_charts.of_report(report, ENGLISH))
    drawn = [element(chart, ENGLISH, width) for _, chart in found for width in (charts.WIDE, charts.NARROW)]
    assert [ET.fromstring(text).tag for text in drawn] == ["svg"] * len(drawn)
    if len(plain(report).get("step_breakdown", {}).get("steps", ())) > 1:
        assert "steps" in dict(found)
