"""Forward passes without marks, and passes that are the first of their process."""

from __future__ import annotations

from tests.builders import TraceBuilder

from .cards import BIG, HOPPER, T4
from .layers import Op, convnet, embedding, linear, transformer
from .program import program
from .script import Script

_HALF = "c10::Half"


@program("passes", "A language model in half precision answers twenty times, one short text at a time")
def passes_of_one_short_text() -> TraceBuilder:
    script = Script(BIG, seed=21, speed=190)
    layers = [embedding(BIG, 30522, 32, 768), *transformer(BIG, 32, 768, 6, _HALF)]
    for _ in range(20):
        script.forward(layers, grad=False)
        script.synchronize()
        script.host.work(25)
    return script.finish()


@program("passes", "A convolutional network on large batches: the host is far ahead and waits at the end")
def passes_of_large_batches() -> TraceBuilder:
    script = Script(BIG, seed=22, speed=150)
    layers = convnet(BIG, 256, 8, side=112, width=192, training=False)
    for _ in range(8):
        script.forward(layers, grad=False)
    script.synchronize()
    return script.finish()


@program("passes", "Predictions by a model that was left in training mode, with gradients recorded for nothing")
def passes_in_training_mode() -> TraceBuilder:
    script = Script(T4, seed=23, speed=220)
    layers = convnet(T4, 64, 8, side=56, width=64)
    for _ in range(9):
        script.to_device((64, 3, 56, 56), pinned=True)
        script.forward(layers)
        script.to_host((64, 10))
        script.saved.clear()
    return script.finish()


@program("passes", "After each pass the scores go to the CPU, which sorts them for longer than the GPU works")
def passes_sorted_on_the_cpu() -> TraceBuilder:
    script = Script(BIG, seed=24, speed=150)
    layers = [*convnet(BIG, 64, 6, side=112, width=64, training=False)[:-1], linear(BIG, 64, 256, 50_000)]
    for _ in range(8):
        script.forward(layers, grad=False)
        script.to_host((64, 50_000))
        script.run(Op("aten::sort", ((64, 50_000),), cpu=21_500, rest=("-1", "True")))
        script.run(Op("aten::slice", ((64, 50_000),), cpu=2, rest=("1", "0", "5", "1")))
        script.host.work(180)
    return script.finish()


@program("cold", "The first call of a process: context, libraries and modules, then one pass of six milliseconds")
def cold_first_call() -> TraceBuilder:
    script = Script(T4, seed=25, speed=220)
    image = (32, 3, 112, 112)
    with script.host.op("aten::to", 6, 2), script.host.op("aten::_to_copy", 6, 2):
        with script.host.op("aten::empty_strided", 8, 4):
            script.host.call("cudaDeviceGetStreamPriorityRange", 1_870_000)
            script.host.call("cudaMalloc", 310)
        with script.host.op("aten::copy_", 6, 2):
            script.host.copy("HtoD", 4_816_896 * 4, script.stream, dur="3100", wait=True)
    with script.host.op("aten::conv2d", 4, 2), script.host.op("aten::cudnn_convolution", 96_000, 5):
        script.host.call("cudaMalloc", 280)
        script.host.launch(T4.convolve(image, (32, 3, 3, 3), (32, 32, 112, 112)), script.stream, call_dur=412_000)
    for number, layer in enumerate(convnet(T4, 32, 6, side=112, width=32, training=False)[1:]):
        if layer.name in ("BatchNorm2d", "Linear") and number in (0, 18):
            script.host.call("cuLibraryLoadData", 31_000)
        script.forward([layer], grad=False)
    script.to_host((32, 10))
    return script.finish()


@program("cold", "A head of loading, after which the rest of the pass is warm and bound by its launches")
def cold_head_then_small_kernels() -> TraceBuilder:
    script = Script(BIG, seed=26, speed=230)
    layers = [embedding(BIG, 30522, 128, 1024), *transformer(BIG, 128, 1024, 36, _HALF)]
    script.forward(layers[:2], grad=False)
    with script.host.op("aten::linear", 5, 2), script.host.op("aten::addmm", 12, 3):
        script.host.call("cudaMalloc", 240)
        script.host.launch(BIG.product(128, 3072, 1024, _HALF), script.stream, call_dur=31_000)
    script.forward(layers[3:], grad=False)
    script.synchronize()
    return script.finish()


@program("cold", "The first product of a process takes 350 ms in no call of the runtime: its library is loaded")
def cold_without_a_call() -> TraceBuilder:
    script = Script(BIG, seed=27, speed=150)
    rest = transformer(BIG, 1024, 1024, 4, _HALF)
    with script.host.op("aten::linear", 5, 2), script.host.op("aten::addmm", 348_000, 3):
        script.host.launch(BIG.product(1024, 1024, 1024, _HALF), script.stream)
    script.forward(rest, grad=False)
    script.forward(rest, grad=False)
    script.to_host((1, 1024, 1024), _HALF)
    return script.finish()


@program("cold", "The first call of a compiled model: seconds of compilation, then generated kernels")
def cold_compilation() -> TraceBuilder:
    script = Script(HOPPER, seed=28, speed=150)
    bf16 = "c10::BFloat16"
    host = script.host
    with (
        host.annotation("_compile.compile_inner (dynamo_timed)", 310_000, 900),
        host.annotation("OutputGraph.call_user_compiler (dynamo_timed)", 14_000, 300),
        host.annotation("compile_fx.<locals>.fw_compiler_base (dynamo_timed)", 420_000, 2_000),
    ):
        host.range("GraphLowering.compile_to_fn (dynamo_timed)", 1_390_000)
    with host.annotation("Torch-Compiled Region: 0/0", 90, 30):
        script.host.call("cuModuleLoadData", 3_100)
        with script.host.annotation("## Call CompiledFxGraph fk3x2mp4 ##", 25, 6):
            for number in range(24):
                with script.host.op(f"triton_poi_fused_add_gelu_{number % 3}", 4, 2):
                    work = HOPPER.moving(f"triton_poi_fused_add_gelu_{number % 3}", (4096, 4096), dtype=bf16)
                    script.host.launch(work, script.stream, call="cuLaunchKernel")
                mm = HOPPER.product(4096, 4096, 4096, bf16)
                script.run(Op("aten::mm", ((4096, 4096), (4096, 4096)), (mm,), (bf16,)))
    script.synchronize()
    return script.finish()
