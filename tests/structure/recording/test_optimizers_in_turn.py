"""Optimizers that take turns, such as those of a generator and a discriminator, make one step."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.structure.recording.reading import US, recorded


def in_turn(*backward: Sequence[str], names: Sequence[str] = ("Adam",)) -> TraceBuilder:
    """Updates of 100 us: a backward pass that evaluates some functions, then an optimizer; names take turns."""
    trace = TraceBuilder(devices=())
    for number, functions in enumerate(backward):
        for call, function in enumerate(functions):
            trace.op(f"autograd::engine::evaluate_function: {function}", 100 * number + 10 * call, 8)
        trace.annotation(f"Optimizer.step#{names[number % len(names)]}.step", 100 * number + 80, 10)
    return trace


CRITIC, GENERATOR = ("MeanBackward0", "AddmmBackward0", "AddmmBackward0"), ("MeanBackward0", "AddmmBackward0")


@pytest.mark.parametrize(
    ("updates", "steps"),
    [
        ([CRITIC, GENERATOR] * 3, 3),  # two optimizers of one class take turns
        ([CRITIC, CRITIC, GENERATOR] * 3, 3),  # two updates of the critic for one of the generator
        ([CRITIC] * 6, 6),
        ([CRITIC, GENERATOR] * 2, 4),  # too few to tell
        ([CRITIC, GENERATOR, GENERATOR, CRITIC, GENERATOR, CRITIC], 6),  # in no order
    ],
)
def test_optimizers_that_take_turns_make_one_step(updates: list[tuple[str, ...]], steps: int) -> None:
    found = recorded(in_turn(*updates))
    assert (found.steps_from, len(found.steps)) == ("Optimizer.step", steps)


def test_optimizers_of_several_classes_make_one_step() -> None:
    trace = in_turn(*[GENERATOR] * 8, names=("SparseAdam", "Adam"))
    assert len(recorded(trace).steps) == 4
    assert recorded(trace).steps[0].duration_ns == 200 * US


def test_an_inner_loop_has_an_optimizer_of_another_class() -> None:
    """Five steps of SGD on a copy of a model, then one of Adam on the model, four times."""
    found = recorded(in_turn(*[GENERATOR] * 24, names=("SGD",) * 5 + ("Adam",)))
    assert (len(found.steps), found.steps[1].duration_ns) == (4, 600 * US)


def inner_loops(outer: int, *, count: int = 4) -> TraceBuilder:
    """Iterations of five small backward passes and one of other size, without an optimizer."""
    trace, at, sequence = TraceBuilder(devices=()), 0, 0
    for number in range(6 * count):
        functions = outer if number % 6 == 5 else 3
        for call in range(functions):
            trace.op("aten::linear", at + 10 * call, 8, sequence=sequence + call)
        for call in range(functions):
            name, order = "autograd::engine::evaluate_function: AddmmBackward0", sequence + functions - 1 - call
            trace.op(name, at + 10 * (functions + call), 8, sequence=order, fwd_thread=1, tid=4202)
        sequence, at = sequence + functions, at + 20 * functions + 30
    return trace


@pytest.mark.parametrize(("outer", "steps"), [(15, 4), (10, 24)])
def test_a_backward_pass_through_those_of_an_inner_loop_ends_an_iteration(outer: int, steps: int) -> None:
    """Without more functions than all others have, it may be a loss that is computed now and then."""
    found = recorded(inner_loops(outer))
    assert (found.steps_from, len(found.steps)) == ("backward pass", steps)


def test_a_validation_every_few_updates_is_no_turn() -> None:
    trace = in_turn(*[GENERATOR] * 8)
    for epoch in range(4):
        trace.op("aten::linear", 200 * epoch + 95, 3)
    assert len(recorded(trace).steps) == 8


def test_only_the_first_updates_tell_whether_optimizers_take_turns() -> None:
    """A table of all updates by all functions would grow with both."""
    found = recorded(in_turn(*[CRITIC, GENERATOR] * 505, GENERATOR, GENERATOR))
    assert len(found.steps) == 506


def test_the_last_of_them_ends_with_the_recording() -> None:
    """Without marks a step ends with the next one's first update: the last has only the update of the generator."""
    found = recorded(in_turn(*[CRITIC, GENERATOR] * 6))
    assert [step.reason for step in found.steps][-1] == "recording-end"
    assert all(step.is_typical for step in found.steps[:-1])
