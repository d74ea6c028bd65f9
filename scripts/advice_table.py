"""Write docs/advice.md: what the rules find in the corpus, compared with what an expert expects.

TRACEANALYZER_CORPUS=... python -m scripts.advice_table
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.rules.scoring import Score, scores
from traceanalyzer.rules.selection import builtin

ROOT = Path(__file__).resolve().parent.parent

PAGE = ROOT / "docs" / "advice.md"

HEAD = """\
# How good is the advice?

For every trace and table of the corpus, an expert wrote down what its events say before any rule existed
(`tests/rules/expected/corpus.toml`): what should be found, what may be found, and which false alarms lie in wait. This
table compares. "May" are findings that are arguable; they count neither way. Where the expert was not followed after a
second look, the reason stands below (`tests/rules/expected/differences.toml`). Written by `scripts/advice_table.py`;
a test fails if it is not up to date.
"""


def page(scored: Sequence[Score]) -> str:
    """The text of docs/advice.md for these scores."""
    true, missed, false = (sum(len(getattr(s, kind)) for s in scored) for kind in ("true", "missed", "false"))
    fired = {rule for score in scored for rule in score.found}
    never = [rule.id for rule in builtin() if rule.id not in fired]
    lines = [
        HEAD,
        f"Found as expected: {true}. Missed: {missed}. Found but not expected: {false}.",
        f"Recall {_share(true, true + missed)}, precision {_share(true, true + false)}.",
        "",
        "| Input | Bound | Rule | Expected | Found | Verdict |",
        "| :-- | :-- | :-- | :-- | :-- | :-- |",
        *(row for score in scored for row in _rows(score)),
        "",
        "## Where the expert was not followed",
        "",
        *_differences(scored),
        "",
        "## Rules that never fired on the corpus",
        "",
        "They are proven on situations that the tests build, not on recordings: "
        + (", ".join(never) if never else "none")
        + ".",
        "",
    ]
    return "\n".join(lines)


def _rows(score: Score) -> Iterator[str]:
    name = score.name.removesuffix(".json.gz") + (f" {score.run}" if score.run else "")
    bound = score.headline
    if score.headline != score.expected_headline:
        bound += f" (expected {score.expected_headline})"
    rules = [*score.expected, *(rule for rule in score.found if rule not in score.expected)]
    if not rules:
        yield f"| {name} | {bound} | - | nothing | nothing | true |"
    for rule in rules:
        finding = score.found.get(rule)
        found = "-" if finding is None else _cell(finding.summary.text)
        expected = _cell(score.expected.get(rule, "-"))
        yield f"| {name} | {bound} | {rule} | {expected} | {found} | {_verdict(score, rule)} |"
        name = bound = ""


def _verdict(score: Score, rule: str) -> str:
    if rule in score.missed:
        return "missed"
    if rule in score.tolerated:
        return f"may: {_cell(score.tolerated[rule])}"
    return "true" if rule in score.expected else "false"


def _differences(scored: Iterable[Score]) -> list[str]:
    found = [
        f"* {score.name}{' ' + score.run if score.run else ''}, {rule}: {why}"
        for score in scored
        for rule, why in score.differences.items()
    ]
    return found or ["Nowhere."]


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "unknown"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(list(scores(Path(os.environ["TRACEANALYZER_CORPUS"])))), "utf-8")
