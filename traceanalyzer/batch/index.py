"""The index of a batch: runs by wasted GPU time, what is common to them, and what failed, as HTML and Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from traceanalyzer._version import __version__
from traceanalyzer.batch import overview, words
from traceanalyzer.batch.catalog import Catalog
from traceanalyzer.batch.overview import Bottleneck, File, RuleRow, RunRow
from traceanalyzer.batch.record import Output
from traceanalyzer.batch.spreadsheet import CSV
from traceanalyzer.batch.storage import Folder
from traceanalyzer.renderers import markdown
from traceanalyzer.renderers.language import Language
from traceanalyzer.renderers.names import clean
from traceanalyzer.renderers.templates import environment
from traceanalyzer.report.message import Text

HTML, MARKDOWN = "index.html", "index.md"
PAGES = (HTML, MARKDOWN)

SHOWN = 1000
"""Rows of a table; a page with more is slow to open, and the summary has them all."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A value in a table."""

    text: str
    is_name: bool = False
    links: tuple[tuple[str, str], ...] = ()
    """Labels and targets."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under titles; rows come one by one."""

    id: str
    title: str
    note: str
    columns: tuple[tuple[str, bool], ...]
    """Titles, and whether they are above numbers."""
    rows: Iterable[tuple[Cell, ...]]
    more: str
    """What is said if there are more rows than are shown, or nothing."""


def write(catalog: Catalog, folder: Folder, language: Language) -> None:
    """Write both pages."""
    for page, template in ((HTML, "batch/index.html.j2"), (MARKDOWN, "batch/index.md.j2")):
        is_html = page == HTML
        pieces = (
            environment(autoescape=is_html)
            .get_template(template)
            .generate(
                mark=markdown.MARK,
                version=__version__,
                lang=language.html_lang,
                title=language.text(words.TITLE),
                summary=language.text(words.SUMMARY),
                facts=_facts(catalog, language),
                means=language.text(words.WASTED_MEANS),
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
        (words.RUNS, sums.runs, "count"),
        (words.ANALYZED, counts.done, "count"),
        (words.FAILED, counts.failed, "count"),
        (words.LEFT_OUT, counts.left_out, "count"),
        (words.GPU_TIME, sums.gpu_ns, "ns"),
        (words.WASTED, sums.wasted_ns, "ns"),
        (words.WASTED_SHARE, share, "share"),
        *([(words.HOLLOW, sums.hollow, "count")] if sums.hollow else []),
    )
    return [(language.text(label), language.quantity(value, unit)) for label, value, unit in facts]


def _tables(catalog: Catalog, language: Language) -> list[Table]:
    """In the order of the page; only those that have rows."""
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
    return tables


def _failures(catalog: Catalog, language: Language) -> Table:
    rows = ((_name(name), Cell(clean(reason))) for name, reason in catalog.failures())
    columns = ((words.FILE, False), (words.REASON, False))
    return _table("failures", words.FAILURES_TITLE, words.FAILURES_NOTE, columns, rows, language)


def _bottlenecks(found: list[Bottleneck], language: Language) -> Table:
    rows = (
        (
            Cell(_bound(row.bound, language)),
            Cell(language.quantity(row.files, "count")),
            Cell(language.quantity(row.wasted_ns, "ns")),
        )
        for row in found
    )
    columns = ((words.BOUND, False), (words.FILES, True), (words.WASTED, True))
    return _table("bottlenecks", words.BOTTLENECKS_TITLE, words.BOTTLENECKS_NOTE, columns, rows, language)


def _rules(found: list[RuleRow], language: Language) -> Table:
    rows = (
        (
            Cell(clean(language.say(row.title))),
            Cell(language.quantity(row.files, "count")),
            Cell(language.quantity(row.runs, "count")),
            Cell(language.quantity(row.low_ns, "ns")),
            Cell(language.quantity(row.high_ns, "ns")),
        )
        for row in found
    )
    columns = (
        (words.RULE, False),
        (words.FILES, True),
        (words.RUN_COUNT, True),
        (words.AT_LEAST, True),
        (words.AT_MOST, True),
    )
    return _table("advice", words.RULES_TITLE, words.RULES_NOTE, columns, rows, language)


def _runs(catalog: Catalog, language: Language, total: int) -> Table:
    def cells(row: RunRow) -> tuple[Cell, ...]:
        first = row.first.row
        return (
            _name(row.name),
            Cell(_ranks(row, language)),
            Cell(clean(first.device_name or "")),
            Cell(language.quantity(row.devices, "count")),
            Cell(language.quantity(row.mean_step_ns, "ns")),
            Cell(language.quantity(row.busy_share, "share")),
            Cell(language.quantity(row.wasted_ns, "ns")),
            Cell(_bound(first.bound, language)),
            Cell(clean(language.say(first.advice[0].title)) if first.advice else ""),
            _reports(row.outputs),
        )

    columns = (
        (words.RUN, False),
        (words.RANKS, False),
        (words.GPU, False),
        (words.GPUS, True),
        (words.STEP, True),
        (words.BUSY, True),
        (words.WASTED, True),
        (words.BOUND, False),
        (words.ADVICE, False),
        (words.REPORTS, False),
    )
    rows = map(cells, overview.run_rows(catalog, SHOWN))
    return _table("runs", words.RUNS_TITLE, words.RUNS_NOTE, columns, rows, language, total)


def _files(catalog: Catalog, language: Language, total: int) -> Table:
    def cells(file: File) -> tuple[Cell, ...]:
        row = file.row
        return (
            _name(row.name),
            _name(file.run),
            Cell("" if row.rank is None else str(row.rank)),
            Cell(language.quantity(row.mean_step_ns, "ns")),
            Cell(language.quantity(row.busy_share, "share")),
            Cell(language.quantity(row.wasted_ns, "ns")),
            _reports(file.outputs),
        )

    columns = (
        (words.FILE, False),
        (words.RUN, False),
        (words.RANK, True),
        (words.STEP, True),
        (words.BUSY, True),
        (words.WASTED, True),
        (words.REPORTS, False),
    )
    rows = map(cells, overview.files(catalog, SHOWN))
    return _table("files", words.FILES_TITLE, words.FILES_NOTE, columns, rows, language, total)


def _table(
    name: str,
    title: Text,
    note: Text,
    columns: Iterable[tuple[Text, bool]],
    rows: Iterable[tuple[Cell, ...]],
    language: Language,
    total: int = 0,
) -> Table:
    return Table(
        id=name,
        title=language.text(title),
        note=language.text(note),
        columns=tuple((language.text(column), is_number) for column, is_number in columns),
        rows=rows,
        more=language.text(words.MORE, shown=SHOWN, total=total, file=CSV) if total > SHOWN else "",
    )


def _name(text: str) -> Cell:
    return Cell(clean(text), is_name=True)


def _bound(bound: str | None, language: Language) -> str:
    known = words.BOUNDS.get(bound or "")
    return language.text(known) if known else clean(bound or "")


def _ranks(row: RunRow, language: Language) -> str:
    """How many of the world are there, and which are not."""
    if row.world_size is None or row.world_size < 2:
        return str(row.files)
    if not row.missing:
        return language.text(words.OF_WORLD, files=row.files, world=row.world_size)
    return language.text(words.MISSING, files=row.files, world=row.world_size, missing=row.missing)


def _reports(outputs: tuple[Output, ...]) -> Cell:
    return Cell("", links=tuple((output.format, quote(output.name)) for output in outputs))
