"""Recordings of a part: the GPU alone, kernels alone, or a host whose kernels are missing."""

from __future__ import annotations

from collections.abc import Container

from tests.builders import TraceBuilder

from . import cards
from .cards import BIG, DESKTOP, LAPTOP, T4
from .layers import Op, add, convnet, cross_entropy, linear, transformer
from .loops import small_gpt
from .program import program
from .script import Script

_HOST = {"cpu_op", "user_annotation", "gpu_user_annotation", "fwdbwd"}
_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
_BF16 = "c10::BFloat16"


def without(trace: TraceBuilder, categories: Container[str]) -> TraceBuilder:
    """The trace without events of some categories, and without what names their operators."""
    trace.events = [event for event in trace.events if event["cat"] not in categories]
    for event in trace.events if "cpu_op" in categories else ():
        args = event.get("args")
        if isinstance(args, dict):
            args.pop("External id", None)
    return trace


def gpu_alone(script: Script) -> TraceBuilder:
    """What `activities=[ProfilerActivity.CUDA]` records: kernels, copies and the calls of the runtime."""
    trace = without(script.finish(), _HOST)
    trace.options = ()
    return trace


def kernels_alone(script: Script) -> TraceBuilder:
    """What is left where calls of the runtime were filtered, too."""
    trace = without(gpu_alone(script), {"cuda_runtime", "cuda_driver", "ac2g"})
    trace.threads.clear()
    return trace


def launches_alone(script: Script) -> TraceBuilder:
    """What is recorded where the GPU's events are missing though both activities were asked for."""
    trace = without(script.finish(), {*_DEVICE, "gpu_user_annotation", "ac2g"})
    trace.streams.clear()
    return trace


@program("CUDA only", "A training of which only the GPU was recorded; it is busy nearly all the time")
def gpu_alone_busy_training() -> TraceBuilder:
    script = Script(DESKTOP, seed=31, is_old=True, speed=150)
    layers = [*convnet(DESKTOP, 128, 8, side=64, width=192), cross_entropy(DESKTOP, 128, 10)]
    for _ in range(6):
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.item()
    return gpu_alone(script)


@program("CUDA only", "A model on single images of which only the GPU was recorded; it idles between its kernels")
def gpu_alone_idle_passes() -> TraceBuilder:
    script = Script(BIG, seed=32, speed=260)
    layers = transformer(BIG, 64, 512, 6, "c10::Half")
    for _ in range(10):
        script.forward(layers, grad=False)
        script.to_host((1, 64, 512), "c10::Half")
        script.host.work(400)
    return gpu_alone(script)


@program("CUDA only", "Kernels without a single call of the runtime: a model in bfloat16, busy all the time")
def kernels_alone_products() -> TraceBuilder:
    script = Script(BIG, seed=33, speed=150)
    layers = transformer(BIG, 2048, 1024, 6, _BF16, batch=4)
    for _ in range(4):
        script.forward(layers, grad=False)
    return kernels_alone(script)


@program("CUDA only", "Kernels alone of a training that mostly moves data: elementwise kernels, casts and an optimizer")
def kernels_alone_moving_data() -> TraceBuilder:
    script = Script(BIG, seed=34, speed=150)
    shape = (8192, 8192)
    cast = Op("aten::to", (shape,), (BIG.pointwise(cards.CAST, shape),))
    layers = [linear(BIG, 256, 8192, 8192, _BF16), add(BIG, shape), linear(BIG, 256, 8192, 8192, _BF16)]
    layers.append(cross_entropy(BIG, 256, 8192))
    for _ in range(5):
        script.run(cast)
        script.run(cast)
        script.forward(layers)
        script.backward(accumulate="float")
        script.update(layers)
    return kernels_alone(script)


@program("no kernels", "Launches without kernels: the last wait is over at once, so the host was the limit")
def launches_of_a_slow_host() -> TraceBuilder:
    script = Script(T4, seed=35, speed=260)
    layers = transformer(T4, 16, 256, 8, "c10::Half")
    for _ in range(6):
        script.forward(layers, grad=False)
        script.synchronize()
        script.host.work(40)
    return launches_alone(script)


@program("no kernels", "Launches without kernels: the program waits for the GPU for most of each iteration")
def launches_of_a_busy_gpu() -> TraceBuilder:
    script = Script(LAPTOP, seed=36, speed=170)
    layers = [*convnet(LAPTOP, 64, 6, side=96, width=64), cross_entropy(LAPTOP, 64, 10)]
    for _ in range(5):
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.synchronize()
    return launches_alone(script)


@program("no kernels", "Launches without kernels: one call of the driver takes most of each iteration")
def launches_and_the_allocator() -> TraceBuilder:
    script = Script(BIG, seed=37, speed=150)
    layers = small_gpt(128, 256, 2, 4)
    for _ in range(5):
        with script.host.op("aten::empty", 4, 2):
            script.host.call("cudaFree", 19_200)
            script.host.call("cudaMalloc", 5_300)
        script.forward(layers)
        script.backward()
        script.update(layers, name="AdamW", fused=True)
        script.host.work(30)
    script.synchronize()
    return launches_alone(script)
