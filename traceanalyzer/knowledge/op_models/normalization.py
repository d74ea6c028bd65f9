"""Work of normalization: operations per element, and every operand and result once.

Forward 5 per element: the mean (1), the variance (2), scale and shift (2). RMS norm has no mean: 4. With given
statistics: 2. Backward 9 per element: the normalized input (2), two sums (3), and the gradient from both (4); RMS
norm has one sum and no mean: 6. Work per channel or row is left out. All of these are far below the number of
operations that a device computes while it moves the bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from traceanalyzer.knowledge.op_models.call import Call, Family, Work, read_bytes, size, total


def _forward(per_element: int, training: int | None, call: Call) -> Work | None:
    """Forward work; the first argument is normalized.

    Args:
        per_element: Operations per element.
        training: Position of the flag for computing statistics.
        call: The call.
    """
    x = call.tensor(0)
    if x is None or len(x.shape) < 1:
        return None
    if training is not None and call.flag(training) is False:
        per_element = 2
    moved = total(read_bytes(call.tensors), size(x.numel, x.dtype))
    return Work(Family.NORMALIZATION, per_element * x.numel, moved, x.dtype)


def _backward(per_element: int, weight: int, mask: int | None, call: Call) -> Work | None:
    """Backward work; the first two arguments are the gradient and the input, in either order.

    Args:
        per_element: Operations per element.
        weight: Position of the weight.
        mask: Position of the mask of requested gradients.
        call: The call.
    """
    first, second = call.tensor(0), call.tensor(1)
    if first is None or second is None or first.numel != second.numel:
        return None
    wanted = (call.flags(mask) if mask is not None else None) or (True, True, True)
    scale = call.tensor(weight)
    gradients = [] if scale is None else [size(scale.numel, scale.dtype)] * sum(wanted[1:])
    if wanted[0]:
        gradients.append(size(first.numel, first.dtype))
    moved = total(read_bytes(call.tensors), *gradients)
    return Work(Family.NORMALIZATION, per_element * first.numel, moved, first.dtype)


MODELS: dict[str, Callable[[Call], Work | None]] = {
    "layer_norm": partial(_forward, 5, None),
    "native_layer_norm": partial(_forward, 5, None),
    "group_norm": partial(_forward, 5, None),
    "native_group_norm": partial(_forward, 5, None),
    "instance_norm": partial(_forward, 5, 5),
    "batch_norm": partial(_forward, 5, 5),
    "native_batch_norm": partial(_forward, 5, 5),
    "cudnn_batch_norm": partial(_forward, 5, 5),
    "miopen_batch_norm": partial(_forward, 5, 5),
    "_native_batch_norm_legit": partial(_forward, 5, 5),
    "_batch_norm_with_update": partial(_forward, 5, None),
    "rms_norm": partial(_forward, 4, None),
    "_fused_rms_norm": partial(_forward, 4, None),
    "native_layer_norm_backward": partial(_backward, 9, 5, 7),
    "native_group_norm_backward": partial(_backward, 9, 4, 9),
    "native_batch_norm_backward": partial(_backward, 9, 2, 9),
    "cudnn_batch_norm_backward": partial(_backward, 9, 2, None),
    "miopen_batch_norm_backward": partial(_backward, 9, 2, None),
    "batch_norm_backward": partial(_backward, 9, 2, 8),
    "_fused_rms_norm_backward": partial(_backward, 6, 4, 5),
}
