"""What do collectives cost that run on the CPU, such as those of gloo?

A thread of the library runs them. They are exposed while no other thread of the program runs an operator: then the
program most likely waits for the result. Waiting for other ranks is part of their duration.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.collectives import operation
from traceanalyzer.report.message import Text
from traceanalyzer.structure import recorded_collectives
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording.frameworks import flat_bytes
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64


class HostCollectiveRow(msgspec.Struct, frozen=True):
    """All collectives of one operation."""

    operation: str
    """What the collectives do, such as `all_reduce` or `broadcast`."""
    calls: int
    """Number of collectives in the steps."""
    total_ns: int
    """Sum of their durations in ns; waiting for other ranks is included."""
    exposed_ns: int
    """Time in ns in which one of these collectives runs and no other thread runs an operator."""
    min_ns: int
    """Duration of the shortest collective in ns."""
    total_bytes: int | None
    """Size of all messages together in bytes; null where some size was not recorded."""


class HostCollectives(msgspec.Struct, frozen=True):
    """Collectives that run on the CPU and start within steps."""

    rows: tuple[HostCollectiveRow, ...]
    """Collectives by operation, the most exposed first."""


def analyze(context: Context) -> HostCollectives:
    """Collectives of the steps, by operation."""
    trace, host = context.trace, context.trace.host
    rows = np.flatnonzero(context.once(recorded_collectives.host_ranges))
    rows = rows[context.steps.at(host.start_ns[rows]) >= 0]
    kinds = [operation(trace.names[name]) or "" for name in host.name[rows].tolist()]
    found = [_row(context, kind, rows[np.array([own == kind for own in kinds])]) for kind in sorted(set(kinds))]
    return HostCollectives(tuple(sorted(found, key=lambda row: (-row.exposed_ns, row.operation))))


def _row(context: Context, kind: str, rows: I64) -> HostCollectiveRow:
    host = context.trace.host
    sizes = [flat_bytes(context.trace, row) for row in rows.tolist()]
    known = [size for size in sizes if size is not None]
    return HostCollectiveRow(
        operation=kind,
        calls=len(rows),
        total_ns=int(host.dur_ns[rows].sum()),
        exposed_ns=exposed(context, rows).length,
        min_ns=int(host.dur_ns[rows].min()),
        total_bytes=sum(known) if len(known) == len(sizes) else None,
    )


def exposed(context: Context, rows: I64) -> Intervals:
    """When some collectives of the host run while the program runs no operator."""
    host = context.trace.host
    return Intervals.union(host.start_ns[rows], host.end_ns[rows]) - context.once(recorded_collectives.computing)


_NEEDED = Need(
    Text("skip-no-host-collectives", "the trace has no collectives that run on the CPU"),
    lambda context: (
        not context.once(recorded_collectives.of_libraries).any()
        and context.once(recorded_collectives.host_ranges).any()
    ),
)
ANALYSES = (Analysis(300, "host_collectives", HostCollectives, analyze, needs=(_NEEDED,)),)
