"""The network of `examples/planted_faults.py` in layers, as a V100 runs it in float32 or in float16."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from math import prod

from ..timeline import Work
from .kernels import VOLTA, Kernels
from .layers import Layer, Shape

CLASSES = 10
WHOLE = 128
"""Samples of a batch; durations in `kernels` are for so many."""
_BYTES_PER_US = 630_000
"""70 % of the 900 GB/s of a V100's memory: what kernels that do little else than read and write reach."""
_HALF_CONV = Work(
    "volta_fp16_s884cudnn_fp16_128x128_ldg8_relu_exp_small_nhwc_tn_v1", 1, (256, 1, 1), (256, 1, 1), 110, 49_152, 25
)
_HALF_GEMM = Work("volta_fp16_s884gemm_fp16_64x64_ldg8_f2f_tn", 6, (2, 1, 1), (128, 1, 1), 80, 16_384, 12)
HALF = replace(
    VOLTA,
    conv=(_HALF_CONV,),
    conv_data=(replace(_HALF_CONV, name=_HALF_CONV.name.replace("relu", "dgrad")),),
    conv_weight=(replace(_HALF_CONV, name=_HALF_CONV.name.replace("relu", "wgrad")),),
    linear=_HALF_GEMM,
    linear_back=(_HALF_GEMM, _HALF_GEMM),
)
"""What runs under autocast: products on tensor cores."""


def images(samples: int) -> Shape:
    """The shape of a batch."""
    return (samples, 3, 32, 32)


def planted_network(samples: int, *, half: bool) -> tuple[Layer, ...]:
    """Three blocks of convolution, batch norm and ReLU with pooling between, a mean and a linear layer, and the loss.

    Args:
        samples: Of the batch; kernels take so much less for a smaller one.
        half: With products in float16.
    """
    kernels, factor = (HALF, Decimal("0.4")) if half else (VOLTA, Decimal(1))
    scale, logits = Decimal(samples) / WHOLE, (samples, CLASSES)
    sizes = ((3, 32, 32, "61.4"), (32, 64, 16, "148.2"), (64, 128, 8, "139.7"))
    layers: list[Layer] = []
    for number, (inputs, outputs, side, dur) in enumerate(sizes):
        source, output = (samples, inputs, side, side), (samples, outputs, side, side)
        products = Decimal(dur) * scale * factor
        layers += _block(kernels, number, source, output, products)
        if number < 2:
            pooled = (samples, outputs, side // 2, side // 2)
            layers.append(_simple(f"MaxPool2d_{number}", _POOL, output, pooled, kernels.relu, _pass(output)))
    tail = layers[-1].output
    layers.append(_simple("AdaptiveAvgPool2d_0", _MEAN, tail, (samples, tail[1], 1, 1), kernels.mean, Decimal(5)))
    layers.append(
        Layer(
            "Linear_0",
            ("aten::linear", "aten::addmm"),
            ((CLASSES,), (samples, 128), (128, CLASSES)),
            (replace(kernels.linear, dur=5),),
            "AddmmBackward0",
            ("aten::mm",),
            tuple(replace(work, dur=5) for work in kernels.linear_back),
            logits,
            parameters=((CLASSES, 128), (CLASSES,)),
            back_shapes=(logits, (CLASSES, 128)),
        )
    )
    return (*layers, *_loss(kernels, logits))


_POOL = ("aten::max_pool2d", "aten::max_pool2d_with_indices", "MaxPool2DWithIndicesBackward0")
_MEAN = ("aten::adaptive_avg_pool2d", "aten::mean", "MeanBackward1")
_RELU = ("aten::relu", "aten::clamp_min", "ReluBackward0")


def _block(kernels: Kernels, number: int, source: Shape, output: Shape, products: Decimal) -> tuple[Layer, ...]:
    weight, channels = (output[1], source[1], 3, 3), (output[1],)
    data = _in(kernels.conv_data, products) if number else ()
    return (
        Layer(
            f"Conv2d_{number}",
            ("aten::conv2d", "aten::convolution", "aten::_convolution", kernels.conv_op),
            (source, weight),
            _in(kernels.conv, products),
            kernels.conv_node,
            (kernels.conv_back_op,),
            (*data, *_in(kernels.conv_weight, products)),
            output,
            parameters=(weight,),
            back_shapes=(output, source, weight),
        ),
        Layer(
            f"BatchNorm2d_{number}",
            ("aten::batch_norm", "aten::_batch_norm_impl_index", kernels.norm_op),
            (output, channels, channels),
            _in((kernels.norm,), 2 * _pass(output)),
            kernels.norm_node,
            (kernels.norm_back_op,),
            _in((kernels.norm_back,), 3 * _pass(output)),
            output,
            parameters=(channels, channels),
        ),
        _simple(f"ReLU_{number}", _RELU, output, output, kernels.relu, 3 * _pass(output)),
    )


def _simple(module: str, names: tuple[str, str, str], source: Shape, output: Shape, work: Work, dur: Decimal) -> Layer:
    """A layer without parameters that one kernel computes; `names` are its operators and its backward node."""
    outer, inner, node = names
    kernels = _in((work,), dur)
    return Layer(module, (outer, inner), (source,), kernels, node, (f"{inner}_backward",), kernels, output)


def _loss(kernels: Kernels, logits: Shape) -> tuple[Layer, ...]:
    return (
        Layer(
            "CrossEntropyLoss_0",
            ("aten::log_softmax", "aten::_log_softmax"),
            (logits,),
            (kernels.loss[0],),
            "LogSoftmaxBackward0",
            ("aten::_log_softmax_backward_data",),
            (kernels.loss_back[1],),
            logits,
        ),
        Layer(
            "",
            ("aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward"),
            (logits, logits[:1], ()),
            (kernels.loss[1],),
            "NllLossBackward0",
            ("aten::nll_loss_backward",),
            (kernels.loss_back[0],),
            (),
            types=("float", "long int", ""),
        ),
    )


def _pass(shape: Shape) -> Decimal:
    """Microseconds for reading or writing a tensor of float32 once."""
    return Decimal(4 * prod(shape)) / _BYTES_PER_US


def _in(works: Sequence[Work], dur: Decimal) -> tuple[Work, ...]:
    """The same kernels with another duration, in microseconds."""
    return tuple(replace(work, dur=round(dur, 1)) for work in works)
