"""Copies from the host to devices, for several rules."""

from __future__ import annotations

from traceanalyzer.analyzers.copies import Copies, Copy
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.facts import Missing

_NO_MEMORY = Text(
    "copies-no-host-memory",
    "the trace does not show whether copies come from pageable or pinned memory (only CUDA records it)",
)


def to_device(copies: Copies) -> list[Copy]:
    """Select the copies that go from the host to a device.

    Raises:
        Missing: There are such copies, but none says which kind of host memory it reads.
    """
    rows = [row for row in copies.rows if row.kind == "HtoD"]
    if rows and all(row.host_memory is None for row in rows):
        raise Missing(_NO_MEMORY())
    return rows
