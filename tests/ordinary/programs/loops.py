"""Training loops in which nobody calls `prof.step()`."""

from __future__ import annotations

from tests.builders import TraceBuilder

from . import cards
from .cards import BIG, DESKTOP, LAPTOP, T4
from .layers import Layer, Op, convnet, cross_entropy, embedding, layer_norm, linear, perceptron, transformer
from .program import program
from .script import Script

_BF16 = "c10::BFloat16"


def small_gpt(tokens: int, width: int, blocks: int, batch: int) -> list[Layer]:
    """A language model in bfloat16, with the loss of its tokens."""
    rows = batch * tokens
    body = transformer(BIG, tokens, width, blocks, _BF16, batch=batch)
    head = [layer_norm(BIG, (batch, tokens, width), _BF16), linear(BIG, rows, width, 8192, _BF16)]
    return [embedding(BIG, 8192, rows, width), *body, *head, cross_entropy(BIG, rows, 8192)]


@program("loop", "A small GPT in bfloat16 whose loop reads its loss each time; the GPU always has work")
def loop_trains_a_small_gpt() -> TraceBuilder:
    script = Script(BIG, seed=11, speed=150)
    layers = small_gpt(1024, 768, 4, 16)
    for _ in range(5):
        script.forward(layers)
        script.backward()
        script.update(layers, name="AdamW", fused=True)
        script.item()
        script.zero_grad("AdamW")
        script.host.work(60)
    return script.finish()


@program("loop", "Gradient descent by hand: two small operators for each parameter, and nobody marks an optimizer")
def loop_descends_by_hand() -> TraceBuilder:
    script = Script(LAPTOP, seed=12, speed=190)
    layers = perceptron(LAPTOP, 128, (64, 128, 128, 128, 128, 128, 128, 128, 10))
    layers.append(cross_entropy(LAPTOP, 128, 10))
    for _ in range(12):
        script.forward(layers)
        script.backward()
        for shape in (shape for layer in layers for shape in layer.parameters):
            script.run(Op("aten::mul", (shape, ()), (LAPTOP.pointwise(cards.MUL, shape),)))
            script.run(Op("aten::sub_", (shape, shape), (LAPTOP.pointwise(cards.ADD, shape, tensors=3),), rest=("1",)))
            script.host.work(4)
    script.synchronize()
    return script.finish()


@program("loop", "A convolutional network whose first iteration loads libraries and tries algorithms")
def loop_begins_cold() -> TraceBuilder:
    script = Script(DESKTOP, seed=13, is_old=True, speed=130)
    layers = [*convnet(DESKTOP, 256, 8, side=64, width=128), cross_entropy(DESKTOP, 256, 10)]
    for number in range(9):
        script.zero_grad("SGD")
        if number == 0:
            with script.host.op("aten::conv2d", 4, 2), script.host.op("aten::cudnn_convolution", 61_000, 8):
                script.host.call("cudaMalloc", 900)
                script.host.call("cudaModuleLoadData", 74_000)
        script.forward(layers)
        script.backward()
        script.update(layers, name="SGD")
        script.item()
    return script.finish()


@program("loop", "A laptop whose loader decodes images in the same process, longer than the rest takes")
def loop_waits_for_its_loader() -> TraceBuilder:
    script = Script(LAPTOP, seed=14, speed=170)
    layers = [*convnet(LAPTOP, 32, 6, side=96, width=32), cross_entropy(LAPTOP, 32, 10)]
    for _ in range(10):
        script.load(37_500)
        script.to_device((32, 3, 96, 96))
        script.to_device((32,), "long int")
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.item()
    return script.finish()


@program("accumulation", "Gradients of four small batches are added on purpose before the optimizer's step")
def gradients_of_four_batches() -> TraceBuilder:
    script = Script(BIG, seed=15, speed=150)
    layers = small_gpt(512, 1024, 2, 16)
    for _ in range(3):
        script.zero_grad("AdamW")
        for part in range(4):
            script.forward(layers)
            script.backward(accumulate=_BF16 if part else None)
            script.item()
        script.update(layers, name="AdamW", fused=True)
    return script.finish()


@program("accumulation", "Gradients are set to zero and added to, in each step, though nothing is accumulated")
def gradients_are_filled_with_zeros() -> TraceBuilder:
    script = Script(BIG, seed=16, speed=150)
    sizes = (2048, 8192, 8192, 8192, 2048)
    layers = [*perceptron(BIG, 512, sizes, _BF16), cross_entropy(BIG, 512, 2048)]
    parameters = [shape for layer in layers for shape in layer.parameters]
    for _ in range(6):
        with script.host.annotation("Optimizer.zero_grad#AdamW.zero_grad", 10, 4):
            for shape in parameters:
                fill = BIG.pointwise(cards.FILL, shape, tensors=1, dtype=_BF16)
                script.run(
                    Op("aten::zero_", (shape,), (Op("aten::fill_", (shape,), (fill,), (_BF16,), ("0",)),), (_BF16,))
                )
        script.forward(layers)
        script.backward(accumulate=_BF16)
        script.update(layers, name="AdamW", fused=True)
        script.item()
    return script.finish()


@program("two phases", "A training, then an evaluation of the same network, in one window")
def training_then_evaluation() -> TraceBuilder:
    script = Script(T4, seed=17, is_old=True, speed=220)
    layers = [*convnet(T4, 64, 6, side=64, width=64), cross_entropy(T4, 64, 10)]
    quiet = convnet(T4, 64, 6, side=64, width=64, training=False)
    for _ in range(7):
        script.to_device((64, 3, 64, 64), pinned=True)
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.item()
    script.host.work(2_400)
    for _ in range(10):
        script.to_device((64, 3, 64, 64), pinned=True)
        script.forward(quiet, grad=False)
        script.run(Op("aten::argmax", ((64, 10),), (T4.moving(cards.ARGMAX, (64, 10), passes=1),), rest=("1", "False")))
        script.item()
    return script.finish()


@program(
    "two phases", "Both training and evaluation wait for a loader of the same process; the evaluation has more batches"
)
def training_then_longer_evaluation() -> TraceBuilder:
    script = Script(T4, seed=18, speed=220)
    layers = [*perceptron(T4, 256, (784, 1024, 1024, 10)), cross_entropy(T4, 256, 10)]
    for _ in range(8):
        script.load(11_300)
        script.to_device((256, 784))
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
    for _ in range(20):
        script.load(11_100)
        script.to_device((256, 784))
        script.forward(layers[:-1], grad=False)
        script.run(Op("aten::eq", ((256,), (256,)), (T4.pointwise(cards.COMPARE, (256,), tensors=3),), ("long int",)))
        script.item()
    return script.finish()
