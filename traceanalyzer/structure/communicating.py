"""Which kernels communicate: those of collective libraries, and a program's own.

Serving engines reduce directly over the memory of other GPUs (vLLM's `cross_device_reduce`, PyTorch's symmetric
memory), and exchange the tokens of experts without a library (DeepEP). The step breakdown, which follows the
TensorBoard plugin, does not count them; every other analysis counts them as communication.
"""

from __future__ import annotations

from traceanalyzer.knowledge import kernel_names
from traceanalyzer.structure.step_breakdown import library_collectives
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import Bool
from traceanalyzer.trace.tables import Category


def communication_kernels(trace: Trace) -> Bool:
    """Which device events are kernels that exchange data with other devices, by their metadata or their own name."""
    by_name = trace.names.where(kernel_names.is_communication)[trace.device.name]
    found: Bool = library_collectives(trace) | ((trace.device.category == Category.KERNEL) & by_name)
    return found
