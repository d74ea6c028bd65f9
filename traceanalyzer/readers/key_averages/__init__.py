"""Reads the tables of `key_averages().table()` in any text: logs, notes, articles, notebooks.

The format: `_build_table` in `torch/autograd/profiler_util.py`; tables of torch 1.4 and later are read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from traceanalyzer.readers.key_averages.cleaning import decode
from traceanalyzer.readers.key_averages.drawn import redraw
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.loops import read_loops
from traceanalyzer.readers.key_averages.openings import next_opening
from traceanalyzer.readers.key_averages.rates import read_rates
from traceanalyzer.readers.key_averages.tables import read_tables
from traceanalyzer.readers.key_averages.wrapped import unwrap
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Loss

__all__ = ["decode", "read", "sniff"]


def sniff(text: str | bytes) -> bool:
    """Whether a profiler table begins in a text, or in the head of a file.

    Tables are often at the end of a long text, so pass all of it if possible; the search takes linear time.
    """
    return next_opening(_lines(decode(text) if isinstance(text, bytes) else text), 0) is not None


def read(text: str, name: str, size_bytes: int | None) -> TableDocument:
    """Read all profiler tables of a text. A text without tables is not an error.

    Args:
        text: The document; `decode` makes it from bytes.
        name: Name of the document in the report.
        size_bytes: Size of the file, None if unknown.

    Returns:
        The tables in the order of the text, and the losses.
    """
    lines = _lines(text)
    tables, losses, spans = read_tables(lines)
    tables = [replace(table, loops=own) for table, own in zip(tables, read_loops(lines, spans), strict=True)]
    rates, beyond = read_rates(lines, spans)
    counts: Counter[str] = Counter()
    first: dict[str, Loss] = {}
    for loss in sorted(
        (*losses, *beyond, *(loss for table in tables for loss in table.losses)), key=lambda loss: loss.params["line"]
    ):
        counts[loss.id] += loss.count
        first.setdefault(loss.id, loss)
    return TableDocument(
        name=name,
        size_bytes=size_bytes,
        tables=tuple(tables),
        losses=tuple(Loss(loss, counts[loss], first[loss].params) for loss in sorted(counts)),
        rates=rates,
    )


def _lines(text: str) -> Lines:
    """The lines of a text; drawn tables are those of the profiler only where no table stands as it was printed.

    Beside printed tables they are somebody's summary of them.
    """
    lines = unwrap(Lines.of(text))
    return lines if next_opening(lines, 0) is not None else redraw(lines)
