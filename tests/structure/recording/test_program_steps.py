"""What makes the steps of a program, in the order in which it is looked for."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.structure.recording.reading import US, recorded, spans

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
OPTIMIZER = "Optimizer.step#SGD.step"


def work(trace: TraceBuilder, start: int, *, kernel: int = 40, at: int | None = None) -> None:
    """An operator of 20 us that launches a kernel, which starts 20 us later."""
    trace.op("aten::mm", start, 20)
    trace.launch_kernel("gemm", at or start + 20, kernel, at=start + 5)


def marked(*marks: tuple[str, int, int], every: int = 100) -> TraceBuilder:
    """Annotations (name, start, duration), and work every 100 us."""
    trace = TraceBuilder()
    for name, start, dur in marks:
        trace.annotation(name, start, dur)
    for start in range(0, max(start + dur for _, start, dur in marks), every):
        work(trace, start + 10)
    return trace


def test_the_profilers_marks_come_first() -> None:
    trace = marked(*[("step[DECODE bs=2]", 100 * n, 90) for n in range(4)])
    trace.step(1, 0, 200)
    trace.step(2, 200, 200)
    assert recorded(trace).steps_from == "ProfilerStep"
    assert [step.name for step in recorded(trace).steps] == ["1", "2"]


def test_a_servers_mark_within_a_step_of_the_profiler_says_what_the_step_does() -> None:
    """The second step holds two marks, the third none; a mark before the first step is of no step."""
    marks = ("step[EXTEND bs=2 toks=900]", "step[DECODE bs=3]", "step[DECODE bs=4]", "step[DECODE bs=5]")
    trace = marked(*((name, 100 * number, 90) for number, name in enumerate(marks)), ("other", 500, 90))
    trace.step(1, 95, 100)
    trace.step(2, 195, 200)
    trace.step(3, 400, 200)
    found = recorded(trace).steps
    assert [(step.phase, step.requests) for step in found] == [("decode", 3), (None, None), (None, None)]


def test_a_servers_marks_are_steps_with_their_phase() -> None:
    trace = marked(
        ("step[EXTEND bs=2 toks=900]", 0, 90), ("step[DECODE bs=2]", 100, 90), ("step[DECODE bs=2]", 200, 90)
    )
    found = recorded(trace)
    assert found.steps_from == "sglang"
    assert [(step.phase, step.requests, step.tokens) for step in found.steps] == [
        ("prefill", 2, 900),
        ("decode", 2, 2),
        ("decode", 2, 2),
    ]
    assert spans(trace) == [(0, 90), (100, 190), (200, 290)]


def test_a_single_mark_of_a_server_is_one_step() -> None:
    trace = TraceBuilder()
    trace.op("aten::zeros", 0, 5)
    trace.annotation("step[DECODE bs=8]", 50, 30)
    work(trace, 55, kernel=200)
    trace.op("aten::zeros", 400, 100)
    assert spans(trace) == [(50, 275)], "until the device has done what it launched"


def test_of_two_dialects_the_frameworks_own_wins() -> None:
    trace = marked(*[("step[DECODE bs=2]", 100 * n, 90) for n in range(3)])
    for number in range(6):
        trace.annotation("execute_context_0(0)_generation_2(2)", 50 * number + 2, 30)
    found = recorded(trace)
    assert (found.framework, found.steps_from, len(found.steps)) == ("sglang", "sglang", 3)


def test_a_mark_whose_work_outlasts_it_pushes_the_next_one() -> None:
    trace = TraceBuilder()
    for start, kernel in ((0, 80), (60, 30), (120, 10)):
        trace.annotation("step[DECODE bs=2]", start, 50)
        trace.op("aten::mm", start + 1, 20)
        trace.launch_kernel("gemm", start + 25, kernel, at=start + 5)
    assert spans(trace) == [(0, 105), (105, 115), (120, 170)]


def test_marks_of_requests_that_are_served_together_are_no_steps() -> None:
    trace = marked(*[("step[DECODE bs=2]", 50 * n, 90) for n in range(10)])
    assert recorded(trace).steps_from == "whole-trace"


def test_a_servers_step_begins_after_work_from_before_the_recording() -> None:
    trace = TraceBuilder()
    trace.annotation("step[DECODE bs=8]", 0, 9000)
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel("gemm", 8000, 500, at=10, call_dur=5)
    assert spans(trace) == [(8000, 9000)]
    found = recorded(trace)
    assert found.window is not None
    assert found.window.unrecorded_work_ns == 7985 * US


def test_an_annotation_that_fills_the_main_thread() -> None:
    trace = marked(*[("train_step", 100 * n, 90) for n in range(3)], *[("forward", 100 * n + 5, 40) for n in range(3)])
    found = recorded(trace)
    assert (found.steps_from, [step.name for step in found.steps]) == ("train_step", ["0", "1", "2"])
    assert spans(trace) == [(0, 90), (100, 190), (200, 290)]


@pytest.mark.parametrize(("length", "found_by"), [(50, "train_step"), (49, "whole-trace")])
def test_it_must_fill_half_of_the_thread(length: int, found_by: str) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation("train_step", 100 * number, length)
        work(trace, 100 * number + 10, kernel=10)
    trace.op("aten::zeros", 390, 10)
    assert recorded(trace).steps_from == found_by


@pytest.mark.parametrize(("between", "found_by"), [(19, "forward"), (20, "whole-trace")])
def test_a_part_of_the_step_is_no_step(between: int, found_by: str) -> None:
    """A forward pass of 60 in 100 us launches 40 us of kernels; what follows it launches half as much, or less."""
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation("forward", 100 * number, 60)
        work(trace, 100 * number + 10)
        work(trace, 100 * number + 70, kernel=between)
    assert recorded(trace).steps_from == found_by


def test_without_a_device_operators_between_marks_belong_to_the_step() -> None:
    def trace(between: int) -> TraceBuilder:
        found = TraceBuilder()
        for number in range(4):
            found.annotation("forward", 100 * number, 60)
            found.op("aten::mm", 100 * number + 10, 40)
            found.op("aten::mm_backward", 100 * number + 70, between, tid=7)
        return found

    assert recorded(trace(19)).steps_from == "forward"
    assert recorded(trace(20)).steps_from == "whole-trace"


def test_it_must_come_three_times() -> None:
    assert recorded(marked(("train_step", 0, 100), ("train_step", 100, 100))).steps_from == "whole-trace"


def test_annotations_of_another_thread_are_no_steps() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.annotation("prefetch", 100 * number, 100, tid=99)
        work(trace, 100 * number + 10)
    assert recorded(trace).steps_from == "whole-trace"


def test_annotations_that_outlast_each_other_on_one_thread_are_requests() -> None:
    assert recorded(marked(*[("request", 50 * n, 90) for n in range(10)])).steps_from == "whole-trace"


def test_an_annotation_within_itself_is_one_step() -> None:
    trace = marked(*[("block", 100 * n, 100) for n in range(3)], *[("block", 100 * n + 20, 50) for n in range(3)])
    assert spans(trace) == [(0, 100), (100, 200), (200, 300)]


def test_from_one_wait_for_the_loader_to_the_next() -> None:
    trace = marked(*[(LOADER, 100 * n, 5) for n in range(3)], *[(OPTIMIZER, 100 * n + 70, 10) for n in range(3)])
    assert recorded(trace).steps_from == "enumerate(DataLoader)"
    # the last step lasts until the device has done what it launched: at 230 + 40
    assert spans(trace) == [(0, 100), (100, 200), (200, 270)]


def test_from_one_optimizer_step_to_the_next() -> None:
    trace = marked(*[(OPTIMIZER, 100 * n + 70, 10) for n in range(4)])
    assert recorded(trace).steps_from == "Optimizer.step"
    assert [start for start, _ in spans(trace)] == [60, 160, 260, 360], "since the first event, at 10"


def test_one_optimizer_step_repeats_nothing() -> None:
    assert recorded(marked((OPTIMIZER, 70, 10), ("other", 100, 10))).steps_from == "whole-trace"


def test_inferred_steps_without_the_work_from_before_are_left_out() -> None:
    """The first step is shortened by work from before, so that it is like the others; it is none of them."""
    trace = TraceBuilder()
    for number in range(5):
        start = 10_000 * number
        trace.annotation(LOADER, start, 5)
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("gemm", start + (1500 if not number else 40), 8000, at=start + 10, call_dur=5)
    found = recorded(trace)
    assert found.steps_from == "enumerate(DataLoader)"
    assert found.steps[0].start_ns == 1500 * US
    assert [step.reason for step in found.steps][:-1] == ["earlier-work", None, None, None]


def replays(*sizes: int) -> TraceBuilder:
    """Launches of graphs with so many kernels of 1 us, every 100 us."""
    trace = TraceBuilder()
    for number, size in enumerate(sizes):
        start = 100 * number
        trace.graph_launch(start, 5, [("gemm", start + 10 + k, 1, {}) for k in range(size)])
    return trace


def test_from_one_launch_of_a_graph_to_the_next() -> None:
    trace = replays(50, 50, 50)
    assert recorded(trace).steps_from == "graph launch"
    assert spans(trace) == [(0, 100), (100, 200), (200, 260)]


def test_the_graph_with_the_most_work_makes_the_steps() -> None:
    assert spans(replays(2, 50, 2, 50, 2, 50, 2)) == [(100, 300), (300, 500), (500, 612)]


def pieces(*graphs: tuple[str, int], every: int = 100) -> TraceBuilder:
    """Launches of graphs of three kernels: name of the kernels, and microseconds since the launch before."""
    trace, at = TraceBuilder(), 0
    for name, pause in graphs:
        at += pause
        trace.graph_launch(at, 5, [(name, at + 10 + k, 1, {}) for k in range(3)])
    return trace


def test_graphs_of_one_size_that_alternate_make_one_step_together() -> None:
    # A step launches three graphs 20 us apart; 60 us pass until the next step. Recorded from the second graph on.
    step = (("first", 60), ("layer", 20), ("layer", 20), ("last", 20))
    trace = pieces(*step[1:], *step, *step, *step[:2])
    assert recorded(trace).steps_from == "graph launch"
    assert spans(trace) == [(100, 220), (220, 340), (340, 373)], "since the first launch"


def test_graphs_that_alternate_at_equal_pauses_begin_with_the_largest() -> None:
    assert spans(replays(2, 50, 2, 50, 2, 50, 2)) == [(100, 300), (300, 500), (500, 612)]


def test_graphs_of_one_size_in_no_fixed_order_are_told_apart() -> None:
    trace = pieces(*[(name, 100) for name in ("a", "b", "a", "a", "c", "a")])
    assert spans(trace) == [(0, 200), (200, 300), (300, 500), (500, 513)]


@pytest.mark.parametrize("sizes", [(50, 50), (50, 40, 30), (0, 0, 0)])
def test_graphs_that_do_not_repeat_are_no_steps(sizes: tuple[int, ...]) -> None:
    trace = replays(*sizes)
    trace.op("aten::mm", 0, 10)
    trace.launch_kernel("gemm", 90, 5, at=1, call_dur=2)
    assert recorded(trace).steps_from == "whole-trace"


def one_update(*marks: tuple[str, int, int]) -> TraceBuilder:
    """Work at 110, 210 and 310, an update at 400 for 20, more work at 460, in some marks (name, start, duration)."""
    trace = TraceBuilder()
    for name, start, dur in marks:
        trace.annotation(name, start, dur)
    for start in (110, 210, 310, 460):
        work(trace, start, kernel=5)
    trace.annotation(OPTIMIZER, 400, 20)
    return trace


def test_a_mark_around_work_and_an_update_is_a_step() -> None:
    trace = one_update(("train", 100, 340), ("forward", 105, 240))
    assert recorded(trace).steps_from == "train"
    assert spans(trace) == [(0, 340)], "since the first event, at 100"


@pytest.mark.parametrize(
    ("calls", "outside", "found"), [(10, 0, "model_inference"), (9, 0, "whole-trace"), (10, 1, "whole-trace")]
)
def test_a_mark_around_everything_is_a_step(calls: int, outside: int, found: str) -> None:
    """Ten calls or more, as of a pass of a model, and all within the mark."""
    trace = TraceBuilder()
    trace.annotation("model_inference", 1000, 5000)
    trace.annotation("decoder", 1500, 4000)
    for number in range(calls + outside):
        work(trace, 1600 + 100 * number if number < calls else 7000)
    assert recorded(trace).steps_from == found
    if found == "model_inference":
        assert spans(trace) == [(0, 5000)]


def test_a_mark_around_work_and_a_backward_pass_is_a_step() -> None:
    trace = one_update(("train", 100, 230))
    trace.op("autograd::engine::evaluate_function: MmBackward0", 300, 5, tid=77)
    assert recorded(trace).steps_from == "train"


@pytest.mark.parametrize(
    "mark",
    [("forward", 105, 280), ("update", 390, 300), ("train", 300, 130)],
    ids=["no update in it", "no work before the update", "less than half of the thread"],
)
def test_other_marks_are_no_step(mark: tuple[str, int, int]) -> None:
    assert recorded(one_update(mark)).steps_from == "whole-trace"


def test_else_the_whole_recording_is_one_step() -> None:
    trace = TraceBuilder()
    work(trace, 10)
    work(trace, 200)
    found = recorded(trace)
    assert (found.steps_from, found.all_steps_count) == ("whole-trace", False)
    assert spans(trace) == [(0, 250)], "since the first event, at 10"


def test_marks_of_another_process_are_no_steps() -> None:
    trace = TraceBuilder()
    for number in range(3):
        trace.annotation(f"ProfilerStep#{number}", 1000 * number, 1000, pid=99, tid=99)
    work(trace, 100)
    work(trace, 200)
    found = recorded(trace)
    assert found.steps_from == "whole-trace"
    assert spans(trace) == [(100, 260)], "without the marks"


def test_marks_of_a_process_with_other_events_are_its_steps() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 500)
    work(trace, 100)
    trace.op("aten::mm", 20, 5, pid=99, tid=99)
    assert recorded(trace).steps_from == "ProfilerStep"


@pytest.mark.parametrize("device", [True, False])
def test_device_events_or_annotations_alone_are_one_step(device: bool) -> None:
    trace = TraceBuilder()
    trace.annotation("work", 0, 300)
    if device:
        trace.kernel("gemm", 0, 300)
    found = recorded(trace)
    assert (found.steps_from, spans(trace)) == ("whole-trace", [(0, 300)])


@pytest.mark.parametrize(("works", "steps"), [(False, 4), (True, 5)])
def test_a_call_of_the_loader_that_only_ends_the_loop_begins_no_step(works: bool, steps: int) -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.annotation(LOADER, 100 * number, 10)
        work(trace, 100 * number + 20)
    trace.annotation(LOADER, 400, 2)
    if works:
        work(trace, 420)
    assert len(recorded(trace).steps) == steps


HANDLE = "serve.py(7): handle"
NAMES = ("mm", "add", "sort", "cat")


def calling(*names: str, waits: bool = True, calls: int = 6) -> TraceBuilder:
    """Calls of nested functions with ever other operators, one more in each call, and a wait in each."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=0), Stream()
    with host.frame("serve.py(90): main"):
        for number in range(calls):
            with ExitStack() as stack:
                for name in names:
                    stack.enter_context(host.frame(name))
                for turn in range(3 * number + 2):
                    with host.op(
                        ("aten::mm", "aten::add", "aten::sort", "aten::cat")[turn**2 % (number + 2) % 4], 5, 5
                    ):
                        host.launch(Work("gemm", 20), stream)
                if waits:
                    host.wait(stream)
            host.work(10)
    return finish(trace)


