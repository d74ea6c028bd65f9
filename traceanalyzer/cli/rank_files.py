"""Which of some files are the ranks of one run, and what is in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer import readers
from traceanalyzer.analyzers.ranks.member import Member, of_report
from traceanalyzer.cli.progress import reading
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import discovery, rank_groups, saved_reports
from traceanalyzer.inputs.discovery import FoundFile
from traceanalyzer.pipeline import StepChoice, measure_rank
from traceanalyzer.readers.source import open_source
from traceanalyzer.report.model import Report
from traceanalyzer.trace.model import Trace

_NAMED = 5
"""Runs, and files that were left out, that are named in a message."""


@dataclass(frozen=True)
class RankFiles:
    """The ranks of one run."""

    name: str
    """Name of the folder, or of the first and the last file."""
    members: dict[int, Member]
    """The files by rank."""
    left_out: tuple[str, ...]
    """Files that are not among them: name and reason, a sentence each."""

    @property
    def summary(self) -> Iterable[str]:
        """What was left out, in a few lines."""
        if not self.left_out:
            return
        count = len(self.left_out)
        yield f"Left out {count} of {count + len(self.members)} files:"
        yield from (f"- {reason}" for reason in self.left_out[:_NAMED])
        if count > _NAMED:
            yield f"- and {count - _NAMED} more"


@dataclass(frozen=True)
class _Measured:
    """A file and what is in it."""

    name: str
    member: Member


def collect(inputs: Sequence[str], steps: StepChoice, *, quiet: bool) -> RankFiles:
    """Read the ranks of a run.

    A file that cannot be used is left out, and its rank will be missing. A saved report counts only where there are no
    traces, or if it was named.

    Args:
        inputs: Traces, saved reports, folders, patterns.
        steps: Which steps of traces count.
        quiet: Show no progress.

    Raises:
        UnusableInputError: No file can be used, or none is a rank.
        UsageError: They are several runs, or steps are chosen of a report.
    """
    measured, reasons = _measure(inputs, steps, quiet=quiet)
    is_one = all(Path(path).is_file() for path in inputs)
    members, unknown = _run_of(measured, ", ".join(inputs), is_one=is_one)
    return RankFiles(_name(inputs, members), members, (*reasons, *unknown))


def _measure(inputs: Sequence[str], steps: StepChoice, *, quiet: bool) -> tuple[list[_Measured], list[str]]:
    """Every file that can be used, and of the others why not."""
    found = list({file.identity: file for file in discovery.find(inputs)}.values())
    saved = [file for file in found if file.failure is None and is_report(file.location)]
    beside = [file for file in saved if not file.is_named]
    measured, reasons = _all_of([file for file in found if file not in beside], saved, steps, quiet=quiet)
    if not measured:
        measured, others = _all_of(beside, saved, steps, quiet=quiet)
        reasons += others
    if not measured:
        raise UnusableInputError(reasons[0] if reasons else f"{', '.join(inputs)}: holds no trace and no report")
    return measured, reasons


def _all_of(
    files: list[FoundFile], saved: list[FoundFile], steps: StepChoice, *, quiet: bool
) -> tuple[list[_Measured], list[str]]:
    """What is in some files, and why some cannot be used."""
    measured, reasons = [], []
    for file in files:
        try:
            measured.append(_measured(file, steps, is_report=file in saved, quiet=quiet))
        except UnusableInputError as error:
            reasons.append(str(error))
    return measured, reasons


def is_report(location: str) -> bool:
    """Whether a file begins like a saved report."""
    try:
        with open_source(location, lambda _: None) as source:
            return saved_reports.begins(source)
    except UnusableInputError:
        return False


def _measured(file: FoundFile, steps: StepChoice, *, is_report: bool, quiet: bool) -> _Measured:
    if file.failure is not None:
        raise UnusableInputError(f"{file.location}: {file.failure}")
    with reading(file.location, quiet=quiet) as progress, open_source(file.location, progress) as source:
        if is_report:
            member = _saved(saved_reports.read_report(source, file.name), file, steps)
        else:
            trace = readers.read(source)
            if not isinstance(trace, Trace):
                raise UnusableInputError(
                    f"{file.location}: holds printed tables, which cannot be compared between ranks"
                )
            member = measure_rank(trace, steps)
    if member is None:
        raise UnusableInputError(f"{file.location}: names no rank and has no collectives")
    return _Measured(file.name, member)


def _saved(report: Report, file: FoundFile, steps: StepChoice) -> Member | None:
    if not steps.is_everything:
        raise UsageError(f"{file.location}: is a saved report; steps can only be chosen of a trace")
    return of_report(report)


def _name(inputs: Sequence[str], members: dict[int, Member]) -> str:
    """Name of the folder, or of the first and the last file."""
    if len(inputs) == 1 and Path(inputs[0]).is_dir():
        return Path(inputs[0]).resolve().name
    files = [members[rank].source.name for rank in sorted(members)]
    return files[0] if len(files) == 1 else f"{files[0]} ... {files[-1]}"


def _run_of(measured: list[_Measured], given: str, *, is_one: bool) -> tuple[dict[int, Member], list[str]]:
    """The members of the run by rank, and the files that belong to none.

    Args:
        measured: All files that can be used.
        given: What the user wrote.
        is_one: Files were named one by one: then they are one run, wherever they lie.

    Raises:
        UnusableInputError: No file is a rank.
        UsageError: They are several runs.
    """
    found = [run for run in rank_groups.group(map(_as_file, measured)) if run.ranks[0][0] is not None]
    if not found:
        raise UnusableInputError(
            f"{given}: no rank is known, neither from distributedInfo nor from names such as rank3.json; a trace that "
            "is no rank is for traceanalyzer report"
        )
    by_name = {entry.name: entry.member for entry in measured}
    ranks = [(rank, name) for run in found for rank, name in run.ranks if rank is not None]
    if len(found) > 1 and not (is_one and len({rank for rank, _ in ranks}) == len(ranks)):
        raise UsageError(
            f"{given}: holds {len(found)} runs ({named(run.name for run in found)}); name the files of one"
        )
    unknown = [f"{name}: its rank is not known" for name in sorted(by_name.keys() - {name for _, name in ranks})]
    return {rank: by_name[name] for rank, name in ranks}, unknown


def named(names: Iterable[str]) -> str:
    """Some names, the first of many."""
    every = list(names)
    return ", ".join(every[:_NAMED]) + (", ..." if len(every) > _NAMED else "")


def _as_file(entry: _Measured) -> rank_groups.RankFile:
    """Describe a file as `rank_groups` needs it."""
    summary = entry.member.summary
    return rank_groups.RankFile(entry.name, summary.rank, summary.world_size, summary.base_ns)
