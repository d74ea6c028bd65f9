"""`export`: a trace as a file for another program; `report` still takes the options that were its own before."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.builders.graph_capture import captured, model, replayed
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call
from traceanalyzer.cli import export
from traceanalyzer.cli.report import command as report_command
from traceanalyzer.formats import EXPORTS

TABLES = FIXTURES / "key_averages" / "torch213_cpu.txt"
HIDDEN = ("--torch-table", "--sort-by", "--row-limit", "--group-by-input-shape", "--over", "--weight", "--perfetto")


def written(folder: Path) -> dict[str, bytes]:
    """The content of every file of a folder by its name, without the times in headers of gzip."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        path.name: gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("-o", "x.speedscope.json", "-o", "X.COLLAPSED", "-o", "x.txt"),
        ("-o", "x.speedscope.json", "-o", "x.collapsed", "--over", "recording", "--lang", "ru"),
        ("-o", "x.collapsed", "--weight", "idle", "--steps", "6:7"),
        ("-o", "x.txt", "--sort-by", "count", "--row-limit", "3", "--group-by-input-shape"),
        ("-o", "x", "--format", "table"),
        ("--format", "collapsed", "--weight", "device", "--skip-warmup", "2"),
        ("--format", "speedscope", "-o", "-"),
    ],
    ids=" ".join,
)
def test_report_writes_the_same_bytes(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    for name in ("export", "report"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        done = call(name, TRAINING, *arguments)
        assert done.code == 0
        outcomes.append((done.stdout, done.err, written(tmp_path / name)))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0] or outcomes[0][2]


@pytest.mark.parametrize("arguments", [("-o", "tracks/"), ("-o", "there"), ("-o", "new", "--format", "perfetto")])
def test_a_folder_is_for_perfetto(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    assert call("report", TRAINING, "--perfetto", "reported", "--steps", "5:6", "--lang", "zh", "-q").code == 0
    done = call("export", TRAINING, *arguments, "--steps", "5:6", "--lang", "zh")
    folder = Path(arguments[1])
    assert (done.code, done.out) == (0, "")
    assert done.err.strip().endswith(f"Wrote {folder / 'gpu_training.perfetto.json.gz'}")
    assert written(folder) == written(Path("reported"))


def test_the_only_trace_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    captured([("", model(2))]).write(tmp_path / "in" / "capture.json.gz")
    replayed([model(2)]).write(tmp_path / "in" / "decode.json.gz")
    of_file, of_folder = (
        call("export", given, "--format", "table") for given in (tmp_path / "in" / "decode.json.gz", tmp_path / "in")
    )
    assert (of_folder.code, of_folder.err, of_folder.out) == (0, "", of_file.out)


def test_standard_input() -> None:
    piped = call("export", "-", "--format", "table", stdin=TRAINING.read_bytes())
    assert (piped.code, piped.out) == (0, call("export", TRAINING, "--format", "table").out)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name what to write: add -o x.speedscope.json, -o x.collapsed, -o table.txt, or -o tracks/ for Perfetto"),
        (("-o", "x.json"), "no format here has the suffix .json; use one of .txt, .speedscope.json, .collapsed"),
        (("-o", "tracks"), "has no suffix that says the format"),
        (("--format", "perfetto"), "--format perfetto cannot be printed; name a file or folder with -o"),
        (("--format", "perfetto", "-o", "x.json"), "use a folder, or leave one out"),
        (("--format", "html", "-o", "x.html"), "'html' is not one of 'table'"),
        (("-o", "s3://bucket/tracks/"), "s3://bucket/tracks/"),
        (("-o", "x.txt", "--steps", "6"), "leave out --steps and --skip-warmup"),
        (("-o", "x.collapsed", "--row-limit", "3"), "add -o table.txt"),
        (("-o", "tracks/", "--over", "steps"), "--over is about flame graphs"),
        (("-o", "x.speedscope.json", "--weight", "idle"), "--weight is about collapsed stacks"),
        (("-o", "x.txt", "--sort-by", "no_such_column"), "no_such_column"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_errors_are_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in assert_one_line(call("export", TRAINING, *arguments))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("form", "target"), [("table", "x.txt"), ("speedscope", "x.speedscope.json"), ("", "x/")])
def test_what_is_not_one_trace_is_not_written(form: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    for rank, one in enumerate(run(2, [Meeting(lambda rank, step: 1000 + 100 * rank)])):
        one.write(tmp_path / "run" / f"rank{rank}.json")
    saved, difference, out = (tmp_path / name for name in ("saved.json", "difference.json", "out"))
    assert call("report", TRAINING, "-o", saved, "-q").code == 0
    assert call("diff", TRAINING, TRAINING, "-o", difference, "-q").code == 0
    out.mkdir()
    what = {"table": "a table (.txt)", "speedscope": "a flame graph", "": "a trace for Perfetto"}[form]
    for given, said in {
        tmp_path / "run": f"contains several ranks, but {what} is made of one trace",
        saved: f"is a saved report, and {what} is made of a trace",
        TABLES: f"contains printed tables, but {what} is made of a trace",
        difference: f"Did you mean `traceanalyzer render {difference}`?",
    }.items():
        assert said in assert_one_line(call("export", given, "-o", f"{out}/{target}"))
    assert list(out.iterdir()) == []


def test_several_runs_name_the_command(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        (tmp_path / name).write_bytes(TRAINING.read_bytes())
    line = assert_one_line(call("export", tmp_path, "--format", "table"))
    assert "contains 2 runs (a.json.gz, b.json.gz), and export takes one" in line


def test_other_commands_name_export(tmp_path: Path) -> None:
    line = assert_one_line(call("ranks", tmp_path, "-o", "x.collapsed"))
    assert "by traceanalyzer export TRACE -o x.collapsed" in line


def test_the_help_of_report_is_about_reports() -> None:
    shown, exported = (" ".join(call(name, "--help").out.split()) for name in ("report", "export"))
    assert not [word for word in (*HIDDEN, *EXPORTS, ".collapsed") if f" {word} " in f" {shown} ".replace(",", " ")]
    assert all(word in exported for word in (*HIDDEN[:-1], *EXPORTS))
    assert {name for option in report_command.params if getattr(option, "hidden", False) for name in option.opts} == {
        *HIDDEN
    }


def test_every_format_has_a_name_in_messages() -> None:
    assert export._WHAT.keys() == EXPORTS.keys()