def test_calls_of_one_function_are_steps() -> None:
    found = recorded(calling(HANDLE, "serve.py(20): preprocess"))
    assert (found.steps_from, len(found.steps)) == (HANDLE, 6)


def test_a_function_that_calls_itself_begins_one_step() -> None:
    assert len(recorded(calling(HANDLE, HANDLE)).steps) == 6


@pytest.mark.parametrize(
    "trace",
    [
        calling(HANDLE, waits=False),
        calling("model.py(3): forward", HANDLE),
        calling("torch/nn/modules/module.py(1): _call", "<built-in function run>"),
        calling(HANDLE, calls=2),
    ],
    ids=["a layer", "within a forward pass", "of a library", "twice"],
)
def test_calls_of_other_functions_are_no_steps(trace: TraceBuilder) -> None:
    assert recorded(trace).steps_from != HANDLE


def test_a_helper_is_no_step() -> None:
    """Half of the time is in a function that is called five times by the only call of another."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=0), Stream()
    with host.frame("train.py(9): epoch"):
        for number in range(5):
            with host.frame("train.py(3): to_device"), host.op("aten::to", 5, 5):
                host.copy("HtoD", 4, stream, dur=20 + number, wait=True)
            host.work(200)
    assert recorded(finish(trace)).steps_from != "train.py(3): to_device"


def test_a_pass_of_which_only_the_device_was_recorded_begins_with_the_first_use_of_it() -> None:
    """A wait before that belongs to what ran before the recording, and a call that asks for something to nothing."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    host.call("cudaGetDeviceCount", 5)
    host.work(1000)
    host.call("cudaMalloc", 100)
    host.call("cudaModuleLoadData", 40_000)
    for _ in range(12):
        host.launch(Work("gemm", 500), stream)
    host.wait(stream, call="cudaDeviceSynchronize")
    found = recorded(finish(trace))
    assert (found.steps_from, len(found.steps)) == ("whole-trace", 1)
    assert found.steps[0].start_ns == 1005 * US
    assert found.startup_ns == 40_100 * US
