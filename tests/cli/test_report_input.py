"""Input that cannot be analyzed costs one line and exit code 2, whatever it is; the rest is analyzed."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.malformed import MALFORMED, Malformed
from tests.cli.running import FIXTURES, PROGRAM, TRAINING, assert_one_line, call, spawn

NOISE = random.Random(7).randbytes(4096)
NO_TRACES = {
    "binary garbage": NOISE,
    "garbage in gzip": gzip.compress(NOISE, mtime=0),
    "gzip header only": b"\x1f\x8b\x08\x00",
    "gzip magic only": b"\x1f\x8b",
    "gzip then garbage": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff" + NOISE,
    "one byte": b"{",
    "white space": b" \n" * 2000,
    "NUL bytes": bytes(5000),
    "picture": b"\x89PNG\r\n\x1a\n" + NOISE,
    "deep list": b"[" * 200_000,
    "deep object": b'{"traceEvents":' * 50_000,
    "prose": b"Nothing to see here.\n" * 200,
    "null": b"null",
    "number": b"1e999",
    "events are text": b'{"traceEvents": "none"}',
    "events are null": b'{"traceEvents": null}',
    "events are an object": b'{"traceEvents": {"0": {}}}',
    "events are metadata": b'{"traceEvents": [{"ph": "M", "name": "process_name", "pid": 1, "args": {}}]}',
    "key without value": b'{"traceEvents"',
    "web trace": b'[{"name": "RunTask", "cat": "devtools", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]',
}


@pytest.mark.parametrize("file", [m for m in MALFORMED if not m.usable], ids=lambda file: file.name)
def test_a_file_without_a_trace_is_one_line(file: Malformed, tmp_path: Path) -> None:
    path = tmp_path / file.name
    path.write_bytes(file.data)
    assert file.name in assert_one_line(call("report", path))


@pytest.mark.parametrize("file", [m for m in MALFORMED if m.usable], ids=lambda file: file.name)
def test_a_damaged_file_is_reported_on(file: Malformed, tmp_path: Path) -> None:
    path = tmp_path / file.name
    path.write_bytes(file.data)
    run = call("report", path)
    assert run.code == 0
    facts = run.out.partition("\n\n")[0].splitlines()[-1]
    assert facts.startswith(f"{file.name}: a trace of ")
    assert f", {file.readable} event" in facts
    assert run.err.split()[0] == "Next:"
    assert (file.lost == 0) or "\nWarnings" in run.out


def test_text_that_only_looks_like_a_table_is_one_line() -> None:
    assert "look_alikes.md" in assert_one_line(call("report", FIXTURES / "key_averages" / "look_alikes.md"))


@pytest.mark.parametrize("data", NO_TRACES.values(), ids=NO_TRACES.keys())
def test_what_is_no_trace_is_one_line(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "input.json"
    path.write_bytes(data)
    assert "input.json" in assert_one_line(call("report", path))


@pytest.mark.parametrize("data", [b"", b"[]", NOISE, gzip.compress(b"", mtime=0)], ids=["empty", "list", "noise", "gz"])
def test_standard_input_without_a_trace_is_one_line(data: bytes) -> None:
    assert "stdin" in assert_one_line(call("report", "-", stdin=data))


def test_as_a_program_it_is_one_line_too(tmp_path: Path) -> None:
    assert_one_line(spawn("report", tmp_path / "missing.json"))
    assert_one_line(spawn("report", "-", stdin=NOISE))


def test_no_output_file_is_left_for_unusable_input(tmp_path: Path) -> None:
    (tmp_path / "input.json").write_bytes(b"")
    assert_one_line(call("report", tmp_path / "input.json", "-o", tmp_path / "out.md"))
    assert [file.name for file in tmp_path.iterdir()] == ["input.json"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "missing.json" in assert_one_line(call("report", tmp_path / "missing.json"))
    assert_one_line(call("report", TRAINING / "below.json"))
    assert_one_line(call("report", ""))


def test_a_directory_is_named(tmp_path: Path) -> None:
    line = assert_one_line(call("report", tmp_path))
    assert str(tmp_path) in line
    assert "contains no trace" in line


def test_a_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    assert_one_line(call("report", tmp_path / ("a" * 300)))


def test_a_loop_of_links_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    assert "loop.json" in assert_one_line(call("report", tmp_path / "loop.json"))


def test_a_file_without_permission_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.json"
    path.write_bytes(b"{}")
    path.chmod(0)
    if os.access(path, os.R_OK):  # the administrator may read everything
        usual = Path.open

        def refuse(self: Path, *rest: Any, **more: Any) -> Any:
            if self == path:
                raise PermissionError(13, "Permission denied")
            return usual(self, *rest, **more)

        monkeypatch.setattr(Path, "open", refuse)
    line = assert_one_line(call("report", path))
    assert "secret.json" in line
    assert "Permission denied" in line


def test_closed_standard_input_is_one_line() -> None:
    without_input = ("sh", "-c", 'exec "$@" <&-', "sh")
    assert_one_line(spawn("report", "-", program=(*without_input, *PROGRAM)))


@pytest.mark.parametrize("name", ["a\x1b[31mred.json", "two\nlines.json", "bell\x07.json", "\u202egnp.json"])
def test_hostile_file_names_do_not_reach_the_terminal(name: str, tmp_path: Path) -> None:
    assert_one_line(call("report", tmp_path / name))
    (tmp_path / name).write_bytes(TRAINING.read_bytes())
    run = call("report", tmp_path / name)
    assert run.code == 0
    assert run.out.replace("\n", "").isprintable()
    (hint,) = run.err.strip().splitlines()
    assert hint.isprintable()
    written = call("report", tmp_path / name, "-o", tmp_path / f"{name}.md")
    assert written.code == 0
    assert written.err.rstrip("\n").isprintable()


@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_a_file_name_that_is_no_text_is_shown_as_far_as_it_is(form: str, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.json"
    with open(path, "wb") as file:  # noqa: PTH123 - a path of bytes
        file.write(TRAINING.read_bytes())
    run = spawn("report", path, "--format", form)
    assert (run.code, run.err.count("Traceback")) == (0, 0)
    assert "caf" in run.out


def test_a_trace_of_one_event_is_reported_on(tmp_path: Path) -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 5)
    run = call("report", trace.write(tmp_path / "one.json"))
    assert run.code == 0
    assert "5.000 us" in run.out


def test_an_error_that_quotes_a_page_is_cut_to_a_line(tmp_path: Path) -> None:
    (tmp_path / "traceanalyzer.toml").write_text(f'[rules."gpu-underutilized"]\nbusy_share = "{"x" * 3000}"\n')
    run = spawn("report", TRAINING, cwd=tmp_path)
    line = assert_one_line(run)
    assert len(line) < 600
    assert line.startswith("traceanalyzer: traceanalyzer.toml: rules.gpu-underutilized.busy_share = 'xxx")
    assert line.endswith("xxx': a number from 0 to 1e+18 is needed\n")


@pytest.mark.parametrize(("before", "unit"), [(b'{"traceEvents": [', b"}"), (b'{"traceEvents": [', b" "), (b"", b"a")])
def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(
    before: bytes, unit: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb") as file:
        file.write(before)
        file.writelines([unit * 1_000_000] * 80)
    assert path.stat().st_size < 100_000
    assert "times as many" in assert_one_line(call("report", path))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (TRAINING.read_bytes()[:20], "its gzip data is cut or damaged after 0 bytes"),
        (gzip.compress(b""), "is a gzip file with nothing in it"),
        (b"<!-- traceanalyzer report 0.1.0 -->\n", "is a report that traceanalyzer wrote for people"),
        (
            b"<!-- traceanalyzer report 0.1.0 -->\n| Name | Total (ms) |\n| --- | --- |\n| aten::mm | 3.5 |\n",
            "is a report that traceanalyzer wrote for people",
        ),
    ],
    ids=["cut", "empty", "report", "report with tables"],
)
def test_what_holds_no_trace_is_named(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(content)
    assert f"x.gz: {says}" in assert_one_line(call("report", tmp_path / "x.gz"))


def test_an_empty_name_is_named() -> None:
    assert "an input has an empty name" in assert_one_line(call("report", ""))
