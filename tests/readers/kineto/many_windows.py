"""A trace that takes many windows to be read, so that several processes have something to do."""

from __future__ import annotations

import io
from typing import Any

from tests.builders import LAYOUTS
from tests.builders.damage import clean
from traceanalyzer.readers.source import Source
from traceanalyzer.trace.model import Trace, all_tables

SMALL = 700
"""Size in bytes of a window with a few events."""

TEXT = clean(120).to_bytes(LAYOUTS["current"])
POOLS = ("names", "shapes", "types", "dims", "strides", "concrete", "collectives", "sources", "threads")


def everything(trace: Trace) -> dict[str, Any]:
    """All that is in a trace, codes and their order included."""
    found: dict[str, Any] = {name: tuple(getattr(trace, name)) for name in POOLS}
    found |= {
        f"{name}.{column.name}": getattr(table, column.name).tobytes()
        for name, table in all_tables(trace).items()
        for column in table.columns()
    }
    return found | {"info": trace.info, "losses": trace.losses}


def source_of(data: bytes) -> Source:
    return Source(io.BytesIO(data), "trace.json", len(data), lambda _: None)
