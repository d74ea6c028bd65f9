"""Reads the tables of `key_averages().table()` in any text: logs, notes, articles, notebooks.

The format: `_build_table` in `torch/autograd/profiler_util.py`, and `build_table` in `torch/autograd/profiler.py` up to
torch 1.0, whose tables have no times without what an operator calls.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from traceanalyzer.readers.key_averages.cleaning import decode
from traceanalyzer.readers.key_averages.drawn import redraw
from traceanalyzer.readers.key_averages.headless import restore
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.loops import read_loops
from traceanalyzer.readers.key_averages.openings import next_opening
from traceanalyzer.readers.key_averages.rates import read_rates
from traceanalyzer.readers.key_averages.tables import read_tables
from traceanalyzer.readers.key_averages.wrapped import unwrap
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.model import Loss

__all__ = ["decode", "read", "sniff"]

HEADER_MISSING = "read-table-header-missing"


def sniff(text: str | bytes) -> bool:
    """Whether a profiler table begins in a text, or in the head of a file.

    Tables are often at the end of a long text, so pass all of it if possible; the search takes linear time.
    """
    lines, _ = _lines(decode(text) if isinstance(text, bytes) else text)
    return next_opening(lines, 0) is not None


def read(text: str, name: str, size_bytes: int | None) -> TableDocument:
    """Read all profiler tables of a text. A text without tables is not an error.

    Args:
        text: The document; `decode` makes it from bytes.
        name: Name of the document in the report.
        size_bytes: Size of the file, None if unknown.

    Returns:
        The tables in the order of the text, and the losses.
    """
    lines, restored = _lines(text)
    tables, losses, spans = read_tables(lines)
    losses += [Loss(HEADER_MISSING, 1, {"line": number}) for number in restored]
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


def _lines(text: str) -> tuple[Lines, list[int]]:
    """The lines of a text, and where rows stand to which a header was given.

    Drawn tables are those of the profiler only where no table stands as it was printed: beside printed tables they are
    somebody's summary of them. Rows without a header count only where there is no other table.
    """
    lines = unwrap(Lines.of(text))
    if next_opening(lines, 0) is not None:
        return lines, []
    drawn = redraw(lines)
    return (drawn, []) if next_opening(drawn, 0) is not None else restore(lines)
