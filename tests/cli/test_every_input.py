"""Every command takes every kind of input: files, folders, patterns, URLs and saved reports, with the same words."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, call, spawn

WORDS = (
    "is a file, a folder (searched at any depth), a quoted pattern, a URL such as s3://bucket/run7/, or a saved "
    "report (report -o x.json)."
)
NOTHING = "contains no trace (.json, .json.gz), no text with a profiler table, no compile log of torch"
COMMANDS = ("report", "ranks", "batch", "diff")
KINDS = (
    "file", "folder", "pattern", "url of a file", "url of a folder", "saved report", "folder of saved reports",
    "mixed folder",
)  # fmt: skip


def rank_trace() -> TraceBuilder:
    """One rank of two, which every command takes."""
    return run(2, [Meeting(lambda rank, step: 1000 + 400 * rank)])[0]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace in every form; the folder of `alone` has no other files."""
    root = tmp_path_factory.mktemp("inputs")
    for folder in ("alone", "saved", "mixed"):
        (root / folder).mkdir()
    rank_trace().write(root / "alone" / "rank0.json.gz")
    rank_trace().write(root / "mixed" / "rank0.json.gz")
    answer = call("report", root / "alone" / "rank0.json.gz", "-q", "-o", root / "saved" / "rank0.report.json")
    assert answer.code == 0
    (root / "mixed" / "rank0.report.json").write_bytes((root / "saved" / "rank0.report.json").read_bytes())
    (root / "mixed" / "config.json").write_text('{"lr": 0.1}')
    return root


def given(kind: str, root: Path) -> str:
    """How one names the trace, or its report."""
    return {
        "file": f"{root}/alone/rank0.json.gz",
        "folder": f"{root}/alone",
        "pattern": f"{root}/alone/*.gz",
        "url of a file": f"local://{root}/alone/rank0.json.gz",
        "url of a folder": f"local://{root}/alone",
        "saved report": f"{root}/saved/rank0.report.json",
        "folder of saved reports": f"{root}/saved",
        "mixed folder": f"{root}/mixed",
    }[kind]


def arguments(command: str, place: str, out: Path) -> tuple[str, ...]:
    """A call whose answer is a document on standard output, or of a batch in a folder."""
    if command == "batch":
        return ("batch", place, "-o", str(out), "--format", "json", "-q")
    return (command, place, *((place,) if command == "diff" else ()), "-q", "--format", "json", "-o", "-")


def found(command: str, place: str, out: Path) -> dict[str, object]:
    """What the command found out, apart from what the input is called."""
    answer = call(*arguments(command, place, out))
    assert (answer.code, answer.err if command != "ranks" else "") == (0, "")
    if command == "batch":
        reports = [*out.glob("*.report.json")]
        assert len(reports) == 1
        assert reports[0].name in (out / "index.html").read_text()
        data = json.loads(reports[0].read_text())
    else:
        data = json.loads(answer.stdout)
    return {key: data[key] for key in data if key not in ("source", "base", "head")}


