"""Summarizes all files of a batch: runs by what is to gain, bottlenecks, and findings by rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum
from typing import Any

import msgspec

from traceanalyzer.batching import record
from traceanalyzer.batching.catalog import Catalog
from traceanalyzer.batching.record import Output, Row
from traceanalyzer.inputs import rank_groups
from traceanalyzer.inputs.rank_groups import RankFile
from traceanalyzer.report import units
from traceanalyzer.report.message import Message


@dataclass(frozen=True, slots=True)
class File:
    """One file whose analysis is done."""

    run: str
    outputs: tuple[Output, ...]
    row: Row


@dataclass(frozen=True, slots=True)
class RunRow:
    """Summary of one run; sums and means are over its analyzed files."""

    name: str
    files: int
    world_size: int | None
    missing: str
    """Ranks without a file, as ranges such as `2, 5-127`."""
    row: Row
    """Of the report on all ranks; without one, of the file of the lowest rank."""
    devices: int | None
    mean_step_ns: float | None
    busy_share: float | None
    wasted_ns: int | None
    """None, too, if no part of the recording is a step of the program."""
    recorded_ns: int | None
    """When its first recording began, in ns since 1970; None if no file shows it."""
    outputs: tuple[Output, ...]
    """Reports of the whole run, or of its only file."""


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """How often a resource bounds the step."""

    bound: str
    files: int
    wasted_ns: int | None


@dataclass(frozen=True, slots=True)
class RuleRow:
    """Summary of one rule over all files."""

    rule: str
    title: Message
    """Title of its finding in the file in which it saves most."""
    files: int
    runs: int
    low_ns: float | None
    """Lower bound of the saving in ns, summed over all steps of all files; None if no file has one."""
    high_ns: float | None


def assign_runs(catalog: Catalog) -> None:
    """Group done and failed files into runs, one folder at a time to bound memory."""
    database = catalog.database
    database.execute("UPDATE files SET run = name WHERE folder IS NULL AND state IN ('done', 'failed')")
    database.execute(
        "INSERT INTO runs SELECT name, world_size, '', wasted, hollow, '[]', NULL, gain FROM files"
        " WHERE folder IS NULL AND state = 'done'"
    )
    folders = database.execute("SELECT DISTINCT folder FROM files WHERE folder IS NOT NULL ORDER BY folder").fetchall()
    for (folder,) in folders:
        query = "SELECT name, rank, world_size, base_ns FROM files WHERE folder = ? ORDER BY name"
        members = [RankFile(*row) for row in database.execute(query, (folder,))]
        for run in rank_groups.group(members):
            ranks = [(run.name, rank, name) for rank, name in run.ranks]
            database.executemany("UPDATE files SET run = ?, rank = ? WHERE name = ?", ranks)
            database.execute(
                "INSERT INTO runs SELECT ?, ?, ?, sum(wasted), min(hollow), '[]', NULL, max(gain) FROM files"
                " WHERE run = ? AND state = 'done' HAVING count(*)",
                (run.name, run.world_size, units.ranges(run.missing), run.name),
            )


def run_rows(catalog: Catalog, limit: int | None = None) -> Iterator[RunRow]:
    """Runs by what is to gain, then by wasted GPU time; those with hardly any GPU work or without figures last."""
    query = (
        "SELECT name, world_size, missing, wasted, outputs, row FROM runs"
        " ORDER BY wasted IS NULL, hollow, coalesce(gain, 0) DESC, wasted DESC, name LIMIT ?"
    )
    for name, world, missing, wasted, outputs, joint in catalog.database.execute(query, (_limited(limit),)):
        if members := list(_files(catalog, "run = ?", (name,), "rank, name")):
            first = members[0]
            row = msgspec.json.decode(joint, type=Row) if joint else first.row
            steps = _mean(member.row.typical_step_ns for member in members)
            yield RunRow(
                name=name,
                files=len(members),
                world_size=world,
                missing=missing,
                row=row,
                devices=sum(member.row.devices or 0 for member in members) or None,
                mean_step_ns=steps if row.typical_step_ns is None else row.typical_step_ns,
                busy_share=_mean(member.row.busy_share for member in members),
                wasted_ns=wasted if any(member.row.waste_ns is not None for member in members) else None,
                recorded_ns=_first_recorded(members),
                outputs=msgspec.json.decode(outputs, type=tuple[Output, ...]) or first.outputs,
            )


def _first_recorded(members: Iterable[File]) -> int | None:
    known = (member.row.recorded_ns for member in members)
    return min((ns for ns in known if ns is not None), default=None)


def number_of_runs(catalog: Catalog) -> int:
    """Number of runs of which at least one file could be analyzed."""
    return int(catalog.database.execute("SELECT count(*) FROM runs").fetchone()[0])


def files(catalog: Catalog, limit: int | None = None) -> Iterator[File]:
    """Files that are done, in the order of names."""
    yield from _files(catalog, "1", (), "name", limit)


def everything(catalog: Catalog) -> Iterator[tuple[str, str | None, str | None, File | None]]:
    """Name, run, error and row of every file that counts, in the order of names; failed files have no row."""
    query = "SELECT name, run, reason, record FROM files WHERE state IN ('done', 'failed') ORDER BY name"
    for name, run, reason, data in catalog.database.execute(query):
        done = record.decode(data) if data is not None else None
        yield name, run, reason, File(run, done.outputs, done.row) if done is not None else None


def bottlenecks(catalog: Catalog) -> list[Bottleneck]:
    """How often each resource bounds the step, the most frequent first."""
    query = (
        "SELECT bound, count(*), sum(CASE WHEN hollow THEN NULL ELSE wasted END) FROM files"
        " WHERE state = 'done' AND bound IS NOT NULL"
        " GROUP BY bound ORDER BY count(*) DESC, bound"
    )
    return [Bottleneck(*row) for row in catalog.database.execute(query)]


def rules(catalog: Catalog) -> list[RuleRow]:
    """Rules over all files, largest saving first, then most frequent first."""
    query = (
        "SELECT rule, count(DISTINCT file), count(DISTINCT run) FROM advice JOIN files ON files.id = advice.file"
        " GROUP BY rule"
    )
    title = (
        "SELECT title FROM advice JOIN files ON files.id = advice.file WHERE rule = ?"
        " ORDER BY high IS NULL, high DESC, name, advice.rowid LIMIT 1"
    )
    rows = []
    for rule, of_files, of_runs in catalog.database.execute(query).fetchall():
        (text,) = catalog.database.execute(title, (rule,)).fetchone()
        ends = (_sum(catalog, rule, end) for end in ("low", "high"))
        rows.append(RuleRow(rule, msgspec.json.decode(text, type=Message), of_files, of_runs, *ends))
    return sorted(rows, key=lambda row: (row.high_ns is None, -(row.high_ns or 0.0), -row.files, row.rule))


def _sum(catalog: Catalog, rule: str, end: str) -> float | None:
    """An end of what a rule saves over all files, if any file has it.

    SQLite's sum of floats depends on the order in which files were done, which is another one in a resumed batch.
    """
    query = f"SELECT {end} FROM advice WHERE rule = ? AND {end} IS NOT NULL"  # noqa: S608
    savings = [ns for (ns,) in catalog.database.execute(query, (rule,))]
    return fsum(savings) if savings else None


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """Sums over all files that are done."""

    runs: int
    files: int
    gpu_ns: int | None
    """Sum over all files of the window times the number of GPUs, in ns."""
    wasted_ns: int | None
    hollow: int
    """Number of files whose GPUs had hardly any work; they are not part of the sums."""


def totals(catalog: Catalog) -> BatchTotals:
    """Sums over all files; a sum is None if no file has the figure.

    Files with hardly any work are left out: an hour in which a GPU got one kernel would outweigh all others.
    """
    number, gpu, wasted, hollow = 0, 0, 0, 0
    for file in files(catalog):
        number += 1
        if file.row.is_hollow:
            hollow += 1
        elif file.row.wasted_ns is not None and file.row.window_ns and file.row.devices:
            gpu += file.row.window_ns * file.row.devices
            wasted += file.row.wasted_ns
    return BatchTotals(number_of_runs(catalog), number, gpu or None, wasted if gpu else None, hollow)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the known values."""
    known = [value for value in values if value is not None]
    return fsum(known) / len(known) if known else None


def _limited(limit: int | None) -> int:
    return -1 if limit is None else limit


def _files(
    catalog: Catalog, where: str, values: tuple[Any, ...], order: str, limit: int | None = None
) -> Iterator[File]:
    query = f"SELECT run, record FROM files WHERE state = 'done' AND {where} ORDER BY {order} LIMIT ?"  # noqa: S608
    for run, data in catalog.database.execute(query, (*values, _limited(limit))):
        done = record.decode(data)
        if done is not None:
            yield File(run or done.row.name, done.outputs, done.row)
