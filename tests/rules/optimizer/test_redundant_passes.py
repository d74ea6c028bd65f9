"""Tests of the rule `redundant-passes`: numbers worked out by hand, and edges of thresholds.

The programs: passes that train, and passes for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.rules.judging import findings, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as inference

MODEL = ("Net_0", 0)


def loops(body: Callable[[Training, int], None], *, steps: int = 4, gpu: bool = True) -> TraceBuilder:
    """Steps of a training loop with a given body."""
    loop = Training(gpu=gpu)
    for number in range(steps):
        with loop.iteration():
            body(loop, number)
    return loop.finish()


def extra_passes(loop: Training, number: int) -> None:
    """Every other step first runs forward and backward twice on a part of the batch, and then clears the gradients."""
    for _ in range(2 if number % 2 else 0):
        loop.backward(loop.forward(shape=(32, 3, 32, 32), dur=100), dur=100)
    loop.zero_grad()
    loop.backward(loop.forward())
    loop.step()


def fires() -> TraceBuilder:
    """Gradients of a part of the batch are thrown away."""
    return loops(extra_passes)


def fires_on_the_host() -> TraceBuilder:
    """The same program without a GPU."""
    return loops(extra_passes, gpu=False)


def fires_on_unused_outputs() -> TraceBuilder:
    """The model runs twice on each batch, and one output goes nowhere."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.forward(root=MODEL)
        loop.backward(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def quiet() -> TraceBuilder:
    """One forward and one backward pass per update."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def trap_accumulation() -> TraceBuilder:
    """Four passes are collected for each update."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        for _ in range(4):
            loop.backward(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def trap_adversaries() -> TraceBuilder:
    """Two optimizers that take turns: the first one's gradients are cleared before the second one's update."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward())
        loop.zero_grad()
        loop.backward(loop.forward())
        loop.step()
        loop.step()

    return loops(body)


def trap_sharpness() -> TraceBuilder:
    """SAM steps along the first gradients before it clears them."""

    def body(loop: Training, number: int) -> None:
        loop.backward(loop.forward())
        for _ in range(6):
            loop.host.leaf("aten::linalg_vector_norm")
            loop.host.leaf("aten::add_")
        loop.zero_grad()
        loop.backward(loop.forward())
        loop.step()
        loop.zero_grad()

    return loops(body)


def trap_skipped_update() -> TraceBuilder:
    """Automatic mixed precision checks the gradients, finds infinity, and leaves the update out."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward())
        loop.host.leaf("aten::_amp_foreach_non_finite_check_and_unscale_")
        if number % 2:
            loop.step()

    return loops(body)


def trap_teacher() -> TraceBuilder:
    """Distillation: another module runs without gradients."""

    def body(loop: Training, number: int) -> None:
        loop.forward(root=("Teacher_0", 1), grad=False)
        loop.zero_grad()
        loop.backward(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def trap_checkpoint() -> TraceBuilder:
    """Checkpointing repeats a part of the forward pass within the backward pass."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.recompute(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def trap_inference_loop() -> TraceBuilder:
    """Five images, five forward passes, no training."""
    return loops(lambda loop, _: [loop.forward(root=MODEL, grad=False) for _ in range(5)] and None)


def trap_validation_once() -> TraceBuilder:
    """One validation with gradients on, on batches of the same shape."""

    def body(loop: Training, number: int) -> None:
        if number == 2:
            for _ in range(3):
                loop.forward(root=MODEL)
        loop.zero_grad()
        loop.backward(loop.forward(root=MODEL))
        loop.step()

    return loops(body)


def trap_gpu_projection() -> TraceBuilder:
    """Copies of optimizers' ranges on the stream are not second calls."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward(root=MODEL))
        loop.trace.gpu_annotation("Optimizer.zero_grad#SGD.zero_grad", loop.host.now // 1000, 5, external_id=1)
        loop.step()

    return loops(body)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


LAYERS = ("aten::conv2d", "aten::batch_norm", "aten::relu", "aten::conv2d", "aten::linear", "aten::cross_entropy_loss")
"""Operators of a forward pass with its loss."""


def logging(
    *,
    again: int = 6,
    shape: Sequence[int] = (16, 3, 16, 16),
    every: int = 1,
    averages: int = 0,
    checkpoint: bool = False,
    shapes: bool = True,
) -> TraceBuilder:
    """Trainings without a GPU and without recorded modules, whose forward pass runs once more without autograd.

    Args:
        again: How many of the operators run again.
        shape: Of their input.
        every: Number of updates between two such passes.
        averages: Parameters of which the program keeps an average.
        checkpoint: Whether the backward pass repeats a part of the forward pass.
        shapes: Whether inputs are recorded.
    """
    loop = Training(trace=TraceBuilder(devices=(), options=("record_shapes",) if shapes else ()), gpu=False)

    def network(inputs: Sequence[int], *, records: bool, layers: int = 6) -> list[int]:
        made = []
        for name in LAYERS[:layers]:
            sides = {"shapes": [list(inputs), [8, 3, 3, 3]], "types": ["float", "float"]} if shapes else {}
            loop.host.leaf(name, 100, sequence=loop.sequence if records else None, **sides)
            made.append(loop.sequence)
            loop.sequence += records
        return made

    for number in range(6):
        with loop.iteration():
            loop.zero_grad()
            numbers = network((16, 3, 16, 16), records=True)
            if checkpoint:
                loop.recompute(numbers)
            else:
                loop.backward(numbers)
            loop.step()
            for _ in range(averages):
                loop.host.leaf("aten::lerp_", 5, shapes=[[64], [64], []], types=["float", "float", "Scalar"])
            if number % every == 0:
                network(shape, records=False, layers=again)
                loop.host.leaf("aten::lerp_", 5, shapes=[[], [], []], types=["float", "float", "Scalar"])
    return loop.finish()


def fires_on_a_repeated_pass() -> TraceBuilder:
    """A loss is computed again to log it."""
    return logging()


def fires_without_the_loss() -> TraceBuilder:
    """Only the predictions are wanted: five of six operators."""
    return logging(again=5)


def quiet_without_a_repeated_pass() -> TraceBuilder:
    """The loss of the pass that trains is logged."""
    return logging(again=0)


def trap_a_part_of_the_network() -> TraceBuilder:
    """A frozen part of it runs on something else: four of six operators."""
    return logging(again=4)


def trap_other_shapes() -> TraceBuilder:
    """A batch of validation with another number of samples."""
    return logging(shape=(64, 3, 16, 16))


def trap_validation_now_and_then() -> TraceBuilder:
    """At every third update."""
    return logging(every=3)


def trap_average_of_parameters() -> TraceBuilder:
    """The second network has the averages of the first one's parameters."""
    return logging(averages=12)


def trap_checkpoint_without_modules() -> TraceBuilder:
    """Parts of the forward pass run without autograd because the backward pass repeats them."""
    return logging(checkpoint=True)


def trap_without_shapes() -> TraceBuilder:
    """Operators of the same names may work on anything."""
    return logging(shapes=False)


def with_modules(second: tuple[str, int]) -> TraceBuilder:
    """A network of six layers that trains, and after each update a pass without autograd through a second one."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward(6, root=MODEL))
        loop.step()
        loop.forward(6, root=second, grad=False)

    return loops(body)


def fires_on_the_same_module() -> TraceBuilder:
    """Modules were recorded: it is the network that trains."""
    return with_modules(MODEL)


def trap_teacher_of_equal_structure() -> TraceBuilder:
    """Modules were recorded: it is another network of the same class."""
    return with_modules(("Net_1", 1))


RULE = "redundant-passes"


def test_discarded_gradients_cost_forward_and_backward() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 4, "two in every other of four steps"
    assert finding.saving is not None
    whole = 4 * 2 * 3 * 100_000 / 4
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * whole, 1.05 * whole))
    assert finding.saving.resource == "gpu"
    assert "at most 5 % more than that time" in finding.saving.basis.text


def test_without_a_gpu_they_cost_the_host() -> None:
    (finding,) = findings(fires_on_the_host(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.wall_share[1] > 0.2


def test_an_unused_output_names_its_module() -> None:
    (finding,) = findings(fires_on_unused_outputs(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].where[0].name == "nn.Module: Net_0"
    assert finding.evidence[0].where[0].shapes == "[[128,3,32,32],[8,3,3,3]]"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 600_000, 1.05 * 600_000))


def test_without_autograd_nobody_can_tell() -> None:
    assert "backward" in (skipped(inference(), RULE) or "")


def test_a_table_cannot_tell() -> None:
    assert "order of passes" in (skipped(in_a_table(), RULE) or "")


def test_edge_discarded_passes() -> None:
    assert findings(fires(), RULE, {"discarded_passes": 5}) == []
    assert findings(fires(), RULE, {"discarded_passes": 4})


def test_edge_unused_updates() -> None:
    assert findings(fires_on_unused_outputs(), RULE, {"unused_updates": 5}) == []
    assert findings(fires_on_unused_outputs(), RULE, {"unused_updates": 4})


def test_a_pass_that_runs_once_more_without_autograd() -> None:
    (finding,) = findings(fires_on_a_repeated_pass(), RULE)
    assert finding.confidence == "C"
    assert finding.evidence[0].observed == 6, "one beside each update"
    assert finding.evidence[0].where[0].name == "aten::conv2d"
    assert finding.summary.params["operators"] == 6
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 600_000, 1.5 * 600_000))


def test_a_repeated_pass_without_the_loss_is_known_by_most_of_its_operators() -> None:
    (finding,) = findings(fires_without_the_loss(), RULE)
    assert finding.summary.params["operators"] == 5
