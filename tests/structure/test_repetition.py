"""Where the passes of programs without marks begin; times in microseconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import periods
from traceanalyzer.structure.recording.program_steps import ProgramSteps, program_steps

IMAGE, HIDDEN, CLASSES = [8, 3, 32, 32], [8, 64], [8, 10]


def steps(trace: TraceBuilder) -> ProgramSteps:
    return program_steps(Context(read_built(trace)))


def layers(trace: TraceBuilder, at: int, count: int, shape: list[int]) -> int:
    """Linear layers of one shape and their activations, with a kernel each; the time after them."""
    for _ in range(count):
        for name in ("aten::linear", "aten::relu"):
            trace.op(name, at, 20, shapes=[shape])
            trace.launch_kernel(name, at + 10, 5, at=at + 5, call_dur=2)
            at += 25
    return at


def passes(count: int, *, first_input: list[int] = HIDDEN, waits: bool = False, cold: int = 0) -> TraceBuilder:
    """A model that is called again and again: one operator on its input, then three layers; maybe a cold first call."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for number in range(count):
        if cold and not number:
            trace.op("aten::empty", at, cold, shapes=[])
            at += cold
        trace.op("aten::flatten", at, 20, shapes=[first_input])
        at = layers(trace, at + 25, 3, HIDDEN)
        if waits:
            trace.launch("cudaDeviceSynchronize", at, 15)
        at += 40
    return trace


