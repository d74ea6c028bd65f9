"""Headlines of a document with several runs compare them."""

from __future__ import annotations

import pytest

from tests.rules.judging import report, table
from traceanalyzer.report.model import Headline


def document(*totals: str, titles: tuple[str, ...] = ("Before", "After", "Later", "Last", "Fifth", "Sixth")) -> str:
    """A text with a table for each total; each is of ten steps."""
    parts = []
    for title, total in zip(titles, totals, strict=False):
        rows = [{"Name": "aten::mm", "Self CPU": total, "CPU total": total, "# of Calls": 10}]
        rows.append({"Name": "ProfilerStep*", "Self CPU": "0.000us", "CPU total": total, "# of Calls": 10})
        parts.append(f"{title}\n\n{table(rows, cpu=total)}")
    return "\n\n".join(parts)


def headlines(*totals: str) -> tuple[Headline, ...]:
    return report(document(*totals)).headlines


def test_a_later_run_is_compared_with_the_first() -> None:
    first, second = headlines("1.000s", "100.000ms")
    assert "run-1" not in first.text
    assert second.details[0].text == "A step takes 10 ms; in run-1 it takes 100 ms, 10 times as long."


def test_a_longer_step_is_said_as_well() -> None:
    _, second, third = headlines("100.000ms", "250.000ms", "101.000ms")
    assert second.details[0].text == "A step takes 25 ms, 2.5 times as long as in run-1 (10 ms)."
    assert "run-1" not in third.text, "one percent is nothing"


@pytest.mark.parametrize("runs", [1, 6])
def test_one_run_and_a_series_of_many_are_not_compared(runs: int) -> None:
    totals = [f"{1 + 2 * i}.000s" for i in range(runs)]
    found = headlines(*totals)
    assert len(found) == runs
    assert not [each for each in found if "run-1" in each.text]


def test_a_step_is_not_compared_with_a_whole_profile() -> None:
    """The row that shows the steps is beyond the last printed one in the second table."""
    whole = [{"Name": "aten::mm", "Self CPU": "100.000ms", "CPU total": "100.000ms", "# of Calls": 10}]
    text = f"{document('2.000s')}\n\nAfter\n\n{table(whole, cpu='100.000ms')}"
    first, second = report(text).headlines
    assert (first.resources.step_ns, second.resources.step_ns) == (200_000_000, 100_000_000)
    assert "run-1" not in second.text
