"""Device times that are spans between events on a stream, in which the device may do nothing.

Until torch 1.8 the profiler recorded a CUDA event before and after each operator (`use_cuda=True`), and
`torch.utils.bottleneck` still does. While the host is too slow, the device waits between these events, so that the sum
of the spans is about the host's time. Only if it is much larger, the device is what takes longer.
"""

from __future__ import annotations

from traceanalyzer.analyzers.tables.grouping import RunView
from traceanalyzer.analyzers.tables.kinds import RowKind

_DEVICE = "CUDA"
"""The only device with such times; on others, a linear layer may be an operator that launches its own kernel."""
_ABOUT = 1.25
"""Own choice: by what spans and host time differ at most where the device may only have waited for the host."""
_WITHOUT_KERNELS = """
_batch_norm_impl_index _convolution batch_norm contiguous conv1d conv2d conv3d convolution empty empty_like
empty_strided is_nonzero item layer_norm linear matmul ones permute rand randn reshape result_type t to transpose zeros
"""
_LAUNCH_NOTHING = frozenset(_WITHOUT_KERNELS.split())
"""Operators that launch no kernels themselves, so that the time of kernels is never their own."""


def hide_the_hosts_time(view: RunView, cpu: int | None, device: int | None) -> bool:
    """Whether the device times are such spans, and their sum is not much more than the host's time.

    Args:
        view: The rows of one run.
        cpu: Sum of self CPU times in ns.
        device: Sum of self device times in ns.
    """
    if not cpu or not device or not cpu <= _ABOUT * device <= _ABOUT**2 * cpu:
        return False
    rows = view.by_name
    if any(table.device != _DEVICE for table in view.tables) or any(
        kind in (RowKind.KERNEL, RowKind.COPY) for _, kind in rows
    ):
        return False
    return any(row.self_device_ns and row.name.removeprefix("aten::") in _LAUNCH_NOTHING for row, _ in rows)
