"""Pictures of the ranks of a run: what each costs, a step on one clock, hidden communication; also of saved reports."""

from __future__ import annotations

from tests.analyzers.ranks.joining import members
from tests.builders.ranks import Meeting, run
from traceanalyzer import multirank
from traceanalyzer.formats import chart_files, html, json, report_charts
from traceanalyzer.formats.charts import Bars, Chart, Lanes
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.inputs import saved_reports
from traceanalyzer.report.model import Report


def report(ranks: int = 3, steps: int = 4, hidden: int = 250, late: int = 2) -> Report:
    meeting = Meeting(lambda rank, step: 1000 + 500 * (rank == late), hidden=hidden)
    return multirank.join(members(run(ranks, [meeting], steps=steps)), "run")


def drawn(of: Report) -> dict[str, Chart]:
    return {chart.id: chart for section, chart in report_charts.of_report(of, ENGLISH) if section == "ranks"}


def test_three_pictures_with_their_words() -> None:
    found = drawn(report())
    assert list(found) == ["chart-ranks-cost", "chart-ranks-strips", "chart-ranks-overlap"]
    cost, strips, overlap = found.values()
    assert isinstance(cost, Lanes)
    assert cost.labels == ("Rank 0", "Rank 1", "Rank 2")
    assert {box.row for box in cost.boxes} == {2}
    assert len(cost.boxes) == len(cost.columns) == 4
    assert "Rank 2 costs" not in cost.description
    assert "rank 2 costs most" in cost.description
    assert isinstance(strips, Lanes)
    assert [part.label for part in strips.legend] == [
        "Computes",
        "No device works",
        "Communicates",
        "Waits for other ranks",
    ]
    assert "Rank 2 waits least" in strips.description
    assert isinstance(overlap, Bars)
    assert overlap.whole == 1.0, "half of a whole is half a bar"
    assert "on rank" in overlap.description


def test_one_step_is_bars_and_nothing_hidden_is_no_picture() -> None:
    found = drawn(report(steps=1, hidden=0))
    assert list(found) == ["chart-ranks-cost", "chart-ranks-strips"]
    cost = found["chart-ranks-cost"]
    assert isinstance(cost, Bars)
    assert cost.texts[2] != "0 ns" == cost.texts[0]


def test_many_ranks_are_few_rows_and_counted() -> None:
    found = drawn(report(ranks=40, steps=2, late=39))
    assert [len(chart.labels) for chart in found.values() if isinstance(chart, Lanes)] == [32, 16]
    assert found["chart-ranks-strips"].description.endswith("24 more ranks are not drawn.")
    last = {chart.labels[-1] for chart in found.values() if isinstance(chart, Lanes)}
    assert last <= {"Rank 39", "Rank 39, late"}


def test_a_saved_report_has_the_same_pictures() -> None:
    given = report()
    text = json.render(given)
    saved = saved_reports.decode(text.encode(), "x.json")
    assert drawn(saved) == drawn(given)
    page = html.render(saved)
    for chart in drawn(given).values():
        assert page.count(f'aria-labelledby="{chart.id}-880-title {chart.id}-880-desc"') == 1
        assert f'<desc id="{chart.id}-360-desc">' in page


def test_every_picture_is_a_file() -> None:
    assets = {
        asset.name: asset for asset in chart_files.draw_all(report(), ENGLISH, "svg", "r") if asset.section == "ranks"
    }
    assert list(assets) == ["r-ranks-cost.svg", "r-ranks-strips.svg", "r-ranks-overlap.svg"]
    for asset in assets.values():
        assert b"Rank 2" in asset.data
        assert asset.data.startswith(b"<!-- traceanalyzer chart")
