"""Work of convolutions: each element of the result sums over the input channels of its group and the window.

Operations are those of a direct convolution for every algorithm. Winograd and FFT do fewer, so their rates may exceed
the peak of the device. Both backward passes do as many operations as the forward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec

from traceanalyzer.knowledge.op_models.call import Call, Family, Tensor, Work, is_complex, read_bytes, size, total


class _Places(msgspec.Struct, frozen=True):
    """Positions of arguments in a signature of ATen/native/native_functions.yaml."""

    stride: int
    padding: int
    dilation: int | None
    bias: int | None = None
    transposed: int | bool = False
    """Position of the flag for transposed convolutions, or the flag itself."""
    output_padding: int | None = None
    groups: int | None = None
    addend: int | None = None


_CONVOLUTION = _Places(3, 4, 5, bias=2, transposed=6, output_padding=7, groups=8)
_CONV_ND = _Places(3, 4, 5, bias=2)
_CUDNN = _Places(3, 2, 4)
_CUDNN_WITH_BIAS = _Places(4, 3, 5, bias=2)
_RELU = _Places(3, 4, 5, bias=2)
_ADD_RELU = _Places(5, 6, 7, bias=4, addend=2)
_SLOW = _Places(4, 5, None, bias=3)
_DEPTHWISE = _Places(4, 5, 6, bias=3)
_CUDNN_TRANSPOSE = _Places(4, 2, 5, transposed=True, output_padding=3, groups=6)
_MIOPEN_TRANSPOSE = _Places(5, 3, 6, bias=2, transposed=True, output_padding=4, groups=7)


def _forward(places: _Places, call: Call) -> Work | None:
    x, weight = call.tensor(0), call.tensor(1)
    transposed = places.transposed if isinstance(places.transposed, bool) else call.flag(places.transposed)
    if x is None or weight is None or transposed is None or len(x.shape) != len(weight.shape) or len(x.shape) < 3:
        return None
    result = _transposed_shape(places, call, x, weight) if transposed else _shape(places, call, x, weight)
    if result is None:
        return None
    elements = math.prod(result)
    flops = _products(x.numel if transposed else elements, weight)
    extra = [call.tensor(p) for p in (places.bias, places.addend) if p is not None]
    flops += elements * sum(tensor is not None for tensor in extra)
    return Work(Family.CONVOLUTION, flops, total(read_bytes((x, weight, *extra)), size(elements, x.dtype)), x.dtype)


def _products(elements: int, weight: Tensor) -> int:
    """Operations of one pass; `elements` is the size of the result, or of the input of a transposed convolution."""
    return (8 if is_complex(weight.dtype) else 2) * elements * math.prod(weight.shape[1:])


def _shape(places: _Places, call: Call, x: Tensor, weight: Tensor) -> tuple[int, ...] | None:
    axes = len(x.shape) - 2
    stride, padding = _axes(call, places.stride, axes), _axes(call, places.padding, axes)
    dilation = (1,) * axes if places.dilation is None else _axes(call, places.dilation, axes)
    if stride is None or padding is None or dilation is None or 0 in stride:
        return None
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    spatial = [(n + 2 * pad - dil * (k - 1) - 1) // step + 1 for n, k, step, pad, dil in sizes]
    return (x.shape[0], weight.shape[0], *spatial) if min(spatial) >= 0 else None


def _transposed_shape(places: _Places, call: Call, x: Tensor, weight: Tensor) -> tuple[int, ...] | None:
    axes = len(x.shape) - 2
    stride = _axes(call, places.stride, axes)
    padding = _axes(call, places.padding, axes)
    dilation = _axes(call, places.dilation, axes)
    output_padding = _axes(call, places.output_padding, axes)
    groups = call.integers(places.groups) if places.groups is not None else None
    if groups is None or stride is None or padding is None or dilation is None or output_padding is None:
        return None
    spatial = []
    for axis in range(axes):
        kernel = dilation[axis] * (weight.shape[2 + axis] - 1)
        steps = (x.shape[2 + axis] - 1) * stride[axis]
        spatial.append(steps - 2 * padding[axis] + kernel + output_padding[axis] + 1)
    return (x.shape[0], weight.shape[1] * groups[0], *spatial) if min(spatial) >= 0 else None


def _axes(call: Call, position: int | None, axes: int) -> tuple[int, ...] | None:
    """Numbers of an argument by axis; a single number applies to all axes."""
    numbers = call.integers(position) if position is not None else None
    if not numbers:
        return None
    return numbers * axes if len(numbers) == 1 else (numbers if len(numbers) == axes else None)


def _cudnn(call: Call) -> Work | None:
    """Work of `cudnn_convolution(x, weight, padding, stride, dilation, ...)`; with bias before padding in torch 1.4."""
    with_bias = call.tensor(2) is not None or call.value(2) == ""
    return _forward(_CUDNN_WITH_BIAS if with_bias else _CUDNN, call)


def _backward(call: Call) -> Work | None:
    """Work of `convolution_backward(grad, x, weight, bias_sizes, ..., transposed, output_padding, groups, mask)`."""
    grad, x, weight = (call.tensor(position) for position in range(3))
    transposed, mask = call.flag(7), call.flags(10)
    if grad is None or x is None or weight is None or transposed is None or mask is None or len(mask) != 3:
        return None
    to_input, to_weight, to_bias = mask
    passes = to_input + to_weight
    flops = passes * _products(x.numel if transposed else grad.numel, weight) + (grad.numel if to_bias else 0)
    read = read_bytes((grad, weight if to_input else None, x if to_weight else None))
    written = [size(x.numel, x.dtype)] * to_input + [size(weight.numel, weight.dtype)] * to_weight
    channels = weight.shape[0] if not transposed else grad.shape[1]
    written += [size(channels, grad.dtype)] * to_bias
    return Work(Family.CONVOLUTION, flops, total(read, *written), grad.dtype)


def _to_input(call: Call) -> Work | None:
    """Work of `cudnn_convolution_backward_input(input_size, grad, weight, ...)` of torch up to 1.10."""
    grad, weight = call.tensor(1), call.tensor(2)
    if grad is None or weight is None or len(weight.shape) < 3:
        return None
    shape = call.integers(0)
    written = size(math.prod(shape), grad.dtype) if shape else None
    moved = total(read_bytes((grad, weight)), written)
    return Work(Family.CONVOLUTION, _products(grad.numel, weight), moved, grad.dtype)


def _to_weight(call: Call) -> Work | None:
    """Work of `cudnn_convolution_backward_weight(weight_size, grad, x, ...)` of torch up to 1.10."""
    shape, grad, x = call.integers(0), call.tensor(1), call.tensor(2)
    if grad is None or x is None or not shape or len(shape) < 3:
        return None
    weight = Tensor(shape, grad.dtype, math.prod(shape))
    moved = total(read_bytes((grad, x)), weight.bytes)
    return Work(Family.CONVOLUTION, _products(grad.numel, weight), moved, grad.dtype)


MODELS: dict[str, Callable[[Call], Work | None]] = {
    "convolution": partial(_forward, _CONVOLUTION),
    "_convolution": partial(_forward, _CONVOLUTION),
    "convolution_overrideable": partial(_forward, _CONVOLUTION),
    "conv1d": partial(_forward, _CONV_ND),
    "conv2d": partial(_forward, _CONV_ND),
    "conv3d": partial(_forward, _CONV_ND),
    "cudnn_convolution": _cudnn,
    "cudnn_convolution_relu": partial(_forward, _RELU),
    "cudnn_convolution_add_relu": partial(_forward, _ADD_RELU),
    "cudnn_convolution_transpose": partial(_forward, _CUDNN_TRANSPOSE),
    "miopen_convolution": partial(_forward, _CUDNN_WITH_BIAS),
    "miopen_depthwise_convolution": partial(_forward, _CUDNN_WITH_BIAS),
    "miopen_convolution_relu": partial(_forward, _RELU),
    "miopen_convolution_add_relu": partial(_forward, _ADD_RELU),
    "miopen_convolution_transpose": partial(_forward, _MIOPEN_TRANSPOSE),
    "thnn_conv2d": partial(_forward, _SLOW),
    "_slow_conv2d_forward": partial(_forward, _SLOW),
    "slow_conv3d_forward": partial(_forward, _SLOW),
    "_conv_depthwise2d": partial(_forward, _DEPTHWISE),
    "conv_depthwise3d": partial(_forward, _DEPTHWISE),
    "convolution_backward": _backward,
    "cudnn_convolution_backward_input": _to_input,
    "cudnn_convolution_backward_weight": _to_weight,
}
