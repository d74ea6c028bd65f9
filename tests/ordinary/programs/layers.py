"""Layers of ordinary networks: the operators of a pass, those inside them, and what these launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tests.builders import Time, Work

from . import cards
from .cards import Card, Shape


@dataclass(frozen=True)
class Op:
    """An operator with what it does inside."""

    name: str
    shapes: tuple[Shape, ...] = ()
    parts: tuple[Op | Work, ...] = ()
    types: tuple[str, ...] = ()
    """Of its tensors; the last one counts for all that follow. None: float."""
    rest: tuple[str, ...] = ()
    """Its other arguments."""
    cpu: Time = 0
    """What it computes on the CPU itself."""


@dataclass(frozen=True)
class Layer:
    """A layer; one without a `node` has no backward pass."""

    name: str
    forward: tuple[Op, ...]
    node: str = ""
    backward: tuple[Op, ...] = ()
    parameters: tuple[Shape, ...] = ()


def empty(shape: Shape, dtype: str = "float") -> Op:
    """What takes memory for a result."""
    return Op("aten::empty", ((),), types=("",), rest=(str(list(shape)), "6", "0", "0"))


def linear(card: Card, m: int, k: int, n: int, dtype: str = "float") -> Layer:
    """A product with weights of n x k and a bias."""
    types = (dtype,)
    view = Op("aten::t", ((n, k),), (Op("aten::transpose", ((n, k),), types=types, rest=("0", "1")),), types)
    addmm = Op("aten::addmm", ((n,), (m, k), (k, n)), (card.product(m, n, k, dtype),), types, ("1", "1"))
    total = Op(
        "aten::sum", ((m, n),), (card.moving(cards.SUM, (m, n), passes=1, dtype=dtype),), types, ("[0]", "True", "")
    )
    back = (
        Op("aten::mm", ((m, n), (n, k)), (card.product(m, k, n, dtype, "nn"),), types),
        Op("aten::mm", ((n, m), (m, k)), (card.product(n, k, m, dtype, "nt"),), types),
        total,
    )
    forward = Op("aten::linear", ((m, k), (n, k), (n,)), (view, addmm), types)
    return Layer("Linear", (forward,), "AddmmBackward0", back, ((n, k), (n,)))


def conv(card: Card, image: Shape, out: int, size: int = 3, stride: int = 1) -> Layer:
    """A convolution with padding, without a bias."""
    n, c, h, w = image
    kernel, result = (out, c, size, size), (n, out, h // stride, w // stride)
    pad = str([size // 2] * 2)
    rest = ("", str([stride] * 2), pad, "[1, 1]", "1")
    inner = ("", str([stride] * 2), pad, "[1, 1]", "False", "[0, 0]", "1")
    cudnn = Op("aten::cudnn_convolution", (image, kernel), (card.convolve(image, kernel, result),), rest=inner)
    nest = Op(
        "aten::convolution",
        (image, kernel),
        (Op("aten::_convolution", (image, kernel), (cudnn,), rest=inner),),
        rest=inner,
    )
    works = (card.convolve(image, kernel, result, "dgrad"), card.convolve(image, kernel, result, "wgrad"))
    back = Op("aten::convolution_backward", (result, image, kernel), works, rest=inner)
    forward = Op("aten::conv2d", (image, kernel), (nest,), rest=rest)
    return Layer("Conv2d", (forward,), "ConvolutionBackward0", (back,), (kernel,))


def batch_norm(card: Card, image: Shape, *, training: bool = True) -> Layer:
    """Batch normalization that counts, or one of `eval()`."""
    c = (image[1],)
    kernel = cards.BN_TRAIN if training else cards.BN_EVAL
    work = card.moving(kernel, image, passes=3 if training else 2, block=512)
    flags = ("True" if training else "False", "0.1", "1e-05")
    inner = Op("aten::cudnn_batch_norm", (image, c, c, c, c), (empty(image), work), rest=flags)
    index = Op("aten::_batch_norm_impl_index", (image, c, c, c, c), (inner,), rest=flags)
    count = Op("aten::add_", ((), ()), (card.pointwise(cards.ADD.format("long"), (1,)),), ("long int", ""), ("1",))
    norm = Op("aten::batch_norm", (image, c, c, c, c), (index,), rest=flags)
    back = Op(
        "aten::cudnn_batch_norm_backward", (image, image, c), (card.moving(cards.BN_BACK, image, passes=5, block=512),)
    )
    forward = (count, norm) if training else (norm,)
    return Layer("BatchNorm2d", forward, "CudnnBatchNormBackward0", (back,), (c, c))


def relu(card: Card, shape: Shape, dtype: str = "float") -> Layer:
    """What cuts off below zero."""
    inner = Op("aten::clamp_min", (shape,), (card.pointwise(cards.CLAMP, shape, dtype=dtype),), (dtype,), ("0",))
    work = card.pointwise(cards.THRESHOLD, shape, tensors=3, dtype=dtype)
    back = Op("aten::threshold_backward", (shape, shape), (work,), (dtype,), ("0",))
    return Layer("ReLU", (Op("aten::relu", (shape,), (inner,), (dtype,)),), "ReluBackward0", (back,))


def gelu(card: Card, shape: Shape, dtype: str = "float") -> Layer:
    """A smooth ReLU."""
    op = Op("aten::gelu", (shape,), (card.pointwise(cards.GELU, shape, dtype=dtype),), (dtype,), ("none",))
    work = card.pointwise(cards.GELU_BACK, shape, tensors=3, dtype=dtype)
    return Layer(
        "GELU", (op,), "GeluBackward0", (Op("aten::gelu_backward", (shape, shape), (work,), (dtype,), ("none",)),)
    )


def add(card: Card, shape: Shape, dtype: str = "float") -> Layer:
    """A residual connection, whose backward pass launches nothing."""
    work = card.pointwise(cards.ADD, shape, tensors=3, dtype=dtype)
    return Layer("add", (Op("aten::add", (shape, shape), (work,), (dtype,), ("1",)),), "AddBackward0")


def layer_norm(card: Card, shape: Shape, dtype: str = "float") -> Layer:
    """Layer normalization over the last dimension."""
    last = (shape[-1],)
    work = card.moving(cards.LAYER_NORM.format(dtype), shape, dtype=dtype)
    inner = Op(
        "aten::native_layer_norm", (shape, last, last), (empty(shape), work), (dtype,), (str([shape[-1]]), "1e-05")
    )
    works = (card.moving(cards.LAYER_NORM_BACK.format(dtype), shape, passes=3, dtype=dtype),)
    back = Op("aten::native_layer_norm_backward", (shape, shape, last), works, (dtype,), (str([shape[-1]]),))
    forward = Op("aten::layer_norm", (shape, last, last), (inner,), (dtype,), (str([shape[-1]]), "1e-05", "True"))
    return Layer("LayerNorm", (forward,), "NativeLayerNormBackward0", (back,), (last, last))


def attention(card: Card, shape: Shape, dtype: str) -> Layer:
    """Fused attention on (batch, heads, tokens, 64)."""
    b, h, t, d = shape
    dur = cards.took(4.0 * b * h * t * t * d / card.products[dtype] / 0.7 / 1e6, 6.0)
    kind = {"c10::Half": "half_t", "c10::BFloat16": "bfloat16_t"}[dtype]
    blocks = (max(1, t // 128), b, h)
    work = Work(cards.FLASH.format(kind), dur, blocks, (128, 1, 1), 255, 81_920, 12)
    back = Work(cards.FLASH_BACK.format(kind), cards.took(2.5 * float(dur)), blocks, (256, 1, 1), 255, 147_456, 12)
    rest = ("0.", "False", "", "")
    inner = Op("aten::_flash_attention_forward", (shape,) * 3, (empty(shape), work), (dtype,), rest)
    flash = Op("aten::_scaled_dot_product_flash_attention", (shape,) * 3, (inner,), (dtype,), rest)
    forward = Op("aten::scaled_dot_product_attention", (shape,) * 3, (flash,), (dtype,), ("", *rest))
    node = "ScaledDotProductFlashAttentionBackward0"
    backward = Op("aten::_scaled_dot_product_flash_attention_backward", (shape,) * 5, (back,), (dtype,), rest)
    return Layer("Attention", (forward,), node, (backward,))


def pool(card: Card, image: Shape) -> Layer:
    """The mean of an image."""
    work = card.moving(cards.MEAN, image, passes=1)
    back = Op("aten::div", (image,), (card.pointwise(cards.MUL, image),), rest=("49",))
    forward = Op(
        "aten::adaptive_avg_pool2d",
        (image,),
        (Op("aten::mean", (image,), (work,), rest=("[-1, -2]", "True", "")),),
        rest=("[1, 1]",),
    )
    return Layer("AdaptiveAvgPool2d", (forward,), "MeanBackward1", (back,))


def embedding(card: Card, rows: int, tokens: int, width: int, dtype: str = "float") -> Layer:
    """Rows of a table."""
    work = card.moving(
        cards.ROWS,
        (tokens, width),
    )
    inner = Op("aten::index_select", ((rows, width), (tokens,)), (work,), (dtype, "long int"), ("0",))
    shapes: tuple[Shape, ...] = ((rows, width), (1, tokens))
    back = card.moving(
        cards.ROWS_BACK,
        (tokens, width),
        passes=3,
    )
    dense = Op(
        "aten::embedding_dense_backward",
        ((1, tokens, width), (1, tokens)),
        (back,),
        (dtype, "long int"),
        (str(rows), "-1", "False"),
    )
    forward = Op("aten::embedding", shapes, (inner,), (dtype, "long int"), ("-1", "False", "False"))
    return Layer("Embedding", (forward,), "EmbeddingBackward0", (dense,), ((rows, width),))


def cross_entropy(card: Card, rows: int, classes: int) -> Layer:
    """The loss of a classifier."""
    shape = (rows, classes)
    types = ("float", "long int")
    soft = Op(
        "aten::log_softmax",
        (shape,),
        (Op("aten::_log_softmax", (shape,), (card.moving(cards.SOFTMAX, shape),), rest=("1", "False")),),
        rest=("1", ""),
    )
    works = (Work(cards.NLL, "3.1", (1, 1, 1), (32, 1, 1), 24, 256, 0),)
    inner = Op("aten::nll_loss_forward", (shape, (rows,)), works, types, ("", "1", "-100"))
    nll = Op(
        "aten::nll_loss_nd",
        (shape, (rows,)),
        (Op("aten::nll_loss", (shape, (rows,)), (inner,), types, ("", "1", "-100")),),
        types,
        ("", "1", "-100"),
    )
    back = (
        Op(
            "aten::nll_loss_backward",
            ((), shape, (rows,)),
            (Work(cards.NLL_BACK, "2.9", (1, 1, 1), (32, 1, 1), 18, 0, 0),),
        ),
        Op(
            "aten::_log_softmax_backward_data",
            (shape, shape),
            (card.moving(cards.SOFTMAX_BACK, shape, passes=3),),
            rest=("1", "6"),
        ),
    )
    forward = Op("aten::cross_entropy_loss", (shape, (rows,)), (soft, nll), types, ("", "1", "-100", "0."))
    return Layer("CrossEntropyLoss", (forward,), "LogSoftmaxBackward0", back)


def convnet(
    card: Card, batch: int, blocks: int = 4, *, side: int = 56, width: int = 64, training: bool = True
) -> list[Layer]:
    """Blocks of convolution, normalization and ReLU, then a classifier of ten classes."""
    layers = []
    image = (batch, 3, side, side)
    for number in range(blocks):
        out = width * 2 ** (number // 2)
        stride = 2 if number % 2 == 0 and number else 1
        layers.append(conv(card, image, out, stride=stride))
        image = (batch, out, image[2] // stride, image[3] // stride)
        layers += [batch_norm(card, image, training=training), relu(card, image)]
    return [*layers, pool(card, image), linear(card, batch, image[1], 10)]


def perceptron(card: Card, batch: int, sizes: Sequence[int], dtype: str = "float") -> list[Layer]:
    """Linear layers with ReLU between them."""
    layers = []
    for k, n in pairwise(sizes):
        layers += [linear(card, batch, k, n, dtype), relu(card, (batch, n), dtype)]
    return layers[:-1]


def transformer(card: Card, tokens: int, width: int, blocks: int, dtype: str, *, batch: int = 1) -> list[Layer]:
    """Blocks of attention and a feed-forward part, with normalization before each."""
    layers: list[Layer] = []
    shape, rows = (batch, tokens, width), batch * tokens
    for _ in range(blocks):
        layers += [layer_norm(card, shape, dtype), linear(card, rows, width, 3 * width, dtype)]
        layers += [attention(card, (batch, width // 64, tokens, 64), dtype), linear(card, rows, width, width, dtype)]
        layers += [add(card, shape, dtype), layer_norm(card, shape, dtype), linear(card, rows, width, 4 * width, dtype)]
        layers += [gelu(card, (*shape[:2], 4 * width), dtype), linear(card, rows, 4 * width, width, dtype)]
        layers.append(add(card, shape, dtype))
    return layers


def elements(layers: Sequence[Layer]) -> int:
    """How many parameters layers have."""
    return sum(prod(shape) for layer in layers for shape in layer.parameters)
