"""Runs a batch: finds the files, skips those that are done, analyzes, groups the ranks, and writes the index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import msgspec

from traceanalyzer._version import __version__
from traceanalyzer.batching import (
    Progress,
    ReportOptions,
    Request,
    default_formats,
    index,
    overview,
    pool,
    processing,
    summary,
    trends,
)
from traceanalyzer.batching import catalog as catalogs
from traceanalyzer.batching import formats as known_formats
from traceanalyzer.batching import history as histories
from traceanalyzer.batching.catalog import Catalog, Counts
from traceanalyzer.batching.dispatch import Dispatch
from traceanalyzer.batching.pool import WorkerPool, budget, processes
from traceanalyzer.batching.triage import check_files
from traceanalyzer.config import Config
from traceanalyzer.errors import MissingDependencyError, OutputError, UnusableInputError, UsageError
from traceanalyzer.formats import language as languages
from traceanalyzer.inputs import discovery
from traceanalyzer.inputs.sniffing import NOTHING
from traceanalyzer.inputs.storage import STATE, Folder, open_folder
from traceanalyzer.report.model import Generator

_MARK = f"{STATE}/batch.json"
"""File that marks the pages of a folder as written by this program."""

_PAGES = (*index.PAGES, *summary.PAGES, *trends.PAGES)


@dataclass(frozen=True)
class BatchResult:
    """The outcome of a batch."""

    counts: Counts
    pages: tuple[str, ...]
    """Paths of the other pages that were written, relative to the folder of the reports."""


def batch(
    inputs: str | Path | Iterable[str | Path],
    output: str | Path,
    *,
    formats: Sequence[str] = (),
    top: int | None = None,
    skip_warmup: int = 0,
    language: str = "en",
    config: Config | None = None,
    jobs: int | None = None,
    memory: str | None = None,
    cluster: str | None = None,
    force: bool = False,
    history: str | Path | None = None,
    recorded_ns: int | None = None,
    progress: Progress | None = None,
) -> BatchResult:
    """Write a report for each of many traces, an index of all of them, and a summary table.

    Args:
        inputs: Traces, texts with tables, saved reports, folders, patterns, URLs.
        output: Path or URL of the folder of the reports.
        formats: Formats of the reports, such as `html`; the default ones if empty.
        top: Number of rows of each ranking.
        skip_warmup: Number of steps to leave out at the start of each trace.
        language: Code of the language of the reports: `en`, `ru` or `zh`.
        config: Settings of a project, from `traceanalyzer.config.load`.
        jobs: Most processes to use; None for one per core.
        memory: Memory that all processes may use, such as `8G` or `50%`; None for most of the available memory.
        cluster: Address of a Dask scheduler that runs the jobs instead of local processes.
        force: Whether to overwrite files that this program did not write.
        history: Path of a table (`.parquet`, `.csv`) to which one row a run is added, with a page of its trends.
        recorded_ns: When runs were recorded whose traces do not say it, in ns since 1970.
        progress: Receives the progress of the batch.

    Raises:
        The errors of `run`, and UsageError for an unknown format or language.
    """
    known = known_formats()
    for form in formats:
        if form not in known:
            raise UsageError(f"{form}: no such format of a batch; choose from {', '.join(known)}")
    given = (inputs,) if isinstance(inputs, str | Path) else inputs
    options = ReportOptions(
        formats=tuple(dict.fromkeys(formats)) or default_formats(),
        top=top,
        skip_warmup=skip_warmup,
        config=config or Config(),
        language=languages.of(language).code,
    )
    kept = None if history is None else str(history)
    request = Request(tuple(map(str, given)), str(output), options, jobs, memory, cluster, force, kept, recorded_ns)
    return run(request, progress or Progress())


def run(request: Request, progress: Progress) -> BatchResult:
    """Run a batch. Files that an earlier run analyzed and that have not changed are not analyzed again.

    Raises:
        UnusableInputError: No input was found.
        UsageError: An option is not valid.
        OutputError: The folder cannot be written, or another program wrote files under the names of our pages.
        MissingDependencyError: The library for a URL, for the cluster or for the history is not installed.
    """
    folder = open_folder(request.output, force=request.force)
    if request.history is not None:
        histories.read(Path(request.history))  # complain before hours of work
    memory = budget(request.memory)
    files = discovery.find(request.inputs, folder.location)
    first = next(files, None)  # check the arguments before the folder is created
    if first is None:
        raise _nothing(request)
    with folder.alone(), catalogs.opened() as catalog:
        _claim(folder, force=request.force)
        check_files(_chain(first, files), catalog, folder, request.options, progress)
        if catalog.is_empty:
            raise _nothing(request)
        progress.begin(*catalog.waiting())
        queue = Dispatch(catalog, request, folder.location, progress)
        if request.cluster is not None:
            import_module("traceanalyzer.batching.cluster").run(queue, request.cluster)
        else:
            WorkerPool(queue, processes(request.jobs, memory), memory, pool.context(request.options.formats)).run()
        overview.assign_runs(catalog)
        processing.write_rank_reports(catalog, folder, request.options, progress)
        return BatchResult(catalog.counts(), _write_summary(catalog, folder, request))


def _chain(first: discovery.FoundFile, others: Iterator[discovery.FoundFile]) -> Iterator[discovery.FoundFile]:
    yield first
    yield from others


def _nothing(request: Request) -> UnusableInputError:
    return UnusableInputError(f"{', '.join(request.inputs)}: {NOTHING}")


def _claim(folder: Folder, *, force: bool) -> None:
    """Mark the folder as written by this program, after checking that its pages are."""
    if folder.read(_MARK) is not None:
        return
    for page in _PAGES:
        if not force and folder.size(page) is not None:
            raise OutputError(
                f"{folder.location}: {page} exists and no batch wrote it; choose another folder, or use --force"
            )
    mark = {"schema_version": 1, "generator": Generator("traceanalyzer", __version__)}
    folder.write(_MARK, msgspec.json.encode(mark).decode() + "\n")


def _write_summary(catalog: Catalog, folder: Folder, request: Request) -> tuple[str, ...]:
    index.write(catalog, folder, languages.of(request.options.language))
    pages = [*index.PAGES, summary.write_csv(catalog, folder)]
    with suppress(MissingDependencyError):  # an optional extra, which docs/batch.md names
        pages.append(summary.write_parquet(catalog, folder))
    if request.history is not None:
        runs = (histories.row_of(run, request.recorded_ns) for run in overview.run_rows(catalog))
        trends.write(histories.append(Path(request.history), runs), folder, languages.of(request.options.language))
        pages += trends.PAGES
    return tuple(pages)
