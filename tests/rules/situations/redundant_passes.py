"""Passes that train, and passes for nothing."""

from __future__ import annotations

from collections.abc import Callable

from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.rules.judging import table

MODEL = ("Net_0", 0)


def loops(body: Callable[[Training, int], None], *, steps: int = 4, gpu: bool = True) -> TraceBuilder:
    """Steps of a training loop with a body of its own."""
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
    """The same without a GPU."""
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
    """Ranges of optimizers on the stream are no second calls."""

    def body(loop: Training, number: int) -> None:
        loop.zero_grad()
        loop.backward(loop.forward(root=MODEL))
        loop.trace.gpu_annotation("Optimizer.zero_grad#SGD.zero_grad", loop.host.now // 1000, 5, external_id=1)
        loop.step()

    return loops(body)


def in_a_table() -> str:
    """A table."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")
