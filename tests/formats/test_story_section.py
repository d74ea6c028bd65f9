"""Several runs of a document are one story, and what a later run has settled is no advice."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import SHAPED, document, row, table
from traceanalyzer import analyze, comparison
from traceanalyzer.cli import delivery
from traceanalyzer.comparison import diff, measurement
from traceanalyzer.formats import card_files, html, language, render
from traceanalyzer.formats.difference import answer
from traceanalyzer.report.model import Report
from traceanalyzer.sections import several_runs, story
from traceanalyzer.trace.document import PrintedRate, ProfilerTable, TableDocument

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
HUGE = "[[8, 128, 1000, 1], [8, 128, 1000, 128]]"


def run(product_ms: int, host_ms: int = 100, name: str = "aten::mul", title: str | None = None) -> ProfilerTable:
    """Ten steps with one operator of so many ms on the device, slow for its size where it is the broadcast one."""
    rows = (
        row("Optimizer.step#SGD.step", 1, calls=10),
        row(name, 1, product_ms, calls=10, input_shapes=HUGE if product_ms > 500 else "[[8, 128], [8, 128]]"),
        row("aten::sum", 1, product_ms // 20, calls=10, input_shapes="[[8, 128, 1000, 128], []]"),
        row(LOADER, host_ms // 2 if product_ms > 1000 else 0, calls=10),
        row("void elementwise_kernel", 0, product_ms, calls=10, input_shapes="[]"),
    )
    return table(*rows, cpu=host_ms, device=product_ms + product_ms // 20, columns=SHAPED, title=title)


def report(*tables: ProfilerTable, rates: tuple[PrintedRate, ...] = ()) -> Report:
    made = document(*tables)
    return analyze(TableDocument(name=made.name, size_bytes=None, tables=made.tables, rates=rates))


def rate(value: float, after: int | None = None) -> PrintedRate:
    printed = f"{value} samples/s"
    return PrintedRate(
        line=7,
        words=f"now {printed}",
        printed=printed,
        per_s=value,
        unit="samples",
        after_table=after,
        before_table=None,
    )


def told(found: Report, code: str = "en") -> str:
    return " ".join(render(found, "markdown", language=language.of(code)).replace("\\", "").split())


def test_two_runs_are_a_story_with_result_and_figures() -> None:
    text = told(report(run(9000, 9100), run(500, 1000)))
    assert "After the change a step is 9.45 times faster: 945 ms became 100 ms." in text
    assert "| CPU in all | 9.100 s | 1.000 s |" in text
    assert "`aten::mul` from 900 ms to 50.0 ms" in text
    titles = ["Where it began", "What was changed", "What came of it", "What is next", "In short"]
    assert sorted(titles, key=text.index) == titles
    assert "(\N{MINUS SIGN}89 %)" in text


def test_a_slower_run_is_told_as_slower() -> None:
    text = told(report(run(500, 1000), run(900, 2000)))
    assert "After the change a step takes 2 times as long: 100 ms became 200 ms." in text


def test_what_the_last_run_settled_is_no_advice() -> None:
    found = report(run(9000, 9100), run(500, 1000))
    settled = [found.findings[n] for n in several_runs.settled(found)]
    assert settled
    assert {finding.run for finding in settled} == {"run-1"}
    shown = several_runs.findings(found).findings
    assert not {finding.rule for finding in settled} & {finding.rule for finding in shown}
    titles = [finding.title.text for finding in settled]
    assert all(f"\u201c{title}\u201d" in told(found) for title in titles)
    assert all(f"<summary>{title}" not in render(found, "markdown") for title in titles)


def test_the_card_begins_with_the_result() -> None:
    card = card_files.draw(report(run(9000, 9100), run(500, 1000)), "svg").decode()
    said = " ".join(line.partition(">")[2].partition("<")[0] for line in card.splitlines() if line.startswith("<text"))
    assert "After the change a step is 9.45 times faster: 945 ms became 100 ms." in said.replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_what_is_settled_does_not_fail_a_build() -> None:
    delivery.exit_if_found(report(run(9000, 9100), run(500, 1000)), "info")
    with pytest.raises(SystemExit):
        delivery.exit_if_found(report(run(9000, 9100)), "info")


def test_a_slower_last_run_settles_nothing() -> None:
    assert several_runs.settled(report(run(500, 1000), run(9000, 9100))) == frozenset()


def test_a_rate_that_the_profile_does_not_explain_is_said() -> None:
    shaped = report(run(9000, 9100), run(500, 1000), rates=(rate(4.0, 1), rate(900.0)))
    text = told(shaped)
    assert (
        "At 4 samples per second, a step of 8 samples takes 2.00 s, and the profile accounts for 100 ms of it." in text
    )
    assert "without tables: now 900.0 samples/s" in text.replace("\u200b", "")


@pytest.mark.parametrize(
    "tables",
    [
        (run(500),),
        (run(9000), run(500, name="other::op")),
        tuple(run(500 + 100 * n, 1000 + 100 * n) for n in range(5)),
    ],
    ids=["one run", "other programs", "many runs"],
)
def test_other_documents_have_no_story(tables: tuple[ProfilerTable, ...]) -> None:
    found = report(*tables)
    has_common = several_runs.of_one_program(found)
    assert "Where it began" not in told(found) or has_common
    assert not has_common or len(tables) == 2


@pytest.mark.parametrize("code", language.CODES)
def test_the_page_has_the_story_in_each_language(code: str) -> None:
    found = report(run(9000, 9100), run(500, 1000))
    page = html.render(found, language=language.of(code))
    assert 'id="section-story-result"' in page
    assert 'id="story"' in page


def test_a_difference_of_the_runs_tells_the_same() -> None:
    found = report(run(9000, 9100), run(500, 1000))
    sides = [measurement.measure_tables(found, one) for one in several_runs.of_one_program(found)]
    of_difference = story.of_difference(comparison.compare(*sides))
    assert of_difference is not None
    of_report, of_sides = (
        {section.id: section for section in sections}
        for sections in (story.build(found, 5), story.sections_of(of_difference))
    )
    for name in ("story-before", "story-result", "story-next", "story-short"):
        assert of_sides[name].messages == of_report[name].messages
    (one,), (two,) = of_sides["story-result"].tables, of_report["story-result"].tables
    assert (one.rows, one.row_units) == (two.rows, two.row_units)


def test_a_difference_without_a_clear_answer_says_so() -> None:
    same = report(run(500, 1000))
    text = " ".join(answer(diff(same, same), is_story=True).render("markdown").split())
    assert "A step took 100 ms before and 100 ms after the change." in text
    assert "times faster" not in text
