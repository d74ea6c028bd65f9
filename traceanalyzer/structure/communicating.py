"""Which kernels communicate: those of collective libraries, and a program's own.

Serving engines reduce directly over the memory of other GPUs (vLLM's `cross_device_reduce`, PyTorch's symmetric
memory), and exchange the tokens of experts without a library (DeepEP). The step breakdown, which follows the
TensorBoard plugin, does not count them; every other analysis counts them as communication.
"""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge import kernel_names
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.step_breakdown import library_collectives
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

HOST_NAMES = ("nccl:", "gloo:", "xccl:", "hccl:", "ucc:", "mpi:", "c10d::", "_c10d_functional::", "c10d_functional::")
"""Prefixes of host events that are named after a collective."""


def communication_kernels(trace: Trace) -> Bool:
    """Which device events are kernels that exchange data with other devices, by their metadata or their own name."""
    by_name = trace.names.where(kernel_names.is_communication)[trace.device.name]
    found: Bool = library_collectives(trace) | ((trace.device.category == Category.KERNEL) & by_name)
    return found


def kernels_of_collectives(context: Context) -> Bool:
    """Which device events are collective kernels that start in the chosen steps (anywhere without a choice)."""
    device = context.trace.device
    found: Bool = communication_kernels(context.trace) & context.in_scope(device.start_ns)
    return found


def described_by(context: Context, kernels: I64) -> tuple[I64, I64]:
    """For each kernel, the row of its collective (0: none) and the code of the host name that names it (-1: none).

    The kernel's own metadata have priority over those of the innermost host event around its launch that has any.
    """
    trace, host = context.trace, context.host
    tells = trace.names.where(lambda name: name.startswith(HOST_NAMES))
    described = trace.device.collective[kernels].astype(np.int64)
    node = context.links.device_node()[kernels]
    row = np.where(host.category == Category.FRAME, UNKNOWN, host.row)  # these rows are of the other table
    own = entries(trace.host.collective, row, 0)
    described_by = entries(host.tree.nearest(own > 0), node, NO_PARENT)
    named_by = entries(host.tree.nearest(tells[host.name]), node, NO_PARENT)
    described = np.where(described > 0, described, entries(own, described_by, 0))
    return described, entries(host.name, named_by, -1).astype(np.int64)


def times_of(context: Context, rows: Bool) -> tuple[Intervals, Intervals]:
    """Times of the kernels of collectives, and of all other kernels, among some device events."""
    device, communicates = context.trace.device, communication_kernels(context.trace)
    end = device.end_ns
    counted = rows & (device.category == Category.KERNEL) & context.in_scope(device.start_ns)
    both = [counted & communicates, counted & ~communicates]
    communication, computation = (Intervals.union(device.start_ns[part], end[part]) for part in both)
    return communication, computation
