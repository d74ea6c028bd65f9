"""Write docs/advice.md: what the rules find in the corpus, compared with what an expert expects.

TRACEANALYZER_CORPUS=... python -m scripts.advice_table
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from scripts.advise_corpus import compared
from tests.rules.scoring import Score, scores
from traceanalyzer.rules.engine.selection import builtin

ROOT = Path(__file__).resolve().parent.parent

PAGE = ROOT / "docs" / "advice.md"

HEAD = """\
# How good is the advice?

**In-sample.** The rules were written and changed with these recordings and these expectations in sight, so the figures
below are an upper bound: on recordings that were new to the authors, version 0.1.0 had one headline in four wrong and
one finding in four misleading. Two other pages compare savings with measurements: [whatif.md](whatif.md) (replays,
predictions of steps from other steps, pairs of recordings) and [lab.md](lab.md) (faults that were fixed and measured
without the profiler).

## What experts would say

{expectations}

## Which rules should fire

For every trace and table of the corpus, an expert studied the events before any rule existed and wrote down
(`tests/rules/expected/corpus.toml`) what should be found, what may be found, and which false alarms are likely. The
table compares these expectations with the findings. "May" marks arguable findings, which count neither as right nor as
wrong. If a second look showed that the expert was wrong, the reason is given below
(`tests/rules/expected/differences.toml`). Written by `scripts/advice_table.py`; a test fails if it is not up to date.
"""


EXPECTATIONS = """\
Expectations of 28 traces and 3 documents name the resource that bounds the step, the kind of program, what must and
what must not be said, host time of phases, the typical step, and what fixes are worth. They test whether certain words
occur; whether a sentence is true must be judged by reading it. `make advice` compares, and fails if the result gets
worse.

```text
{printed}
```"""


def page(scored: Sequence[Score], printed: str) -> str:
    """The text of docs/advice.md.

    Args:
        scored: How findings compare with the rules that were expected.
        printed: Output of the comparison with the expectations.
    """
    true, missed, false = (sum(len(getattr(s, kind)) for s in scored) for kind in ("true", "missed", "false"))
    fired = {rule for score in scored for rule in score.found}
    never = [rule.id for rule in builtin() if rule.id not in fired]
    lines = [
        HEAD.format(expectations=EXPECTATIONS.format(printed=_totals(printed))),
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
        textwrap.fill(
            f"They are tested on situations that the tests build, not on recordings: {', '.join(never) or 'none'}.",
            width=120,
            break_on_hyphens=False,
        ),
        "",
    ]
    return "\n".join(lines)


def _totals(printed: str) -> str:
    """The totals below the printed table, one to a line."""
    return "\n".join(part for line in printed.strip().splitlines()[-2:] for part in line.split(", "))


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
    folder = Path(os.environ["TRACEANALYZER_CORPUS"])
    PAGE.write_text(page(list(scores(folder)), compared(folder).stdout), "utf-8")
