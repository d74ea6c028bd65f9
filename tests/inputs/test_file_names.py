"""Names of reports: one for each file, for every file system."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.inputs.file_names import looks_like_trace, may_be_input, safe

parts = st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=300).filter(
    lambda part: part not in (".", "..")
)


@given(parts, parts)
def test_safe_names_are_short_printable_and_different(one: str, other: str) -> None:
    for name in (one, other):
        made = safe(name)
        assert made.isprintable()
        assert 0 < len(made.encode()) <= 150
        assert not set(made) & set('<>:"\\|?*/')
        assert not made.startswith(".")
        assert safe(made) == made
    assert one == other or safe(one) != safe(other)


def test_plain_names_stay() -> None:
    name = "run 7/node-1_4242.1700000000000.pt.trace.json.gz"
    assert safe(name) == name


@pytest.mark.parametrize("name", ["x.json", "X.JSON.GZ", "x.json.tmp", "x.tmp", "x.TXT", "x.log.gz", "x.md"])
def test_may_be_input(name: str) -> None:
    assert may_be_input(name)


@pytest.mark.parametrize("name", [".x.json", "x.jsonl", "x.png", "json", "x.gz", "x.html"])
def test_may_not_be_input(name: str) -> None:
    assert not may_be_input(name)


@pytest.mark.parametrize(
    "name", ["trace.json", "a.pt.trace.json.gz", "rank-3.json", "my_trace_1.json", "libkineto_activities_7.json"]
)
def test_looks_like_a_trace(name: str) -> None:
    assert looks_like_trace(name)


@pytest.mark.parametrize("name", ["traceback.json", "config.json", "ranking.json", "package.json"])
def test_looks_like_something_else(name: str) -> None:
    assert not looks_like_trace(name)
