"""How much of the device's time do operators explain, and modules, and names?

A launch of a CUDA or HIP graph starts many kernels at once, so the operator around it explains none of them. If little
is explained, tables of operators cover only a small part of the device time, and say so.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.graph_events import graph_labels, of_graphs
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import forward_nodes, owners
from traceanalyzer.trace.table import Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT


class Attribution(msgspec.Struct, frozen=True):
    """Device time that operators, modules and names explain; for chosen steps, of the events that start in them."""

    device_ns: int
    """Sum of the durations in ns of all kernels, copies and fills, overlap counted twice."""
    operator_ns: int
    """Part of the device time in ns that an operator launched kernel by kernel, not by the launch of a graph."""
    operator_share: float | None
    """Share of the device time (0 to 1) that an operator launched; null if the device time is 0."""
    module_ns: int | None
    """Part of the device time in ns that was launched, kernel by kernel, for a module: in its call, or in the backward
    pass of one, or by a graph whose kernels the program labelled; null where no modules were recorded."""
    module_share: float | None
    """Share of the device time (0 to 1) that was launched for a module; null where no modules were recorded, or if the
    device time is 0."""
    class_ns: int
    """Part of the device time in ns that is copies, fills, and kernels of a known class: not `other`, not `triton`."""
    class_share: float | None
    """Share of the device time (0 to 1) that is of a known class; null if the device time is 0."""
    graph_ns: int
    """Part of the device time in ns that launches of graphs started."""


def analyze(context: Context) -> Attribution:
    """Sum up the device time that operators, modules and names explain."""
    device = context.trace.device
    counted = device_events_in_scope(context)

    def time(rows: Bool) -> int:
        return int(device.dur_ns[rows & counted].sum())

    def share(part: int | None) -> float | None:
        return None if part is None or not total else part / total

    total = time(np.ones(len(device), np.bool_))
    operators = time(of_operators(context))
    classes = time(_of_classes(context))
    has_modules = bool((context.host.kind == NodeKind.MODULE).any() or context.cached(graph_labels).of_event.any())
    modules = time(_of_modules(context)) if has_modules else None
    return Attribution(
        device_ns=total,
        operator_ns=operators,
        operator_share=share(operators),
        module_ns=modules,
        module_share=share(modules),
        class_ns=classes,
        class_share=share(classes),
        graph_ns=time(context.cached(of_graphs)),
    )


def of_operators(context: Context) -> Bool:
    """Which device events an operator launched one by one, not as nodes of a graph."""
    operator = context.host.tree.nearest(context.host.is_row)
    by_operator = take_or(operator, context.links.device_node(), NO_PARENT) != NO_PARENT
    is_attributed: Bool = by_operator & ~context.cached(of_graphs)
    return is_attributed


def _of_modules(context: Context) -> Bool:
    owned = context.cached(owners)
    evaluations, forward = forward_nodes(context)
    made_by = np.arange(len(context.host.tree))
    made_by[evaluations] = forward
    owner = take_or(owned.owner, take_or(owned.launch_node, context.links.launch, NO_PARENT), NO_PARENT)
    module = take_or(owned.module, take_or(made_by, owner, NO_PARENT), NO_PARENT)
    labelled = context.cached(graph_labels).of_event > 0
    is_attributed: Bool = labelled | ((module != NO_PARENT) & ~context.cached(of_graphs))
    return is_attributed


def _of_classes(context: Context) -> Bool:
    device = context.trace.device
    known = context.trace.names.where(_has_class)[device.name]
    is_attributed: Bool = (device.category != Category.KERNEL) | (device.collective > 0) | known
    return is_attributed


def _has_class(kernel: str) -> bool:
    return kernel_class(kernel) not in (KernelClass.OTHER, KernelClass.TRITON)


_DEVICE_TIME = Need(
    Text("skip-attribution-no-device", "the trace has no device events"),
    lambda context: len(context.trace.device) > 0,
)
ANALYSES = (Analysis(90, "attribution", Attribution, analyze, needs=(_DEVICE_TIME,)),)
