"""Windows around a cell of a notebook, and windows in which the program first waits for something."""

from __future__ import annotations

from tests.builders import TraceBuilder, Work

from . import cards
from .cards import LAPTOP, T4
from .layers import Op, convnet, cross_entropy, perceptron
from .program import program
from .script import Script

_ADD = Op("aten::add", ((256, 256), (256, 256)), (T4.pointwise(cards.ADD, (256, 256), tensors=3),), rest=("1",))
_MUL = Op("aten::mul", ((256, 256), (256, 256)), (T4.pointwise(cards.MUL, (256, 256), tensors=3),))


@program("notebook", "A cell that makes its batch on the CPU, copies it and runs one warm pass")
def cell_makes_its_batch() -> TraceBuilder:
    script = Script(T4, seed=1, speed=220)
    batch = (64, 3, 112, 112)
    script.run(
        Op("aten::randn", ((),), (Op("aten::normal_", (batch,), rest=("0.", "1.", ""), cpu=40_000),), rest=("6", "0"))
    )
    script.to_device(batch)
    with script.host.annotation("model_inference"):
        script.forward(convnet(T4, 64, 4, side=112, width=16, training=False), grad=False)
    script.run(Op("aten::argmax", ((64, 10),), (Work(cards.ARGMAX, "6.2"),), rest=("1", "False")))
    script.to_host((64,), "long int")
    return script.finish()


@program("notebook", "A cell that calls a model twelve times; the first call loads libraries")
def cell_calls_a_model_twelve_times() -> TraceBuilder:
    script = Script(T4, seed=2, speed=220)
    layers = convnet(T4, 64, 6, side=56, training=False)
    for number in range(12):
        script.host.work(30)
        if number == 0:
            with script.host.op("aten::empty", 3, 1):
                script.host.call("cudaFree", 28_000)
            with script.host.op("aten::cudnn_convolution", 43_000, 4):
                script.host.call("cudaStreamIsCapturing", 3)
        script.forward(layers, grad=False)
    script.synchronize()
    return script.finish()


@program("notebook", "A cell that trains a small network on digits; its loader works in the same process")
def cell_trains_on_digits() -> TraceBuilder:
    script = Script(T4, seed=3, speed=220)
    layers = [*perceptron(T4, 64, (784, 512, 10)), cross_entropy(T4, 64, 10)]
    for _ in range(25):
        script.load(3_900)
        script.to_device((64, 1, 28, 28))
        script.to_device((64,), "long int")
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers)
        script.host.work(25)
    return script.finish()


@program("notebook", "A cell that computes a fractal: hundreds of operators on small tensors, one after the other")
def cell_computes_a_fractal() -> TraceBuilder:
    script = Script(T4, seed=4, speed=220, options=("record_shapes", "with_stack"))
    with script.host.frame("/tmp/ipykernel_2817/1479135316.py(4): <module>"):
        for _ in range(150):
            script.run(_MUL)
            script.host.work(4)
            script.run(_ADD)
            script.host.work(6)
        script.to_host((256, 256))
    return script.finish()


@program("late", "A training whose first call comes at the end of the window: its workers had to start")
def training_begins_at_the_end() -> TraceBuilder:
    script = Script(LAPTOP, seed=5, is_old=True, speed=170, start=8_640_000)
    layers = [*convnet(LAPTOP, 32, 4, side=64, width=32), cross_entropy(LAPTOP, 32, 10)]
    for _ in range(6):
        script.to_device((32, 3, 64, 64))
        script.zero_grad("SGD")
        script.forward(layers)
        script.backward()
        script.update(layers, name="SGD")
        script.item()
    return script.finish()


@program("late", "A small server that waits for a request, answers it, and waits again until the window ends")
def server_waits_for_a_request() -> TraceBuilder:
    script = Script(T4, seed=6, speed=220, start=4_180_000, end=1_310_000)
    script.to_device((8, 3, 112, 112))
    script.forward(convnet(T4, 8, 6, side=112, width=32, training=False), grad=False)
    script.to_host((8, 10))
    return script.finish()
