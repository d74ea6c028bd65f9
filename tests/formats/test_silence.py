"""Texts of reports without findings."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import report
from traceanalyzer.formats import language, render
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine.page import pages


def quiet() -> Report:
    trace = TraceBuilder()
    trace.op("aten::add", 0, 5)
    return report(trace)


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
@pytest.mark.parametrize(
    ("code", "says"), [("en", "rules could not be applied"), ("ru", "применить не удалось"), ("zh", "条规则无法应用")]
)
def test_rules_that_could_not_judge_are_counted(form: str, code: str, says: str) -> None:
    found = quiet()
    assert not found.findings
    text = " ".join(render(found, form, language=language.of(code)).split())
    assert says in text
    assert "No rule found anything to change" not in text


def test_the_most_frequent_reason_comes_first() -> None:
    found = quiet()
    reasons = [entry.reason.text for entry in found.skipped if entry.id in pages()]
    most = max(map(reasons.count, reasons))
    text = " ".join(render(found, "markdown").split())
    assert f"but {len(reasons)} rules could not be applied" in text
    assert f"reasons: {most} rules: " in text
