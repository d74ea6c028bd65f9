"""`-o x.speedscope.json` and `-o x.collapsed`: flame graphs of a trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call

DOCUMENT = FIXTURES / "key_averages" / "torch213_cpu.txt"


def total(text: str) -> int:
    return sum(int(line.rpartition(" ")[2]) for line in text.splitlines())


def owners(folder: Path) -> dict[str, int]:
    """The figures of the critical thread in the report on the same trace."""
    assert call("report", TRAINING, "-o", folder / "r.json").code == 0
    return dict(json.loads((folder / "r.json").read_text("utf-8"))["analyses"]["host_owners"])


def test_suffixes_choose_the_formats(tmp_path: Path) -> None:
    for name in ("a.speedscope.json", "B.SPEEDSCOPE.JSON", "c.collapsed", "plain.json"):
        run = call("report", TRAINING, "-o", tmp_path / name)
        assert (run.code, run.out) == (0, "")
    assert "profiles" in json.loads((tmp_path / "a.speedscope.json").read_text("utf-8"))
    assert (tmp_path / "B.SPEEDSCOPE.JSON").read_bytes() == (tmp_path / "a.speedscope.json").read_bytes()
    assert "analyses" in json.loads((tmp_path / "plain.json").read_text("utf-8"))
    assert total((tmp_path / "c.collapsed").read_text("utf-8")) == owners(tmp_path)["time_ns"]


def test_quantities_have_the_sums_of_the_report(tmp_path: Path) -> None:
    table = owners(tmp_path)
    for weight, field in (("host", "time_ns"), ("device", "device_ns"), ("idle", "idle_ns")):
        run = call("report", TRAINING, "--format", "collapsed", "--weight", weight)
        assert run.code == 0
        assert total(run.out) == table[field] > 0


def test_the_whole_recording_is_longer_than_its_typical_steps() -> None:
    steps, recording = (
        total(call("report", TRAINING, "--format", "collapsed", "--over", over).out) for over in ("steps", "recording")
    )
    assert 0 < steps < recording


def test_chosen_steps_are_those_that_count() -> None:
    one = json.loads(call("report", TRAINING, "--format", "speedscope", "--steps", "6").out)
    assert one["name"].endswith(": 1 typical step")


def test_a_speedscope_file_beside_traces_is_none_of_them(tmp_path: Path) -> None:
    (tmp_path / "trace.json.gz").write_bytes(TRAINING.read_bytes())
    assert call("report", tmp_path, "-o", tmp_path / "x.speedscope.json").code == 0
    assert call("report", tmp_path, "-o", tmp_path / "x.speedscope.json").code == 0, "it is overwritten, too"


@pytest.mark.parametrize("target", ["x.speedscope.json", "x.collapsed"])
def test_what_is_no_trace_has_no_flame_graph(target: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    assert call("report", TRAINING, "-o", saved).code == 0
    assert "is a saved report" in assert_one_line(call("report", saved, "-o", tmp_path / target))
    assert "printed tables" in assert_one_line(call("report", DOCUMENT, "-o", tmp_path / target))
    for command in (("render", saved), ("ranks", tmp_path), ("diff", TRAINING, TRAINING)):
        assert "is made of one trace" in assert_one_line(call(*command, "-o", tmp_path / target))
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-o", "x.html", "--over", "recording"), "--over is about flame graphs"),
        (("-o", "x.speedscope.json", "--weight", "idle"), "--weight is about collapsed stacks"),
        (("--format", "collapsed", "--over", "recording", "--steps", "6"), "leave out --steps"),
    ],
)
def test_options_that_would_not_be_heeded_are_refused(arguments: tuple[str, ...], said: str) -> None:
    assert said in assert_one_line(call("report", TRAINING, *arguments))


def test_a_quantity_that_was_not_recorded_is_one_line() -> None:
    cpu = FIXTURES / "synthetic" / "cpu_only.json"
    assert "has no GPU time" in assert_one_line(call("report", cpu, "--format", "collapsed", "--weight", "device"))
