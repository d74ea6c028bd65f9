"""Traces cut to steps or a time range: what is kept, and that nothing else changes."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.builders import LAYOUTS, Layout, TraceBuilder
from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call
from tests.reading import plain, read
from traceanalyzer.inputs.opening import load
from traceanalyzer.pipeline import StepChoice, analyze
from traceanalyzer.report.model import Report
from traceanalyzer.rewrite.trim import trim


def events_of(path: Path) -> list[dict[str, Any]]:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    assert next(iter(document)) == "traceanalyzer_rewritten"
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def names_of(path: Path) -> Counter[str]:
    return Counter(event["name"] for event in events_of(path) if event["ph"] == "X" and event.get("cat") != "Trace")


def steps_of(report: Report) -> list[dict[str, Any]]:
    """Without the starts, which count from the first event."""
    return [{k: v for k, v in step.items() if k != "start_ns"} for step in plain(report)["step_breakdown"]["steps"]]


def two_steps() -> TraceBuilder:
    """A kernel of step 1 runs into step 2, and one of step 2 beyond its end."""
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.op("aten::first", 10, 30)
    trace.launch_kernel("k_first", 60, 60, at=20)
    trace.step(2, 100, 100)
    trace.op("aten::second", 130, 40)
    trace.launch_kernel("k_second", 150, 90, at=140)
    trace.step(3, 250, 100)
    trace.op("aten::third", 260, 40)
    trace.launch_kernel("k_third", 280, 20, at=270)
    return trace


def test_a_step_keeps_what_it_launched_and_what_runs_in_it(tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "t.json")
    trim(str(source), tmp_path / "cut.json", steps=(2, 2))
    assert names_of(tmp_path / "cut.json") == {
        "ProfilerStep#2": 1,
        "aten::second": 1,
        "cudaLaunchKernel": 2,
        "k_first": 1,
        "k_second": 1,
    }


def test_arrows_to_the_device_keep_both_ends(tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "t.json")
    trim(str(source), tmp_path / "cut.json", steps=(2, 2))
    ends = Counter((event["id"], event["ph"]) for event in events_of(tmp_path / "cut.json") if event["ph"] in "sf")
    assert ends
    assert all(ends[flow, "s"] == ends[flow, "f"] for flow, _ in ends)


def test_a_time_range_counts_from_the_first_event(tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "t.json")
    done = trim(str(source), tmp_path / "cut.json", time_ns=(250_000, None))
    assert set(names_of(tmp_path / "cut.json")) == {"ProfilerStep#3", "aten::third", "cudaLaunchKernel", "k_third"}
    assert done.written == len(events_of(tmp_path / "cut.json"))


def test_names_of_threads_and_the_metadata_stay(tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "t.json")
    trim(str(source), tmp_path / "cut.json", steps=(3, 3))
    before, after = (json.loads(path.read_bytes()) for path in (source, tmp_path / "cut.json"))
    assert {k: v for k, v in after.items() if k not in ("traceEvents", "traceanalyzer_rewritten")} == {
        k: v for k, v in before.items() if k != "traceEvents"
    }
    assert [e for e in after["traceEvents"] if e["ph"] == "M"] == [e for e in before["traceEvents"] if e["ph"] == "M"]


def test_flows_between_passes_are_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in (1, 2):
        at = 1000 * number
        trace.step(number, at, 900)
        trace.op("aten::mm", at + 10, 50)
        trace.op("MmBackward0", at + 300, 50)
    trace.fwdbwd((1010, trace.tid), (1300, trace.tid))
    trace.fwdbwd((1010, trace.tid), (2300, trace.tid))
    trim(str(trace.write(tmp_path / "t.json")), tmp_path / "cut.json", steps=(1, 1))
    ends = [event["ph"] for event in events_of(tmp_path / "cut.json") if event.get("cat") == "fwdbwd"]
    assert sorted(ends) == ["f", "s"]


def test_frames_around_the_range_stay_and_memory_records_in_it(tmp_path: Path) -> None:
    trace = two_steps()
    outer = trace.python_function("train.py(3): main", 0, 400)
    trace.python_function("train.py(9): early", 5, 10, parent=outer)
    for at in (15, 135, 265):
        trace.memory(512, at, addr=at, allocated=512, reserved=1024)
    trim(str(trace.write(tmp_path / "t.json")), tmp_path / "cut.json", steps=(2, 2))
    names = names_of(tmp_path / "cut.json")
    assert names["train.py(3): main"] == 1
    assert names["train.py(9): early"] == 0
    assert sum(event["name"] == "[memory]" for event in events_of(tmp_path / "cut.json")) == 1


@pytest.mark.parametrize("chosen", [(5, 7), (5, 5), (None, None)])
def test_the_report_on_a_cut_trace_says_the_same_of_its_steps(
    chosen: tuple[int | None, int | None], tmp_path: Path
) -> None:
    target = tmp_path / "cut.json.gz"
    trim(str(TRAINING), target, steps=chosen)
    assert steps_of(analyze(load(target))) == steps_of(analyze(load(TRAINING), StepChoice(*chosen)))


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("resnet50_v100_workers0_golden", (7, 8)),
        ("ddp_a100_nccl_rank0", (5, 5)),
        ("train_v100_ns_timestamps", (102, 104)),
    ],
)
def test_real_traces(corpus: Path, name: str, steps: tuple[int, int], tmp_path: Path) -> None:
    source, target = corpus / "corpus" / f"{name}.json.gz", tmp_path / "cut.json.gz"
    done = trim(str(source), target, steps=steps)
    assert 0 < done.written < done.entries
    assert steps_of(analyze(load(target))) == steps_of(analyze(load(source), StepChoice(*steps)))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_becomes_one_that_viewers_read(layout: Layout, tmp_path: Path) -> None:
    source = two_steps().write(tmp_path / "t.json", layout)
    trim(str(source), tmp_path / "cut.json", steps=(2, 3))
    whole = read(source.read_bytes())
    cut = read((tmp_path / "cut.json").read_bytes())
    assert 0 < len(cut.host) < len(whole.host)


def test_a_trace_that_was_cut_off_is_written_whole(tmp_path: Path) -> None:
    data = two_steps().to_bytes()
    (tmp_path / "t.json").write_bytes(data[: data.index(b"k_third")])
    trim(str(tmp_path / "t.json"), tmp_path / "cut.json", time_ns=(0, None))
    assert "aten::second" in names_of(tmp_path / "cut.json")
    assert not any(loss.id == "read-truncated" for loss in read((tmp_path / "cut.json").read_bytes()).losses)


def test_malformed_fixtures_are_cut_or_refused(tmp_path: Path) -> None:
    done = 0
    for path in sorted((FIXTURES / "malformed").iterdir()):
        run = call("trim", path, "-o", tmp_path / "cut.json", "--time", "0:", "--force", "-q")
        if run.code:
            assert_one_line(run)
        else:
            read((tmp_path / "cut.json").read_bytes())
            done += 1
    assert done > 5


def test_the_same_cut_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        trim(str(TRAINING), tmp_path / name, steps=(5, 5))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_cutting_a_cut_trace_overwrites_our_file_but_no_other(tmp_path: Path) -> None:
    target = tmp_path / "cut.json.gz"
    assert call("trim", TRAINING, "-o", target, "--steps", "5:6").code == 0
    assert call("trim", target, "-o", target, "--steps", "6").code == 0
    assert [name for name in names_of(target) if name.startswith("ProfilerStep")] == ["ProfilerStep#6"]
    foreign = tmp_path / "trace.json.gz"
    foreign.write_bytes(TRAINING.read_bytes())
    assert "--force" in assert_one_line(call("trim", TRAINING, "-o", foreign, "--steps", "5"))
    assert foreign.read_bytes() == TRAINING.read_bytes()
    assert call("trim", TRAINING, "-o", foreign, "--steps", "5", "--force").code == 0


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--steps", "2", "--time", "0:1"),
        ("--steps", "99"),
        ("--steps", "x"),
        ("--time", "5:1"),
        ("--time", "999999:"),
        ("--time", "x:y"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_one_line_and_writes_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    assert_one_line(call("trim", TRAINING, "-o", tmp_path / "cut.json", *options))
    assert not list(tmp_path.iterdir())


def test_unusable_inputs_and_targets_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("no trace")
    for source, target in (("no.json", "x.json"), (str(tmp_path / "notes.md"), "x.json"), ("-", "x.json")):
        assert_one_line(call("trim", source, "-o", tmp_path / target, "--time", "0:1"))
    assert ".json" in assert_one_line(call("trim", TRAINING, "-o", tmp_path / "x.txt", "--steps", "3"))
    both = assert_one_line(call("trim", TRAINING, "-o", tmp_path / "x.json", "--steps", "5", "--time", "0:1"))
    assert "leave one of them out" in both
    assert [path.name for path in tmp_path.iterdir()] == ["notes.md"]
