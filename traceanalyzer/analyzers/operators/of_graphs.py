"""Where does the time of graphs go: which operators, with which inputs, launched their kernels in the capture?

The figures of `operators`, of the joined trace. A call counts once for each launch of its graph. Times on the host are
left out: in a replay the host does not run these calls.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers import operators
from traceanalyzer.structure.analysis import OPERATORS, Analysis, narrowed
from traceanalyzer.structure.context import Context


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


def by_name(context: Context) -> JoinedOperators:
    """The operators of a joined trace."""
    rows = narrowed(JoinedOperator, (row for row in operators.by_name(context).rows if row.device_total_ns))
    whole = int(context.trace.device.dur_ns.sum())
    return JoinedOperators(rows, whole, whole - sum(row.device_self_ns for row in rows))


def by_shape(context: Context) -> JoinedOperatorsByShape:
    """The operators of a joined trace by their inputs."""
    launching = (row for row in operators.by_shape(context).rows if row.device_total_ns)
    return JoinedOperatorsByShape(narrowed(JoinedOperatorByShape, launching))


JOINED = (
    Analysis(0, "joined_operators", JoinedOperators, by_name, (OPERATORS,)),
    Analysis(10, "joined_operators_by_shape", JoinedOperatorsByShape, by_shape, (OPERATORS,)),
)
