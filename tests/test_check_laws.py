"""The script that checks the laws of reports: a broken law and an untested one are both failures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import check_laws

TOOL = """
import sys
if sys.argv[1] == "--list":
    print("order         savings are ordered")
    print("whatif-step   no row saves more than the step")
else:
    print(open(sys.argv[1]).read())
"""
FINE = "1 traces, 0 with violations: none\ntested on: order 1, whatif-step 1"
BROKEN = "a.json.gz: order: too much: 3\n1 traces, 1 with violations: order 1\ntested on: order 1"


@pytest.fixture
def corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus whose tool prints what is in a trace."""
    for folder in ("tools", "corpus", "field/second"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tools" / "laws.py").write_text(TOOL, "utf-8")
    monkeypatch.setenv("TRACEANALYZER_CORPUS", str(tmp_path))
    monkeypatch.setattr(check_laws, "FIXTURES", tmp_path / "corpus")
    monkeypatch.setattr(check_laws, "LAB", tmp_path / "lab")
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["check_laws.py", *arguments])
    return check_laws.main()


def test_what_is_broken_is_counted(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (corpus / "corpus" / "a.json.gz").write_text(BROKEN, "utf-8")
    (corpus / "field" / "second" / "b.json.gz").write_text(FINE, "utf-8")
    assert run(monkeypatch) == 1
    assert capsys.readouterr().out.splitlines() == [
        "a.json.gz: order: too much: 3",
        "2 traces; violations: order 1",
        "tested on: order 2, whatif-step 1",
    ]


def test_every_law_has_something_to_test(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = corpus / "corpus" / "a.json.gz"
    path.write_text(FINE.replace(", whatif-step 1", ""), "utf-8")
    assert run(monkeypatch) == 1
    assert "not tested: whatif-step" in capsys.readouterr().out
    assert run(monkeypatch, str(path)) == 0, "of traces that are named, no law needs to be tested"
    path.write_text(FINE, "utf-8")
    assert run(monkeypatch) == 0


def test_without_a_corpus_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEANALYZER_CORPUS", raising=False)
    assert run(monkeypatch) == 2
