"""Findings that many tables have in common are shown once."""

from __future__ import annotations

import json

import pytest

from tests.rules.judging import report, table
from traceanalyzer.formats import language, render, several_runs
from traceanalyzer.report.model import Report

ROW = {"Name": "aten::mm", "Self CPU": "98.000ms", "Self CUDA": "10.000ms", "# of Calls": 100}
RULE = "gpu-underutilized"


def tables(devices: tuple[int, ...]) -> Report:
    """One table for each number of milliseconds that the device works beside 100 ms of host time."""
    texts = [
        table([ROW | {"Self CUDA": f"{device}.000ms"}], cpu=f"{100 + n}.000ms", device=f"{device}.000ms")
        for n, device in enumerate(devices)
    ]
    return report("\n\n".join(texts))


SIX = (10, 20, 30, 40, 50, 60)


def test_equal_findings_are_said_once_with_count_and_range() -> None:
    found = tables(SIX)
    assert [finding.run for finding in found.findings if finding.rule == RULE] == [f"table-{n}" for n in range(1, 7)]
    (shown,) = (finding for finding in several_runs.findings(found).findings if finding.rule == RULE)
    assert shown.run is None
    assert shown.title.text.endswith(", in 6 tables")
    # 10 of 100 ms in the first table, 60 of 105 ms in the last
    assert "In 6 tables (table-1, table-2, table-3 and 3 more)" in shown.summary.text
    assert "10 % to 57 %. In table-1: " in shown.summary.text


def test_the_json_has_every_finding_and_the_runs_that_share_it() -> None:
    found = json.loads(render(tables(SIX), "json"))
    own = [finding for finding in found["findings"] if finding["rule"] == RULE]
    assert len(own) == 6
    assert all(finding["runs"] == [f"table-{n}" for n in range(1, 7)] for finding in own)


def test_a_few_tables_stay_side_by_side() -> None:
    found = tables(SIX[:4])
    assert several_runs.findings(found).findings == found.findings
    assert several_runs.headlines(found) == found.headlines


def test_headlines_of_many_tables_are_summed_up() -> None:
    found = tables((*SIX, 400))
    shown = several_runs.headlines(found)
    assert len(found.headlines) == 7
    assert len(shown) == 2, "six tables that the host bounds, one that the GPU bounds"
    assert shown[0].message.text.startswith("6 of 7 tables (table-1, table-2, table-3 and 3 more)")
    assert shown[1] == found.headlines[6]


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "sarif"])
@pytest.mark.parametrize("code", ["en", "ru", "zh"])
def test_every_format_says_it_once(form: str, code: str) -> None:
    found, words = tables(SIX), language.of(code)
    text = "".join(render(found, form, language=words).split())
    advice = "".join(words.say(found.findings[0].advice).split())[:30]
    assert 1 <= text.count(advice) <= 2, "SARIF describes the rule, too; six tables said it six times"


def test_every_finding_knows_its_place() -> None:
    found = tables(SIX)
    once = several_runs.findings(found)
    assert len(once.position) == len(found.findings)
    assert [once.findings[place].rule for place in once.position] == [finding.rule for finding in found.findings]
