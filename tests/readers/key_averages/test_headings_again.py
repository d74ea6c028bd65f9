"""A text that looks like a table again and again is looked at once, and each of its headings is parsed once."""

from __future__ import annotations

import pytest

from traceanalyzer.readers.key_averages import header, read
from traceanalyzer.readers.key_averages.header import parse_header

HEADING = "Name  Self CPU total\n"


def parsed(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many headings are parsed while a text is read."""
    calls: list[str] = []
    original = header._parsed.__wrapped__
    monkeypatch.setattr(header, "_parsed", lambda line, start: (calls.append(line), original(line, start))[1])
    read(text, "notes.txt", None)
    return len(calls)


def test_a_text_without_a_table_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"# ---  ---\n{HEADING}" for _ in range(500))
    # of each line of dashes, the lines below and above it, and whether two tables are mixed
    assert parsed(text, monkeypatch) <= 3 * 500


def test_the_same_heading_is_parsed_once() -> None:
    header._parsed.cache_clear()
    for _ in range(100):
        parse_header(HEADING)
    assert header._parsed.cache_info().misses == 1


def test_the_same_words_elsewhere_in_a_line_are_other_columns() -> None:
    line = "Name  Self CPU %  Self CPU  CPU total"
    plain, quoted = parse_header(line), parse_header(f"  > {line}")
    assert plain is not None
    assert quoted is not None
    assert [column.start + 4 for column in plain.columns] == [column.start for column in quoted.columns]
