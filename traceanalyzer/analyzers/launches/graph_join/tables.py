"""Where does the time of graphs go: which operators, inputs, modules and lines launched their kernels in the capture?

The figures of `operators`, `modules` and `python_lines`, of the joined trace. A call counts once for each launch of its
graph. Times on the host are left out: in a replay the host does not run these calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from traceanalyzer.analyzers import modules, operators
from traceanalyzer.analyzers.modules import python_lines
from traceanalyzer.structure.context import Context

T = TypeVar("T", bound=msgspec.Struct)
R = TypeVar("R", operators.Operator, operators.OperatorByShape, modules.Module, modules.ModuleClass, python_lines.Line)


class JoinedOperator(msgspec.Struct, frozen=True):
    """All calls of one operator in captured graphs, once for each launch of their graph."""

    name: str
    """Name of the operator in the capture."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of its own kernels, copies and fills in all replays, each in full."""
    device_total_ns: int
    """Device time in ns of its own and of those of the operators that it calls, each in full."""


class JoinedOperatorByShape(msgspec.Struct, frozen=True):
    """All calls of one operator in captured graphs with the same input shapes and types."""

    name: str
    """Name of the operator in the capture."""
    input_shapes: str
    """Input shapes in the capture, as JSON; empty where they were not recorded."""
    input_types: str
    """Input types in the capture, as JSON; empty where they were not recorded."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of its own kernels, copies and fills in all replays, each in full."""
    device_total_ns: int
    """Device time in ns of its own and of those of the operators that it calls, each in full."""


class JoinedOperators(msgspec.Struct, frozen=True):
    """Operators of captured graphs by name."""

    rows: tuple[JoinedOperator, ...]
    """One row per operator that put something on the device, the most device self time first."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    unattributed_ns: int
    """Part of it in ns that no operator of the capture launched."""


class JoinedOperatorsByShape(msgspec.Struct, frozen=True):
    """Operators of captured graphs by name, input shapes and input types."""

    rows: tuple[JoinedOperatorByShape, ...]
    """One row per operator, input shapes and input types, in the same order as by name."""


class JoinedModule(msgspec.Struct, frozen=True):
    """All calls of one module, or of all modules of a class, in captured graphs."""

    name: str
    """Class and number of the module as the profiler names it, `Linear_0`; of a class without the number."""
    calls: int
    """Number of forward calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedPlace(msgspec.Struct, frozen=True):
    """All calls of one module in captured graphs from the same place."""

    name: str
    """Class and number of the module as the profiler names it."""
    parent: int | None
    """Row of the place around this one; null at the top."""
    depth: int
    """Number of places around this one; 0 at the top."""
    calls: int
    """Number of forward calls from this place, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of what the calls launched, each in full, without the modules inside."""
    device_total_ns: int
    """Device time in ns of what the calls launched, each in full, with the modules inside."""


class JoinedModules(msgspec.Struct, frozen=True):
    """Modules of captured graphs."""

    rows: tuple[JoinedModule, ...]
    """One row per module, the most device self time first."""
    classes: tuple[JoinedModule, ...]
    """One row per class of modules, in the same order."""
    tree: tuple[JoinedPlace, ...]
    """Modules by the place from which they are called: parents before their children."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    outside_device_ns: int
    """Part of it in ns that was launched outside of modules."""


class JoinedLine(msgspec.Struct, frozen=True):
    """All calls of one Python function in captured graphs."""

    name: str
    """The line as recorded, `file.py(123): function`."""
    calls: int
    """Number of calls, once for each launch of the graph."""
    device_self_ns: int
    """Device time in ns of the work launched while the function was the innermost one, each in full."""
    device_total_ns: int
    """Device time in ns of the work launched anywhere within its calls; each launch counts once."""


class JoinedLines(msgspec.Struct, frozen=True):
    """Lines of Python that launched what graphs replay."""

    rows: tuple[JoinedLine, ...]
    """Every line that launched something, the most device self time first."""
    rows_outside_torch: tuple[JoinedLine, ...]
    """Lines outside of the package torch: what torch's own functions launch belongs to the line that called them."""
    device_ns: int
    """Device time in ns of everything that was joined."""
    unattributed_device_ns: int
    """Part of it in ns that no recorded line launched."""


def _shown(kind: type[T], rows: Iterable[msgspec.Struct]) -> tuple[T, ...]:
    """Rows with the fields of a kind, made of rows that have more fields."""
    fields = kind.__struct_fields__
    return tuple(kind(*(getattr(row, field) for field in fields)) for row in rows)


def _launching(rows: Iterable[R]) -> Iterator[R]:
    """The rows that have device time."""
    return (row for row in rows if row.device_total_ns)


def by_name(context: Context) -> JoinedOperators:
    """The operators of a joined trace."""
    rows = _shown(JoinedOperator, _launching(operators.by_name(context).rows))
    whole = int(context.trace.device.dur_ns.sum())
    return JoinedOperators(rows, whole, whole - sum(row.device_self_ns for row in rows))


def by_shape(context: Context) -> JoinedOperatorsByShape:
    """The operators of a joined trace by their inputs."""
    return JoinedOperatorsByShape(_shown(JoinedOperatorByShape, _launching(operators.by_shape(context).rows)))


def by_module(context: Context) -> JoinedModules:
    """The modules of a joined trace."""
    found = modules.analyze(context)
    return JoinedModules(
        rows=_shown(JoinedModule, _launching(found.rows)),
        classes=_shown(JoinedModule, _launching(found.classes)),
        tree=_shown(JoinedPlace, found.tree),
        device_ns=found.device_ns,
        outside_device_ns=found.outside_device_ns,
    )


def by_line(context: Context) -> JoinedLines:
    """The lines of a joined trace."""
    found = python_lines.analyze(context)
    return JoinedLines(
        rows=_shown(JoinedLine, _launching(found.rows)),
        rows_outside_torch=_shown(JoinedLine, _launching(found.rows_outside_torch)),
        device_ns=found.device_ns,
        unattributed_device_ns=found.unattributed_device_ns,
    )
