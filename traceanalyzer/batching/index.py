"""The index of a batch as HTML and Markdown: runs by wasted GPU time, common findings, and failed files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any
from urllib.parse import quote

from traceanalyzer._version import __version__
from traceanalyzer.batching import overview
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.overview import RunRow
from traceanalyzer.batching.record import Output
from traceanalyzer.batching.summary import CSV
from traceanalyzer.formats import environment, markdown
from traceanalyzer.formats.language import Language
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean

TITLE = Text("batch-title", "All runs, sorted by wasted GPU time")
SUMMARY = Text("batch-summary", "Summary", "heading above the totals of all files")

RUNS = Text("batch-runs", "Runs")
ANALYZED = Text("batch-analyzed", "Files analyzed")
FAILED = Text("batch-failed", "Files that could not be analyzed")
LEFT_OUT = Text("batch-left-out", "Files left out because they are not traces")
GPU_TIME = Text(
    "batch-gpu-time", "GPU time in steps", "the length of the profiled steps times the GPUs, over all files"
)
WASTED = Text("batch-wasted", "Wasted GPU time")
WASTED_SHARE = Text("batch-wasted-share", "Share of GPU time that is wasted")
HOLLOW = Text(
    "batch-no-usual-work",
    "Files with hardly any GPU work or without a typical step (not included in these sums)",
    "less than 1 ms of work on the GPUs, a single kernel, start-up, or the capture of graphs",
)
WASTED_MEANS = Text(
    "batch-wasted-means",
    "Wasted is GPU time from the first to the last profiled step in which the GPU runs nothing, or only collectives. "
    "It is unknown for traces without a GPU or without steps.",
)

FAILURES_TITLE = Text("batch-failures-title", "Files that failed")
FAILURES_NOTE = Text("batch-failures-note", "These files have no report and are not counted anywhere else.")
LEFT_OUT_TITLE = Text("batch-left-out-title", "Files left out")
LEFT_OUT_NOTE = Text(
    "batch-left-out-note", "These files contain neither a trace nor a profiler table. At most 20 of them are listed."
)
BOTTLENECKS_TITLE = Text("batch-bottlenecks-title", "What bounds the steps")
BOTTLENECKS_NOTE = Text("batch-bottlenecks-note", "Most frequent first.")
RULES_TITLE = Text("batch-rules-title", "What the files have in common")
RULES_NOTE = Text(
    "batch-rules-note",
    "Advice for all files, most valuable first. Savings are those of a typical step times the steps of the file, added "
    "up over the files. Savings of different rules overlap, so do not add them up.",
)
RUNS_TITLE = Text("batch-runs-title", "Runs by wasted GPU time")
RUNS_NOTE = Text("batch-runs-note", "Times and shares are means over the ranks; wasted time is their sum.")
FILES_TITLE = Text("batch-files-title", "Files")
FILES_NOTE = Text("batch-files-note", "Sorted by name.")
MORE = Text(
    "batch-more",
    "{shown:count} of {total:count} rows; all files are in {file}.",
    "file is the name of a file",
)

FILE = Text("batch-column-file", "File")
REASON = Text("batch-column-reason", "Reason")
RUN = Text("batch-column-run", "Run")
RANK = Text("batch-column-rank", "Rank")
RANKS = Text("batch-column-ranks", "Ranks", "how many ranks have a file, of how many")
GPU = Text("batch-column-gpu", "GPU", "name of a device")
GPUS = Text("batch-column-gpus", "GPUs", "number of devices")
STEP = Text("batch-column-typical-step", "Typical step", "duration of the typical step")
BUSY = Text("batch-column-busy", "GPU busy", "share of time")
BOUND = Text("batch-column-bound", "Bound by", "what limits the speed of a step")
ADVICE = Text("batch-column-advice", "Top advice")
RULE = Text("batch-column-rule", "Advice")
FILES = Text("batch-column-files", "Files", "number of files")
RUN_COUNT = Text("batch-column-run-count", "Runs", "number of runs")
AT_LEAST = Text("batch-column-at-least", "Saves at least")
AT_MOST = Text("batch-column-at-most", "Saves at most")
REPORTS = Text("batch-column-reports", "Reports")

OF_WORLD = Text("batch-of-world", "{files:count} of {world:count}", "how many ranks have a file, of how many")
MISSING = Text(
    "batch-missing", "{files:count} of {world:count}, missing: {missing}", "missing is a list of numbers: 2, 5-127"
)

BOUNDS = {
    "input": Text("batch-bound-input", "input"),
    "host": Text("batch-bound-host", "host"),
    "gpu-compute": Text("batch-bound-gpu-compute", "GPU compute"),
    "gpu-memory": Text("batch-bound-gpu-memory", "GPU memory"),
    "gpu": Text("batch-bound-gpu", "GPU"),
    "communication": Text("batch-bound-communication", "communication"),
    "start-up": Text("batch-bound-start-up", "start-up"),
    "capture": Text("batch-bound-capture", "capture of a graph"),
    "none": Text("batch-bound-none", "nothing in particular"),
}
"""What bounds a step, by the value of `report.model.Headline.bound`."""

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


@dataclass(frozen=True, slots=True)
class _Column:
    title: Text
    is_number: bool
    cell: Callable[[Any, Language], IndexCell]


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
                title=language.text(TITLE),
                summary=language.text(SUMMARY),
                facts=_facts(catalog, language),
                means=language.text(WASTED_MEANS),
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
        (RUNS, sums.runs, "count"),
        (ANALYZED, counts.done, "count"),
        (FAILED, counts.failed, "count"),
        (LEFT_OUT, counts.left_out, "count"),
        (GPU_TIME, sums.gpu_ns, "ns"),
        (WASTED, sums.wasted_ns, "ns"),
        (WASTED_SHARE, share, "share"),
        *([(HOLLOW, sums.hollow, "count")] if sums.hollow else []),
    )
    return [(language.text(label), language.quantity(value, unit)) for label, value, unit in facts]


def _tables(catalog: Catalog, language: Language) -> list[IndexTable]:
    """The nonempty tables in the order of the page."""
    sums, counts = overview.totals(catalog), catalog.counts()
    tables = []
    if counts.failed:
        texts = FAILURES_TITLE, FAILURES_NOTE
        tables.append(_table("failures", texts, _FAILURES_COLUMNS, catalog.failures(), language))
    if bounds := overview.bottlenecks(catalog):
        texts = BOTTLENECKS_TITLE, BOTTLENECKS_NOTE
        tables.append(_table("bottlenecks", texts, _BOTTLENECKS_COLUMNS, bounds, language))
    if rules := overview.rules(catalog):
        tables.append(_table("advice", (RULES_TITLE, RULES_NOTE), _RULES_COLUMNS, rules, language))
    if sums.runs:
        runs = overview.run_rows(catalog, SHOWN)
        tables.append(_table("runs", (RUNS_TITLE, RUNS_NOTE), _RUNS_COLUMNS, runs, language, sums.runs))
    if sums.files > sums.runs:
        files = overview.files(catalog, SHOWN)
        tables.append(_table("files", (FILES_TITLE, FILES_NOTE), _FILES_COLUMNS, files, language, sums.files))
    if counts.left_out:
        left_out = catalog.left_out(_LEFT_OUT)
        tables.append(_table("left-out", (LEFT_OUT_TITLE, LEFT_OUT_NOTE), _LEFT_OUT_COLUMNS, left_out, language))
    return tables


def _table(
    name: str,
    texts: tuple[Text, Text],
    columns: tuple[_Column, ...],
    rows: Iterable[Any],
    language: Language,
    total: int = 0,
) -> IndexTable:
    """A table of rows; `texts` are its title and note, `total` the number of rows where only the first are given."""
    return IndexTable(
        id=name,
        title=language.text(texts[0]),
        note=language.text(texts[1]),
        columns=tuple((language.text(column.title), column.is_number) for column in columns),
        rows=(tuple(column.cell(row, language) for column in columns) for row in rows),
        more=language.text(MORE, shown=SHOWN, total=total, file=CSV) if total > SHOWN else "",
    )


def _bound(bound: str | None, language: Language) -> str:
    known = BOUNDS.get(bound or "")
    return language.text(known) if known else clean(bound or "")


def _ranks(row: RunRow, language: Language) -> str:
    """Number of ranks that have a file, of how many, and the missing ones."""
    if row.world_size is None or row.world_size < 2:
        return str(row.files)
    if not row.missing:
        return language.text(OF_WORLD, files=row.files, world=row.world_size)
    return language.text(MISSING, files=row.files, world=row.world_size, missing=row.missing)


def _reports(outputs: tuple[Output, ...]) -> IndexCell:
    return IndexCell("", links=tuple((output.format, quote(output.name)) for output in outputs))


def _number(title: Text, value: str, unit: str) -> _Column:
    """A column of quantities; `value` is the path of attributes from a row to its quantity."""
    get = attrgetter(value)
    return _Column(title, True, lambda row, language: IndexCell(language.quantity(get(row), unit)))


def _words(title: Text, text: Callable[[Any, Language], str]) -> _Column:
    return _Column(title, False, lambda row, language: IndexCell(text(row, language)))


def _names(title: Text, value: Callable[[Any], str]) -> _Column:
    return _Column(title, False, lambda row, _: IndexCell(clean(value(row)), is_name=True))


def _top_advice(run: RunRow, language: Language) -> str:
    advice = run.first.row.advice
    return clean(language.say(advice[0].title)) if advice else ""


_REPORTS_COLUMN = _Column(REPORTS, False, lambda row, _: _reports(row.outputs))
_FAILURES_COLUMNS = (_names(FILE, itemgetter(0)), _words(REASON, lambda row, _: clean(row[1])))
_LEFT_OUT_COLUMNS = (_names(FILE, str),)
_BOTTLENECKS_COLUMNS = (
    _words(BOUND, lambda row, language: _bound(row.bound, language)),
    _number(FILES, "files", "count"),
    _number(WASTED, "wasted_ns", "ns"),
)
_RULES_COLUMNS = (
    _words(RULE, lambda row, language: clean(language.say(row.title))),
    _number(FILES, "files", "count"),
    _number(RUN_COUNT, "runs", "count"),
    _number(AT_LEAST, "low_ns", "ns"),
    _number(AT_MOST, "high_ns", "ns"),
)
_RUNS_COLUMNS = (
    _names(RUN, attrgetter("name")),
    _words(RANKS, _ranks),
    _words(GPU, lambda run, _: clean(run.first.row.device_name or "")),
    _number(GPUS, "devices", "count"),
    _number(STEP, "mean_step_ns", "ns"),
    _number(BUSY, "busy_share", "share"),
    _number(WASTED, "wasted_ns", "ns"),
    _words(BOUND, lambda run, language: _bound(run.first.row.bound, language)),
    _words(ADVICE, _top_advice),
    _REPORTS_COLUMN,
)
_FILES_COLUMNS = (
    _names(FILE, attrgetter("row.name")),
    _names(RUN, attrgetter("run")),
    _Column(RANK, True, lambda file, _: IndexCell("" if file.row.rank is None else str(file.row.rank))),
    _number(STEP, "row.mean_step_ns", "ns"),
    _number(BUSY, "row.busy_share", "share"),
    _number(WASTED, "row.wasted_ns", "ns"),
    _REPORTS_COLUMN,
)
