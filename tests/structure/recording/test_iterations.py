"""Iterations of programs without marks, waits and trainings, told from layers by what they read or draw."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.structure.recording.unmarked import WHOLE, Unmarked, found
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.structure.recording.workload import workload

POINTS, CENTRES = [2000, 24], [64, 24]
CLUSTERING = "cdist argmin zeros_like index_add_ div sub linalg_vector_norm"
LAYER = "layer_norm linear gelu linear add"


class Program(Unmarked):
    """Operators one after another on a CPU, 30 us each."""

    def __init__(self, *, shapes: bool = True) -> None:
        """Begin at time 0."""
        super().__init__(TraceBuilder(devices=()))
        self.shapes = shapes

    def calls(self, names: str, shape: list[int] | None = None) -> Program:
        """Operators of some names on tensors of one shape."""
        for name in names.split():
            self.trace.op(f"aten::{name}", self.at, 30, shapes=[shape or POINTS] if self.shapes else None)
            self.at += 31
        return self


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("around", ["", "rand slice clone"])
def test_a_value_is_read_in_each_iteration(shapes: bool, around: str) -> None:
    program = Program(shapes=shapes).calls(around)
    begins = program.at
    for _ in range(12):
        program.calls(CLUSTERING + " item")
    program.calls(around)
    assert found(program) == ("repeated operators", 12)
    assert program.steps().start_ns[:2].tolist() == [begins * 1000, (begins + 8 * 31) * 1000]


def test_without_a_value_the_same_may_be_layers() -> None:
    program = Program()
    for _ in range(12):
        program.calls(CLUSTERING)
    assert found(program) == WHOLE


QUERY = "linalg_vector_norm clamp_min expand_as div"


@pytest.mark.parametrize("around", ["", "rand slice clone"])
@pytest.mark.parametrize(("last", "says"), [([2000], ("repeated operators", 9)), (POINTS, WHOLE)], ids=["fewer", "all"])
def test_a_choice_among_results_ends_a_query(around: str, last: list[int], says: tuple[str, int]) -> None:
    """What follows a layer takes all that it gives; here the best of all points are chosen, and the next query begins.

    Its first operator takes the same points as others do.
    """
    program = Program().calls(around)
    for _ in range(9):
        program.calls(QUERY).calls("mv").calls("argsort slice", last)
    assert found(program.calls(around)) == says


def test_a_choice_in_each_layer_of_a_model_is_no_query() -> None:
    program = Program().calls("conv2d", CENTRES)
    for _ in range(9):
        program.calls("linear gelu linear add").calls("softmax topk", [2000])
    assert found(program.calls("matmul", [64, 10])) == WHOLE


def test_values_choose_the_shapes_of_an_iteration() -> None:
    """Of each cluster as many points as belong to it."""
    program = Program()
    for number in range(12):
        program.calls("cdist argmin")
        for cluster in range(4):
            program.calls("eq index").calls("mean", [1 + number * 7 + cluster, 24])
        program.calls("stack linalg_vector_norm item")
    assert found(program) == ("repeated operators", 12)


@pytest.mark.parametrize("shapes", [True, False])
def test_a_model_may_read_values_in_its_layers(shapes: bool) -> None:
    """It computes products of other shapes before and after them; which shapes are not known without them."""
    program = Program(shapes=shapes).calls("conv2d", CENTRES)
    for _ in range(12):
        program.calls(LAYER + " item")
    assert found(program.calls("matmul" if shapes else "mm", [64, 10])) == WHOLE


def test_what_reads_a_pixel_is_no_iteration() -> None:
    program = Program()
    for _ in range(40):
        program.calls("item")
        program.trace.op("aten::mul", program.at, 5)
        for name in ("select", "select", "select", "fill_"):
            program.trace.op(f"aten::{name}", program.at + 6, 5)
            program.at += 6
    assert found(program) == WHOLE


def test_what_is_read_of_each_parameter_is_no_iteration() -> None:
    """One update; then the norms of gradients are logged."""
    program = Program().calls("linear")
    program.trace.op("autograd::engine::evaluate_function: AddmmBackward0", program.at, 30)
    program.at += 31
    for _ in range(12):
        program.calls("abs mean div add item")
    assert found(program) == WHOLE


def test_noise_is_drawn_in_each_iteration_but_the_last() -> None:
    """A diffusion model begins with noise, and ends without it."""
    program = Program().calls("randn cumprod")
    for number in range(20):
        program.calls("select " + LAYER + " sub div" + (" randn_like mul add" if number < 19 else ""))
    steps = program.calls("clamp").steps()
    assert (steps.found_by, len(steps)) == ("repeated operators", 20)


def test_noise_in_each_layer_is_no_iteration() -> None:
    program = Program().calls("linear", CENTRES)
    for _ in range(12):
        program.calls("conv2d randn mul add leaky_relu")
    assert found(program.calls("conv2d", [64, 3])) == WHOLE


@pytest.mark.parametrize(
    ("each", "at_times", "every"),
    [
        (CLUSTERING + " item", "std mean", 10),
        ("randn_like " + LAYER, "sum item", 5),
    ],
    ids=["statistics", "printed loss"],
)
def test_what_is_done_now_and_then_is_a_part_of_an_iteration(each: str, at_times: str, every: int) -> None:
    program = Program()
    for number in range(40):
        program.calls(each)
        if number % every == every - 1:
            program.calls(at_times)
    assert found(program) == ("repeated operators", 40)


def test_what_is_done_now_and_then_needs_no_period() -> None:
    program = Program()
    for number in range(40):
        program.calls(CLUSTERING + " item" + (" std mean" if number in {3, 4, 11, 27} else ""))
    assert found(program) == ("repeated operators", 40)


@pytest.mark.parametrize(("last", "says"), [("linear", ("repeated operators", 8)), ("mul", WHOLE)])
def test_a_classifier_ends_a_pass_without_shapes(last: str, says: tuple[str, int]) -> None:
    program = Program(shapes=False)
    for _ in range(8):
        program.calls("to conv2d relu max_pool2d conv2d relu flatten " + last)
    assert found(program) == says


def growing(program: Program) -> Program:
    """A text, to which a model adds one token after another."""
    for number in range(12):
        program.calls("embedding layer_norm linear add linear argmax cat", [1, 8 + number, 64])
    return program


def layers_of_a_text(program: Program) -> Program:
    """The same layers with an embedding before the first alone."""
    program.calls("embedding")
    for number in range(12):
        program.calls("layer_norm linear add linear argmax cat item", [1, 8 + number, 64])
    return program


@pytest.mark.parametrize(
    ("build", "says"), [(growing, ("repeated operators", 12)), (layers_of_a_text, WHOLE)], ids=["tokens", "layers"]
)
def test_tokens_are_embedded_in_passes_that_grow(build: Callable[[Program], Program], says: tuple[str, int]) -> None:
    assert found(build(Program())) == says


@pytest.mark.parametrize(("layers", "says"), [(6, ("repeated operators", 9)), (3, WHOLE)])
def test_many_equal_parts_of_two_operators_are_layers(layers: int, says: tuple[str, int]) -> None:
    """A layer of a larger model has some, but few."""
    program = Program()
    for _ in range(9):
        program.calls("linear relu " * layers + "linear")
    assert found(program) == says


def trainings(count: int, *, cold: int = 0, begins_with_update: bool = False, after: str = "") -> Program:
    """Iterations of four operators and an update, on a CPU; the first launch of a kernel may load code."""
    program = Program()
    for number in range(count):
        if cold:
            length = 5 if number else cold
            program.trace.launch_kernel("gemm", program.at + length + 5, 600, at=program.at, call_dur=length)
            program.at += length + 610
        if number or not begins_with_update:
            program.calls("linear relu linear mse_loss")
        program.trace.annotation("Optimizer.step#SGD.step", program.at, 60)
        program.calls("add_").at += 100
    program.calls(after)
    return program


@pytest.mark.parametrize("count", [2, 3])
def test_a_short_training_has_whole_iterations(count: int) -> None:
    """From update to update there is one less, which begins with the first use of the optimizer."""
    steps = trainings(count).steps()
    assert (steps.found_by, len(steps), steps.is_cut) == ("Optimizer.step", count, False)
    assert steps.start_ns[:2].tolist() == [0, (4 * 31 + 60) * 1000]


@pytest.mark.parametrize(
    ("program", "begins"),
    [
        (trainings(4), 4 * 31),
        (trainings(3, begins_with_update=True), 0),
        (trainings(3, after="linear relu"), 4 * 31),
    ],
    ids=["long", "begins with an update", "ends in an iteration"],
)
def test_other_trainings_have_steps_from_update_to_update(program: Program, begins: int) -> None:
    steps = program.steps()
    assert (steps.found_by, steps.start_ns[0]) == ("Optimizer.step", begins * 1000)
    assert set(np.diff(steps.start_ns).tolist()) == {(5 * 31 + 100) * 1000}


def test_one_warm_iteration_counts_alone() -> None:
    """The first of two loads code for 5 ms; together they would say nothing."""
    context = Context(read_built(trainings(2, cold=5000).trace))
    steps = program_steps(context)
    assert (steps.reasons[0], steps.is_typical.tolist()) == ("loading", [False, True])
    assert workload(context)[0] == "training"
