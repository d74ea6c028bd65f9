"""What a capture measures of a training's dataset and of its other threads, and what it records of devices alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.capture.capturing import CAPTURE, capture, facts, needs_torch, only
from tests.cli.running import assert_one_line, spawn
from traceanalyzer.capture.agent.tracefile import marks_of_steps, write_trace
from traceanalyzer.sections.capture import build_step
from traceanalyzer.structure.recording import Recording


@pytest.mark.parametrize("workers", [0, 2])
def test_the_function_of_the_dataset_is_known(tmp_path: Path, workers: int) -> None:
    needs_torch()
    capture(tmp_path, "slow_dataset.py", str(workers))
    found = facts(only(tmp_path))
    assert found.loaders is not None
    (loader,) = found.loaders
    assert loader.samples is not None
    assert loader.samples.function == "tests/capture/programs/slow_dataset.py(13): Worked.__getitem__"
    assert loader.samples.samples == 4 * loader.samples.batches
    slowest = loader.samples.slowest
    assert slowest is not None
    assert 0 < slowest[1] == loader.samples.ns - loader.samples.collate_ns
    assert found.lock_wait_ns is None or workers, "there is no other thread"


def test_a_thread_that_holds_the_lock_is_named(tmp_path: Path) -> None:
    needs_torch()
    capture(tmp_path, "slow_dataset.py", "0", "busy")
    found = facts(only(tmp_path))
    assert [thread.function for thread in found.threads] == ["tests/capture/programs/slow_dataset.py(17): watch"]
    assert found.lock_wait_ns is not None
    assert found.lock_wait_ns > 1_000_000
    assert found.timing.profiled is not None
    assert found.timing.profiled.others_ns is not None
    assert found.timing.profiled.others_ns > 0


@pytest.mark.parametrize("arguments", [("slow_dataset.py", "0"), ("no_steps.py",)])
def test_without_a_device_light_is_one_clear_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    needs_torch()
    run = capture(tmp_path / "out", *arguments, options=("--light",))
    assert run.code == 0
    assert run.err.strip() == (
        "traceanalyzer: warning: nothing was captured: --light records devices alone, and the program used none; "
        "leave it out to record the CPU"
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["--stacks", "--memory", "--modules", "--flops"])
def test_light_excludes_what_is_recorded_of_the_cpu(tmp_path: Path, option: str) -> None:
    run = spawn("--light", option, "-o", str(tmp_path), "--", "true", program=CAPTURE)
    assert run.code == 2
    assert f"--light and {option}" in assert_one_line(run)


def test_marks_of_steps_belong_to_the_thread_that_calls_the_device(tmp_path: Path) -> None:
    raw = tmp_path / "raw.json"
    raw.write_text(
        '{\n  "traceEvents": [\n'
        '  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": -8, "ts": 1, "dur": 1},\n'
        '  {"ph": "X", "cat": "cuda_driver", "name": "cuLaunchKernel", "pid": 7, "tid": -8, "ts": 2, "dur": 1},\n'
        '  {"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc", "pid": 7, "tid": 9, "ts": 3, "dur": 1},\n'
        '  {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4, "dur": 1}\n'
        '  ],\n  "baseTimeNanoseconds": 1000000\n}\n'
    )
    first, second = marks_of_steps(raw, [1_001_500, 1_003_000, 1_010_000]).decode().splitlines()
    assert first == (
        '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 7, "tid": -8, "ts": 1.500, '
        '"dur": 1.500},'
    )
    assert '"name": "ProfilerStep#1", "pid": 7, "tid": -8, "ts": 3.000, "dur": 7.000' in second


def events(number: int) -> str:
    """A launch and its kernel, 1 ms each, 3 ms after the last ones."""
    at = 3_000 * number
    runtime = f'"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 8, "ts": {at}, "dur": 1000'
    kernel = f'"cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {at + 1000}, "dur": 1000'
    arguments = f'"args": {{"correlation": {number + 1}, "stream": 7, "device": 0}}'
    return f'    {{"ph": "X", {runtime}, {arguments}}},\n    {{"ph": "X", {kernel}, {arguments}}}'


def test_a_light_trace_has_steps_and_its_report_says_what_it_cannot_say(tmp_path: Path) -> None:
    raw, trace = tmp_path / "raw.json", tmp_path / "trace.json.gz"
    raw.write_text('{\n  "traceEvents": [\n' + ",\n".join(map(events, range(4))) + "\n  ]\n}\n")
    marks = marks_of_steps(raw, [3_000_000 * number for number in range(5)])
    facts_of = {"version": 1, "is_light": True, "steps": 4, "steps_from": "optimizer"}
    assert write_trace(raw, trace, facts_of, lambda line: line, marks)
    loaded = ta.load(trace)
    assert isinstance(loaded, ta.Trace)
    assert not loaded.losses
    report = ta.analyze(loaded)
    recording = report.result("recording", Recording)
    assert recording is not None
    assert recording.typical_step_ns == pytest.approx(3_000_000)
    (section,) = build_step(report, 5)
    assert "Only devices were recorded (--light)" in section.messages[0].text
    assert "which operators, shapes, modules and lines" in section.messages[0].text