def length(found: ProgramSteps) -> set[int]:
    """Distances from step to step in microseconds."""
    return set((np.diff(found.start_ns) // 1000).tolist())


def test_a_model_that_is_waited_for_again_and_again_has_passes() -> None:
    found = steps(passes(6, waits=True))
    assert (found.found_by, len(found)) == ("repeated operators", 6)
    assert length(found) == {25 + 150 + 40}
    assert found.start_ns[0] == 0


def test_a_first_call_that_does_more_is_before_the_passes() -> None:
    """The cold call creates a tensor first; from the operator on its input on it is a pass as the others are."""
    found = steps(passes(6, waits=True, cold=5000))
    assert (found.found_by, len(found)) == ("repeated operators", 6)
    assert int(found.start_ns[0]) == 5_000_000


def test_an_input_that_nothing_else_takes_shows_passes_without_waits() -> None:
    found = steps(passes(6, first_input=IMAGE))
    assert (found.found_by, len(found)) == ("repeated operators", 6)


@pytest.mark.parametrize("count", [6, 12])
def test_layers_of_one_pass_are_no_passes(count: int) -> None:
    """Each layer takes what the one before gave, and nothing waits between them."""
    trace = TraceBuilder(options=("record_shapes",))
    trace.op("aten::embedding", 0, 20, shapes=[IMAGE])
    at = layers(trace, 25, 3 * count, HIDDEN)
    trace.op("aten::linear", at, 20, shapes=[CLASSES])
    assert steps(trace).found_by == "whole-trace"
    assert steps(passes(count)).found_by == "whole-trace", "a model of one shape may be a layer of a larger one"


def test_kernels_repeat_where_no_operator_was_recorded() -> None:
    """Six passes of five kernels, each with a wait; without the waits they might be layers."""

    def device_alone(*, waits: bool) -> TraceBuilder:
        trace, at = TraceBuilder(), 0
        for _ in range(6):
            for name in ("conv", "norm", "relu", "pool", "gemm"):
                trace.launch_kernel(name, at + 10, 5, at=at, call_dur=2)
                at += 20
            if waits:
                trace.launch("cudaStreamSynchronize", at, 10)
            at += 30
        return trace

    found = steps(device_alone(waits=True))
    assert (found.found_by, len(found)) == ("repeated kernels", 6)
    assert steps(device_alone(waits=False)).found_by == "whole-trace"


def model_of_layers(count: int, *, synchronizes_first: bool = False, cut: int = 0) -> TraceBuilder:
    """Passes of four layers of one shape and nothing else; a wait tells one from the next."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for number in range(count):
        if synchronizes_first:
            trace.launch("cudaDeviceSynchronize", at, 15)
            at += 20
        at = layers(trace, at, cut if cut and number == count - 1 else 4, HIDDEN)
        if not synchronizes_first and not (cut and number == count - 1):
            trace.launch("cudaDeviceSynchronize", at, 15)
            at += 20
    return trace


@pytest.mark.parametrize("first", [False, True])
def test_waits_tell_passes_from_layers(first: bool) -> None:
    """All operators are those of one layer, 24 times; each pass has four, and waits before or after them."""
    found = steps(model_of_layers(6, synchronizes_first=first))
    assert (found.found_by, len(found)) == ("repeated operators", 6)
    assert length(found) == {4 * 50 + 20}
    assert int(found.start_ns[0]) == 20_000 * first


def test_a_recording_that_ends_within_a_pass_has_the_passes_before() -> None:
    """Six passes and half of one: the first begins where the recording does, not in its middle."""
    found = steps(model_of_layers(7, cut=2))
    assert found.found_by == "repeated operators"
    assert found.start_ns[:6].tolist() == [220_000 * number for number in range(6)]


def test_waits_alone_are_no_passes() -> None:
    trace = TraceBuilder(options=("record_shapes",))
    at = layers(trace, 0, 8, HIDDEN)
    for _ in range(40):
        trace.launch("cudaStreamSynchronize", at, 5)
        at += 10
    assert steps(trace).found_by == "whole-trace"


def test_two_passes_may_be_chance() -> None:
    assert steps(passes(2, waits=True)).found_by == "whole-trace"


def trainings(count: int) -> TraceBuilder:
    """Forward passes of four operators on the program's thread, each with a backward pass on autograd's."""
    trace, at, sequence = TraceBuilder(), 0, 0
    for _ in range(count):
        for operator in range(4):
            trace.op("aten::linear", at, 20, sequence=sequence + operator)
            trace.launch_kernel("gemm", at + 10, 5, at=at + 5, call_dur=2)
            at += 25
        for operator in reversed(range(4)):
            name = "autograd::engine::evaluate_function: AddmmBackward0"
            trace.op(name, at, 20, sequence=sequence + operator, fwd_thread=1, tid=4202)
            trace.launch_kernel("gemm", at + 10, 5, at=at + 5, call_dur=2, tid=4202)
            at += 25
        trace.op("aten::sub_", at, 20)
        at += 100
        sequence += 4
    return trace


def test_a_training_without_an_optimizer_begins_at_its_forward_passes() -> None:
    found = steps(trainings(5))
    assert (found.found_by, len(found)) == ("backward pass", 5)
    assert length(found) == {300}


def test_modules_around_operators_change_nothing() -> None:
    trace = trainings(5)
    for start in range(0, 1500, 300):
        trace.module("Net_0", start, 100)
    found = steps(trace)
    assert (found.found_by, length(found)) == ("backward pass", {300})


def test_what_is_left_of_a_start_up_are_no_steps() -> None:
    """The first pass takes 20 ms, the other four take 0.3 ms each: the recording is the first pass."""
    trace, at = TraceBuilder(), 0
    for number in range(5):
        trace.op("aten::linear", at, 20_000 if not number else 100, sequence=number)
        at += 20_000 if not number else 100
        name = "autograd::engine::evaluate_function: AddmmBackward0"
        trace.op(name, at, 100, sequence=number, fwd_thread=1, tid=4202)
        trace.launch_kernel("gemm", at + 10, 5, at=at + 5, call_dur=2, tid=4202)
        at += 200
    assert steps(trace).found_by == "whole-trace"


def test_one_backward_pass_is_no_loop() -> None:
    assert steps(trainings(1)).found_by == "whole-trace"


@given(st.lists(st.integers(0, 3), min_size=5, max_size=12), st.integers(3, 5), st.lists(st.integers(4, 6), max_size=4))
def test_a_period_is_found_after_any_head(period: list[int], count: int, head: list[int]) -> None:
    kind = np.array([*head, *(period * count)])
    found = periods.longest_run(kind)
    smallest = next(
        size for size in range(1, len(period) + 1) if (kind[len(head) + size :] == kind[len(head) : -size]).all()
    )
    if smallest >= 5:
        assert found is not None
    if found is not None:
        first, size, end = found
        times = (end - first) // size
        run = kind[end - size * times : end].reshape(times, size)
        assert (run == run[0]).all()
        assert times >= 3
        assert size * times >= 3 * smallest or size < smallest


def waiting_after(*waited: int, count: int = 18) -> TraceBuilder:
    """A model of equal blocks, of five operators each; the program waits after some of them."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for number in range(count):
        for name in ("aten::layer_norm", "aten::linear", "aten::gelu", "aten::linear", "aten::add"):
            trace.op(name, at, 20, shapes=[HIDDEN])
            trace.launch_kernel(name, at + 10, 5, at=at + 5, call_dur=2)
            at += 25
        if number in waited:
            trace.launch("cudaStreamSynchronize", at, 15)
        at += 40
    return trace


def test_a_pass_of_equal_blocks_lasts_until_the_program_waits() -> None:
    """Each pass is six blocks of five operators; the smallest repetition is a block."""
    found = steps(waiting_after(*range(5, 42, 6), count=42))
    assert (found.found_by, len(found)) == ("repeated operators", 7)
    assert length(found) == {6 * (5 * 25 + 40)}
    assert found.start_ns[0] == 0
    assert steps(waiting_after(5, 11, count=12)).found_by == "whole-trace", "two passes may be chance"


@pytest.mark.parametrize(
    ("waited", "says"),
    [
        ((2, 5, 8, 11, 14, 17), 6),
        ((1, 4, 7, 10, 13, 16), 5),  # the first pass began before the recording, the last one is cut
        ((2, 5, 9, 11, 14, 17), None),
        ((11, 14, 17), None),
        ((2, 5, 8), None),
        ((17,), None),
        ((), None),
    ],
    ids=["regular", "cut at both ends", "irregular", "only at the end", "only at the beginning", "one", "none"],
)
def test_waits_after_some_blocks_end_passes_only_if_they_are_regular(waited: tuple[int, ...], says: int | None) -> None:
    found = steps(waiting_after(*waited))
    assert found.found_by == ("whole-trace" if says is None else "repeated operators")
    assert len(found) == (says or 1)


def model(names: str, at: int, trace: TraceBuilder, shape: list[int] | None = None) -> int:
    """Operators of some names, each with a kernel; the time after them."""
    for name in names.split():
        trace.op(f"aten::{name}", at, 20, **({"shapes": [shape]} if shape else {}))
        trace.launch_kernel(name, at + 10, 5, at=at + 5, call_dur=2)
        at += 25
    return at


BLOCK = "layer_norm linear attention linear add "


def test_repeated_blocks_tell_passes_where_neither_shapes_nor_waits_do() -> None:
    """Four passes of four blocks and a head, and a wait when all is done."""
    trace, at = TraceBuilder(), 0
    for _ in range(4):
        at = model(BLOCK * 4 + "norm linear", at, trace)
    trace.launch("cudaDeviceSynchronize", at, 15)
    found = steps(trace)
    assert (found.found_by, len(found), length(found)) == ("repeated operators", 4, {22 * 25})


def test_blocks_within_a_single_pass_are_layers() -> None:
    """Each layer sends its tokens to four experts; before and after the layers there is something else."""
    trace = TraceBuilder()
    at = model("embedding " + ("attention " + BLOCK * 4) * 6 + "norm linear softmax", 0, trace)
    trace.launch("cudaDeviceSynchronize", at, 15)
    assert steps(trace).found_by == "whole-trace"


def test_embedded_tokens_begin_a_pass() -> None:
    """The first tensor of an embedding is its weight, which the last layer may share."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for _ in range(4):
        trace.op("aten::embedding", at, 20, shapes=[HIDDEN, [1, 8]])
        at = layers(trace, at + 25, 3, HIDDEN)
    found = steps(trace)
    assert (found.found_by, len(found)) == ("repeated operators", 4)


@pytest.mark.parametrize(("direction", "found_by"), [("HtoD", "repeated operators"), ("DtoD", "whole-trace")])
@pytest.mark.parametrize("ends", ["", "softmax"])
def test_data_that_is_copied_to_the_device_begins_a_pass(direction: str, found_by: str, ends: str) -> None:
    """Weights may be copied for each layer, too; but then something follows the last one."""
    trace, at = TraceBuilder(), 0
    for _ in range(5):
        trace.op("aten::to", at, 20)
        trace.memcpy(direction, 4096, at + 12, 5, at=at + 5, call_dur=2)
        at = model("conv relu pool linear", at + 25, trace)
    model(ends, at, trace)
    assert steps(trace).found_by == ("whole-trace" if ends else found_by)


@pytest.mark.parametrize(("pause", "passes_found"), [(250, 5), (8, 20)])
def test_layers_that_wait_are_told_from_passes_by_the_pauses_of_the_host(pause: int, passes_found: int) -> None:
    """Five passes of four layers of one shape, in each of which the program waits."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for _ in range(5):
        for _ in range(4):
            at = model(BLOCK, at, trace, HIDDEN)
            trace.launch("cudaStreamSynchronize", at, 15)
            at += 20
        at += pause
    found = steps(trace)
    assert (found.found_by, len(found)) == ("repeated operators", passes_found)


def test_pauses_that_are_not_regular_begin_nothing() -> None:
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for number in range(20):
        at = model(BLOCK, at, trace, HIDDEN)
        trace.launch("cudaStreamSynchronize", at, 15)
        at += 270 if number in {3, 8, 11, 15} else 20
    assert len(steps(trace)) == 20


def test_a_few_operators_that_launch_much_are_a_pass() -> None:
    """Operators of a graph network, one of which sorts: three operators with ten kernels, or with three."""

    def sorting(kernels: int) -> TraceBuilder:
        trace, at = TraceBuilder(), 0
        for _ in range(8):
            trace.op("aten::_unique2", at, 10 * kernels + 30)
            for number in range(kernels):
                trace.launch_kernel("sort", at + 10 * number + 6, 4, at=at + 10 * number + 1, call_dur=2)
            trace.launch("cudaStreamSynchronize", at + 10 * kernels + 5, 15)
            at = model("index_select linear", at + 10 * kernels + 35, trace)
        return trace

    assert len(steps(sorting(8))) == 8
    assert steps(sorting(3)).found_by == "whole-trace"


def two_threads(kernels: int) -> TraceBuilder:
    """Trainings of which only the device was recorded: one thread launches the forward pass, another the backward."""
    trace, at = TraceBuilder(), 0
    for _ in range(5):
        for number in range(2 * kernels):
            name, tid = ("gemm", 4201) if number < kernels else ("gemm_dgrad", 4202)
            trace.launch_kernel(f"{name}_{number % 3}", at + 10, 5, at=at, call_dur=2, tid=tid)
            at += 20
        trace.launch_kernel("multi_tensor_apply_kernel", at + 10, 5, at=at, call_dur=2, tid=4201)
        at += 50
    return trace


def test_iterations_are_found_in_launches_of_two_threads() -> None:
    found = steps(two_threads(7))
    assert (found.found_by, len(found), length(found)) == ("repeated kernels", 5, {14 * 20 + 50})


@pytest.mark.parametrize("update", ["multi_tensor_apply_kernel<Adam>", "elementwise"])
def test_updates_end_iterations_where_only_kernels_were_recorded(update: str) -> None:
    trace, at = TraceBuilder(), 0
    for _ in range(5):
        for name in ("gemm", "relu", "gemm_dgrad", "relu_backward", update):
            trace.kernel(name, at, 20)
            at += 20
    found = steps(trace)
    assert found.found_by == ("whole-trace" if update == "elementwise" else "repeated kernels")
    assert len(found) == (1 if update == "elementwise" else 5)


@pytest.mark.parametrize("tail", [[9], [9, 9, 9], [7, 8, 9, 7, 8, 6]])
def test_a_period_is_found_before_any_tail(tail: list[int]) -> None:
    period = [0, 1, 0, 1, 2, 1, 0]
    assert periods.longest_run(np.array([*period * 4, *tail])) == (0, 7, 28)


def training_and(passes_after: int, *, trains: bool = False) -> TraceBuilder:
    """Four steps that end with an optimizer, then passes of five operators, the last of which waits.

    What follows the last update begins with the last operator of a step, which reads a value as that of a pass does.
    """
    trace, at = TraceBuilder(), 0
    for number in range(4 + passes_after):
        at = model("flatten conv relu linear", at, trace)
        if number < 4 or trains:
            trace.op("autograd::engine::evaluate_function: MmBackward0", at, 20, tid=4202)
            at += 25
        if number < 4:
            trace.annotation("Optimizer.step#SGD.step", at, 20)
            at += 25
        trace.op("aten::item", at, 20)
        trace.launch("cudaStreamSynchronize", at + 2, 15)
        at += 200
    return trace


def test_an_evaluation_after_a_training_has_its_own_steps() -> None:
    found = steps(training_and(3))
    assert (found.found_by, len(found)) == ("Optimizer.step", 4 + 3)
    assert set((np.diff(found.start_ns)[4:] // 1000).tolist()) == {4 * 25 + 200}
    assert found.reasons == (None,) * 3 + ("other-phase",) * 4, "the last update's step has no pass of a training"


@pytest.mark.parametrize(("count", "trains"), [(2, False), (6, True)])
def test_what_follows_the_last_update_is_no_evaluation_if_it_trains_or_hardly_repeats(count: int, trains: bool) -> None:
    assert len(steps(training_and(count, trains=trains))) == 4


def test_layers_that_wait_after_an_embedding_are_one_pass() -> None:
    trace = TraceBuilder()
    at = model("embedding", 0, trace)
    for _ in range(12):
        at = model(BLOCK, at, trace)
        trace.launch("cudaStreamSynchronize", at, 15)
        at += 20
    model("linear softmax", at, trace)
    assert steps(trace).found_by == "whole-trace"


@pytest.mark.parametrize(("last", "found_by"), [([8, 16], "repeated operators"), ([8, 16, 4, 4], "whole-trace")])
def test_a_classifier_ends_a_pass(last: list[int], found_by: str) -> None:
    """Blocks of three operators on images, which a layer of a larger model may have, too; then a product."""
    trace, at = TraceBuilder(options=("record_shapes",)), 0
    for _ in range(4):
        at = model("conv norm relu " * 4 + "pool", at, trace, [8, 16, 4, 4])
        at = model("linear", at, trace, last)
    assert steps(trace).found_by == found_by