@pytest.fixture(scope="module")
def expected(places: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, object]]:
    """What each command finds out about the file."""
    out = tmp_path_factory.mktemp("expected")
    return {command: found(command, given("file", places), out) for command in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_takes_every_kind_of_input(
    command: str, kind: str, places: Path, expected: dict[str, dict[str, object]], tmp_path: Path
) -> None:
    if kind.startswith("url"):
        pytest.importorskip("fsspec", reason="fsspec is not installed")
    assert found(command, given(kind, places), tmp_path / "out") == expected[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_says_it_in_the_same_words(command: str) -> None:
    assert WORDS in " ".join(call(command, "--help").out.split())


def hostile(root: Path) -> dict[str, tuple[str, str]]:
    """Inputs without a usable file, and the error for each."""
    (root / "empty").mkdir()
    (root / "junk").mkdir()
    (root / "junk" / "config.json").write_text('{"lr": 0.1}')
    (root / "junk" / "picture.png").write_bytes(b"\x89PNG")
    (root / "junk" / "notes.md").write_text("nothing to see")
    return {
        "empty folder": (f"{root}/empty", NOTHING),
        "pattern without match": (f"{root}/*.nothing", "no file matches"),
        "missing": (f"{root}/no.json", "no such file"),
        "url without library": ("nowhere://bucket/x.json", "nowhere"),
        "folder of junk": (f"{root}/junk", NOTHING),
    }


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "case", ["empty folder", "pattern without match", "missing", "url without library", "folder of junk"]
)
def test_what_leads_nowhere_is_one_line(command: str, case: str, tmp_path: Path) -> None:
    place, says = hostile(tmp_path)[case]
    answer = call(*arguments(command, place, tmp_path / "out"))
    assert (answer.code, answer.err.count("\n"), answer.out) == (2, 1, "")
    if command == "ranks" and case == "folder of junk":
        says = "config.json"  # every file that is no rank is named with its reason, and the first is the error
    assert says in answer.err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_the_library_of_urls_the_extra_is_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    answer = call(*arguments(command, "s3://bucket/x.json", tmp_path / "out"))
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "pip install 'torch-traceanalyzer[s3]'" in answer.err


def test_a_report_on_a_saved_report_is_that_report(places: Path, tmp_path: Path) -> None:
    trace, saved = given("file", places), given("saved report", places)
    for options in ((), ("--lang", "ru"), ("--top", "3"), ("--format", "markdown", "-o", "-")):
        assert call("report", saved, "-q", *options).out == call("report", trace, "-q", *options).out
    assert "steps can only be chosen of a trace" in call("report", saved, "--skip-warmup", "1").err
    assert "whose rules were chosen when it was made" in call("report", saved, "--ignore", "occupancy-low").err
    assert "a table (.txt) is made of a trace" in call("report", saved, "-o", tmp_path / "x.txt").err


def test_a_pattern_with_several_runs_is_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes((FIXTURES / "synthetic" / "cpu_only.json").read_bytes())
    answer = call("report", f"{tmp_path}/*.json")
    assert answer.code == 2
    assert "contains 2 runs (a.json, b.json), and report takes one" in answer.err


def test_a_folder_called_trace_makes_no_json_a_trace(tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "trace" / "step.json").write_bytes((FIXTURES / "synthetic" / "cpu_only.json").read_bytes())
    answer = call("batch", tmp_path / "trace", "-o", tmp_path / "out", "--format", "json")
    assert (answer.code, answer.err.splitlines()[0]) == (0, "1 analyzed, 0 failed, 1 left out")


def test_a_batch_of_a_mixture_takes_what_is_named(places: Path, tmp_path: Path) -> None:
    saved = given("saved report", places)
    answer = call("batch", given("mixed folder", places), saved, "-o", tmp_path / "out", "--format", "html")
    assert (answer.code, answer.err.splitlines()[0]) == (0, "2 analyzed, 0 failed, 2 left out")
    again = call("batch", given("mixed folder", places), saved, "-o", tmp_path / "out", "--format", "html")
    assert again.err.splitlines()[0] == "2 analyzed (2 of them before), 0 failed, 2 left out"


def test_saved_reports_count_no_longer_once_a_trace_lies_beside_them(places: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "r.json").write_bytes((places / "saved" / "rank0.report.json").read_bytes())
    first = call("batch", folder, "-o", tmp_path / "out", "--format", "json")
    rank_trace().write(folder / "t.json")
    second = call("batch", folder, "-o", tmp_path / "out", "--format", "json")
    counts = [answer.err.splitlines()[0] for answer in (first, second)]
    assert counts == ["1 analyzed, 0 failed, 0 left out", "1 analyzed, 0 failed, 1 left out"]


def test_a_pipe_is_a_file(places: Path) -> None:
    for command in ("report", "diff", "ranks"):
        both = "<(cat {0})" + (" {0}" if command == "diff" else "")
        line = f'exec "$@" {command} {both.format(given("file", places))} -q'
        answer = spawn(program=("bash", "-c", line, "bash", sys.executable, "-m", "traceanalyzer"))
        assert "Traceback" not in answer.err
        assert answer.code == 0, (command, answer.err)
