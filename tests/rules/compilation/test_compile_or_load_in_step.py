"""Tests of the rule `compile-or-load-in-step`: numbers worked out by hand.

The programs: compiling and loading, at the beginning and later.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.host.test_host_waits_or_logs import on_cpu
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped, varied
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

COMPILE = "torch/_dynamo/convert_frame.py(800): _compile"


def compiling(when: Callable[[int], bool], *, steps: int = 5) -> TraceBuilder:
    """Steps of 5 ms, some of which compile for 20 ms before that."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if when(number):
            with host.frame(COMPILE):
                host.work(20_000)
        compute(host, stream, 5000)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """The third and the fifth step compile again."""
    return compiling(lambda number: number in (0, 2, 4))


def fires_on_a_recording_of_set_up() -> TraceBuilder:
    """One step was recorded, and most of it loads code."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(5):
            with host.op("aten::mm"):
                host.call("cuModuleLoadData", 2000)
            compute(host, stream, 500)
        host.wait(stream)

    return looping(step, steps=1)


def quiet() -> TraceBuilder:
    """Everything was compiled before."""
    return compiling(lambda number: False)


def trap_warm_up() -> TraceBuilder:
    """The first recorded step compiles, as it should."""
    return compiling(lambda number: number == 0)


def trap_paused_program() -> TraceBuilder:
    """One launch of many takes 1.2 ms, because the operating system did something else."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for turn in range(20):
            with host.op("aten::mm"):
                host.call("cudaLaunchKernel", 1200 if (number, turn) == (2, 5) else 5)
            compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


RULE = "compile-or-load-in-step"


def test_the_total_is_told_and_divided_for_the_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert "40 ms in all" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((0, 40_000_000 / 5), rel=0.01)
    assert finding.evidence[0].observed == pytest.approx(40 / 60, rel=0.01)  # of the four steps after the first
    assert finding.evidence[0].where[0].name == COMPILE


def test_long_steps_do_not_compile_for_longer_than_they_take() -> None:
    """One step of five compiles for 20 ms, and the first step is as short as the others."""
    (finding,) = findings(compiling(lambda number: number == 2), RULE)
    assert finding.evidence[0].observed == pytest.approx(20 / 40, rel=0.02), "of steps of 25 ms and three of 5 ms"
    assert "4.0 ms per step on average" in finding.summary.text


def test_compiling_in_each_step_goes_away() -> None:
    (finding,) = findings(compiling(lambda number: True), RULE)
    assert finding.saving is not None
    # each step compiles for 20 ms and 4 us; new code may cost a little more than that at first
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 20_004_000, 1.03 * 20_004_000))
    assert "4 of 4 later steps" in finding.saving.basis.text


