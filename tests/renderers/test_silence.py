"""Why there is no finding."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import report
from traceanalyzer import render
from traceanalyzer.report.model import Report, Skipped


def quiet() -> Report:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    return report(trace)


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
@pytest.mark.parametrize(
    ("language", "says"), [("en", "rules could not judge"), ("ru", "не смогли"), ("zh", "条规则无法判断")]
)
def test_rules_that_could_not_judge_are_counted(form: str, language: str, says: str) -> None:
    found = quiet()
    assert not found.findings
    text = " ".join(str(render(found, form, lang=language)).split())
    assert says in text
    assert "No rule found anything to change" not in text


def test_the_most_frequent_reason_comes_first() -> None:
    found = quiet()
    rules = [entry for entry in found.skipped if "-" in entry.id]
    text = " ".join(str(render(found, "markdown")).split())
    assert f"but {len(rules)} rules could not judge" in text
    reasons = [entry.reason.text for entry in rules]
    most = max(map(reasons.count, reasons))
    assert f"{most} rules: " in text
    assert all(isinstance(entry, Skipped) for entry in rules)
