"""Charts follow the theme of the page, say what they show, and are the same every time."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from tests.builders import TraceBuilder
from tests.reading import plain, read_built
from tests.renderers.samples import EVERY, report_of
from traceanalyzer.pipeline import analyze
from traceanalyzer.renderers import chart_data, charts
from traceanalyzer.renderers.charts import Bars, Chart, Curves, Series, Stacks
from traceanalyzer.renderers.html import page, themed
from traceanalyzer.renderers.language import ENGLISH
from traceanalyzer.report.model import Report

STACKS = Stacks(
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
each_chart = pytest.mark.parametrize("chart", [STACKS, BARS, CURVES], ids=lambda chart: type(chart).__name__)
each_width = pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])


@each_chart
@each_width
def test_the_same_chart_gives_the_same_bytes(chart: Chart, width: int) -> None:
    first = charts.svg(chart, ENGLISH, width)
    assert first == charts.svg(chart, ENGLISH, width)
    assert "dc:date" not in first
    assert ET.fromstring(first).get("width") == f"{width}pt"


@each_chart
@each_width
def test_in_the_page_it_has_the_colours_of_the_page(chart: Chart, width: int) -> None:
    text = themed.draw(chart, ENGLISH, width)
    assert not re.search(r"#[0-9a-f]{6}", text)
    assert 'style="' not in text
    assert "<style" not in text
    roles = set(re.findall(r"var\(--([\w-]+)\)", text))
    assert roles
    assert roles <= {role.replace("_", "-") for role in charts.PALETTE}
    assert chart.series if isinstance(chart, Bars) else all(s.role.replace("_", "-") in roles for s in chart.series)


@each_chart
def test_it_has_a_title_a_description_and_ids_of_its_own(chart: Chart) -> None:
    wide, narrow = (ET.fromstring(themed.draw(chart, ENGLISH, width)) for width in (charts.WIDE, charts.NARROW))
    assert wide.findtext("title") == chart.title
    assert wide.findtext("desc") == chart.description
    ids = [[element.get("id") for element in svg.iter() if element.get("id")] for svg in (wide, narrow)]
    assert not set(ids[0]) & set(ids[1])
    for svg, known in zip((wide, narrow), ids, strict=True):
        used = re.findall(r"url\(#([^)]+)\)|href=\"#([^\"]+)\"", ET.tostring(svg, encoding="unicode"))
        assert {a or b for a, b in used} <= set(known)


def test_texts_stay_text() -> None:
    texts = [element.text for element in ET.fromstring(themed.draw(BARS, ENGLISH, charts.WIDE)).iter("text")]
    assert {"核心 <b>", "$x$", "1 ms", "2 ms"} <= set(texts)


def test_colours_tell_roles_apart() -> None:
    assert len(set(charts.PALETTE.values())) == len(charts.PALETTE)


def test_the_colours_of_a_theme_are_those_of_the_palette() -> None:
    """A chart that stands alone looks like the one in the light page."""
    style = page.source("style.css")
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
        for owner, c in chart_data.build(with_steps([1000, 1000, 1500, 1000, 1100, 1000]), ENGLISH)
        if owner == "steps"
    )
    assert isinstance(chart, Stacks)
    assert [chart.labels[i] for i in chart.marked] == ["2"]
    assert "Outliers, more than 20.00 % above it: 1." in chart.description


def test_many_steps_are_a_line() -> None:
    (chart,) = (c for owner, c in chart_data.build(with_steps([1000] * 300), ENGLISH) if owner == "steps")
    assert len(themed.draw(chart, ENGLISH, charts.WIDE)) < 20_000


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
def test_every_fixture_has_drawable_charts(path: object) -> None:
    report = report_of(path)  # type: ignore[arg-type]
    for _, chart in chart_data.build(report, ENGLISH):
        for width in (charts.WIDE, charts.NARROW):
            assert ET.fromstring(themed.draw(chart, ENGLISH, width)).tag == "svg"
    if len(plain(report).get("step_breakdown", {}).get("steps", ())) > 1:
        assert "steps" in dict(chart_data.build(report, ENGLISH))
