"""Programs that compute on the CPU of a machine with a GPU, which the header lists and nothing uses."""

from __future__ import annotations

from itertools import pairwise

from tests.builders import A100, TraceBuilder

from .cards import Shape
from .layers import Op
from .program import program
from .script import Script

_EVALUATION = "autograd::engine::evaluate_function: "


def on_cpu(seed: int, speed: int = 100) -> Script:
    """A program without a card of its own on a machine with an A100."""
    return Script(None, seed=seed, speed=speed, devices=(A100,))


def convolve(image: Shape, kernel: Shape, cpu: int) -> Op:
    """A convolution by the library for CPUs."""
    rest = ("", "[1, 1]", "[1, 1]", "[1, 1]", "1")
    inner = Op("aten::mkldnn_convolution", (image, kernel), cpu=cpu, rest=rest)
    nest = Op("aten::_convolution", (image, kernel), (inner,), rest=rest)
    return Op(
        "aten::conv2d", (image, kernel), (Op("aten::convolution", (image, kernel), (nest,), rest=rest),), rest=rest
    )


def normalize(image: Shape, cpu: int) -> Op:
    """Batch normalization of the CPU, in evaluation."""
    c = (image[1],)
    rest = ("False", "0.1", "1e-05")
    inner = Op("aten::native_batch_norm", (image, c, c, c, c), cpu=cpu, rest=rest)
    return Op(
        "aten::batch_norm",
        (image, c, c, c, c),
        (Op("aten::_batch_norm_impl_index", (image, c), (inner,), rest=rest),),
        rest=rest,
    )


def backward_of(script: Script, node: str, op: Op) -> None:
    """One node of a backward pass on autograd's thread."""
    number = script.sequence
    around = script.engine.op(_EVALUATION + node, 3, 1, sequence=number, fwd_thread=1)
    with around, script.engine.op(node, 2, 1, sequence=number, fwd_thread=1):
        script.run(op, script.engine)


@program("CPU only", "A residual network that was never moved to the GPU of its machine")
def cpu_convolutions() -> TraceBuilder:
    script = on_cpu(51)
    image = (16, 64, 56, 56)
    for _ in range(6):
        for _ in range(8):
            script.run(convolve(image, (64, 64, 3, 3), 6_400))
            script.run(normalize(image, 720))
            script.run(Op("aten::relu_", (image,), (Op("aten::clamp_min_", (image,), cpu=310, rest=("0",)),)))
            script.host.work(5)
        script.run(Op("aten::adaptive_avg_pool2d", (image,), (Op("aten::mean", (image,), cpu=150),)))
        script.run(
            Op(
                "aten::linear",
                ((16, 64), (1000, 64), (1000,)),
                (Op("aten::addmm", ((1000,), (16, 64), (64, 1000)), cpu=95),),
            )
        )
        script.host.work(60)
    return script.finish()


@program("CPU only", "A training on the CPU whose optimizer updates each parameter with operators of its own")
def cpu_training_with_adam() -> TraceBuilder:
    script = on_cpu(52)
    sizes = (512, 1024, 1024, 1024, 1024, 10)
    pairs = list(pairwise(sizes))
    for _ in range(6):
        script.host.range("Optimizer.zero_grad#Adam.zero_grad", 30)
        for k, n in pairs:
            addmm = Op("aten::addmm", ((n,), (64, k), (k, n)), cpu=640, rest=("1", "1"))
            script.run(Op("aten::linear", ((64, k), (n, k), (n,)), (addmm,)), sequence=script.sequence)
            script.run(Op("aten::relu", ((64, n),), cpu=25))
        script.run(Op("aten::cross_entropy_loss", ((64, 10), (64,)), cpu=60, types=("float", "long int")))
        script.engine.now = script.host.now + 35_000
        for k, n in reversed(pairs):
            backward_of(script, "AddmmBackward0", Op("aten::mm", ((64, n), (n, k)), cpu=1_180))
            script.sequence += 1
        script.host.now = script.engine.now + 20_000
        with script.host.annotation("Optimizer.step#Adam.step", 60, 10):
            for k, n in pairs:
                for shape in ((n, k), (n,)):
                    cost = max(4, k * n // 4_000) if len(shape) == 2 else 4
                    for name in (
                        "aten::lerp_",
                        "aten::mul_",
                        "aten::addcmul_",
                        "aten::sqrt",
                        "aten::div",
                        "aten::add_",
                        "aten::addcdiv_",
                    ):
                        script.run(Op(name, (shape, shape), cpu=cost))
    return script.finish()


@program("CPU only", "Batches of text are read in the process itself, longer than the small model on the CPU takes")
def cpu_waits_for_its_loader() -> TraceBuilder:
    script = on_cpu(53)
    for _ in range(12):
        script.load(24_000)
        script.run(
            Op(
                "aten::embedding_bag",
                ((50_000, 64), (4096,), (256,)),
                (Op("aten::_embedding_bag", ((50_000, 64), (4096,), (256,)), cpu=1_150),),
                ("float", "long int"),
            )
        )
        script.run(
            Op("aten::linear", ((256, 64), (4, 64), (4,)), (Op("aten::addmm", ((4,), (256, 64), (64, 4)), cpu=70),))
        )
        script.run(Op("aten::argmax", ((256, 4),), cpu=20, rest=("1", "False")))
        script.run(Op("aten::item", ((),), (Op("aten::_local_scalar_dense", ((),), cpu=1),)))
        script.host.work(40)
    return script.finish()


@program("CPU only", "A recurrent network on the CPU: hundreds of small operators for each text")
def cpu_recurrent_network() -> TraceBuilder:
    script = on_cpu(54, speed=120)
    cell = ((8, 128), (512, 128), (512,))
    for _ in range(5):
        with script.host.op("aten::lstm", 9, 4):
            for _ in range(60):
                for weights in range(2):
                    addmm = Op("aten::addmm", ((512,), (8, 128), (128, 512)), cpu=31 + weights, rest=("1", "1"))
                    script.run(Op("aten::linear", cell, (addmm,)))
                script.run(Op("aten::unsafe_chunk", ((8, 512),), cpu=5, rest=("4", "1")))
                for name in (
                    "aten::sigmoid_",
                    "aten::sigmoid_",
                    "aten::tanh_",
                    "aten::sigmoid_",
                    "aten::mul",
                    "aten::mul",
                    "aten::add_",
                    "aten::tanh",
                    "aten::mul",
                ):
                    script.run(Op(name, ((8, 128),), cpu=3))
        script.run(
            Op("aten::linear", ((8, 128), (2, 128), (2,)), (Op("aten::addmm", ((2,), (8, 128), (128, 2)), cpu=12),))
        )
        script.host.work(110)
    return script.finish()
