"""Every rule is documented, and has situations that fire, that stay quiet, and one for each trap."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.rules.judging import findings, functions, situations
from traceanalyzer.config import SEVERITIES
from traceanalyzer.report.units import _FORMATS
from traceanalyzer.rules import MODULES
from traceanalyzer.rules.engine.rule import HEADINGS, Rule
from traceanalyzer.rules.engine.selection import builtin

HERE = Path(__file__).parent
RULES = {rule.id: rule for rule in builtin()}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def _situations(prefix: str) -> list[object]:
    return [
        pytest.param(rule, build, id=f"{rule}-{name}")
        for rule in RULES
        for name, build in functions(situations(rule), prefix).items()
    ]


def test_files_and_ids_agree() -> None:
    assert [rule.id for rule in builtin()] == [module.replace("_", "-") for module in MODULES]
    assert len(set(MODULES)) == len(MODULES)
    framework = {"__init__", "rule", "change", "budget", "check", "combine", "runner", "selection", "repeated"}
    framework |= {
        "headline",
        "owner_headlines",
        "special_headlines",
        "claimed",
        "prices",
        "rank_headlines",
        "run_headlines",
        "cpu_headline",
        "distinct",
        "snippets",
        "typical_headline",
        "gpu_bound",
        "packages",
        "table_headline",
        "sleep_headline",
    }
    folder = HERE.parent.parent / "traceanalyzer" / "rules"
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files - framework == set(MODULES), "a rule without its registry line, or a line without its rule"


@every_rule
def test_page_has_every_heading_in_order(rule: Rule) -> None:
    found = re.findall(r"^([A-Z][\w ]+):$", rule.page, re.MULTILINE)
    assert tuple(found) == HEADINGS
    assert rule.page.splitlines()[0].endswith(".")


@every_rule
def test_metadata(rule: Rule) -> None:
    assert rule.confidence in "ABC"
    assert set(re.findall(r"\w+", rule.severity)) - {"to"} <= set(SEVERITIES)
    assert rule.tags
    assert rule.trace or rule.no_trace
    assert all(link.startswith("https://") for link in rule.links)
    assert rule.links, "official documentation"
    for text in (rule.title, rule.summary, rule.advice, rule.not_when):
        assert text.id.startswith(rule.id + "-"), text.id


@every_rule
def test_thresholds_have_unit_and_source(rule: Rule) -> None:
    assert rule.thresholds
    for threshold in rule.thresholds:
        assert threshold.unit in _FORMATS
        assert len(threshold.source) > 20, f"{threshold.key}: where is the number from?"
        assert threshold.meaning


@every_rule
def test_each_threshold_has_an_edge_test(rule: Rule) -> None:
    tree = ast.parse((HERE / f"test_rule_{rule.id.replace('-', '_')}.py").read_text("utf-8"))
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    missing = [t.key for t in rule.thresholds if not any(name.startswith(f"test_edge_{t.key}") for name in tests)]
    assert not missing


@every_rule
def test_has_situations_of_each_kind(rule: Rule) -> None:
    module = situations(rule.id)
    assert functions(module, "fires")
    assert functions(module, "quiet")
    assert functions(module, "trap_")


@pytest.mark.parametrize(("rule", "build"), _situations("fires"))
def test_fires(rule: str, build) -> None:  # type: ignore[no-untyped-def]
    found = findings(build(), rule)
    assert found
    for finding in found:
        first = finding.evidence[0]
        assert first.where, "evidence without a place"
        assert len(first.where) <= 5
        assert first.subject.text
        assert finding.saving is None or finding.saving.basis.text
        _check_saving(finding.saving)


def _check_saving(saving: object) -> None:
    if saving is None:
        return
    for low, high in (saving.direct_ns_per_step, saving.wall_ns_per_step, saving.wall_share):  # type: ignore[attr-defined]
        assert 0 <= low <= high


@pytest.mark.parametrize(("rule", "build"), _situations("quiet"))
def test_stays_quiet(rule: str, build) -> None:  # type: ignore[no-untyped-def]
    assert findings(build(), rule) == []


@pytest.mark.parametrize(("rule", "build"), _situations("trap_"))
def test_is_not_trapped(rule: str, build) -> None:  # type: ignore[no-untyped-def]
    assert findings(build(), rule) == []
