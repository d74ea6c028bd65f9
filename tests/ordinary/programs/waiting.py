"""Programs that wait: for another process on the GPU, for events, for values and sizes on the device, for memory."""

from __future__ import annotations

from decimal import Decimal
from random import Random

from tests.builders import Stream, Time, TraceBuilder, Work, micros, ns
from tests.builders.timeline import Pace

from . import cards
from .cards import BIG, DESKTOP, T4, Shape
from .layers import Layer, Op, convnet, cross_entropy, perceptron, transformer
from .program import program
from .script import Script

_CUB = "at_cuda_detail::cub::"
_REDUCE = (
    f"void {_CUB}DeviceReduceSingleTileKernel<{_CUB}DeviceReducePolicy<int, unsigned int, "
    f"{_CUB}Sum>::Policy600, int*, int*>(int*, int*)"
)
_SELECT = (
    f"void {_CUB}DeviceSelectSweepKernel<{_CUB}DispatchSelectIf<{_CUB}CountingInputIterator<long>, bool*, "
    "long*, int*>, false>(long*, bool*, long*)"
)
_SORT = (
    f"void {_CUB}DeviceRadixSortOnesweepKernel<{_CUB}DeviceRadixSortPolicy<long, long, unsigned "
    "int>::Policy800, false, long, long>(int*, int*, long*)"
)
_HISTOGRAM = (
    f"void {_CUB}DeviceRadixSortHistogramKernel<{_CUB}DeviceRadixSortPolicy<long, long, unsigned "
    "int>::Policy800, false, long>(int*, long const*)"
)
_INDEX = (
    "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>(long, "
    "at::native::gpu_index_kernel)"
)


