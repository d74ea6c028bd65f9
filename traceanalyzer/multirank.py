"""All ranks of one run in one report: measures each rank, finds out which of the files are one run, and joins them.

The module is not called `ranks`, because `traceanalyzer.ranks` is the public function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceanalyzer import pipeline
from traceanalyzer.analyzers import ranks as joining
from traceanalyzer.analyzers.ranks import stragglers, totals
from traceanalyzer.analyzers.ranks.member import Member, of_report, of_trace
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.analyzers.ranks.stragglers import Stragglers
from traceanalyzer.config import Config
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import opening, rank_groups, sniffing
from traceanalyzer.inputs.discovery import FoundFile, is_pickle
from traceanalyzer.inputs.opening import FileProgress
from traceanalyzer.inputs.sniffing import FileKind
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Report
from traceanalyzer.rules.engine import selection
from traceanalyzer.rules.engine.facts import sources
from traceanalyzer.rules.engine.runner import judge
from traceanalyzer.simulation import what_if_ranks
from traceanalyzer.simulation.what_if import WhatIf
from traceanalyzer.trace.compile_log import CompileLog
from traceanalyzer.trace.document import TableDocument
from traceanalyzer.trace.flight_recorder import FlightDump, LoggedHang
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Loss, Trace
from traceanalyzer.urls import shown

_NAMED = 5
"""Runs, and files that were left out, that are named in a message."""
_NO_RANK = "names no rank and has no collectives to compare; `traceanalyzer report` takes one trace"


@dataclass(frozen=True)
class MeasuredRun:
    """The ranks of one run, read and ready to be joined."""

    name: str
    """Name of the folder, or of the first and the last file."""
    members: Mapping[int, Member]
    """The facts of each rank, by its number."""
    left_out: tuple[str, ...]
    """Files that are not among them: name and reason, a sentence each."""
    doubts: tuple[Loss, ...] = ()
    """What the report says of how the ranks were read."""

    def report(self, config: Config | None = None) -> Report:
        """The report of the run, with the settings of a project."""
        return join(self.members, self.name, config, doubts=self.doubts)

    def what_if(self, ranks: Sequence[int] = ()) -> WhatIf:
        """Predict the step if some ranks were like the others; without a choice, for each rank alone.

        Raises:
            UsageError: The ranks cannot be replayed together, or one that is asked about is not among them.
        """
        members = joining.with_common_steps(self.members)
        ordered = [members[rank] for rank in sorted(members)]
        judged = joining.of_typical_steps(members) or members
        facts = {rank: member.facts for rank, member in judged.items()}
        return what_if_ranks.ask(facts, totals.source(self.name, ordered), _world_size(ordered), ranks)

    @property
    def summary(self) -> Iterable[str]:
        """A summary of the files that were left out, in a few lines."""
        return summary_of(self.left_out, len(self.members))


@dataclass(frozen=True)
class DumpedRun:
    """The dumps of the flight recorders of one run, or the logs of its job."""

    name: str
    """Name of the folder, or of the first and the last file."""
    dumps: Mapping[int, FlightDump]
    """The dumps by rank."""
    left_out: tuple[str, ...]
    """Files that are not among them: name and reason, a sentence each."""
    logs: tuple[LoggedHang, ...] = ()
    """The logs, if there are no dumps."""

    def report(self, config: Config | None = None) -> Report:
        """The report on who holds up the run."""
        if self.logs:
            return pipeline.analyze_hang_logs(self.logs, self.name, config)
        return pipeline.analyze_dumps(self.dumps, self.name, config)

    @property
    def summary(self) -> Iterable[str]:
        """A summary of the files that were left out, in a few lines."""
        return summary_of(self.left_out, len(self.logs or self.dumps))


def summary_of(left_out: Sequence[str], used: int) -> Iterable[str]:
    """A summary of the files that were left out, in a few lines."""
    if not left_out:
        return
    count = len(left_out)
    yield f"Left out {count} of {count + used} files:"
    yield from (f"- {reason}" for reason in left_out[:_NAMED])
    if count > _NAMED:
        yield f"- and {count - _NAMED} more"


@dataclass(frozen=True)
class _Reading:
    """How files are read."""

    steps: StepChoice | None
    progress: FileProgress
    jobs: int


@dataclass(frozen=True)
class _MeasuredFile:
    """A file and what is in it."""

    name: str
    member: Member
    doubts: tuple[Loss, ...] = ()
    """What is said once of a file that several ranks were merged into, with the first of them."""


def ranks(
    inputs: str | Path | Iterable[str | Path],
    *,
    steps: StepChoice | None = None,
    config: Config | None = None,
    progress: FileProgress | None = None,
    left_out: Callable[[str], None] | None = None,
    jobs: int = 1,
) -> Report:
    """Compare the ranks of one distributed run in a joint report.

    Args:
        inputs: Traces, dumps or saved reports of the ranks; folders, patterns or URLs that lead to them.
        steps: Which steps of traces count.
        config: Settings of a project; `traceanalyzer.config.load` reads them.
        progress: From the name of a file to what takes the number of bytes after each read.
        left_out: Called with one sentence for each file that cannot be used.
        jobs: As of `load`; files are read one after another.

    Raises:
        UnusableInputError: No file can be used, or none is a rank.
        UsageError: They are several runs, or steps are chosen of a report.
        MissingDependencyError: A URL whose library is not installed.
    """
    given = [inputs] if isinstance(inputs, str | Path) else inputs
    run = find([str(path) for path in given], steps, progress, jobs)
    for reason in run.left_out if left_out is not None else ():
        left_out(reason)  # type: ignore[misc]  # not None here
    return run.report(config)


def collect(
    inputs: Iterable[str],
    steps: StepChoice | None = None,
    progress: FileProgress | None = None,
    jobs: int = 1,
) -> MeasuredRun:
    """Read the ranks of a run.

    A file that cannot be used is left out, and its rank will be missing. A saved report counts only where there are no
    traces, or if it was named.

    Args:
        inputs: Traces, saved reports, folders, patterns, URLs.
        steps: Which steps of traces count.
        progress: From the name of a file to what takes the number of bytes after each read.
        jobs: Most processes that decode a large trace.

    Raises:
        UnusableInputError: No file can be used, or none is a rank.
        UsageError: They are several runs, or steps are chosen of a report.
    """
    given = list(inputs)
    measured, reasons = _measure(given, _Reading(steps, progress or opening.silent, jobs))
    is_one = all(map(opening.is_one_file, given))
    members, unknown = _run_of(measured, ", ".join(map(shown, given)), is_one=is_one)
    names = list(dict.fromkeys(members[rank].source.name for rank in sorted(members)))
    doubts = tuple(doubt for entry in measured for doubt in entry.doubts)
    return MeasuredRun(opening.name_of(given, names), members, (*reasons, *unknown), doubts)


def of_merged(trace: Trace, steps: StepChoice | None = None) -> MeasuredRun:
    """The ranks that a script merged into one file.

    Raises:
        UnusableInputError: They have no collectives.
        UsageError: None of the chosen steps is in one of them.
    """
    measured = _ranks_in(trace, trace.info.name, steps)
    members = {entry.member.summary.rank or 0: entry.member for entry in measured}
    return MeasuredRun(trace.info.name, members, (), measured[0].doubts)


def find(
    inputs: Iterable[str],
    steps: StepChoice | None = None,
    progress: FileProgress | None = None,
    jobs: int = 1,
) -> MeasuredRun | DumpedRun:
    """Read the ranks of a run, or the dumps of their flight recorders; the arguments and errors are those of `collect`.

    Dumps count where there are no traces, and logs of a hang where there are neither.
    """
    given = list(inputs)
    if dumps := _dump_files(given):
        return _dumped(given, dumps, progress or opening.silent)
    return collect(given, steps, progress, jobs)


def _dump_files(given: list[str]) -> list[FoundFile]:
    """The files that count, if they are dumps of flight recorders or logs of a hang."""
    counted = sniffing.that_count(map(sniffing.sniff, opening.files(given)))
    return [file.found for file in counted if file.is_a(FileKind.FLIGHT_DUMP) or file.is_a(FileKind.HANG_LOG)]


def _dumped(given: list[str], files: list[FoundFile], progress: FileProgress) -> DumpedRun:
    """Read the dumps or logs of a run, one after another.

    Raises:
        UnusableInputError: None can be read.
        UsageError: Two are of one rank, so that they are of several runs.
    """
    dumps: dict[int, FlightDump] = {}
    logs: list[LoggedHang] = []
    reasons = []
    for file in files:
        try:
            content = opening.read(file.location, progress(file.location))
        except UnusableInputError as error:
            reasons.append(_with_name(file, str(error)))
            continue
        if isinstance(content, LoggedHang):
            logs.append(content)
        elif not isinstance(content, FlightDump) or content.rank is None:
            reasons.append(f"{file.name}: its rank is not known; its name must end with it, as nccl_trace_rank_3 does")
        elif content.rank in dumps:
            raise UsageError(
                f"{', '.join(map(shown, given))}: contains several dumps of rank {content.rank}; name those of one run"
            )
        else:
            dumps[content.rank] = content
    if logs:
        return DumpedRun(opening.name_of(given, [log.name for log in logs]), {}, tuple(reasons), tuple(logs))
    if not dumps:
        raise UnusableInputError(reasons[0])
    ordered = {rank: dumps[rank] for rank in sorted(dumps)}
    return DumpedRun(opening.name_of(given, [dump.name for dump in ordered.values()]), ordered, tuple(reasons))


def measure_rank(trace: Trace, steps: StepChoice | None = None) -> Member | None:
    """Collect what `join` needs of one rank; None if the trace names no rank and has no collectives.

    Raises:
        UsageError: None of the chosen steps is in the trace.
    """
    context = pipeline.context_of(trace, steps, None)
    return of_trace(context, pipeline.source_of(trace), pipeline.summary_of(trace, context))


@dataclass(frozen=True)
class ComparedRanks:
    """How the ranks of a run work together."""

    every: Ranks
    """In all steps."""
    judged: Ranks
    """In the typical steps that all ranks have, or else in all."""
    stragglers: Stragglers | None
    """The slowdown by slow ranks in the steps that are judged."""
    reason: Message | None
    """Why the slowdown is not known."""


def compare(members: Mapping[int, Member]) -> ComparedRanks:
    """Compare the ranks of one run, by their numbers."""
    members = joining.with_common_steps(members)
    world = _world_size(members.values())
    ranks = joining.join(members, world)
    typical = joining.of_typical_steps(members)
    judged = ranks if typical is None else joining.join(typical, world)
    replayed = stragglers.analyze({rank: member.facts for rank, member in (typical or members).items()}, world)
    if isinstance(replayed, Stragglers):
        return ComparedRanks(ranks, judged, replayed, None)
    return ComparedRanks(ranks, judged, None, replayed)


def join(
    members: Mapping[int, Member],
    name: str,
    config: Config | None = None,
    found: ComparedRanks | None = None,
    doubts: Sequence[Loss] = (),
) -> Report:
    """Compare the ranks of one run in a joint report.

    Args:
        members: By rank: from `measure_rank`, or from saved reports (`ranks.member.of_report`).
        name: Name of the run.
        config: Settings of a project.
        found: What `compare` says of the members; None: it is asked.
        doubts: What is said of how they were read.
    """
    rules = sources.applicable(selection.choose(config or Config()))
    found = found or compare(members)
    ordered = [members[rank] for rank in sorted(members)]
    summary = totals.summary(ordered, found.every.world_size)
    results = totals.results(ordered, found.judged, found.every.groups)
    if found.stragglers is not None:
        results["stragglers"] = found.stragglers
    advice = judge(sources.of_ranks(summary, results), rules)
    ranks = joining.of_every_step(found.judged, found.every)
    shown: dict[str, Any] = {"recording": results["recording"]} if "recording" in results else {}
    shown |= {"ranks": ranks, "stragglers": found.stragglers}
    skipped = {} if found.reason is None else {"stragglers": found.reason}
    doubts = (*doubts, *joining.damaged(members), *joining.doubts(found.every), *joining.uneven(ranks))
    return pipeline.report_of(totals.source(name, ordered), summary, shown, skipped, doubts, advice)


def _world_size(members: Iterable[Member]) -> int | None:
    """The number of ranks of the run, if a trace says it."""
    return max((size for member in members if (size := member.summary.world_size) is not None), default=None)


def named(names: Iterable[str]) -> str:
    """Some names, the first of many."""
    every = list(names)
    return ", ".join(every[:_NAMED]) + (", ..." if len(every) > _NAMED else "")


def _measure(inputs: list[str], reading: _Reading) -> tuple[list[_MeasuredFile], list[str]]:
    """Every file that can be used, and of the others why not."""
    files = [file for file in opening.files(inputs) if file.is_named or not is_pickle(file.name)]
    other_files = [file for file in files if not file.is_named and _is_no_trace(file)]
    measured, reasons = _all_of([file for file in files if file not in other_files], reading)
    if not measured:
        measured, others = _all_of(other_files, reading)
        reasons += others
    if not measured:
        raise UnusableInputError(reasons[0]) if reasons else opening.nothing_in(inputs)
    return measured, reasons


def _is_no_trace(file: FoundFile) -> bool:
    """Whether it is a saved report, or a text with tables such as a capture leaves beside each trace."""
    seen = sniffing.sniff(file)
    return any(map(seen.is_a, (FileKind.REPORT, FileKind.DIFFERENCE, FileKind.DOCUMENT, FileKind.COMPILE_LOG)))


def _all_of(files: list[FoundFile], reading: _Reading) -> tuple[list[_MeasuredFile], list[str]]:
    """The contents of some files, and the reasons why others cannot be used."""
    measured, reasons = [], []
    for file in files:
        try:
            measured += _measured(file, reading)
        except UnusableInputError as error:
            reasons.append(_with_name(file, str(error)))
    return measured, reasons


def _with_name(file: FoundFile, reason: str) -> str:
    """A reason that begins with the file, which not every error names."""
    name = shown(file.location).rpartition("/")[2]
    return reason if name in reason.partition(": ")[0] else f"{file.name}: {reason}"


def _measured(file: FoundFile, reading: _Reading) -> list[_MeasuredFile]:
    """The rank that a file is of, or those that a script merged into it."""
    if file.failure is not None:
        raise UnusableInputError(f"{file.location}: {file.failure}")
    content = opening.read(file.location, reading.progress(file.location), reading.jobs)
    if isinstance(content, TableDocument):
        raise UnusableInputError(f"{file.location}: contains printed tables, which cannot be compared between ranks")
    if isinstance(content, FlightDump):
        raise UnusableInputError(f"{file.location}: is a dump of the flight recorder, which has no steps to compare")
    if isinstance(content, LoggedHang):
        raise UnusableInputError(f"{file.location}: is the log of a hang, which has no steps to compare")
    if isinstance(content, MemorySnapshot):
        raise UnusableInputError(f"{file.location}: is a memory snapshot, which cannot be compared between ranks")
    if isinstance(content, CompileLog):
        raise UnusableInputError(f"{file.location}: is a compile log, which cannot be compared between ranks")
    if isinstance(content, Trace):
        return _ranks_in(content, file.name, reading.steps, file.location)
    member = of_report(pipeline.report_on(content, file.location, reading.steps))
    if member is None:
        raise UnusableInputError(f"{file.location}: {_NO_RANK}")
    return [_MeasuredFile(file.name, member)]


def _ranks_in(trace: Trace, name: str, steps: StepChoice | None, location: str | None = None) -> list[_MeasuredFile]:
    """The rank that a trace is of, or those that a script merged into it, each with a name of its own."""
    measured = [(part, measure_rank(part, steps)) for part in trace.ranks or (trace,)]
    merged = {"read-merged": "", "read-more-traces": "", "read-merged-counted": "-counted"}
    doubts = tuple(Loss(f"q-ranks-merged{merged[loss.id]}", loss.count) for loss in trace.losses if loss.id in merged)
    found: list[_MeasuredFile] = []
    for part, member in measured:
        if member is None:
            raise UnusableInputError(f"{location or name}: {_NO_RANK}")
        own_name = f"{name}_rank{part.info.rank}" if trace.ranks else name
        found.append(_MeasuredFile(own_name, member, doubts if trace.ranks and not found else ()))
    return found


def _run_of(measured: list[_MeasuredFile], given: str, *, is_one: bool) -> tuple[dict[int, Member], list[str]]:
    """The members of the run by rank, and the files that belong to none.

    Args:
        measured: All files that can be used.
        given: Inputs as the user wrote them.
        is_one: Whether files were named one by one; then they are one run, wherever they are.

    Raises:
        UnusableInputError: No file is a rank.
        UsageError: They are several runs.
    """
    runs = [run for run in rank_groups.group(map(_as_file, measured)) if run.ranks[0][0] is not None]
    if not runs:
        raise UnusableInputError(
            f"{given}: no rank is known, neither from distributedInfo nor from names such as rank3.json; use "
            "traceanalyzer report for a trace without a rank"
        )
    numbered = [(rank, name) for run in runs for rank, name in run.ranks if rank is not None]
    name_of = dict(numbered)
    if len(runs) > 1 and not (is_one and len(name_of) == len(numbered)):
        raise UsageError(
            f"{given}: contains {len(runs)} runs ({named(run.name for run in runs)}); name the files of one"
        )
    member_of = {entry.name: entry.member for entry in measured}
    unknown = member_of.keys() - {name for _, name in numbered}
    reasons = [f"{name}: its rank is not known" for name in sorted(unknown)]
    return {rank: member_of[name] for rank, name in name_of.items()}, reasons


def _as_file(entry: _MeasuredFile) -> rank_groups.RankFile:
    """Facts about the file that grouping needs."""
    summary = entry.member.summary
    return rank_groups.RankFile(entry.name, summary.rank, summary.world_size, summary.base_ns)
