"""What a report on a capture begins with: the step without the profiler, and waiting for a core."""

from __future__ import annotations

from typing import Any

import pytest

import traceanalyzer as ta
from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.test_prices import doubtful
from traceanalyzer.analyzers.capture import Capture
from traceanalyzer.capture.agent.facts import package_frames
from traceanalyzer.report.model import Report
from traceanalyzer.sections.capture import build_step

MS = 1_000_000


def times(ms: float, **on_core: int | list[int]) -> dict[str, Any]:
    return {"steps": 5, "mean_ns": int(ms * MS), "median_ns": int(ms * MS), **on_core}


def report(*lengths: int, **block: Any) -> Report:
    """A training of steps of such lengths (five of 10 ms) in us, of which 4 ms are an operator and the rest a pause."""
    trace, start = TraceBuilder(devices=(), metadata={"traceanalyzer": {"version": 1, **block}}), 0
    for number, length in enumerate(lengths or (10_000,) * 5):
        trace.step(number, start, length)
        trace.op("aten::mm", start, 4000)
        start += length
    return ta.analyze(read_built(trace))


def lines(told: Report) -> list[str]:
    return [message.text for section in build_step(told, 5) for message in section.messages]


def test_the_step_without_the_profiler_and_its_throughput_come_first() -> None:
    told = report(timing={"profiled": times(10), "after": times(8)}, loaders=[{"batch_size": 16}], batches_per_step=1.0)
    real, rate = lines(told)
    assert real.startswith("A step takes 8.0 ms without the profiler: savings are of this step. Recording made it 10")
    assert real.endswith("ms (25 % longer), and other times are of that.")
    assert rate == "2,000 samples per second in this process."
    screen = ta.render(told, "terminal")
    first, *_ = screen.splitlines()
    assert first.startswith("Limited by the CPU")
    assert screen.index("without the profiler") < screen.index("What to change")
    assert screen.index("samples per second in this process.") < screen.index("What to change")
    page = ta.render(told, "html")
    assert page.index("samples per second in this process.") < page.index('<div class="headline">')


@pytest.mark.parametrize(
    ("profiled", "control"),
    [
        (times(7), times(8)),
        (times(10, range_ns=[8 * MS, 12 * MS]), times(8, range_ns=[7 * MS, 9 * MS])),
        (
            times(20, range_ns=[18 * MS, 22 * MS], undisturbed_range_ns=[8 * MS, 9 * MS]),
            times(8, range_ns=[7 * MS, 9 * MS], undisturbed_range_ns=[7 * MS, 9 * MS]),
        ),
    ],
    ids=["shorter", "as far apart as steps of one kind", "longer because others had the cores"],
)
def test_what_recording_costs_is_never_negative_and_never_noise(
    profiled: dict[str, Any], control: dict[str, Any]
) -> None:
    told = report(timing={"profiled": profiled, "after": control})
    capture = told.result("capture", Capture)
    assert capture is not None
    assert capture.overhead_share is None
    (line,) = lines(told)
    assert line.endswith(
        "What recording costs is less than steps differ by themselves; times and savings are of the recorded steps."
    )
    assert "%" not in line


def test_what_recording_costs_is_told_where_steps_with_it_are_apart() -> None:
    timing = {
        "profiled": times(10, range_ns=[9 * MS, 12 * MS], undisturbed_range_ns=[9 * MS, 11 * MS]),
        "after": times(8, range_ns=[7 * MS, 8 * MS], undisturbed_range_ns=[7 * MS, 8 * MS]),
    }
    (line,) = lines(report(timing=timing))
    assert "(25 % longer)" in line


@pytest.mark.parametrize(
    ("block", "told"),
    [
        ({"steps_from": "module"}, "Each call of the outermost module counts as a step."),
        ({"steps_from": "update"}, "A step ends where parameters have changed after a backward pass: no optimizer was"),
        (
            {"steps_from": "backward"},
            "Each backward pass counts as a step: no parameters were seen to",
        ),
        (
            {"steps_from": "optimizer", "optimizers": [{"name": "SGD", "groups": 1, "tensors": 1}] * 2},
            "2 optimizers step; a step of the program ends with each step of the first of them.",
        ),
    ],
)
def test_the_report_says_what_it_counts(block: dict[str, Any], told: str) -> None:
    (line,) = lines(report(**block))
    assert line.startswith(told)


def test_of_uneven_steps_savings_are_of_the_mean_and_not_of_the_median() -> None:
    (line,) = lines(report(*(10_000, 20_000, 10_000) * 3, timing={"profiled": times(10), "after": times(8)}))
    assert line == (
        "A typical step would take 11 ms without the profiler: savings are of that. Steps took 8.0 ms in the median, "
        "and recording made them 25 % longer; other times are of the recorded steps."
    )


def test_savings_that_no_replay_prices_are_of_the_recorded_step() -> None:
    """A replay of kernels that start late for no recorded reason differs too much: all times are as recorded."""
    trace = doubtful()
    trace.metadata["traceanalyzer"] = {"version": 1, "timing": {"profiled": times(0.5), "after": times(0.4)}}
    told = ta.analyze(read_built(trace))
    (combined,) = [head.combined for head in told.headlines]
    assert combined is not None
    assert combined.step_ns is None
    (line,) = lines(told)
    assert line == (
        "A step takes 400 us without the profiler. Recording made it 500 us (25 % longer), and times and savings are "
        "of that."
    )


def test_without_savings_there_is_one_sentence_about_the_step() -> None:
    """A program that computes all the time, of which nothing can be saved."""
    trace = TraceBuilder(devices=())
    trace.metadata["traceanalyzer"] = {"version": 1, "timing": {"profiled": times(10), "after": times(8)}}
    for number in range(5):
        trace.step(number, 10_000 * number, 10_000)
        trace.op("aten::mm", 10_000 * number, 10_000)
    told = ta.analyze(read_built(trace))
    assert [head.combined for head in told.headlines] == [None]
    (line,) = lines(told)
    assert line.startswith("A step takes 8.0 ms without the profiler: savings are of this step.")


