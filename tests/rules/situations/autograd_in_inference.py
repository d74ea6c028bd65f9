"""Inference with and without gradients."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.training import Training
from tests.rules.judging import table

MODEL = ("Net_0", 0)


def inference(passes: int, *, grad: bool, modules: bool = True, steps: int = 1) -> TraceBuilder:
    """Forward passes without a backward pass."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            for _ in range(passes):
                loop.forward(root=MODEL if modules else None, grad=grad)
            if grad:
                loop.host.leaf("aten::argmax", sequence=loop.sequence)
    return loop.finish()


def fires() -> TraceBuilder:
    """Four forward passes of a module with gradients on."""
    return inference(4, grad=True)


def fires_without_modules() -> TraceBuilder:
    """Stacks were not recorded, but there are three steps."""
    return inference(1, grad=True, modules=False, steps=3)


def quiet() -> TraceBuilder:
    """Gradients are off: operators have no numbers of autograd."""
    return inference(4, grad=False)


def trap_cut_window() -> TraceBuilder:
    """The window ends after the first forward pass."""
    return inference(1, grad=True)


def trap_frozen() -> TraceBuilder:
    """Gradients are on, but no parameter needs one: the number never grows."""
    loop = Training()
    with loop.iteration():
        for _ in range(6):
            loop.host.leaf("aten::mm", sequence=loop.sequence)
    return loop.finish()


def trap_features() -> TraceBuilder:
    """Features of several batches are collected, then one backward pass goes through all."""
    loop = Training()
    with loop.iteration():
        numbers = [number for _ in range(4) for number in loop.forward(root=MODEL)]
        loop.backward(numbers)
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")
