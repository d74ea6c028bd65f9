"""Reads the inputs of a comparison: traces, saved reports and documents; files, folders, patterns and URLs."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from traceanalyzer.analyzers.ranks import totals
from traceanalyzer.comparison import measurement
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import opening, saved_reports, sniffing
from traceanalyzer.inputs.discovery import CAPTURED_TABLES
from traceanalyzer.inputs.opening import FileProgress
from traceanalyzer.inputs.sniffing import FileKind, SniffedFile
from traceanalyzer.pipeline import StepChoice, report_on
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.gate import Noise
from traceanalyzer.report.model import Report
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.urls import is_url

_RUN = "#"


@dataclass(frozen=True)
class Given:
    """One side as it was read, before anything is compared."""

    name: str
    reports: tuple[Report, ...]
    """Reports of the side: one of a document, one per trace of a run."""
    run: str | None = None
    """The requested run of a document, such as `run-2` or `2`; None if none was requested."""
    ignored: tuple[str, ...] = ()
    """Files of a folder that are not part of the comparison."""

    @property
    def is_printed(self) -> bool:
        """Whether the side is a document with printed tables."""
        return self.reports[0].source.format == "key_averages"


@dataclass(frozen=True)
class Reading:
    """Options by which files become reports."""

    config: Config
    steps: StepChoice
    progress: FileProgress
    jobs: int = 1


def open_side(given: str, reading: Reading) -> Given:
    """Read one side.

    Args:
        given: A file, a folder, a pattern, a URL, or one of these and the run of a document: `DOCUMENT#RUN`.
        reading: How.

    Raises:
        UnusableInputError: Nothing there can be compared.
        UsageError: The request does not fit the input.
    """
    where, run = _split(given)
    if opening.is_one_file(where):
        read = _read(where, reading)
        if read.source.format == totals.FORMAT:
            raise UnusableInputError(
                f"{given}: is a report on several ranks together, which holds no single steps; "
                "name the folder with the traces of these ranks"
            )
        side = _of_reports(where, {"": read}, run)
    else:
        side = _several(where, run, reading)
    if run is not None and not side.is_printed:
        rest = f"what follows {_RUN}" if is_url(where) else f"{_RUN}{run}"
        raise UsageError(f"{given}: only documents with tables have runs; leave {rest} out")
    return side


def both_of(path: str, reading: Reading) -> tuple[Given, Given]:
    """Take both runs of one document as the two sides.

    Raises:
        UsageError: It is not a document, or holds another number of runs.
    """
    given = open_side(path, reading)
    tables = measurement.runs_of_tables(given.reports[0]) if given.is_printed else ()
    if given.run is not None or not given.is_printed:
        raise UsageError(f"{path}: needs something to compare with; name two traces, reports, folders or runs")
    if len(tables) != 2:
        problem = "contains one run" if len(tables) == 1 else f"contains {len(tables)} runs; name two of them"
        raise UsageError(f"{given.name}: {problem}: {measurement.listing(given.reports[0])}")
    return tuple(Given(given.name, given.reports, run.id) for run in tables)  # type: ignore[return-value]  # two


def _split(path: str) -> tuple[str, str | None]:
    """Split off the run after the last `#`, unless there is a file of that whole name."""
    file, mark, run = path.rpartition(_RUN)
    return (file, run) if mark and file and run and not os.path.lexists(path) else (path, None)


def _several(where: str, run: str | None, reading: Reading) -> Given:
    """Read all traces of a folder, a pattern or a URL; without any, its only document, or all saved reports."""
    files = [sniffing.sniff(file) for file in opening.files([where])]
    read = _first_kind(files, reading)
    if not read:
        for file in files:
            if file.failure is not None:
                raise UnusableInputError(f"{file.found.location}: {file.failure}")
        raise opening.nothing_in([where])
    names = [file.found.name for file in files]
    ignored = tuple(name for name in names if name not in read and _trace_of(name) not in read)
    return _of_reports(where, read, run, ignored)


def _first_kind(files: list[SniffedFile], reading: Reading) -> dict[str, Report]:
    """Reports on the files of the first kind of which any can be used: traces, the only document, saved reports."""
    left = files
    while counting := sniffing.that_count(left):
        left = [file for file in left if file not in counting]
        is_ambiguous = counting[0].is_a(FileKind.DOCUMENT) and len(counting) > 1
        read = {} if is_ambiguous else _all_of(counting, reading)
        if read:
            return read
    return {}


def recordings(where: str, reading: Reading) -> dict[str, Report]:
    """Read all traces of a folder, a pattern or a URL, else all its saved reports, by their names.

    Raises:
        UnusableInputError: There are none.
    """
    read = _first_kind([sniffing.sniff(file) for file in opening.files([where])], reading)
    recorded = {name: report for name, report in read.items() if report.source.format == "kineto"}
    if not recorded:
        raise opening.nothing_in([where])
    return recorded


def saved_noise(file: str) -> Noise:
    """The noise of a machine that a difference kept.

    Raises:
        UnusableInputError: The file is no difference, or was written without it.
    """
    with opening.open_source(file) as source:
        saved = saved_reports.read(source, file) if saved_reports.begins(source) else None
    if not isinstance(saved, Difference) or saved.noise is None:
        raise UnusableInputError(
            f"{file}: holds no noise; name a folder with recordings of an unchanged program, or a difference that was "
            "written with --noise (diff BASE HEAD --noise FOLDER -o diff.json)"
        )
    return saved.noise


def _trace_of(name: str) -> str:
    """The trace beside which a capture has written tables of this name; another name is returned as it is."""
    stem = name.removesuffix(CAPTURED_TABLES)
    return name if stem == name else f"{stem}.json.gz"


def _all_of(files: list[SniffedFile], reading: Reading) -> dict[str, Report]:
    """Reports on the files that can be used, by their names. Ranks joined by an earlier command are no measurement."""
    read = {}
    for file in files:
        with contextlib.suppress(UnusableInputError):
            report = _read(file.found.location, reading)
            if report.source.format == "kineto" or file.is_a(FileKind.DOCUMENT):
                read[file.found.name] = report
    return read


def _of_reports(where: str, read: dict[str, Report], run: str | None, ignored: tuple[str, ...] = ()) -> Given:
    reports = tuple(read.values())
    return Given(opening.name_of([where], [report.source.name for report in reports]), reports, run, ignored)


def _read(location: str, reading: Reading) -> Report:
    content = opening.read(location, reading.progress(location), reading.jobs)
    if isinstance(content, FlightDump):
        raise UnusableInputError(f"{location}: is a dump of the flight recorder, which has no steps to compare")
    if isinstance(content, LoggedHang):
        raise UnusableInputError(f"{location}: is the log of a hang, which has no steps to compare")
    if isinstance(content, MemorySnapshot):
        raise UnusableInputError(f"{location}: is a memory snapshot, which has no steps; name two snapshots")
    if isinstance(content, CompileLog):
        raise UnusableInputError(f"{location}: is a compile log, which has no steps to compare; name traces or tables")
    return report_on(content, location, reading.steps, reading.config, jobs=reading.jobs)