def unmarked(range_or_frame: str) -> TraceBuilder:
    """Six passes without marks, of which the first, second, fourth and sixth compile for 200 ms."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(6):
        if number in (0, 1, 3, 5):
            around = host.frame if ".py" in range_or_frame else host.op
            with around(range_or_frame):
                host.work(200_000)
        with host.op(f"Torch-Compiled Region: 0/{number}", 5, 5):
            for _ in range(12):
                compute(host, stream, 300)
        host.leaf("aten::mean")
        host.wait(stream)
    return finish(trace)


@pytest.mark.parametrize("name", ["entire_frame_compile (dynamo_timed)", COMPILE])
def test_compiling_in_most_passes_without_marks_has_a_price(name: str) -> None:
    (finding,) = findings(unmarked(name), RULE)
    assert "600 ms in all" in finding.summary.text, "of all passes but the first"
    assert "mark_dynamic" in finding.advice.text
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert 140e6 < low <= high < 205e6


def test_compiling_in_each_step_of_a_program_on_the_cpu() -> None:
    def body(host: Host, number: int) -> None:
        with host.op("dynamo", 2, 1), host.op("entire_frame_compile", 4000, 0):
            host.leaf("bytecode_tracing (dynamo_timed)", 1000)
        host.work(100)

    (finding,) = findings(on_cpu(body), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx(varied(0.9 * 5_003_000, 1.03 * 5_003_000)), (
        "with what surrounds it"
    )


def test_a_recording_of_set_up_is_told_as_such() -> None:
    (finding,) = findings(fires_on_a_recording_of_set_up(), RULE)
    assert finding.saving is None
    assert finding.severity == "low"
    assert "schedule" in finding.advice.text


def test_a_table_does_not_tell_the_step() -> None:
    assert "in which step" in (skipped(fires_in_a_table(), RULE) or "")


def test_set_up_before_the_first_step_of_the_program_is_no_part_of_its_steps() -> None:
    """No marks of the profiler; 20 ms of compiling precede four steps of 1 ms, which begin with the optimizer."""
    trace = TraceBuilder(devices=())
    trace.op("aten::randn", 0, 10)
    trace.annotation("_compile.compile_inner (dynamo_timed)", 20, 20_000)
    for number in range(4):
        trace.annotation("Optimizer.step#SGD.step", 21_000 + 1000 * number, 100)
        trace.op("aten::addmm", 21_200 + 1000 * number, 700)
    assert findings(trace, RULE) == []


def changing(identity: str) -> TraceBuilder:
    """One step of 5 ms, before which a function is compiled for 20 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("entire_frame_compile", 0, 0):
            host.range(f"entire_frame_compile_data: fn_name=_compile.compile_inner, compile_id={identity}", 10)
            host.leaf("_compile.compile_inner (dynamo_timed)", 20_000)
        compute(host, stream, 5000)
        host.wait(stream)

    return looping(step, steps=1)


def test_a_recording_of_compiling_a_function_again_is_about_sizes_that_change() -> None:
    (first,) = findings(changing("0/0"), RULE)
    assert "schedule" in first.advice.text
    (again,) = findings(changing("0/2"), RULE)
    assert "dynamic=True" in again.advice.text
    assert "0/2" in again.summary.text


def test_a_cold_pass_on_a_gpu_alone_is_told_once_and_before_what_its_kernels_could_do_better() -> None:
    """65 ms of loading before and between 6 ms of convolutions of fp32; no operators were recorded."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    host.call("cudaModuleLoadData", 40_000)
    for number in range(12):
        if number == 6:
            host.call("cudaModuleLoadData", 25_000)
        if number % 4:
            host.launch(Work("void at::native::vectorized_elementwise_kernel<4, relu>(int)", 30), stream)
        else:
            host.launch(Work("sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw", 2000), stream)
    host.wait(stream, call="cudaDeviceSynchronize")
    found = report(finish(trace))
    (headline,) = found.headlines
    first, *others = found.findings
    assert headline.message.text.startswith("The trace is mostly start-up: 65 of the 67 ms")
    assert headline.qualifier is not None
    assert headline.qualifier.text.startswith("Only the GPU was recorded")
    assert "Without the start-up 6.3 ms are left" in headline.text
    assert first.rule == RULE
    assert first.summary.text.startswith("65 ms of the trace (97 %)")
    assert others


def test_a_cold_pass_before_warm_ones_is_no_part_of_what_the_other_findings_are_about() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    conv = "sm80_xmma_fprop_implicit_gemm_f32f32_f32f32_f32_nhwckrsc_nchw"
    for number in range(6):
        for kernel in (conv, "relu", "pool", "gemm", "softmax"):
            if not number and kernel == "pool":
                host.call("cudaModuleLoadData", 40_000)
            host.launch(Work(kernel, 1000), stream)
        host.wait(stream)
    first, *others = report(finish(trace)).findings
    (finding,) = (each for each in others if each.rule == RULE)
    assert first.rule != RULE
    assert finding.severity == "info"
    assert finding.summary.text == (
        "40 ms of the trace (59 %) is loading and compiling code, mostly in cudaModuleLoadData, outside of the "
        "typical steps."
    )
