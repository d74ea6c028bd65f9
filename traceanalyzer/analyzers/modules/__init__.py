"""Which nn.Module costs most, in the forward and in the backward pass?

With stacks, the profiler records every call of an nn.Module. What a call launches belongs to the innermost module
around it. The backward pass runs elsewhere, by autograd; it belongs to the module whose forward pass made it
necessary. What cannot be attributed is counted.
"""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.analyzers.modules.figures import ModuleTotals, Paths, totals
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.sums import group, sum_by
from traceanalyzer.trace.tree import NO_PARENT

_PREFIX = "nn.Module: "
_NUMBER = re.compile(r"_\d+$")


class ModuleTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of calls of modules; as keywords they follow the fields with which a row begins."""

    operators: int
    """Number of operators that the forward pass calls directly, in all calls."""
    host_self_ns: int
    """Duration of the calls in ns, without the operators, modules and runtime calls inside."""
    host_total_ns: int
    """Duration of the calls in ns."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""
    backward_functions: int
    """Number of functions that autograd evaluated for operators of the module itself."""
    backward_host_self_ns: int
    """Duration in ns of these evaluations, without the modules inside."""
    backward_host_total_ns: int
    """Duration in ns of the evaluations for the module and the modules inside."""
    backward_device_self_ns: int
    """Device time in ns of what these evaluations launched, each in full, without the modules inside."""
    backward_device_total_ns: int
    """Device time in ns of what the evaluations launched, each in full, with the modules inside."""


class Module(ModuleTimes, frozen=True):
    """All calls of one module. Totals of a module that calls itself count twice."""

    name: str
    """Class and number of the module as the profiler names it, `Conv2d_0`."""
    module_id: int
    """Number that the profiler gave this module, which distinguishes it from others of its name."""
    calls: int
    """Number of forward calls."""


class ModuleClass(ModuleTimes, frozen=True):
    """All modules of one class. Totals of modules inside a module of the same class count twice."""

    name: str
    """Name of the class: the name of the modules without their numbers."""
    modules: int
    """Number of modules of this class that were called, or evaluated by autograd."""
    calls: int
    """Number of forward calls."""


class Place(ModuleTimes, frozen=True):
    """A module as called from one place in the tree of modules."""

    name: str
    """Class and number of the module as the profiler names it, `Conv2d_0`."""
    module_id: int
    """Number that the profiler gave this module, which distinguishes it from others of its name."""
    parent: int | None
    """Position in the tree of the place around it; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    calls: int
    """Number of forward calls from this place."""


class Unattributed(msgspec.Struct, frozen=True):
    """Evaluations of autograd that belong to no module."""

    functions: int
    """Number of functions that autograd evaluated."""
    host_ns: int
    """Duration of these evaluations on the host in ns."""
    device_ns: int
    """Device time in ns of what these evaluations launched."""


class Modules(msgspec.Struct, frozen=True):
    """Cost of modules in the forward and in the backward pass."""

    rows: tuple[Module, ...]
    """One row per module, the most device self time of both passes first (host self time without a device)."""
    classes: tuple[ModuleClass, ...]
    """One row per class of modules, in the same order."""
    tree: tuple[Place, ...]
    """Modules by the place from which they are called: parents before their children, siblings in the order of their
    first call."""
    device_ns: int
    """Sum of the durations of everything on devices, in ns."""
    outside_device_ns: int
    """Part of the device time in ns that was launched outside of modules and of autograd, or whose launch is not in the
    trace."""
    backward_outside: Unattributed
    """Evaluations of autograd for operators that lie in no module, such as a loss function."""
    backward_unlinked: Unattributed
    """Evaluations of autograd whose operator in the forward pass is not in the trace, or could be one of several."""


def analyze(context: Context) -> Modules:
    """The modules by name, by class and as a tree."""
    found = context.once(totals)
    on_device = bool(len(context.trace.device))
    rows = _by_module(context, found)
    return Modules(
        rows=tuple(sorted(rows, key=lambda row: (*_rank(row, on_device), row.module_id))),
        classes=tuple(sorted(_by_class(rows), key=lambda row: _rank(row, on_device))),
        tree=_tree(context, found),
        device_ns=found.device_ns,
        outside_device_ns=found.outside_device_ns,
        backward_outside=Unattributed(*found.backward_outside),
        backward_unlinked=Unattributed(*found.backward_unlinked),
    )


def _rank(row: Module | ModuleClass, on_device: bool) -> tuple[int, int, str]:
    both = row.device_self_ns + row.backward_device_self_ns if on_device else row.host_self_ns
    return (-both, -row.host_self_ns, row.name)


def _figures(values: list[int]) -> dict[str, int]:
    """The number of calls and all times of a row by their names."""
    return dict(zip(("calls", *ModuleTimes.__struct_fields__), values, strict=True))


def _by_module(context: Context, found: ModuleTotals) -> list[Module]:
    paths, names = found.paths, _names(context, found.paths)
    first, groups = group(paths.name, paths.module_id)
    columns = [sum_by(groups, column, len(first)) for column in found.figures]
    return [
        Module(names[place], int(paths.module_id[place]), **_figures(values))
        for place, values in zip(first.tolist(), np.column_stack(columns).tolist(), strict=True)
        if any(values)
    ]


def _by_class(rows: list[Module]) -> list[ModuleClass]:
    sums: dict[str, list[int]] = {}
    for row in rows:
        figures = (1, *msgspec.structs.astuple(row)[2:])
        known = sums.setdefault(_NUMBER.sub("", row.name), [0] * len(figures))
        known[:] = [a + b for a, b in zip(known, figures, strict=True)]
    return [ModuleClass(name, modules, **_figures(values)) for name, (modules, *values) in sums.items()]


def _tree(context: Context, found: ModuleTotals) -> tuple[Place, ...]:
    paths, names = found.paths, _names(context, found.paths)
    figures = np.column_stack(found.figures)
    shown = np.flatnonzero(paths.subtree_sums((figures != 0).any(axis=1).astype(np.int64)))
    number = np.full(len(paths) + 1, NO_PARENT, np.int64)
    number[shown] = np.arange(len(shown))
    columns = np.column_stack((shown, paths.module_id[shown], number[paths.parent[shown]], paths.depth[shown]))
    return tuple(
        Place(names[place], module_id, parent if parent >= 0 else None, depth, **_figures(values))
        for (place, module_id, parent, depth), values in zip(columns.tolist(), figures[shown].tolist(), strict=True)
    )


def _names(context: Context, paths: Paths) -> list[str]:
    names = context.trace.names
    return [names[code].removeprefix(_PREFIX) for code in paths.name.tolist()]


_MODULES = Need(
    Text("skip-no-modules", "the trace has no calls of nn.Module: record them with with_stack=True"),
    lambda context: context.once(owners).is_module.any(),
)
ANALYSES = (Analysis(330, "modules", Modules, analyze, needs=(_MODULES,)),)
