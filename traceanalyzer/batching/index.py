"""The index of a batch as HTML and Markdown: one table of all runs, common findings, and failed files."""

from __future__ import annotations

import math
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
from traceanalyzer.formats import cards, environment, html, markdown, prices
from traceanalyzer.formats.html import labels
from traceanalyzer.formats.html.summary import anchor
from traceanalyzer.formats.html.where_time_goes import percent
from traceanalyzer.formats.language import Language
from traceanalyzer.inputs.storage import Folder
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean
from traceanalyzer.sections.overview import PART_LABELS

TITLE = Text("batch-title-2", "All runs, by what is to gain")
SUMMARY = Text("batch-summary", "Summary", "heading above the totals of all files")

RUNS = Text("batch-runs", "Runs")
ANALYZED = Text("batch-analyzed", "Files analyzed")
FAILED = Text("batch-failed", "Files that could not be analyzed")
LEFT_OUT = Text("batch-left-out", "Files left out because they are not traces")
GPU_TIME = Text(
    "batch-gpu-time", "GPU time in steps", "the length of the profiled steps times the GPUs, over all files"
)
WASTED = Text("batch-wasted", "Wasted GPU time")
PEAK = Text("batch-peak", "Peak of memory", "of a memory snapshot")
WASTED_SHARE = Text("batch-wasted-share", "Share of GPU time that is wasted")
HOLLOW = Text(
    "batch-no-usual-work",
    "Files with hardly any GPU work or without a typical step (not included in these sums)",
    "less than 1 ms of work on the GPUs, a single kernel, start-up, or the capture of graphs",
)
WASTED_MEANS = Text(
    "batch-wasted-means-2",
    "Wasted is GPU time of the typical steps in which the GPU runs nothing, or only collectives; start-up is none. "
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
RUNS_TITLE = Text("batch-runs-title-2", "Runs by what is to gain")
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
STATUS = Text("batch-column-status", "Status", "severity of the first finding, or why there can be none")
PARTS = Text("batch-column-parts", "Parts of the step", "head of a column of bars")
GAIN = Text("batch-column-gain", "To gain", "what all fixes save together, as a share of the step")
NO_STEP = Text("batch-status-no-step", "No step", "a run without any step of the program")
HARDLY = Text("batch-status-hardly-work", "Hardly any work", "a run whose GPUs have hardly any work")
FINE = Text("batch-status-fine", "Nothing found", "a run without findings")
STEP = Text("batch-column-typical-step", "Typical step", "duration of the typical step")
BUSY = Text("batch-column-busy", "GPU busy", "share of time")
BOUND = Text("batch-column-bound", "Limited by", "what limits the speed of a step")
ADVICE = Text("batch-column-advice", "Top advice")
RULE = Text("batch-column-rule", "Advice")
FILES = Text("batch-column-files", "Files", "number of files")
RUN_COUNT = Text("batch-column-run-count", "Runs", "number of runs")
AT_LEAST = Text("batch-column-at-least", "Saves at least")
AT_MOST = Text("batch-column-at-most", "Saves at most")

OF_WORLD = Text("batch-of-world", "{files:count} of {world:count}", "how many ranks have a file, of how many")
MISSING = Text(
    "batch-missing", "{files:count} of {world:count}, missing: {missing}", "missing is a list of numbers: 2, 5-127"
)

BOUNDS = {
    "input": Text("batch-bound-input", "input"),
    "host": Text("batch-bound-host", "CPU"),
    "gpu-compute": Text("batch-bound-gpu-compute", "GPU compute"),
    "gpu-memory": Text("batch-bound-gpu-memory", "GPU memory"),
    "gpu": Text("batch-bound-gpu", "GPU"),
    "communication": Text("batch-bound-communication", "communication"),
    "compilation": Text("batch-bound-compilation", "compilation"),
    "start-up": Text("batch-bound-start-up", "start-up"),
    "capture": Text("batch-bound-capture", "capture of a graph"),
    "memory": Text("batch-bound-memory", "memory in use", "what a snapshot of memory is about"),
    "hang": Text("batch-bound-hang", "a hang"),
    "none": Text("batch-bound-none", "nothing in particular"),
}
"""What bounds a step, by the value of `report.model.Headline.bound`."""

HTML, MARKDOWN = "index.html", "index.md"
PAGES = (HTML, MARKDOWN)
_LEFT_OUT = 20
"""Most left-out files that are named; a folder may contain any number of them."""

SHOWN = 1000
"""Most rows of a table, because longer pages open slowly; the summary contains all rows."""

_FILTERED = 10
"""Least rows of a table that has a filter."""
_TOLD = 0.05
"""Least part of a step that is said in words (own choice)."""


@dataclass(frozen=True, slots=True)
class IndexCell:
    """One value in a table of the index."""

    text: str
    is_name: bool = False
    links: tuple[tuple[str, str], ...] = ()
    """Labels and targets of links in the cell; the first one with an empty label is the target of the text."""
    raw: str | None = None
    """Raw value of a number, by which the page sorts; None for texts and unknown values."""
    bar: str | None = None
    """Length of a bar in percent."""
    pieces: tuple[tuple[str, str, str], ...] = ()
    """Colour, begin and width in percent of each piece of a bar."""
    tone: str | None = None
    """Colour of a status."""


@dataclass(frozen=True, slots=True)
class IndexHead:
    """The head of a column."""

    title: str
    csv: str
    """Title with the unit of the raw values."""
    is_number: bool


@dataclass(frozen=True, slots=True)
class IndexTable:
    """A table of the index."""

    id: str
    title: str
    note: str
    columns: tuple[IndexHead, ...]
    rows: list[tuple[IndexCell, ...]]
    more: str
    """Sentence to show if rows were cut off; empty for none."""
    has_filter: bool
    legend: tuple[tuple[str, str], ...] = ()
    """Colours of the pieces of bars, and what they stand for."""


@dataclass(frozen=True, slots=True)
class _Column:
    title: Text
    is_number: bool
    cell: Callable[[Any, Language], IndexCell]
    unit: str = ""


def write(catalog: Catalog, folder: Folder, language: Language) -> None:
    """Write the index as an HTML and as a Markdown page."""
    style = html.source("style.css") + html.source("index.css", "batch")
    script = html.source("page.js") + html.source("tables.js")
    values = {
        "mark": markdown.MARK,
        "version": __version__,
        "lang": language.html_lang,
        "title": language.text(TITLE),
        "summary": language.text(SUMMARY),
        "facts": _facts(catalog, language),
        "means": language.text(WASTED_MEANS),
        "tables": _tables(catalog, language),
        "escape": markdown.escape,
        "code": markdown.code,
        "word": labels.labels(language),
        "words": html.as_json(labels.script_labels(language)),
        "style": html.verbatim(style),
        "script": html.verbatim(script),
        "policy": html.policy(style, script),
    }
    for page, template in ((HTML, "batch/index.html.j2"), (MARKDOWN, "batch/index.md.j2")):
        pieces = environment(autoescape=page == HTML).get_template(template).generate(values)
        with folder.creating(page) as file:
            for piece in pieces:
                file.write(piece.encode("utf-8", "replace"))


def _facts(catalog: Catalog, language: Language) -> list[tuple[str, str]]:
    sums, counts = overview.totals(catalog), catalog.counts()
    share = sums.wasted_ns / sums.gpu_ns if sums.gpu_ns and sums.wasted_ns is not None else None
    facts = (
        (RUNS, sums.runs, "count"),
        (ANALYZED, counts.done, "count"),
        *([(FAILED, counts.failed, "count")] if counts.failed else []),
        *([(LEFT_OUT, counts.left_out, "count")] if counts.left_out else []),
        (GPU_TIME, sums.gpu_ns, "ns"),
        (WASTED, sums.wasted_ns, "ns"),
        (WASTED_SHARE, share, "share"),
        *([(HOLLOW, sums.hollow, "count")] if sums.hollow else []),
    )
    return [(language.text(label), language.quantity(value, unit)) for label, value, unit in facts]


def _tables(catalog: Catalog, language: Language) -> list[IndexTable]:
    """The nonempty tables in the order of the page."""
    counts, runs = catalog.counts(), overview.number_of_runs(catalog)
    shown: tuple[tuple[str, Text, Text, tuple[_Column, ...], Iterable[Any], int], ...] = (
        ("failures", FAILURES_TITLE, FAILURES_NOTE, _FAILURES_COLUMNS, catalog.failures(), 0),
        ("runs", RUNS_TITLE, RUNS_NOTE, _RUNS_COLUMNS, overview.run_rows(catalog, SHOWN), runs),
        ("bottlenecks", BOTTLENECKS_TITLE, BOTTLENECKS_NOTE, _BOTTLENECKS_COLUMNS, overview.bottlenecks(catalog), 0),
        ("advice", RULES_TITLE, RULES_NOTE, _RULES_COLUMNS, overview.rules(catalog), 0),
        *(
            [("files", FILES_TITLE, FILES_NOTE, _FILES_COLUMNS, overview.files(catalog, SHOWN), counts.done)]
            if counts.done > runs
            else []
        ),
        ("left-out", LEFT_OUT_TITLE, LEFT_OUT_NOTE, _LEFT_OUT_COLUMNS, catalog.left_out(_LEFT_OUT), 0),
    )
    tables = (
        _table(name, (title, note), columns, rows, language, total) for name, title, note, columns, rows, total in shown
    )
    return [table for table in tables if table.rows]


def _table(
    name: str,
    texts: tuple[Text, Text],
    columns: tuple[_Column, ...],
    rows: Iterable[Any],
    language: Language,
    total: int = 0,
) -> IndexTable:
    """A table of rows, without columns that are empty or unknown in all of them.

    Args:
        name: Id of the table.
        texts: Its title and note.
        columns: Its columns.
        rows: Its rows, at most `SHOWN`.
        language: The reader's language.
        total: Number of rows where only the first are given.
    """
    every = [tuple(column.cell(row, language) for column in columns) for row in rows]
    known = [
        i
        for i, column in enumerate(columns)
        if any(row[i].raw if column.is_number else row[i] != _NONE for row in every)
    ]
    kept = [columns[i] for i in known]
    return IndexTable(
        id=name,
        title=language.text(texts[0]),
        note=language.text(texts[1]),
        columns=tuple(
            IndexHead(title := language.text(c.title), f"{title} [{c.unit}]" if c.unit == "ns" else title, c.is_number)
            for c in kept
        ),
        rows=[tuple(row[i] for i in known) for row in every],
        more=language.text(MORE, shown=SHOWN, total=total, file=CSV) if total > SHOWN else "",
        has_filter=len(every) >= _FILTERED,
        legend=tuple((part.replace("_", "-"), language.text(label)) for part, label in PART_LABELS.items())
        if _PARTS_COLUMN in kept
        else (),
    )


def _bound(bound: str | None, language: Language) -> str:
    known = BOUNDS.get(bound or "")
    return language.text(known) if known else clean(bound or "")


def _ranks(row: RunRow, language: Language) -> str:
    """Number of ranks that have a file, of how many, and the missing ones."""
    if row.world_size is None or row.world_size < 2:
        return str(row.files) if row.files > 1 else ""
    if not row.missing:
        return language.text(OF_WORLD, files=row.files, world=row.world_size)
    return language.text(MISSING, files=row.files, world=row.world_size, missing=row.missing)


def _linked(name: str, outputs: tuple[Output, ...]) -> IndexCell:
    """A name that leads to the report, the page if there is one, and links to the other formats."""
    first, *others = sorted(outputs, key=lambda output: output.format != "html") or (None,)
    links = (("", quote(first.name)),) if first else ()
    return IndexCell(clean(name), True, (*links, *((output.format, quote(output.name)) for output in others)))


def _quantity(value: float | None, unit: str, language: Language, *, has_bar: bool = False) -> IndexCell:
    bar = percent(value) if has_bar and value is not None else None
    return IndexCell(language.quantity(value, unit), raw=None if value is None else repr(value), bar=bar)


def _number(title: Text, value: str, unit: str, *, has_bar: bool = False) -> _Column:
    """A column of quantities; `value` is the path of attributes from a row to its quantity."""
    get = attrgetter(value)
    return _Column(title, True, lambda row, language: _quantity(get(row), unit, language, has_bar=has_bar), unit)


def _words(title: Text, text: Callable[[Any, Language], str]) -> _Column:
    return _Column(title, False, lambda row, language: IndexCell(text(row, language)))


def _names(title: Text, value: Callable[[Any], str]) -> _Column:
    return _Column(title, False, lambda row, _: IndexCell(clean(value(row)), is_name=True))


def _top_advice(run: RunRow, language: Language) -> IndexCell:
    """The first finding, with a link to its place on the page of the report."""
    if not run.row.advice:
        return _NONE
    first = run.row.advice[0]
    pages = (quote(output.name) for output in run.outputs if output.format == "html")
    links = tuple(("", f"{page}#{anchor(first.rule)}") for page in pages)
    return IndexCell(clean(language.say(first.title)), links=links)


def _status(run: RunRow, language: Language) -> IndexCell:
    """The severity of the first finding, or why there can be none."""
    if run.row.has_typical_step is False:
        return IndexCell(language.text(NO_STEP), tone="info")
    if run.row.is_hollow:
        return IndexCell(language.text(HARDLY), tone="info")
    if not run.row.advice:
        return IndexCell(language.text(FINE), tone="fine")
    severity = run.row.advice[0].severity
    known = cards.SEVERITIES.get(severity)
    return IndexCell(language.text(known) if known else clean(severity), tone=severity if known else "info")


def _parts(run: RunRow, language: Language) -> IndexCell:
    """The parts of the typical step as a bar; in words those that take most, and sorted by the part of kernels."""
    parts = run.row.parts
    if parts is None or not parts.duration_ns:
        return _NONE
    shares = {part: getattr(parts, f"{part}_ns") / parts.duration_ns for part in PART_LABELS}
    begin, pieces = 0.0, []
    for part, share in shares.items():
        pieces.append((part.replace("_", "-"), percent(begin), percent(share)))
        begin += share
    told = sorted((part for part in shares if shares[part] >= _TOLD), key=lambda part: -shares[part])
    text = language.list(
        language.joined(language.text(PART_LABELS[part]), language.quantity(shares[part], "share")) for part in told
    )
    return IndexCell(text, raw=repr(shares["kernel"]), pieces=tuple(piece for piece in pieces if float(piece[2])))


def _gain(run: RunRow, language: Language) -> IndexCell:
    """What all fixes save together, as a share of the step."""
    combined = run.row.combined
    text = prices.saved_share(combined, language) if combined else None
    if combined is None or text is None:
        return IndexCell("")
    share = math.fsum(combined.wall_share) / 2
    return IndexCell(text, raw=repr(share), bar=percent(share))


def _gpu(run: RunRow, _: Language) -> IndexCell:
    name = clean(run.row.device_name or "")
    return IndexCell(f"{run.devices} x {name}" if name and (run.devices or 0) > 1 else name)


_NONE = IndexCell("")
_PARTS_COLUMN = _Column(PARTS, True, _parts, "share")
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
    _Column(RUN, False, lambda run, _: _linked(run.name, run.outputs)),
    _Column(STATUS, False, _status),
    _words(RANKS, _ranks),
    _Column(GPU, False, _gpu),
    _number(STEP, "mean_step_ns", "ns"),
    _PARTS_COLUMN,
    _number(BUSY, "busy_share", "share", has_bar=True),
    _Column(GAIN, True, _gain, "share"),
    _number(WASTED, "wasted_ns", "ns"),
    _number(PEAK, "row.peak_bytes", "bytes"),
    _words(BOUND, lambda run, language: _bound(run.row.bound, language)),
    _Column(ADVICE, False, _top_advice),
)
_FILES_COLUMNS = (
    _Column(FILE, False, lambda file, _: _linked(file.row.name, file.outputs)),
    _names(RUN, attrgetter("run")),
    _number(RANK, "row.rank", ""),
    _number(STEP, "row.typical_step_ns", "ns"),
    _number(BUSY, "row.busy_share", "share", has_bar=True),
    _number(WASTED, "row.waste_ns", "ns"),
)
