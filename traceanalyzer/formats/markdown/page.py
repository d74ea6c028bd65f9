"""Lays out sections as Markdown within a level of detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from traceanalyzer.formats.language import Language
from traceanalyzer.formats.markdown.detail import DocumentDetail
from traceanalyzer.formats.markdown.findings import Advised
from traceanalyzer.formats.markdown.texts import code, fenced, prose, raw, span
from traceanalyzer.formats.names import clipped
from traceanalyzer.formats.templates import environment
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionPart, SectionTable

_MORE = Text("table-more", "{shown:count} of {total:count} rows; all are in the JSON report.")
_MORE_COLUMNS = Text("table-more-columns", "{shown:count} of {total:count} columns; all are in the JSON report.")
_MORE_MESSAGES = Text("section-more", "{hidden:count} more; all are in the JSON report.")
_BAR_WIDTH = 30


@dataclass(frozen=True)
class DocumentPicture:
    """A chart in an image file."""

    section: str
    """Id of its section."""
    text: str
    """Alternative text of the chart."""
    target: str
    """Path of the file relative to the document, URL-quoted."""


@dataclass(frozen=True)
class Page:
    """Lays out sections as Markdown."""

    language: Language
    detail: DocumentDetail
    pictures: Sequence[DocumentPicture] = ()

    def section(self, section: Section) -> str:
        """Lay out a section with its title."""
        messages = [self._say(message) for message in section.messages[: self.detail.messages]]
        if len(section.messages) > len(messages):
            messages.append(self._say(_MORE_MESSAGES(hidden=len(section.messages) - len(messages))))
        return (
            environment()
            .get_template("section.md.j2")
            .render(
                section=section,
                messages=messages,
                pictures=[picture for picture in self.pictures if picture.section == section.id],
                pictured=bool(self.pictures),
                findings=Advised.of(section.findings, self.language, self.detail),
                raw=lambda text: raw(self._plain(text)),
                text=self._say,
                value=lambda part: self._say(self.language.quantity(part.value, part.unit)),
                share=lambda part: self._say(self.language.quantity(part.share, "share")),
                bar=_bar,
                labelled=self._fact,
                titles=lambda table: [self._say(column.title) for column in self._columns(table)],
                borders=lambda table: [":--" if column.unit == "" else "--:" for column in self._columns(table)],
                rows=self._rows,
                more=lambda table: list(self._more(table)),
                say=self._say,
                span=span,
                fenced=fenced,
            )
        )

    def _plain(self, text: str | Text | Message) -> str:
        return clipped(text if isinstance(text, str) else self.language.text(text), self.detail.prose)

    def _say(self, text: str | Text | Message) -> str:
        return prose(self._plain(text))

    def _fact(self, fact: Fact) -> str:
        return self._say(self.language.labelled(fact.label, self.language.quantity(fact.value, fact.unit)))

    def _columns(self, table: SectionTable) -> tuple[SectionColumn, ...]:
        return table.columns[: self.detail.columns]

    def _shown(self, table: SectionTable) -> int:
        """Number of rows to show; tables with one row per figure are not rankings and are not shortened."""
        return len(table.rows) if table.row_units else min(len(table.rows), self.detail.rows)

    def _rows(self, table: SectionTable) -> Iterator[list[str]]:
        columns = self._columns(table)
        for number, row in enumerate(table.rows[: self._shown(table)]):
            yield [self._cell(row[i], table.unit(number, i), column) for i, column in enumerate(columns)]

    def _cell(self, value: Any, unit: str, column: SectionColumn) -> str:
        """Format a cell; names are code, so that underscores and angle brackets are kept."""
        if not column.is_name or value is None or isinstance(value, Text | Message):
            return self._say(self.language.quantity(value, unit))
        return code(clipped(str(value), self.detail.name))

    def _more(self, table: SectionTable) -> Iterator[str]:
        if self._shown(table) < table.total_rows:
            yield self._say(_MORE(shown=self._shown(table), total=table.total_rows))
        if len(self._columns(table)) < len(table.columns):
            yield self._say(_MORE_COLUMNS(shown=len(self._columns(table)), total=len(table.columns)))


def _bar(part: SectionPart) -> str:
    return "█" * round(min(1.0, part.share) * _BAR_WIDTH) or "▏"
