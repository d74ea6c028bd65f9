"""Layers of a network: what operators and kernels their forward and backward passes consist of."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field

from ..allocator import Allocator
from ..timeline import Host, Stream, Work
from ..values import micros

Shape = tuple[int, ...]
ACCUMULATE = "torch::autograd::AccumulateGrad"
_ENGINE = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class Layer:
    """One layer. `chain` is the nest of forward operators, outermost first; the last one launches."""

    module: str
    chain: tuple[str, ...]
    shapes: tuple[Shape, ...]
    forward: tuple[Work, ...]
    node: str
    back_chain: tuple[str, ...]
    backward: tuple[Work, ...]
    output: Shape
    parameters: tuple[Shape, ...] = ()
    types: tuple[str, ...] = ("float", "float", "float")
    back_shapes: tuple[Shape, ...] = ()
    clears: int = 0
    """Bytes of a workspace that the backward pass fills with zeros first."""


@dataclass
class Step:
    """What the layers of one step share: the device, and what backward needs from forward."""

    stream: Stream
    memory: Allocator | None
    sequence: int = 0
    saved: list[tuple[Layer, int, int, int, int]] = field(default_factory=list)
    """Layer, sequence number, start of the operator, its thread, address of its output."""

    def allocate(self, host: Host, shape: Shape, width: int = 4) -> int:
        """Take memory for a tensor, if memory is recorded; returns the address."""
        return self.memory.allocate(host, size(shape, width)) if self.memory else 0

    def free(self, host: Host, address: int) -> None:
        """Give memory back, if memory is recorded."""
        if self.memory:
            self.memory.free(host, address)


def size(shape: Shape, width: int = 4) -> int:
    """Bytes of a tensor."""
    total = width
    for length in shape:
        total *= length
    return total


def forward(host: Host, layer: Layer, step: Step) -> None:
    """Run a layer's forward pass."""
    types = [*layer.types[: len(layer.shapes)], *[""] * (len(layer.shapes) - len(layer.types))]
    with ExitStack() as nest:
        start = host.now
        for name in layer.chain:
            sequence = step.sequence if name == layer.chain[0] else None
            shapes = [list(shape) for shape in layer.shapes]
            nest.enter_context(host.op(name, before=3, after=1, shapes=shapes, types=types, sequence=sequence))
        address = _empty(host, step, layer.output)
        for work in layer.forward:
            host.launch(work, step.stream)
            host.work(2)
    step.saved.append((layer, step.sequence, start, host.tid, address))
    step.sequence += 1


def backward(host: Host, step: Step, after: Callable[[Layer], None] = lambda _: None) -> None:
    """Run the backward passes of everything saved, last first, on the engine's thread.

    `after` is called when the gradients of a layer are there.
    """
    while step.saved:
        layer, sequence, start, tid, address = step.saved.pop()
        old = host.trace.dialect.style_2021
        with _engine(host, layer.node, sequence=sequence, fwd_thread=1):
            begin = host.now
            name = layer.node.rstrip("01") if old else layer.node
            with host.op(name, before=3, sequence=sequence, fwd_thread=1):
                _gradients(host, layer, step)
        host.trace.fwdbwd((micros(start), tid), (micros(begin), host.tid))
        step.free(host, address)
        for shape in layer.parameters:
            _accumulate(host, shape)
        after(layer)
        host.work(4)


def _engine(host: Host, node: str, **details: int) -> AbstractContextManager[object]:
    """The engine's own range around a node, which torch 1.8 did not have."""
    if host.trace.dialect.style_2021:
        return nullcontext()
    return host.op(_ENGINE + node, 4, **details)


def _gradients(host: Host, layer: Layer, step: Step) -> None:
    with ExitStack() as nest:
        shapes = [list(shape) for shape in layer.back_shapes or (layer.output, *layer.shapes)]
        types = ["float"] * len(shapes)
        for name in layer.back_chain:
            nest.enter_context(host.op(name, before=4, after=2, shapes=shapes, types=types))
        gradient = _empty(host, step, layer.shapes[0])
        if layer.clears:
            host.fill(layer.clears, step.stream)
        for work in layer.backward:
            host.launch(work, step.stream)
            host.work(2)
    step.free(host, gradient)


def _accumulate(host: Host, shape: Shape) -> None:
    with _engine(host, ACCUMULATE), host.op(ACCUMULATE, before=2):
        host.leaf("aten::detach", 2, shapes=[list(shape)], types=["float"])


def _empty(host: Host, step: Step, shape: Shape) -> int:
    sizes: list[list[int]] = [[], [], [], [], [], []]
    concrete = [str(list(shape)), "6", "0", "0", "", ""]
    with host.op("aten::empty", 1, 1, shapes=sizes, concrete=concrete):
        return step.allocate(host, shape)
