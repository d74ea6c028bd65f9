"""Programs whose CPU works for long under one name while the GPU has nothing to do."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from tests.builders import TraceBuilder

from .cards import BIG, DESKTOP, HOPPER, T4
from .layers import Op, conv, convnet, cross_entropy, embedding, linear, relu, transformer
from .program import program
from .script import Script

_ADAM = ("aten::lerp_", "aten::mul_", "aten::addcmul_", "aten::sqrt", "aten::div", "aten::add_", "aten::addcdiv_")


@program("long CPU work", "A diffusion model whose noise is drawn on the CPU for each step, then copied")
def draws_noise_on_the_cpu() -> TraceBuilder:
    script = Script(BIG, seed=91, speed=150)
    shape = (64, 3, 256, 256)
    layers = [conv(BIG, shape, 64), relu(BIG, (64, 64, 256, 256)), conv(BIG, (64, 64, 256, 256), 3)]
    for _ in range(7):
        normal = Op("aten::normal_", (shape,), rest=("0.", "1.", ""), cpu=34_000)
        script.run(Op("aten::randn_like", (shape,), (Op("aten::empty_like", (shape,)), normal)))
        script.to_device(shape)
        script.forward(layers, grad=False)
        script.item()
    return script.finish()


@program("long CPU work", "A service that cuts each text into tokens in Python for longer than the model works")
def cuts_texts_into_tokens() -> TraceBuilder:
    script = Script(HOPPER, seed=92, speed=150, options=("record_shapes", "with_stack"))
    layers = [embedding(HOPPER, 30522, 8192, 768), *transformer(HOPPER, 512, 768, 6, "c10::Half", batch=16)]
    host = script.host
    with host.frame("serve.py(71): <module>"), host.frame("serve.py(40): answer"):
        for _ in range(8):
            call = host.frame("transformers/tokenization_utils_base.py(2802): __call__", before=60, after=40)
            batch = host.frame("transformers/tokenization_utils.py(771): _batch_encode_plus", before=90, after=120)
            with call, batch:
                for _ in range(16):
                    with host.frame("transformers/tokenization_utils.py(628): tokenize"):
                        host.work(1_650)
            script.to_device((16, 512), "long int")
            with host.frame("nn.Module: BertModel_0", module=0):
                script.forward(layers, grad=False)
            script.to_host((16, 768), "c10::Half")
    return script.finish()


@program(
    "long CPU work", "An optimizer that was offloaded: gradients go to the CPU, Adam runs there, weights come back"
)
def optimizer_on_the_cpu() -> TraceBuilder:
    script = Script(DESKTOP, seed=93, speed=150)
    sizes = (2048, 4096, 4096, 1000)
    layers = []
    for k, n in pairwise(sizes):
        layers += [linear(DESKTOP, 1024, k, n), relu(DESKTOP, (1024, n))]
    layers = [*layers[:-1], cross_entropy(DESKTOP, 1024, 1000)]
    parameters = [shape for layer in layers for shape in layer.parameters]
    for _ in range(4):
        script.to_device((1024, 2048))
        script.forward(layers)
        script.backward()
        for shape in parameters:
            script.to_host(shape)
        with script.host.annotation("Optimizer.step#Adam.step", 80, 20):
            for shape in parameters:
                for name in _ADAM:
                    script.run(Op(name, (shape, shape), cpu=max(4, prod(shape) // 5_500)))
        for shape in parameters:
            script.to_device(shape)
        script.host.work(90)
    return script.finish()


@program("long CPU work", "Images are resized and normalized by operators of the CPU in front of each pass")
def resizes_images_on_the_cpu() -> TraceBuilder:
    script = Script(T4, seed=94, speed=200)
    layers = convnet(T4, 16, 6, side=112, width=32, training=False)
    source, image = (16, 3, 720, 1280), (16, 3, 112, 112)
    for _ in range(9):
        script.run(
            Op(
                "aten::to",
                (source,),
                (
                    Op(
                        "aten::_to_copy",
                        (source,),
                        (Op("aten::copy_", (source, source), cpu=4_100, types=("float", "unsigned char")),),
                    ),
                ),
                ("unsigned char",),
            )
        )
        script.run(Op("aten::_upsample_bilinear2d_aa", (source,), cpu=9_300, rest=("[112, 112]", "False", "", "")))
        script.run(Op("aten::sub", (image, (3, 1, 1)), cpu=160, rest=("1",)))
        script.run(Op("aten::div", (image, (3, 1, 1)), cpu=150))
        script.to_device(image)
        script.forward(layers, grad=False)
        script.to_host((16, 10))
        script.host.work(35)
    return script.finish()


@program("synchronized", "One forward and backward pass; the GPU needs longer, and the program waits for it at the end")
def waits_for_a_busy_gpu() -> TraceBuilder:
    script = Script(HOPPER, seed=95, speed=170)
    layers = transformer(HOPPER, 2048, 2048, 6, "c10::BFloat16", batch=8)
    script.forward(layers)
    script.backward()
    script.synchronize()
    return script.finish()


@program("synchronized", "Four forward and backward passes of a tiny batch: the wait at the end is over at once")
def waits_hardly_at_all() -> TraceBuilder:
    script = Script(HOPPER, seed=96, speed=230)
    layers = transformer(HOPPER, 16, 512, 6, "c10::BFloat16")
    for _ in range(4):
        script.forward(layers)
        script.backward()
        script.synchronize()
        script.host.work(35)
    return script.finish()


@program("synchronized", "Three forward and backward passes that mostly move data; the program waits after each")
def waits_for_memory() -> TraceBuilder:
    script = Script(DESKTOP, seed=97, speed=170)
    layers = convnet(DESKTOP, 256, 6, side=112, width=12)
    for _ in range(3):
        script.forward(layers)
        script.backward()
        script.synchronize()
        script.host.work(25)
    return script.finish()
