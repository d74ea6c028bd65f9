"""Analyzes files of a batch and writes their reports; then one report for each run of several ranks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import msgspec

from traceanalyzer import formats
from traceanalyzer.analyzers.ranks import member
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.batching import Progress, ReportOptions, record
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.dispatch import Job, JobEnd, JobOutcome
from traceanalyzer.batching.record import Output, Row
from traceanalyzer.errors import TraceAnalyzerError, UnusableInputError
from traceanalyzer.formats import language
from traceanalyzer.inputs import discovery, opening, rank_groups, saved_reports
from traceanalyzer.inputs.storage import STATE, Folder, open_folder
from traceanalyzer.multirank import join
from traceanalyzer.pipeline import StepChoice, report_on
from traceanalyzer.report.model import Report
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.urls import shown, without_secrets_of


def process(task: Job, progress: Callable[[int], None]) -> JobOutcome:
    """Analyze a file, write its reports, and then its record. Errors are returned as a reason; none is raised.

    Args:
        task: The file and the options.
        progress: Called with the number of input bytes after each read.
    """
    try:
        folder = open_folder(task.output, force=task.force)
        done = _report(task, folder, progress)
    except UnusableInputError as error:
        end = JobEnd.LEFT_OUT if task.may_be_nothing else JobEnd.FAILED
        return JobOutcome(end, reason=_reason(task, str(error)))
    except TraceAnalyzerError as error:
        return JobOutcome(JobEnd.FAILED, reason=_reason(task, str(error)))
    except MemoryError:
        return JobOutcome(JobEnd.FAILED, reason="does not fit into the memory that a worker may use")
    except Exception as error:  # a bug costs one file, not the batch
        reason = without_secrets_of(task.location, f"cannot be analyzed: {type(error).__name__}: {error}")
        return JobOutcome(JobEnd.FAILED, reason=reason)
    return JobOutcome(JobEnd.DONE, record=done)


def _report(task: Job, folder: Folder, progress: Callable[[int], None]) -> bytes:
    options = task.options
    content = opening.read(task.location, progress)
    is_saved = isinstance(content, Report)
    choice = (
        None
        if isinstance(content, TableDocument | CompileLog | FlightDump | LoggedHang | MemorySnapshot)
        else StepChoice(skip_warmup=options.skip_warmup)
    )
    report = report_on(content, task.location, choice, options.config)
    del content  # free its memory for the texts of the reports
    outputs = write_reports(folder, task.name, report, options)
    rank = keep_rank(folder, task.name, report)
    entry = record.record_of(task.name, task.fingerprint, outputs, rank, report, is_saved=is_saved)
    done = record.encode(entry)
    folder.write(record.name_of(task.name), done)
    return done.encode()


def _reason(task: Job, message: str) -> str:
    """The text of an error without the file's name, because the line already begins with it."""
    location = shown(task.location)
    for name in (location, location.rpartition("/")[2], task.name.rpartition("/")[2]):
        message = message.removeprefix(f"{name}: ")
    return " ".join(message.split())


_rendering = threading.Lock()
"""Allows one rendering at a time: workers of a cluster may be threads, and drawing libraries are not thread-safe."""


def write_reports(folder: Folder, name: str, report: Report, options: ReportOptions) -> tuple[Output, ...]:
    """Write a report in every requested format.

    Args:
        folder: Folder of the reports.
        name: Name of the file or run.
        report: The report.
        options: Formats and language.

    Raises:
        OutputError: A file cannot be written, or another program wrote it.
    """
    return tuple(_write(folder, name, report, form, options) for form in options.formats)


def _write(folder: Folder, name: str, report: Report, form: str, options: ReportOptions) -> Output:
    with _rendering:
        text = formats.render(report, form, options.top, language.of(options.language))
    path = discovery.report_name(name, formats.FORMATS[form][0])
    folder.write(path, text)
    return Output(form, path, len(text.encode("utf-8", "replace")))


# Writes a report of each run of several ranks, from the results that the workers stored for each rank.
#
# A worker stores the few results needed to compare ranks (some kilobytes per rank), so that no file is read twice and
# a run of many ranks fits into memory.


def keep_rank(folder: Folder, name: str, report: Report) -> Output | None:
    """Store the results of a rank for the report of its run. Returns None if the file is not a rank of a larger run."""
    summary = report.trace
    if summary is None or member.of_report(report) is None:
        return None
    if rank_groups.folder_of(rank_groups.RankFile(name, summary.rank, summary.world_size, summary.base_ns)) is None:
        return None
    needed = {key: report.analyses[key] for key in member.NEEDED if key in report.analyses}
    damage = tuple(warning for warning in report.warnings if warning.id in member.DAMAGE)
    part = msgspec.structs.replace(report, warnings=damage, analyses=needed, headlines=(), findings=(), skipped=())
    text = msgspec.json.encode(part, order="deterministic").decode() + "\n"
    path = f"{STATE}/{name}.rank"
    folder.write(path, text)
    return Output("rank", path, len(text.encode()))


def write_rank_reports(catalog: Catalog, folder: Folder, options: ReportOptions, progress: Progress) -> None:
    """Write a report of every run that has files of two ranks or more, and record it in the catalog."""
    for run in _runs(catalog):
        try:
            joint = _join(run, list(_ranks(catalog, run)), folder, options)
        except TraceAnalyzerError as error:
            progress.note(f"{run}: no report of all ranks: {error}")
            continue
        if joint is not None:
            values = (*map(msgspec.json.encode, joint), run)
            catalog.database.execute("UPDATE runs SET outputs = ?, row = ? WHERE name = ?", values)


def _join(
    run: str, ranks: list[tuple[int, str, Output | None]], folder: Folder, options: ReportOptions
) -> tuple[tuple[Output, ...], Row] | None:
    """Write the reports of a run, named after the file of the lowest rank; None with fewer than two readable ranks."""
    members = dict(_members(folder, ranks))
    if len(members) < 2:
        return None
    report = join(members, run, options.config)
    return write_reports(folder, f"{ranks[0][1]}.all-ranks", report, options), record.row_of(run, report)


def _runs(catalog: Catalog) -> list[str]:
    query = (
        "SELECT run FROM files WHERE state = 'done' AND rank IS NOT NULL GROUP BY run HAVING count(*) > 1 ORDER BY run"
    )
    return [run for (run,) in catalog.database.execute(query)]


def _ranks(catalog: Catalog, run: str) -> Iterator[tuple[int, str, Output | None]]:
    """Rank, file name and stored results of each rank of a run."""
    query = "SELECT rank, name, record FROM files WHERE run = ? AND state = 'done' AND rank IS NOT NULL ORDER BY rank"
    for rank, name, data in catalog.database.execute(query, (run,)):
        done = record.decode(data)
        yield rank, name, done.rank if done else None


def _members(folder: Folder, ranks: list[tuple[int, str, Output | None]]) -> Iterator[tuple[int, Member]]:
    for rank, name, kept in ranks:
        data = folder.read(kept.name) if kept else None
        rank_member = member.of_report(saved_reports.decode(data, name)) if data else None
        if rank_member is not None:
            yield rank, rank_member
