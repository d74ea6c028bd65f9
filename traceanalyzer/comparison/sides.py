"""Reads what is compared: traces, saved reports, documents with tables, and folders of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.comparison import printed
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import saved_reports
from traceanalyzer.pipeline import StepChoice, analyze
from traceanalyzer.readers import read
from traceanalyzer.readers.source import Source, open_source
from traceanalyzer.report.model import Report

Progress = Callable[[str], Callable[[int], None]]
"""From the name of a file to what takes the number of bytes after each read."""

_SUFFIXES = (".json", ".json.gz", ".json.tmp")
_RUN = "#"


@dataclass(frozen=True)
class Given:
    """One side as it was read, before anything is compared."""

    name: str
    reports: tuple[Report, ...]
    """Reports of the side: one of a document, one per trace of a run."""
    run: str | None = None
    """The run of a document that was asked for, such as `run-2` or `2`; None if none was."""
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
    progress: Progress


def open_side(path: str, reading: Reading) -> Given:
    """Read one side from a file, a folder, or `DOCUMENT#RUN`.

    Args:
        path: A file, a folder, or `DOCUMENT#RUN`.
        reading: How.

    Raises:
        UnusableInputError: Nothing there can be compared.
        UsageError: The request does not fit the input.
    """
    file, run = _split(path)
    if Path(file).is_dir():
        return _folder(Path(file), reading)
    report, _ = _read(file, reading)
    given = Given(report.source.name, (report,), run)
    if run is not None and not given.is_printed:
        raise UsageError(f"{path}: only documents with tables have runs; leave {_RUN}{run} out")
    return given


def both_of(path: str, reading: Reading) -> tuple[Given, Given]:
    """Take both runs of one document as the two sides.

    Raises:
        UsageError: It is no document, or holds another number of runs.
    """
    given = open_side(path, reading)
    found = printed.runs(given.reports[0]) if given.is_printed else ()
    if given.run is not None or not given.is_printed:
        raise UsageError(f"{path}: what shall it be compared with? Name two traces, reports, folders or runs")
    if len(found) != 2:
        problem = "holds one run" if len(found) == 1 else f"holds {len(found)} runs; name two of them"
        raise UsageError(f"{given.name}: {problem}: {printed.listing(given.reports[0])}")
    return tuple(Given(given.name, given.reports, run.id) for run in found)  # type: ignore[return-value]  # two


def _split(path: str) -> tuple[str, str | None]:
    """Split off the run behind the last `#`, unless there is a file of that whole name."""
    file, mark, run = path.rpartition(_RUN)
    return (file, run) if mark and file and run and not os.path.lexists(path) else (path, None)


def _folder(folder: Path, reading: Reading) -> Given:
    """Read all traces below a folder; where there are none, all saved reports."""
    if not os.access(folder, os.R_OK | os.X_OK):
        raise UnusableInputError(f"{folder}: cannot be listed: Permission denied")
    files = sorted(f for f in folder.rglob("*") if f.is_file() and f.name.lower().endswith(_SUFFIXES))
    traces: dict[Path, Report] = {}
    saved: dict[Path, Report] = {}
    for file in files:
        with contextlib.suppress(UnusableInputError):
            report, is_saved = _read(str(file), reading)
            if report.source.format == "kineto":
                (saved if is_saved else traces)[file] = report
    chosen = traces or saved
    if not chosen:
        raise UnusableInputError(f"{folder}: holds no trace (*.json, *.json.gz) and no report (report -o x.json)")
    ignored = tuple(str(file.relative_to(folder)) for file in files if file not in chosen)
    return Given(folder.resolve().name or str(folder), tuple(chosen.values()), None, ignored)


def _read(path: str, reading: Reading) -> tuple[Report, bool]:
    """The report of a trace or document, or a saved one; and whether it was saved."""
    with open_source(path, reading.progress(path)) as source:
        if saved_reports.begins(source):
            return _saved(source, reading.steps), True
        measured = read(source)
    return analyze(measured, reading.steps, reading.config), False


def _saved(source: Source, steps: StepChoice) -> Report:
    if not steps.is_everything:
        raise UsageError(f"{source.name}: is a saved report; steps can only be chosen of a trace")
    return saved_reports.read_report(source)
