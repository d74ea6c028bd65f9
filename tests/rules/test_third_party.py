"""Rules of other packages: the example works, and a broken one stops nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from tests.rules.judging import report
from tests.rules.situations.dataloader_bound import quiet
from traceanalyzer.errors import UsageError
from traceanalyzer.report.message import Text
from traceanalyzer.rules import selection
from traceanalyzer.rules.facts import Facts
from traceanalyzer.rules.rule import Draft, Rule

ROOT = Path(__file__).parents[2]
_TEXT = Text("broken-rule-text", "x")


def _breaks(facts: Facts, limits: object) -> Iterator[Draft]:
    raise ZeroDivisionError("by design")


def _broken(ident: str = "broken-rule") -> Rule:
    return Rule(ident, _TEXT, _TEXT, _TEXT, _TEXT, "info", "C", ("gpu",), "1.0", trace=_breaks)


BROKEN = _broken()
TAKEN = _broken("dataloader-bound")
NO_RULE = 3


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of the group, as if some package had them."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(selection, "entry_points", lambda group: [p for p in points if p.group == group])
    selection.known.cache_clear()
    yield points
    selection.known.cache_clear()


def point(value: str) -> EntryPoint:
    return EntryPoint("theirs", f"tests.rules.test_third_party:{value}", selection.GROUP)


def test_a_rule_that_raises_is_skipped_with_the_reason(installed: list[EntryPoint]) -> None:
    installed.append(point("BROKEN"))
    whole = report(quiet())
    assert {s.id: s.reason.text for s in whole.skipped}["broken-rule"].startswith(
        "the rule failed (ZeroDivisionError: by design)"
    )


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("TAKEN", "the id dataloader-bound is taken"),
        ("NO_RULE", "is no traceanalyzer.rules.rule.Rule"),
        ("MISSING", "cannot be loaded"),
    ],
)
def test_an_entry_point_that_is_no_rule_is_one_line(installed: list[EntryPoint], value: str, wrong: str) -> None:
    installed.append(point(value))
    with pytest.raises(UsageError, match=wrong):
        report(quiet())


@pytest.mark.install
def test_the_example_package(tmp_path: Path) -> None:
    """Installed beside the package, its rule is listed and judges."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run([*command, tmp_path, ROOT / "examples" / "rule_package"], check=True, timeout=120)
    trace = ROOT / "fixtures" / "synthetic" / "gpu_training.json.gz"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from traceanalyzer.cli import main; main()"
    options = ["report", str(trace), "--select", "banned-operator", "--format", "json", "-o", "-", "-q"]
    run = subprocess.run(
        [sys.executable, "-c", code, *options], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    assert json.loads(run.stdout)["findings"] == [], "it ran, and the trace has no such operator"
