"""Which files a batch finds, in which order, under which names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.batching.making import write
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.inputs import discovery
from traceanalyzer.inputs.discovery import FoundFile, looks_like_trace, may_be_input, safe


def find(*arguments: str | Path, exclude: Path | None = None) -> list[FoundFile]:
    return list(discovery.find(map(str, arguments), None if exclude is None else str(exclude)))


def names(*arguments: str | Path, exclude: Path | None = None) -> list[str]:
    return [found.name for found in find(*arguments, exclude=exclude)]


def test_a_folder_of_any_depth_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.json", "a/z.json.gz", "a/deep/er/x.pt.trace.json", "c.json.tmp", "d.tmp", "e.txt", "f.md", "g.log"):
        write(tmp_path / name, b"x")
    for name in ("h.png", "i.py", "j.csv", ".hidden.json", ".git/k.json", "l.html"):
        write(tmp_path / name, b"x")
    expected = ["a/deep/er/x.pt.trace.json", "a/z.json.gz", "b.json", "c.json.tmp", "d.tmp", "e.txt", "f.md", "g.log"]
    assert names(tmp_path) == expected


def test_a_file_that_is_named_counts_whatever_it_is_called(tmp_path: Path) -> None:
    path = write(tmp_path / ".odd.bin", b"x")
    (found,) = find(path)
    assert found.is_named
    assert found.location == str(path)


def test_links_lead_nowhere_twice(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a" / "x.json", b"x")
    (tmp_path / "in" / "a" / "up").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "b").symlink_to(tmp_path / "in" / "a")
    (tmp_path / "in" / "y.json").symlink_to(tmp_path / "in" / "a" / "x.json")
    found = find(tmp_path / "in")
    assert [f.name for f in found] == ["a/x.json", "y.json"]
    assert len({f.identity for f in found}) == 1


def test_a_link_to_nothing_is_told(tmp_path: Path) -> None:
    (tmp_path / "gone.json").symlink_to(tmp_path / "nothing")
    (found,) = find(tmp_path)
    assert found.failure is not None
    assert "No such file" in found.failure


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert find(tmp_path) == []


def test_patterns(tmp_path: Path) -> None:
    for name in ("a/rank0.json", "a/rank1.json", "a/b/rank2.json", "a/other.json", "a/rank0.png"):
        write(tmp_path / name, b"x")
    assert names(tmp_path / "a" / "rank*") == ["rank0.json", "rank1.json"]
    assert names(f"{tmp_path}/**/rank*.json") == ["a/b/rank2.json", "a/rank0.json", "a/rank1.json"]
    assert names(tmp_path / "[a]") == ["a/b/rank2.json", "a/other.json", "a/rank0.json", "a/rank1.json"]
    with pytest.raises(UnusableInputError, match="no file matches"):
        find(tmp_path / "c*.json")


def test_a_name_with_brackets_is_no_pattern(tmp_path: Path) -> None:
    path = write(tmp_path / "run[1].json", b"x")
    assert names(path) == ["run[1].json"]


def test_several_folders_keep_their_names_apart(tmp_path: Path) -> None:
    write(tmp_path / "one" / "traces" / "x.json", b"x")
    write(tmp_path / "two" / "traces" / "x.json", b"x")
    found = names(tmp_path / "one" / "traces", tmp_path / "two" / "traces")
    assert found == ["one/traces/x.json", "two/traces/x.json"]


def test_the_reports_are_not_looked_into(tmp_path: Path) -> None:
    write(tmp_path / "x.json", b"x")
    write(tmp_path / "reports" / "y.json", b"x")
    assert names(tmp_path, exclude=tmp_path / "reports") == ["x.json"]
    assert names(tmp_path, exclude=tmp_path) == ["reports/y.json", "x.json"]


def test_names_that_no_page_can_hold(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/bad\xff\n<b>.json"
    Path(os.fsdecode(odd)).write_bytes(b"x")
    (found,) = find(tmp_path)
    assert found.name.isprintable()
    assert found.name.isascii()
    assert os.fsencode(found.location) == odd


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    write(tmp_path / "a b" / "x.json", b"x")
    assert names(f"file://{tmp_path}/a%20b") == ["x.json"]


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(UnusableInputError, match="no such file or folder"):
        find(tmp_path / "missing")


# Names of reports: one for each file, for every file system.


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
