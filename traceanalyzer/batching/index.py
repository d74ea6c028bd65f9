"""The index of a batch as HTML and Markdown: runs by wasted GPU time, common findings, and failed files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from traceanalyzer._version import __version__
from traceanalyzer.batching import index_texts, overview
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.overview import Bottleneck, File, RuleRow, RunRow
from traceanalyzer.batching.record import Output
from traceanalyzer.batching.spreadsheet import CSV
from traceanalyzer.formats import markdown
from traceanalyzer.formats.language import Language
from traceanalyzer.formats.templates import environment
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean

HTML, MARKDOWN = "index.html", "index.md"
PAGES = (HTML, MARKDOWN)
_LEFT_OUT = 20
"""Most left-out files that are named; a folder may contain any number of them."""

SHOWN = 1000
"""Most rows of a table, because longer pages open slowly; the summary contains all rows."""


@dataclass(frozen=True, slots=True)
class IndexCell:
    """One value in a table of the index."""

    text: str
    is_name: bool = False
    links: tuple[tuple[str, str], ...] = ()
    """Labels and targets of links in the cell."""


@dataclass(frozen=True, slots=True)
class IndexTable:
    """A table of the index; its rows are produced one by one."""

    id: str
    title: str
    note: str
    columns: tuple[tuple[str, bool], ...]
    """Titles of the columns, and whether their values are numbers."""
    rows: Iterable[tuple[IndexCell, ...]]
    more: str
    """Sentence to show if rows were cut off; empty for none."""


def write(catalog: Catalog, folder: Folder, language: Language) -> None:
    """Write the index as an HTML and as a Markdown page."""
    for page, template in ((HTML, "batch/index.html.j2"), (MARKDOWN, "batch/index.md.j2")):
        is_html = page == HTML
        pieces = (
            environment(autoescape=is_html)
            .get_template(template)
            .generate(
                mark=markdown.MARK,
                version=__version__,
                lang=language.html_lang,
                title=language.text(index_texts.TITLE),
                summary=language.text(index_texts.SUMMARY),
                facts=_facts(catalog, language),
                means=language.text(index_texts.WASTED_MEANS),
                tables=_tables(catalog, language),
                escape=markdown.escape,
                code=markdown.code,
            )
        )
        with folder.creating(page) as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "replace"))


def _facts(catalog: Catalog, language: Language) -> list[tuple[str, str]]:
    sums, counts = overview.totals(catalog), catalog.counts()
    share = sums.wasted_ns / sums.gpu_ns if sums.gpu_ns and sums.wasted_ns is not None else None
    facts = (
        (index_texts.RUNS, sums.runs, "count"),
        (index_texts.ANALYZED, counts.done, "count"),
        (index_texts.FAILED, counts.failed, "count"),
        (index_texts.LEFT_OUT, counts.left_out, "count"),
        (index_texts.GPU_TIME, sums.gpu_ns, "ns"),
        (index_texts.WASTED, sums.wasted_ns, "ns"),
        (index_texts.WASTED_SHARE, share, "share"),
        *([(index_texts.HOLLOW, sums.hollow, "count")] if sums.hollow else []),
    )
    return [(language.text(label), language.quantity(value, unit)) for label, value, unit in facts]


def _tables(catalog: Catalog, language: Language) -> list[IndexTable]:
    """The nonempty tables in the order of the page."""
    sums, counts = overview.totals(catalog), catalog.counts()
    tables = []
    if counts.failed:
        tables.append(_failures(catalog, language))
    if bounds := overview.bottlenecks(catalog):
        tables.append(_bottlenecks(bounds, language))
    if rules := overview.rules(catalog):
        tables.append(_rules(rules, language))
    if sums.runs:
        tables.append(_runs(catalog, language, sums.runs))
    if sums.files > sums.runs:
        tables.append(_files(catalog, language, sums.files))
    if counts.left_out:
        tables.append(_left_out(catalog, language))
    return tables


def _failures(catalog: Catalog, language: Language) -> IndexTable:
    rows = ((_name(name), IndexCell(clean(reason))) for name, reason in catalog.failures())
    columns = ((index_texts.FILE, False), (index_texts.REASON, False))
    return _table("failures", index_texts.FAILURES_TITLE, index_texts.FAILURES_NOTE, columns, rows, language)


def _left_out(catalog: Catalog, language: Language) -> IndexTable:
    rows = ((_name(name),) for name in catalog.left_out(_LEFT_OUT))
    columns = ((index_texts.FILE, False),)
    return _table("left-out", index_texts.LEFT_OUT_TITLE, index_texts.LEFT_OUT_NOTE, columns, rows, language)


def _bottlenecks(found: list[Bottleneck], language: Language) -> IndexTable:
    rows = (
        (
            IndexCell(_bound(row.bound, language)),
            IndexCell(language.quantity(row.files, "count")),
            IndexCell(language.quantity(row.wasted_ns, "ns")),
        )
        for row in found
    )
    columns = ((index_texts.BOUND, False), (index_texts.FILES, True), (index_texts.WASTED, True))
    return _table("bottlenecks", index_texts.BOTTLENECKS_TITLE, index_texts.BOTTLENECKS_NOTE, columns, rows, language)


def _rules(found: list[RuleRow], language: Language) -> IndexTable:
    rows = (
        (
            IndexCell(clean(language.say(row.title))),
            IndexCell(language.quantity(row.files, "count")),
            IndexCell(language.quantity(row.runs, "count")),
            IndexCell(language.quantity(row.low_ns, "ns")),
            IndexCell(language.quantity(row.high_ns, "ns")),
        )
        for row in found
    )
    columns = (
        (index_texts.RULE, False),
        (index_texts.FILES, True),
        (index_texts.RUN_COUNT, True),
        (index_texts.AT_LEAST, True),
        (index_texts.AT_MOST, True),
    )
    return _table("advice", index_texts.RULES_TITLE, index_texts.RULES_NOTE, columns, rows, language)


def _runs(catalog: Catalog, language: Language, total: int) -> IndexTable:
    def cells(row: RunRow) -> tuple[IndexCell, ...]:
        first = row.first.row
        return (
            _name(row.name),
            IndexCell(_ranks(row, language)),
            IndexCell(clean(first.device_name or "")),
            IndexCell(language.quantity(row.devices, "count")),
            IndexCell(language.quantity(row.mean_step_ns, "ns")),
            IndexCell(language.quantity(row.busy_share, "share")),
            IndexCell(language.quantity(row.wasted_ns, "ns")),
            IndexCell(_bound(first.bound, language)),
            IndexCell(clean(language.say(first.advice[0].title)) if first.advice else ""),
            _reports(row.outputs),
        )

    columns = (
        (index_texts.RUN, False),
        (index_texts.RANKS, False),
        (index_texts.GPU, False),
        (index_texts.GPUS, True),
        (index_texts.STEP, True),
        (index_texts.BUSY, True),
        (index_texts.WASTED, True),
        (index_texts.BOUND, False),
        (index_texts.ADVICE, False),
        (index_texts.REPORTS, False),
    )
    rows = map(cells, overview.run_rows(catalog, SHOWN))
    return _table("runs", index_texts.RUNS_TITLE, index_texts.RUNS_NOTE, columns, rows, language, total)


def _files(catalog: Catalog, language: Language, total: int) -> IndexTable:
    def cells(file: File) -> tuple[IndexCell, ...]:
        row = file.row
        return (
            _name(row.name),
            _name(file.run),
            IndexCell("" if row.rank is None else str(row.rank)),
            IndexCell(language.quantity(row.mean_step_ns, "ns")),
            IndexCell(language.quantity(row.busy_share, "share")),
            IndexCell(language.quantity(row.wasted_ns, "ns")),
            _reports(file.outputs),
        )

    columns = (
        (index_texts.FILE, False),
        (index_texts.RUN, False),
        (index_texts.RANK, True),
        (index_texts.STEP, True),
        (index_texts.BUSY, True),
        (index_texts.WASTED, True),
        (index_texts.REPORTS, False),
    )
    rows = map(cells, overview.files(catalog, SHOWN))
    return _table("files", index_texts.FILES_TITLE, index_texts.FILES_NOTE, columns, rows, language, total)


def _table(
    name: str,
    title: Text,
    note: Text,
    columns: Iterable[tuple[Text, bool]],
    rows: Iterable[tuple[IndexCell, ...]],
    language: Language,
    total: int = 0,
) -> IndexTable:
    return IndexTable(
        id=name,
        title=language.text(title),
        note=language.text(note),
        columns=tuple((language.text(column), is_number) for column, is_number in columns),
        rows=rows,
        more=language.text(index_texts.MORE, shown=SHOWN, total=total, file=CSV) if total > SHOWN else "",
    )


def _name(text: str) -> IndexCell:
    return IndexCell(clean(text), is_name=True)


def _bound(bound: str | None, language: Language) -> str:
    known = index_texts.BOUNDS.get(bound or "")
    return language.text(known) if known else clean(bound or "")


def _ranks(row: RunRow, language: Language) -> str:
    """Number of ranks that have a file, of how many, and the missing ones."""
    if row.world_size is None or row.world_size < 2:
        return str(row.files)
    if not row.missing:
        return language.text(index_texts.OF_WORLD, files=row.files, world=row.world_size)
    return language.text(index_texts.MISSING, files=row.files, world=row.world_size, missing=row.missing)


def _reports(outputs: tuple[Output, ...]) -> IndexCell:
    return IndexCell("", links=tuple((output.format, quote(output.name)) for output in outputs))
