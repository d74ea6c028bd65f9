"""What the rules say of the corpus, against what an expert expects; the table in docs/advice.md is up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import advice_table, advise_corpus
from tests import corpus_files
from tests.rules.scoring import Score, scores

pytestmark = pytest.mark.corpus


@pytest.fixture(scope="session")
def scored(corpus: Path) -> list[Score]:
    return list(scores(corpus))


def test_finds_what_an_expert_expects_and_nothing_else(scored: list[Score]) -> None:
    unexplained = [
        (score.name, score.run, verdict, rule)
        for score in scored
        for verdict, rules in (("missed", score.missed), ("false", score.false))
        for rule in rules
        if rule not in score.differences
    ]
    assert unexplained == []


def test_headlines(scored: list[Score]) -> None:
    unexplained = [
        (score.name, score.run, score.headline, score.expected_headline)
        for score in scored
        if score.headline != score.expected_headline and "headline" not in score.differences
    ]
    assert unexplained == []


def test_every_difference_is_one(scored: list[Score]) -> None:
    stale = [
        (score.name, score.run, rule)
        for score in scored
        for rule in score.differences
        if rule not in (*score.missed, *score.false)
        and not (rule == "headline" and score.headline != score.expected_headline)
    ]
    assert stale == []


def test_the_page_in_the_documentation_is_up_to_date(scored: list[Score], corpus: Path) -> None:
    found = advise_corpus.compared(corpus, report=corpus_files.report_of)
    assert found.returncode == 0, found.stdout
    expected = advice_table.page(scored, found.stdout)
    assert advice_table.PAGE.read_text("utf-8") == expected, "run python -m scripts.advice_table"


def test_what_experts_say_of_the_field_holds(corpus: Path) -> None:
    found = advise_corpus.compared(corpus, "advice-field", corpus_files.report_of)
    assert found.returncode == 0, found.stdout
