"""Each kind of program by each evidence for it, and what looks like one but is another."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import report
from tests.structure.recording.reading import US, kind, recorded

OPTIMIZER = "Optimizer.step#SGD.step"
BACKWARD = "autograd::engine::evaluate_function: MmBackward0"


def program(*, steps: int = 3, kernel: int = 1000, backward: bool = False, optimizer: bool = False) -> TraceBuilder:
    """Steps of 2 ms, each with two operators that launch, and half of it at work on the device."""
    trace = TraceBuilder()
    for number in range(steps):
        start = 2000 * number
        trace.step(number, start, 2000)
        trace.op("aten::mm", start + 10, 20)
        trace.launch_kernel("gemm", start + 40, kernel // 2, at=start + 15)
        trace.op(BACKWARD if backward else "aten::relu", start + 40, 20)
        trace.launch_kernel("gemm", start + 40 + kernel, kernel // 2, at=start + 45)
        if optimizer:
            trace.annotation(OPTIMIZER, start + 80, 20)
    return trace


def test_training() -> None:
    assert kind(program(backward=True, optimizer=True)) == ("training", {"backward-operators", "optimizer-steps"})
    assert kind(program(backward=True)) == ("training", {"backward-operators"}), "its steps are marked"
    assert kind(program(optimizer=True)) == ("training", {"optimizer-steps"})


@pytest.mark.parametrize("name", ["AddmmBackward0", "CompiledFunctionBackward", "## backward ##"])
def test_names_of_a_backward_pass(name: str) -> None:
    trace = program()
    trace.op(name, 100, 5)
    assert recorded(trace).workload == "training"


@pytest.mark.parametrize("name", ["aten::_softmax_backward_data_like", "my_backward_hook", "Backwards"])
def test_other_names_are_no_backward_pass(name: str) -> None:
    trace = program()
    trace.op(name, 100, 5)
    assert recorded(trace).workload == "inference"


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("void cudnn::bn_fw_inf_1C11_kernel_NCHW", "inference"),
        ("void at::native::batch_norm_backward_elemt_channels_last_kernel", "training"),
        ("cudnn::cnn::wgrad2d_grouped_direct_kernel", "training"),
        ("igemm_wrw_gtcx35_nhwc_fp16", "training"),
        ("void at::native::(anonymous namespace)::fused_adam_kernel<float>", "training"),
        ("void bitsandbytes::kOptimizerStatic8bit2StateBlockwise<float>", "training"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<>", "training"),
        ("sm80_xmma_dgrad_implicit_gemm", "inference"),
    ],
)
def test_kernels_tell_a_training_where_no_operator_was_recorded(kernel: str, expected: str) -> None:
    """A data gradient also computes a transposed convolution of a forward pass."""
    trace = TraceBuilder()
    for start in (0, 3000, 6000):
        trace.launch_kernel(kernel, start + 20, 2000, at=start)
    assert kind(trace)[0] == expected


def test_inference_is_what_nothing_else_is() -> None:
    assert kind(program()) == ("inference", {"no-backward"})


def unmarked(calls: int, around: str | None = None, *, backward: bool = False) -> TraceBuilder:
    """Operators one after the other, each with a kernel of 1 ms; in an annotation if one is named."""
    trace = TraceBuilder()
    if around:
        trace.annotation(around, 0, 2000 * calls)
    for number in range(calls):
        start = 2000 * number + 1
        trace.op(BACKWARD if backward and number else "aten::mm", start, 20)
        trace.launch_kernel("gemm", start + 40, 1000, at=start + 5)
    return trace


def test_a_backward_pass_by_itself_is_a_micro_benchmark() -> None:
    assert kind(unmarked(4, backward=True)) == ("micro-benchmark", {"backward-without-optimizer"})


@pytest.mark.parametrize(("functions", "expected"), [(49, "micro-benchmark"), (50, "training")])
def test_a_backward_pass_through_a_whole_model_is_a_training(functions: int, expected: str) -> None:
    assert kind(unmarked(1 + functions, backward=True))[0] == expected


def test_a_step_that_trains_is_judged_however_little_the_device_does() -> None:
    trace = program(steps=1, kernel=300, backward=True, optimizer=True)
    assert kind(trace) == ("training", {"backward-operators", "optimizer-steps"})
    assert not recorded(trace).has_hardly_any_work
    assert recorded(trace).device_busy_ns == 300 * US


def test_a_step_that_repeats_is_judged_however_little_the_device_does() -> None:
    assert not recorded(program(steps=2, kernel=300)).has_hardly_any_work
    assert recorded(program(steps=1, kernel=300)).has_hardly_any_work


def test_a_training_of_hardly_any_work_and_start_up_is_a_micro_benchmark() -> None:
    trace = program(kernel=300, backward=True, optimizer=True)
    trace.launch("cuModuleLoadData", 2100, 3000)
    assert kind(trace) == ("micro-benchmark", {"hardly-any-device-work"})
    assert recorded(trace).has_hardly_any_work


@pytest.mark.parametrize(("kernel", "hardly_any"), [(998, True), (1000, False)])
def test_less_than_a_millisecond_is_hardly_any_work(kernel: int, hardly_any: bool) -> None:
    assert recorded(program(steps=1, kernel=kernel)).has_hardly_any_work is hardly_any


@pytest.mark.parametrize(("kernels", "hardly_any"), [(49, True), (50, False)])
def test_a_marked_step_with_many_short_kernels_is_work(kernels: int, hardly_any: bool) -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 1000)
    for number in range(kernels):
        trace.launch_kernel("gemm", 10 * number + 5, 2, at=10 * number, call_dur=2)
    assert recorded(trace).has_hardly_any_work is hardly_any


def test_without_a_device_nothing_is_hardly_any() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::mm", 0, 20)
    assert not recorded(trace).has_hardly_any_work


def captured(launches: int, *, events: int = 0, replays: int = 0) -> TraceBuilder:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10_000)
    trace.launch("cudaStreamBeginCapture_v10000", 5, 5)
    for number in range(launches):
        trace.launch("cudaLaunchKernel", 20 + 10 * number, 5)
    for number in range(events):
        trace.launch_kernel("gemm", 8000 + 100 * number, 50, at=7990 + 100 * number)
    for number in range(replays):
        trace.graph_launch(9500 + 100 * number, 5, [("gemm", 9510 + 100 * number, 50, {})])
    return trace


def test_a_capture_of_graphs() -> None:
    trace = captured(300, events=2)
    assert kind(trace) == ("graph-capture", {"captures", "launches-without-events"})
    assert {e.kind: e.count for e in recorded(trace).evidence} == {"captures": 1, "launches-without-events": 302}


def in_pieces(pieces: int, *, between: int, mark: str | None = None, replays: int = 0) -> TraceBuilder:
    """Pieces of ten launches that are captured, and launches between them that run."""
    trace, now = TraceBuilder(), 10
    for _ in range(pieces):
        trace.launch("cudaStreamBeginCapture_v10000", now, 5)
        for number in range(10):
            trace.launch("cudaLaunchKernel", now + 10 + 10 * number, 5)
        trace.launch("cudaStreamEndCapture_v10000", now + 120, 5)
        for number in range(between):
            trace.launch_kernel("attention", now + 140 + 100 * number, 80, at=now + 130 + 100 * number)
        now += 200 + 100 * between
    for number in range(replays):
        trace.graph_launch(now + 100 * number, 5, [("gemm", now + 10 + 100 * number, 50, {})])
    if mark:
        trace.annotation(mark, 1, now + 1000)
    return trace


def test_a_capture_in_pieces_runs_what_is_between_them() -> None:
    assert recorded(in_pieces(20, between=3)).workload == "graph-capture"
    assert recorded(in_pieces(20, between=30)).workload != "graph-capture", "most launches run"
    assert recorded(in_pieces(20, between=3, replays=2)).workload != "graph-capture"
    assert recorded(in_pieces(20, between=30, mark="capture_8192_PIECEWISE")).workload == "graph-capture"


@pytest.mark.parametrize("trace", [captured(90), captured(300, events=60), captured(300, replays=1)])
def test_a_capture_in_a_program_that_runs_is_none(trace: TraceBuilder) -> None:
    assert recorded(trace).workload != "graph-capture"


def cut(gap_from: int, gap_to: int, calls: int) -> TraceBuilder:
    """Calls every 10 us with an empty time between two of them, in which the runtime numbered so many calls."""
    trace = TraceBuilder()
    trace.annotation("everything", 0, 20_000)
    number = 1
    for start in range(0, 20_000, 10):
        if gap_from <= start < gap_to:
            continue
        number += calls if start == gap_to else 1
        trace.launch("cudaLaunchKernel", start, 4, correlation=number)
        trace.kernel("gemm", start + 5, 5, correlation=number)
    return trace


def test_a_recording_without_most_of_its_events_is_a_fragment() -> None:
    trace = cut(4000, 16_000, 150)
    assert kind(trace) == ("fragment", {"removed-events"})
    found = recorded(trace).window
    assert found is not None
    # the last event before ends at 4000 us, the next one begins at 16000
    assert found.removed_ns == 12_000 * US


def test_a_program_that_sleeps_has_no_hole() -> None:
    found = recorded(cut(4000, 16_000, 99)).window
    assert found is not None
    assert found.removed_ns == 0


def test_a_program_that_asks_again_and_again_has_no_hole() -> None:
    """Calls that the profiler leaves out, such as cudaEventQuery, are numbered, too: two in each microsecond."""
    found = recorded(cut(4000, 16_000, 24_000)).window
    assert found is not None
    assert found.removed_ns == 0


def test_a_small_hole_is_told_and_makes_no_fragment() -> None:
    trace = cut(4000, 6000, 150)
    found = recorded(trace)
    assert found.window is not None
    assert found.window.removed_ns == 2000 * US
    assert "removed-events" not in {evidence.kind for evidence in found.evidence}


def test_marks_of_another_process_make_a_fragment() -> None:
    trace = unmarked(4)
    trace.annotation("ProfilerStep#1", 0, 9000, pid=99, tid=99)
    assert kind(trace) == ("fragment", {"foreign-steps"})


def test_a_device_without_events_makes_a_fragment() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20)
    trace.op("aten::mm", 30, 20)
    assert kind(trace) == ("fragment", {"no-device-events"})


@pytest.mark.parametrize(("mark", "program"), [("Optimizer.step#Adam.step", "training"), ("predict", "inference")])
def test_whole_steps_of_a_gpu_whose_events_are_missing_are_no_fragment(mark: str, program: str) -> None:
    """With activities=[CPU] the operators show what a program is, wherever they compute."""
    trace = TraceBuilder()
    for number in range(4):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.op("aten::mm", at + 10, 200)
        trace.annotation(mark, at + 300, 500)
    assert kind(trace)[0] == program


def test_collectives_alone_are_a_fragment() -> None:
    trace = TraceBuilder(devices=())
    for number in range(5):
        trace.annotation("gloo:all_reduce", 100 * number, 50)
    assert kind(trace) == ("fragment", {"only-collectives"})
    for number in range(10):
        trace.op("aten::mm", 100 * number + 55, 5)
    assert "only-collectives" not in kind(trace)[1]


def test_kernels_without_launches_are_a_fragment() -> None:
    trace = TraceBuilder()
    for number in range(5):
        trace.kernel("gemm", 1000 * number, 900)
    assert kind(trace) == ("fragment", {"kernels-without-launches"})


@pytest.mark.parametrize(("name", "program"), [("gemm", "inference"), ("cudnn::bn_bw_1C11_kernel_new", "training")])
def test_many_kernels_without_launches_are_passes(name: str, program: str) -> None:
    trace = TraceBuilder()
    for number in range(60):
        trace.kernel(name, 1000 * number, 900)
    assert kind(trace)[0] == program


def test_one_call_is_a_fragment() -> None:
    assert kind(unmarked(1)) == ("fragment", {"one-call"})
    assert kind(unmarked(1, around="benchmark")) == ("fragment", {"one-call"})
    assert kind(unmarked(2)) == ("inference", {"no-backward"})


def test_a_whole_model_in_one_annotation_is_no_fragment() -> None:
    assert kind(unmarked(20, around="model_inference")) == ("inference", {"no-backward"})


def test_start_up() -> None:
    trace = program()
    trace.launch("cuModuleLoadData", 2100, 3000)
    found = recorded(trace)
    assert (found.workload, found.startup_ns) == ("start-up", 3000 * US)
    trace = program()
    trace.launch("cuModuleLoadData", 2100, 2990)
    assert recorded(trace).workload == "inference"


def test_what_every_step_takes_is_no_start_up() -> None:
    """Each of four steps frees memory for 600 of 1000; the first one loads code for 500 besides."""
    trace, start = TraceBuilder(), 0
    for number in range(4):
        length = 1000 if number else 1500
        trace.step(number, start, length)
        trace.op("aten::mm", start + 10, 300)
        trace.launch_kernel("gemm", start + 100, 200, at=start + 15, call_dur=5)
        trace.launch("cudaFree", start + 320, 600)
        if not number:
            trace.launch("cuModuleLoadData", start + 950, 500)
        start += length
    assert recorded(trace).startup_ns == 500 * US
    assert recorded(trace).workload == "inference"


def fused(silence: int, *, within: str = "delta_r2", around: int = 20_000) -> TraceBuilder:
    """An operator; in it nothing at all, then its first fused operator of 20; later another one after a silence."""
    trace = TraceBuilder()
    trace.op(within, 1000, around)
    for start in (1000 + silence, 11_000 + silence):
        trace.op("fallback_function", start, 30)
        trace.op("fused_mul_1568", start + 5, 20)
        trace.launch_kernel("fused_mul_1568", start + 40, 5000, at=start + 8, call_dur=5)
    trace.op("aten::mm", 30_000, 10)
    trace.launch_kernel("gemm", 30_100, 1000, at=30_002, call_dur=2)
    return trace


@pytest.mark.parametrize(("silence", "startup"), [(2000, 2000), (1999, 0)])
def test_silence_before_a_first_fused_operator_is_its_compilation(silence: int, startup: int) -> None:
    found = recorded(fused(silence))
    assert found.startup_ns == startup * US, "a hundred times as long as the operator, and only the first one"
    assert found.workload == "inference"


def test_the_operator_that_compiles_is_named_and_what_is_left() -> None:
    found = report(fused(25_000, around=40_000), "compile-or-load-in-step")
    (finding,), (headline,) = found.findings, found.headlines
    assert finding.evidence[0].where[0].name == "delta_r2"
    assert finding.confidence == "C"
    assert "is in `delta_r2`, which most likely compiles code" in headline.text
    assert "Without the start-up" in headline.text


def test_silence_in_no_operator_compiles_nothing() -> None:
    assert recorded(fused(2000, around=10)).startup_ns == 0


def requests(count: int, every: int, *, threads: int = 1, name: str = "handle") -> TraceBuilder:
    """Marks of 1 ms, one begun every so many us, on threads in turn."""
    trace = TraceBuilder()
    for number in range(count):
        start, thread = every * number, 4201 + number % threads
        trace.annotation(name, start, 1000, tid=thread)
        trace.op("aten::mm", start + 10, 20, tid=thread)
        trace.launch_kernel("gemm", start + 40, 450, at=start + 15, tid=thread)
    return trace


@pytest.mark.parametrize("threads", [1, 4])
def test_requests_in_flight_are_serving(threads: int) -> None:
    assert kind(requests(10, 500, threads=threads)) == ("serving", {"requests-in-flight"})


@pytest.mark.parametrize("trace", [requests(9, 500), requests(10, 1000), requests(10, 1000, threads=4)])
def test_few_marks_or_one_after_the_other_are_not(trace: TraceBuilder) -> None:
    assert recorded(trace).workload == "inference"


def test_marks_within_marks_are_no_requests() -> None:
    trace = requests(12, 1100)
    for number in range(12):
        trace.annotation("handle", 1100 * number + 100, 300)
    assert recorded(trace).workload == "inference"


def test_a_training_serves_nothing() -> None:
    trace = requests(10, 500, threads=4)
    trace.annotation(OPTIMIZER, 6000, 50)
    assert recorded(trace).workload == "training"


def test_a_servers_marks_are_serving() -> None:
    trace = unmarked(4)
    trace.annotation("step[DECODE bs=2]", 0, 7000)
    assert kind(trace) == ("serving", {"framework"})


def test_a_whole_recording_is_a_step_only_if_it_is_nothing_else() -> None:
    assert recorded(unmarked(4)).typical_step_ns is not None
    assert recorded(captured(5)).typical_step_ns is None, "no work of the device"
    assert recorded(cut(4000, 6000, 150)).typical_step_ns is None, "a hole"
    trace = unmarked(4)
    trace.launch("cuModuleLoadData", 100, 5000)
    assert recorded(trace).typical_step_ns is None, "start-up"
