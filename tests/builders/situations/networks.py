"""A small convolutional network in layers, for the kernels of a back end."""

from __future__ import annotations

from .kernels import Kernels
from .layers import Layer, Shape, size

BATCH = 64
CLASSES = 1000
IMAGES: Shape = (BATCH, 3, 96, 96)
_STEM: Shape = (BATCH, 64, 48, 48)
_BODY: Shape = (BATCH, 128, 24, 24)
_POOLED: Shape = (BATCH, 128, 1, 1)
_LOGITS: Shape = (BATCH, CLASSES)


def convnet(kernels: Kernels) -> tuple[Layer, ...]:
    """Two blocks of convolution, batch norm and ReLU, a mean, a linear layer and cross entropy."""
    return (
        *_block(kernels, 0, IMAGES, _STEM, (64, 3, 7, 7), last=True),
        *_block(kernels, 1, _STEM, _BODY, (128, 64, 3, 3), last=False),
        _mean(kernels),
        _linear(kernels),
        *_loss(kernels),
    )


def _block(
    kernels: Kernels, number: int, source: Shape, output: Shape, weight: Shape, *, last: bool
) -> tuple[Layer, ...]:
    """`last` is the block nearest to the images: its input needs no gradient."""
    channels: Shape = (output[1],)
    data = () if last else kernels.conv_data
    return (
        Layer(
            f"Conv2d_{number}",
            ("aten::conv2d", "aten::convolution", "aten::_convolution", kernels.conv_op),
            (source, weight),
            kernels.conv,
            kernels.conv_node,
            (kernels.conv_back_op,),
            (*data, *kernels.conv_weight),
            output,
            parameters=(weight,),
            back_shapes=(output, source, weight),
            clears=size(weight),
        ),
        Layer(
            f"BatchNorm2d_{number}",
            ("aten::batch_norm", "aten::_batch_norm_impl_index", kernels.norm_op),
            (output, channels, channels),
            (kernels.norm,),
            kernels.norm_node,
            (kernels.norm_back_op,),
            (kernels.norm_back,),
            output,
            parameters=(channels, channels),
        ),
        Layer(
            f"ReLU_{number}",
            ("aten::relu", "aten::clamp_min"),
            (output,),
            (kernels.relu,),
            "ReluBackward0",
            ("aten::threshold_backward",),
            (kernels.relu_back,),
            output,
        ),
    )


def _mean(kernels: Kernels) -> Layer:
    return Layer(
        "AdaptiveAvgPool2d_0",
        ("aten::adaptive_avg_pool2d", "aten::mean"),
        (_BODY,),
        (kernels.mean,),
        "MeanBackward1",
        ("aten::div",),
        (kernels.mean_back,),
        _POOLED,
    )


def _linear(kernels: Kernels) -> Layer:
    return Layer(
        "Linear_0",
        ("aten::linear", "aten::addmm"),
        ((CLASSES,), (BATCH, 128), (128, CLASSES)),
        (kernels.linear,),
        "AddmmBackward0",
        ("aten::mm",),
        kernels.linear_back,
        _LOGITS,
        parameters=((CLASSES, 128), (CLASSES,)),
        back_shapes=(_LOGITS, (CLASSES, 128)),
    )


def _loss(kernels: Kernels) -> tuple[Layer, ...]:
    return (
        Layer(
            "CrossEntropyLoss_0",
            ("aten::log_softmax", "aten::_log_softmax"),
            (_LOGITS,),
            (kernels.loss[0],),
            "LogSoftmaxBackward0",
            ("aten::_log_softmax_backward_data",),
            (kernels.loss_back[1],),
            _LOGITS,
        ),
        Layer(
            "",
            ("aten::nll_loss_nd", "aten::nll_loss", "aten::nll_loss_forward"),
            (_LOGITS, (BATCH,), ()),
            (kernels.loss[1],),
            "NllLossBackward0",
            ("aten::nll_loss_backward",),
            (kernels.loss_back[0],),
            (),
            types=("float", "long int", ""),
        ),
    )