def test_steps_that_compile_are_not_taken_for_the_cost_of_recording() -> None:
    told = report(timing={"profiled": times(10), "after": times(1)})
    (line,) = lines(told)
    assert line.startswith("A step takes 1.0 ms without the profiler; the recorded steps took 10 ms. Recording")
    assert {finding.saving.step_ns for finding in told.findings if finding.saving} == {None}


def test_no_overhead_is_said_where_recorded_steps_are_as_long() -> None:
    (line,) = lines(report(timing={"profiled": times(10), "after": times(10)}))
    assert line == "A step takes 10 ms without the profiler, and took 10 ms while it was recorded."


def test_calls_of_generate_are_tokens() -> None:
    told = report(
        timing={"profiled": times(10), "after": times(10)}, rows_per_step=4.0, generates=True, steps_from="module"
    )
    assert "400 generated tokens per second in this process." in lines(told)
    assert "Each call of the outermost module counts as a step." in lines(told)
    capture = told.result("capture", Capture)
    assert capture is not None
    assert (capture.samples_per_s, capture.tokens_per_s) == (None, 400.0)


def test_waiting_for_a_core_is_told_first_and_no_rule_blames_the_program_for_it() -> None:
    uneven = (4000, 16_000) * 5  # half of the steps have a pause
    calm = report(*uneven, timing={"profiled": times(10, cpu_ns=4 * MS, queued_ns=0), "after": times(10)})
    busy = report(*uneven, timing={"profiled": times(10, cpu_ns=4 * MS, queued_ns=6 * MS), "after": times(10)})
    assert "host-waits-or-logs" in {finding.rule for finding in calm.findings}
    assert "host-waits-or-logs" not in {finding.rule for finding in busy.findings}
    assert lines(busy)[0].startswith(
        "The program waited for a core for 60 % of the recorded steps: others use the cores."
    )
    assert "waited for a core" not in " ".join(lines(calm))


def test_of_a_pause_that_every_step_has_waiting_for_a_core_does_not_count() -> None:
    """Waiting for a core is 60 % of the steps and, as far as can be told, of their pauses."""
    busy = report(timing={"profiled": times(10, cpu_ns=4 * MS, queued_ns=6 * MS), "after": times(10)})
    (found,) = [finding for finding in busy.findings if finding.rule == "host-waits-or-logs"]
    assert (found.confidence, found.evidence[0].observed) == ("C", pytest.approx(0.4 * 0.6))
    assert "does not sleep: code outside of PyTorch computes" in found.summary.text
    assert lines(busy)[0].startswith("The program waited for a core for 60 % of the recorded steps")


def test_a_pause_in_which_the_thread_runs_is_code_that_computes() -> None:
    told = report(timing={"profiled": times(10, cpu_ns=10 * MS, queued_ns=0), "after": times(10)})
    (found,) = [finding for finding in told.findings if finding.rule == "host-waits-or-logs"]
    assert "does not sleep: code outside of PyTorch computes" in found.summary.text


def test_recorded_steps_are_in_a_table() -> None:
    each = [{"ns": 10 * MS, "cpu_ns": 4 * MS, "queued_ns": 5 * MS}]
    page = ta.render(report(timing={"profiled": times(10)}, recorded=each), "markdown")
    assert "| Recorded step | Time | On a core | Waited for a core | Asleep |" in page
    assert "| 0 | 10.00 ms | 4.000 ms | 5.000 ms | 1.000 ms |" in page


@pytest.mark.parametrize(
    ("frames", "named"),
    [
        (["lightning/pytorch/loops/fit_loop.py(1): advance"], ["Framework: Lightning."]),
        (
            ["accelerate/optimizer.py(1): step", "transformers/trainer.py(1): _inner_training_loop"],
            ["Framework: Hugging Face Trainer."],
        ),
        (["accelerate/optimizer.py(1): step"], ["Framework: Hugging Face Accelerate."]),
        (["train.py(1): main"], []),
    ],
)
def test_the_framework_that_has_the_loop_is_named_first(frames: list[str], named: list[str]) -> None:
    assert lines(report(frames=frames)) == named


def test_functions_of_packages_that_run_are_recorded() -> None:
    """Those of the program itself are not; what the files are called is all that counts."""
    found: list[str] = []
    spaces = {"call": lambda: found.extend(package_frames())}
    for place in ("/home/me/train.py", "/v/site-packages/lightning/pytorch/loop.py", "/v/site-packages/torch/x.py"):
        code = f"def call_{len(spaces)}(inner=call):\n    inner()\ncall = call_{len(spaces)}\n"
        exec(compile(code, place, "exec"), spaces)
    spaces["call"]()
    assert found[0] == "lightning/pytorch/loop.py(1): call_3"
    assert not [frame for frame in found if "torch/x.py" in frame or "train.py" in frame]


def test_a_sleep_that_a_capture_saw_is_worth_its_length() -> None:
    """Of a pause of which nothing is known, half may be needed."""
    unknown = report(timing={"profiled": times(10), "after": times(10)})
    asleep = report(timing={"profiled": times(10, cpu_ns=4 * MS, queued_ns=0), "after": times(10)})
    least = [
        next(f.saving.wall_share[0] for f in told.findings if f.saving and f.rule == "host-waits-or-logs")
        for told in (unknown, asleep)
    ]
    assert least[0] == pytest.approx(0.3, abs=0.03)
    assert least[1] == pytest.approx(0.48, abs=0.03)
