"""docs/texts.md shows one text of each form, and what the report says of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.readers.forms.test_forms import figures_of, headlines

PAGE = Path(__file__).parents[3] / "docs" / "texts.md"
EXAMPLES = re.findall(
    r"^### ([^\n]+)\n\n```text\n(.*?)\n```\n\n(?:> ([^\n]+)\n)?", PAGE.read_text("utf-8"), re.M | re.S
)


@pytest.mark.parametrize(("title", "text", "said"), EXAMPLES, ids=[title for title, _, _ in EXAMPLES])
def test_an_example_of_the_page_gives_what_stands_below_it(title: str, text: str, said: str) -> None:
    figures = [f"{name}: {mean:g} {unit} in the mean" for name, (unit, _, mean) in figures_of(text + "\n").items()]
    assert [*headlines(text + "\n"), "; ".join(figures[:4])][0] == said, title


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) >= 18
