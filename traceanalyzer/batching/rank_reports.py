"""Writes a report of each run of several ranks, from the results that the workers stored for each rank.

A worker stores the few results needed to compare ranks (some kilobytes per rank), so that no file is read twice and
a run of many ranks fits into memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from traceanalyzer.analyzers.ranks import member
from traceanalyzer.analyzers.ranks.member import Member
from traceanalyzer.batching import record, reports
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.progress import Progress
from traceanalyzer.batching.record import Output
from traceanalyzer.batching.request import ReportOptions
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.inputs import rank_groups, saved_reports
from traceanalyzer.inputs.storage import STATE, Folder
from traceanalyzer.multirank import join
from traceanalyzer.report.model import Report


def keep(folder: Folder, name: str, report: Report) -> Output | None:
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


def write(catalog: Catalog, folder: Folder, options: ReportOptions, progress: Progress) -> None:
    """Write a report of every run that has files of two ranks or more, and record it in the catalog."""
    for run in _runs(catalog):
        try:
            outputs = _join(run, list(_ranks(catalog, run)), folder, options)
        except TraceAnalyzerError as error:
            progress.note(f"{run}: no report of all ranks: {error}")
            continue
        catalog.database.execute("UPDATE runs SET outputs = ? WHERE name = ?", (msgspec.json.encode(outputs), run))


def _join(
    run: str, ranks: list[tuple[int, str, Output | None]], folder: Folder, options: ReportOptions
) -> tuple[Output, ...]:
    """Write the reports of a run, named after the file of the lowest rank; none with fewer than two readable ranks."""
    members = dict(_members(folder, ranks))
    if len(members) < 2:
        return ()
    return reports.write(folder, f"{ranks[0][1]}.all-ranks", join(members, run, options.config), options)


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
        found = member.of_report(saved_reports.decode(data, name)) if data else None
        if found is not None:
            yield rank, found
