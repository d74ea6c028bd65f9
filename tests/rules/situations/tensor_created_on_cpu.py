"""Tensors made on the CPU, and where they go."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping

SHAPE = [[256, 1024]]
BYTES = 4 * 256 * 1024


def make(host: Host, dur: int, shape: list[list[int]] = SHAPE) -> None:
    """`torch.zeros(256, 1024)` on the CPU."""
    with host.op("aten::zeros"):
        host.leaf("aten::empty", 3)
        host.leaf("aten::zero_", dur, shapes=shape, types=["float"])


def move(host: Host, stream: Stream) -> None:
    """`.to(device)` of a tensor of that shape."""
    with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_", shapes=SHAPE * 2, types=["float"] * 2):
        host.copy("HtoD", BYTES, stream, dur=100, wait=True)


def fires() -> TraceBuilder:
    """Each step fills a tensor for 150 us and moves it."""

    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


def quiet() -> TraceBuilder:
    """Each step fills a tensor on the GPU."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::zeros"):
            host.leaf("aten::empty", 3)
            with host.op("aten::zero_", shapes=SHAPE, types=["float"]):
                host.launch(Work("vectorized_elementwise_kernel", 3), stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)


def trap_constant_made_once() -> TraceBuilder:
    """A mask is made and moved before the loop."""

    def prepare(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step, prepare=prepare)


def trap_batch_of_the_loader() -> TraceBuilder:
    """The tensor that is moved is another one: of another shape."""

    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150, [[7]])
        move(host, stream)
        compute(host, stream, 2000)
        host.wait(stream)

    return looping(step)
