"""Reads what other tools print: tables, timers and figures in logs, each by its description in `forms.toml`.

    descriptions   the descriptions, compiled
    quoting        marks of mails, comments and logs around lines
    wrapping       tables whose lines were broken
    values         numbers with units
    tables         tables of rows: kernels, calls, parts of a program, functions
    sections       tables of which a tool prints one for each part of a program
    trees          calls within each other
    figures        what changes over time: rates, use, memory

Nothing of a form is guessed: columns with unknown names are counted and left out.
"""

from __future__ import annotations

from msgspec.structs import replace

from traceanalyzer.readers.forms.figures import read_figures
from traceanalyzer.readers.forms.quoting import unquoted
from traceanalyzer.readers.forms.sections import joined_sections
from traceanalyzer.readers.forms.tables import read_pairs, read_tables
from traceanalyzer.readers.forms.trees import read_trees
from traceanalyzer.readers.forms.wrapping import unwrapped
from traceanalyzer.readers.key_averages.lines import Lines
from traceanalyzer.readers.key_averages.quoted import read_totals_alone
from traceanalyzer.trace.document import TableDocument

__all__ = ["with_forms"]


def with_forms(document: TableDocument, lines: Lines) -> TableDocument:
    """The document with what other tools printed in it; timers of logs only where no other table is.

    Args:
        document: The tables of torch in it.
        lines: Its lines.
    """
    lines = unwrapped(unquoted(lines))
    tables, losses = read_tables(lines, with_others=bool(document.tables))
    tables += read_trees(lines)
    totals = None if document.tables else read_totals_alone(lines)
    if totals is not None:
        document = replace(document, tables=(totals,))
    if not document.tables and not tables:
        tables = read_pairs(lines)
    return replace(
        document,
        tables=tuple(sorted((*document.tables, *joined_sections(tables)), key=lambda table: table.line)),
        losses=(*document.losses, *losses),
        figures=read_figures(lines),
    )