class SharedStream(Stream):
    """A stream of a GPU on which another process works, too: at times a kernel starts late though nothing is before it.

    Args:
        seed: What decides when.
        every: One of how many kernels that find the stream free.
        late: Milliseconds by which it starts late, at least and at most.
        stretch: Percent of their usual time that kernels take while the other process is busy.
    """

    def __init__(self, seed: int, every: int, late: tuple[int, int], stretch: int = 100) -> None:
        super().__init__(7, pace=Pace(seed))
        self._draw = Random(seed)
        self._every = every
        self._late = late
        self._stretch = stretch
        self.is_slow = False

    def run(self, dur: Time, not_before: int, ranges: list[tuple[int, str]]) -> tuple[Decimal, Decimal]:
        if self.free_ns < not_before - 500 and self._draw.randrange(self._every) == 0:
            not_before += self._draw.randint(*self._late) * 1_000_000 + self._draw.randrange(1_000_000)
        if self.is_slow:
            dur = micros(ns(dur) * self._stretch // 100)
        return super().run(dur, not_before, ranges)


@program("shared GPU", "A model answers alone, but another process has the GPU: kernels start milliseconds late")
def shared_gpu_passes() -> TraceBuilder:
    script = Script(BIG, seed=81, speed=150)
    script.stream = SharedStream(81, 36, (3, 7))
    layers = transformer(BIG, 64, 768, 6, "c10::Half")
    for _ in range(16):
        script.forward(layers, grad=False)
        script.synchronize()
        script.host.work(40)
    return script.finish()


@program("shared GPU", "Iterations of identical work take 15 to 39 ms, because another process computes at times")
def shared_gpu_uneven_iterations() -> TraceBuilder:
    script = Script(DESKTOP, seed=82, speed=150)
    stream = SharedStream(92, 2, (2, 9), stretch=190)
    script.stream = stream
    layers = [*convnet(DESKTOP, 64, 6, side=64, width=96), cross_entropy(DESKTOP, 64, 10)]
    for number in range(20):
        stream.is_slow = number in (2, 3, 4, 8, 11, 12, 15, 16)
        script.to_device((64, 3, 64, 64), pinned=True)
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.item()
        script.host.work(300)
    return script.finish()


@program("shared GPU", "No other process: kernels start late because they wait for copies on another stream")
def kernels_that_wait_for_copies() -> TraceBuilder:
    script = Script(BIG, seed=83, speed=150)
    side = Stream(20, pace=Pace(83))
    layers = convnet(BIG, 128, 4, side=112, width=24, training=False)
    shape: Shape = (128, 3, 320, 320)
    for _ in range(12):
        nbytes = 4 * 128 * 3 * 320 * 320
        copying = script.host.op("aten::copy_", 3, 1, **script.inputs(Op("", (shape, shape))))
        with script.host.op("aten::to", 3, 1), script.host.op("aten::_to_copy", 3, 1), copying:
            script.host.copy("HtoD", nbytes, side, dur=f"{nbytes / 22e3:.1f}", pinned=True)
        script.host.call("cudaEventRecord")
        script.host.call("cudaStreamWaitEvent")
        script.stream.free_ns = max(script.stream.free_ns, side.free_ns)
        script.forward(layers, grad=False)
    script.synchronize()
    return script.finish()


def with_questions(script: Script, layers: list[Layer]) -> None:
    """Layers after each of which the program asks whether all numbers are finite."""
    for layer in layers:
        script.forward([layer], grad=False)
        shape = layer.forward[-1].shapes[0]
        work = script.gpu.moving(cards.SUM, shape, passes=1)
        script.run(Op("aten::isfinite", (shape,), (script.gpu.pointwise(cards.COMPARE, shape),)))
        script.run(Op("aten::all", (shape,), (work,), ("bool",)))
        with script.host.op("aten::is_nonzero", 2, 1):
            script.item()


@program("waits", "A pass that asks after each layer whether all numbers are finite, and waits for the answer")
def asks_after_each_layer() -> TraceBuilder:
    script = Script(DESKTOP, seed=84, is_old=True, speed=200)
    layers = perceptron(DESKTOP, 256, (512,) * 13)
    for _ in range(8):
        with_questions(script, layers)
        script.host.work(60)
    return script.finish()


def masked(script: Script, rows: int) -> None:
    """`x[mask]`: how many rows there are, only the device knows."""
    shape = (rows,)
    with script.host.op("aten::index", 6, 3, **script.inputs(Op("", ((rows, 64), shape), types=("float", "bool")))):
        with script.host.op("aten::nonzero", 8, 3, **script.inputs(Op("", (shape,), types=("bool",)))):
            script.host.launch(Work(_REDUCE, "6.4", (1, 1, 1), (256, 1, 1)), script.stream)
            script.read(4)
            script.run(Op("aten::empty", ((),), rest=(f"[{rows // 2}, 1]", "4")))
            script.host.launch(Work(_SELECT, "7.1", (rows // 1024, 1, 1), (128, 1, 1)), script.stream)
        script.host.launch(Work(_INDEX, "5.2", (rows // 512, 1, 1), (128, 1, 1)), script.stream)


@program("waits", "Boxes are filtered by masks, thirty times an image: each mask is counted on the device first")
def filters_by_masks() -> TraceBuilder:
    script = Script(T4, seed=85, is_old=True, speed=240)
    backbone = convnet(T4, 1, 4, side=112, width=16, training=False)
    for _ in range(6):
        script.forward(backbone, grad=False)
        for number in range(30):
            script.run(Op("aten::gt", ((20_000,),), (T4.pointwise(cards.COMPARE, (20_000,)),), rest=("0.5",)))
            masked(script, 20_480 - 512 * number)
            script.host.work(15)
    return script.finish()


@program(
    "waits",
    "A graph network that sorts out unique nodes for each layer; the host waits in each of these most of the time",
)
def counts_unique_nodes() -> TraceBuilder:
    script = Script(BIG, seed=86, speed=150)
    edges = (2_000_000,)
    for _ in range(6):
        for _ in range(3):
            with script.host.op(
                "aten::_unique2",
                9,
                4,
                **script.inputs(Op("", (edges,), types=("long int",), rest=("True", "True", "False"))),
            ):
                script.host.launch(Work(_HISTOGRAM, "38.4", (432, 1, 1), (256, 1, 1)), script.stream)
                for _ in range(8):
                    script.host.launch(Work(_SORT, "61.2", (1085, 1, 1), (384, 1, 1)), script.stream)
                script.read(8)
                script.run(Op("aten::resize_", (edges,), types=("long int",), rest=("[731204]", "")))
            script.run(
                Op(
                    "aten::index_select",
                    ((731_204, 64), (731_204,)),
                    (BIG.moving(_INDEX, (731_204, 64)),),
                    ("float", "long int"),
                    ("0",),
                )
            )
            script.forward(perceptron(BIG, 731_204, (64, 64)), grad=False)
            script.host.work(30)
    return script.finish()


@program("waits", "The cache of the allocator is emptied after each batch, so that each one asks the driver for memory")
def empties_the_cache() -> TraceBuilder:
    script = Script(T4, seed=87, speed=220)
    layers = convnet(T4, 16, 6, side=56, width=32, training=False)
    for _ in range(9):
        script.to_device((16, 3, 56, 56))
        for layer in layers:
            with script.host.op("aten::empty", 3, 1):
                script.host.call("cudaMalloc", 160)
            script.forward([layer], grad=False)
        script.to_host((16, 10))
        for _ in range(14):
            script.host.call("cudaFree", 140)
        script.host.work(50)
    return script.finish()
