"""Every rule is documented, and has situations that fire, that stay quiet, and one for each trap."""

from __future__ import annotations

import ast
import re
from functools import cache
from inspect import getfullargspec
from operator import itemgetter
from pathlib import Path

import pytest

from tests.rules.judging import findings, functions, situations
from traceanalyzer.config import SEVERITIES
from traceanalyzer.knowledge.loaders import FETCH_NS
from traceanalyzer.report.units import _FORMATS
from traceanalyzer.rules import SUBJECTS
from traceanalyzer.rules.engine import late_rank
from traceanalyzer.rules.engine.rule import HEADINGS, Rule, RulePage, pages
from traceanalyzer.rules.engine.selection import builtin
from traceanalyzer.rules.optimizer import FEWEST_CALLS

HERE = Path(__file__).parent
RULES = {rule.id: rule for rule in builtin()}
FOLDER = HERE.parent.parent / "traceanalyzer" / "rules"
OF_SAVED_REPORTS = {"gpu-underutilized-subject-owners", "h2d-blocking-subject", "zero-grad-fill-idle"}
"""Texts that no rule uses any more; reports of older versions may hold them."""
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
every_page = pytest.mark.parametrize("page", pages().values(), ids=pages())


def _situations(prefix: str) -> list[object]:
    return [
        pytest.param(rule, build, id=f"{rule}-{name}")
        for rule in RULES
        for name, build in functions(situations(rule), prefix).items()
    ]


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


@cache
def _constants() -> dict[str, tuple[Path, str]]:
    """File and constant of the page of each rule, by its id, as in `_BLOCKING = page("h2d-blocking")`."""
    constants = {}
    for path in sorted(FOLDER.rglob("*.py")):
        for node in _tree(path).body:
            value = node.value if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.Assign) and isinstance(value, ast.Call) and ast.unparse(value.func) == "page":
                ident = ast.literal_eval(value.args[0])
                assert ident not in constants, f"two constants are the page {ident}"
                constants[ident] = path, ast.unparse(node.targets[0])
    return constants


def test_files_and_ids_agree() -> None:
    assert [rule.id for rule in builtin()] == list(pages())
    constants = _constants()
    assert constants.keys() == pages().keys(), "a rule without page, or a page without rule"
    files = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_")}
    own = {rule.replace("-", "_") for rule, (path, _) in constants.items() if path.stem == rule.replace("-", "_")}
    subjects = {path.relative_to(FOLDER).parts[0].removesuffix(".py") for path, _ in constants.values()} - own
    assert subjects == set(SUBJECTS)
    assert files - set(SUBJECTS) == own, "a file that has no rule"


@every_page
def test_the_code_uses_every_text_of_its_page_and_no_other(page: RulePage) -> None:
    path, constant = _constants()[page.id]
    calls = [
        node for node in ast.walk(_tree(path)) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    named = {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == f"{constant}.text"}
    shown = [call for call in calls if ast.unparse(call.func) == f"{constant}.evidence"]
    if not all(any(word.arg == "subject" for word in call.keywords) for call in shown):
        named.add("subject")
    assert named <= page.texts.keys()
    others = {key for key, text in page.texts.items() if text.id not in OF_SAVED_REPORTS} - named
    others -= {key for key in others if key.partition("-")[0] == "action"}
    others -= {key for key in others if key.startswith("cause-") and key.replace("cause", "summary") in named}
    others -= {key for key in others if key.endswith("-run") and key.removesuffix("-run") in {"summary"} | named}
    assert others <= {"title", "cause", "summary", "advice", "not-when", "no-table", "no-trace"}


@every_page
def test_every_advice_has_a_few_words_that_say_what_to_do(page: RulePage) -> None:
    parts = {key: text for key, text in page.texts.items() if key.partition("-")[0] == "advice"}
    own = {key for key, text in parts.items() if not text.english.startswith("{advice}")}  # else it holds another one
    assert {key.replace("advice", "action", 1) for key in own} <= page.texts.keys()
    actions = [text.english for key, text in page.texts.items() if key.partition("-")[0] == "action"]
    assert all(len(action) <= 60 and not action.endswith(".") and "{" not in action for action in actions)


def test_thresholds_that_are_constants_elsewhere_are_the_same() -> None:
    assert RULES["dataloader-bound"].defaults["ready_ns"] == 2 * FETCH_NS
    assert RULES["optimizer-not-fused"].defaults["launches"] == FEWEST_CALLS
    assert getfullargspec(late_rank.is_recurrent).defaults == itemgetter("step_share", "steps", "collectives")(
        RULES["comm-straggler"].defaults
    )


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
    assert rule.trace or rule.no_trace or rule.dumps or rule.snapshot
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
