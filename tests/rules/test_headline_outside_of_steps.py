"""What a headline says of times outside of the typical steps."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import report, said
from tests.rules.test_headline import slow_at_first
from traceanalyzer.structure.recording import Recording


def test_many_owners_of_a_time_outside_of_the_steps_are_no_lack_of_events() -> None:
    """None of twenty operators takes a tenth of the time; they were recorded all the same."""
    trace = outside()
    for number in range(20):
        trace.op(f"aten::op{number}", 3000 + 40 * number, 20)
    text = said(trace)
    assert "hardly anything" not in text
    assert "after the last step, in which the GPU waits." in text


def test_a_step_that_is_left_out_is_no_work_outside_of_the_steps() -> None:
    text = said(slow_at_first(4))
    assert "all 5.0 ms of each step" in text
    assert "This mean" not in text
    assert "outside of the steps" not in text


def outside(
    *, call: str | None = None, mark: str | None = None, kernel: int = 0, pause: int = 900, operators: bool = True
) -> TraceBuilder:
    """Three steps of 1 ms, and after a pause a last mark; in between, something else."""
    trace = TraceBuilder()
    for number in range(3):
        trace.step(number, 1000 * number, 1000)
        if operators:
            trace.op("aten::mm", 1000 * number + 1, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", 1000 * number + 30, 960, at=1000 * number + 10, call_dur=5)
    if call:
        trace.launch(call, 3000, pause - 200)
    if mark:
        trace.annotation(mark, 3000, 800)
    if kernel:
        trace.launch_kernel("copy", 3020, kernel, at=3001, call_dur=5)
    trace.annotation("end", 3000 + pause - 10, 10)
    return trace


@pytest.mark.parametrize(
    ("trace", "sentence"),
    [
        (outside(mark="masks"), "in which the CPU is longest in `masks`, while the GPU waits."),
        (outside(mark="masks", kernel=450), "in which the CPU is longest in `masks`, and the GPU works 50 %."),
        (outside(), "in which hardly anything of the CPU was recorded and the GPU waits."),
        (outside(call="cudaFree"), "because of allocation of memory."),
    ],
    ids=["the GPU waits", "the GPU works", "nothing was recorded", "known by name"],
)
def test_the_largest_time_outside_of_the_steps_is_named(trace: TraceBuilder, sentence: str) -> None:
    assert f" Not counted, outside of the typical steps: 900 us after the last step, {sentence}" in said(trace)


def test_what_is_most_of_a_recording_comes_first_where_its_reason_is_known() -> None:
    """Steps of 1 ms are all that is typical, but half of the recording or more is spent once."""
    assert said(outside(call="cudaFree", pause=3100)).startswith(
        "Most of the trace, 3.1 of the 6.1 ms, is outside typical steps: allocation of memory. A typical step: Limited "
    )
    assert said(outside(call="cudaFree", pause=2900)).startswith("Limited by GPU compute: ")
    assert said(outside(mark="masks", pause=3100)).startswith("Limited by GPU compute: ")


def test_that_only_the_gpu_was_recorded_follows_the_first_sentence_whatever_that_is() -> None:
    """Also where most of the trace is outside of the typical steps."""
    (found,) = report(outside(call="cudaFree", pause=3100, operators=False)).headlines
    assert found.message.text.startswith("Most of the trace, 3.1 of the 6.1 ms, is outside typical steps")
    assert found.qualifier is not None
    assert found.qualifier.text.startswith("Only the GPU was recorded")
    assert found.details[0].text.startswith("A typical step: Limited by GPU compute")


def test_times_outside_of_the_steps_in_which_the_host_does_the_same_are_added_up() -> None:
    """A program computes advantages for 2 ms before each of two rounds of steps, and once something else for 3 ms."""
    assert " in 2 stretches, in which the CPU is longest in `advantages`." in said(rounds(2000))


def test_what_comes_again_outside_of_the_steps_and_is_most_of_a_recording_comes_first() -> None:
    """Before each of two rounds of steps something takes 20 ms, or 7; the step that it is in counts with it."""
    sentence = "Most of the trace, 42 of the 51 ms, is outside typical steps, longest in `advantages`. A typical step: "
    assert said(rounds(20_000)).startswith(sentence)
    assert "Not counted" in said(rounds(7000))


def rounds(before: int) -> TraceBuilder:
    """Two rounds of four steps, before each of which something else takes some us, and another thing at the end."""
    trace, at = TraceBuilder(devices=()), 0
    for _ in range(2):
        trace.annotation("advantages", at, before)
        at += before
        for _ in range(4):
            trace.annotation("Optimizer.step#SGD.step", at + 900, 90)
            trace.op("aten::mm", at, 800)
            at += 1000
    trace.annotation("export", at, 3000)
    return trace


def test_a_device_that_does_earlier_work_outside_of_the_steps_does_not_wait() -> None:
    trace = TraceBuilder()
    trace.annotation("load", 0, 20_000)
    trace.launch_kernel("gemm", 20_010, 100, at=10, call_dur=5)
    for number in range(4):
        start = 20_200 + 10_000 * number
        trace.step(number, start, 9_990)
        trace.op("aten::mm", start + 1, 20)
        trace.launch_kernel("gemm", start + 30, 9_900, at=start + 10, call_dur=5)
    (outside,) = (part for part in report(trace).result("recording", Recording).outside if part.kind == "before")
    assert outside.device_busy_ns is None
    assert "the CPU is longest in `load`" in said(trace)
    assert "the GPU waits" not in said(trace)


@pytest.mark.parametrize(("pause", "is_told"), [(749, False), (750, True)])
def test_less_than_a_fifth_outside_of_the_steps_is_not_named(pause: int, is_told: bool) -> None:
    assert ("Not counted" in said(outside(pause=pause))) is is_told


def test_work_outside_of_the_marked_steps_is_told() -> None:
    trace = TraceBuilder()
    trace.step(0, 0, 3000)
    trace.op("aten::mm", 0, 100)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 50, 2500, at=20)
    for length, is_told in ((2400, False), (200, True)):
        trace.launch_kernel("acme", 5000 + length, length, at=4990 + length)
        assert ("of the GPU's recorded work lies outside of the steps" in said(trace)) is is_told


def test_without_marks_a_step_lasts_until_the_device_is_done() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 100)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 50, 10, at=20)
    trace.launch("cudaGraphLaunch", 110, 5, correlation=77)
    trace.kernel("ampere_sgemm_128x64_nn", 200, 9000, correlation=77)
    assert "outside of the steps" not in said(trace)
    assert "9.0 of the 9.2 ms of the trace" in said(trace)
