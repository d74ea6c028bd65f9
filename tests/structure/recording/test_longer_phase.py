"""What repeats where marks, or rare events, would say something else; times in microseconds."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.recording.reading import kind, recorded
from tests.structure.test_repetition import model, steps, training_and
from traceanalyzer.analyzers.steps import trace_doubts
from traceanalyzer.structure.context import Context


def rollouts(count: int, updates: int) -> TraceBuilder:
    """Passes that read a value, then updates."""
    trace, at = TraceBuilder(), 0
    for _ in range(count):
        at = model("flatten linear tanh softmax multinomial", at, trace)
        trace.op("aten::item", at, 20)
        trace.launch("cudaStreamSynchronize", at + 2, 15)
        at += 60
    for _ in range(updates):
        at = model("linear linear mse_loss", at, trace)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at, 20, tid=4202)
        trace.annotation("Optimizer.step#Adam.step", at + 25, 20)
        at += 60
    return trace


def test_what_fills_the_recording_is_the_step_and_not_the_few_updates_after_it() -> None:
    found = steps(rollouts(60, 4))
    assert found.found_by == "repeated operators"
    assert found.typical.length_ns == len(found.typical) * (5 * 25 + 60) * 1000
    assert set(found.reasons[-4:]) == {"other-phase"}


def test_updates_are_the_steps_where_they_are_much_or_nothing_else_repeats() -> None:
    assert steps(rollouts(4, 30)).found_by == "Optimizer.step"
    trace, at = TraceBuilder(), 0
    for number in range(40):  # a start-up, none of whose operators comes twice
        at = model(f"init_{number}", at + 100, trace)
    for _ in range(4):
        at = model("linear linear mse_loss", at, trace)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at, 20, tid=4202)
        trace.annotation("Optimizer.step#Adam.step", at + 25, 20)
        at += 60
    assert steps(trace).found_by == "Optimizer.step"


@pytest.mark.parametrize(("update", "count"), [("multi_tensor_apply_kernel<Adam>", 40), ("elementwise", 4)])
def test_a_loss_that_is_read_in_every_tenth_iteration_makes_them_no_longer(update: str, count: int) -> None:
    """Without an update in each, what repeats may be the layers of a model whose result is read."""
    trace, at = TraceBuilder(), 0
    for number in range(40):
        for name in ("gemm", "relu", "gemm_dgrad", "relu_backward", "threshold", update):
            trace.launch_kernel(name, at + 10, 5, at=at + 5, call_dur=2)
            at += 20
        if number % 10 == 9:
            trace.launch_kernel("Memcpy DtoH (Device -> Pageable)", at + 10, 5, at=at + 5, call_dur=2)
            trace.launch("cudaStreamSynchronize", at + 15, 3)
        at += 40
    found = steps(trace)
    assert (found.found_by, len(found)) == ("repeated kernels", count)


def test_steps_are_called_after_the_passes_that_count() -> None:
    """Batches of an evaluation that takes longer than the training before it have no marks of an optimizer."""
    trace = training_and(12)
    assert steps(trace).found_by == "repeated operators"
    assert kind(trace) == ("training", {"optimizer-steps", "backward-operators", "passes-without-training"})
    assert "passes-without-training" not in kind(training_and(3))[1]


def test_the_cut_off_end_is_in_no_mean() -> None:
    trace = TraceBuilder(devices=())
    for number, start in enumerate((0, 100, 200, 350, 450)):
        trace.annotation("Optimizer.step#SGD.step", start, 10)
        trace.op("aten::add_", start + 1, 5)
        for call in range(3 if number < 4 else 0):
            trace.op("aten::addmm", start + 20 + 25 * call, 20)
    assert steps(trace).is_cut
    found = {loss.id: loss for loss in trace_doubts.analyze(Context(read_built(trace)))}
    assert found["q-last-step-cut"].count == 1
    assert (found["q-steps-left-out"].count, found["q-steps-left-out"].params["total"]) == (1, 4)
    assert found["q-steps-left-out"].params["mean"] == (100 + 100 + 150 + 100) / 4 * 1000


def test_a_device_that_works_after_all_was_called_trains() -> None:
    """Six updates are called within 3 ms; the device does them later, 10 ms each, and nothing waits for it."""
    trace, at = TraceBuilder(), 0
    for number in range(6):
        trace.op("aten::linear", at, 100)
        trace.launch_kernel("gemm", 1000 + 10_000 * number, 5000, at=at + 10, call_dur=5)
        trace.op("autograd::engine::evaluate_function: MmBackward0", at + 150, 100, tid=4202)
        trace.launch_kernel("gemm_dgrad", 6000 + 10_000 * number, 4000, at=at + 160, call_dur=5)
        trace.annotation("Optimizer.step#Adam.step", at + 300, 100)
        trace.launch_kernel("multi_tensor_apply", 10_000 + 10_000 * number, 1000, at=at + 310, call_dur=5)
        at += 500
    found = recorded(trace)
    assert found.workload == "training"
    assert "passes-without-training" not in {evidence.kind for evidence in found.evidence}


@pytest.mark.parametrize(
    ("between", "found_by", "starts"), [(5, "rollout", [0, 305, 610]), (40, "update", [100, 440, 780])]
)
def test_marks_that_take_turns_without_anything_between_are_one_iteration(
    between: int, found_by: str, starts: list[int]
) -> None:
    """A rollout, and then updates on what it collected; the longer mark alone is the step where other code follows."""
    trace, at = TraceBuilder(), 0
    for _ in range(3):
        trace.annotation("rollout", at, 100)
        trace.op("aten::mm", at + 10, 20)
        trace.annotation("update", at + 100, 200)
        for update in (0, 100):
            trace.op("aten::mm", at + 110 + update, 60)
            trace.annotation("Optimizer.step#Adam.step", at + 180 + update, 20)
        at += 300 + between
    found = steps(trace)
    assert (found.found_by, (found.start_ns // 1000).tolist()) == (found_by, starts)
