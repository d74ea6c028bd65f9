"""A report in brief and one finding of it: what programs read before they change code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from traceanalyzer.errors import UsageError
from traceanalyzer.report.compared import Interval
from traceanalyzer.report.model import Finding, Generator, Report, ReportSource

SCHEMA_VERSION = 1


class BriefVerdict(msgspec.Struct, frozen=True):
    """What bounds the typical step, and its figures; times are ns per step, null is unknown."""

    run: str | None
    """Id of the run in a document of printed tables; null for a trace."""
    bound: str
    """What bounds the step, as `headlines[].bound` of the report."""
    sentence: str
    """The same in one sentence."""
    qualifier: str | None
    """What changes what to do about it; null if nothing does."""
    step_ns: int | None
    """Mean duration in ns of a step that counts; of a printed table that shows no steps the profiled time."""
    steps: int | None
    """Number of steps that count: two recordings need at least 5 each to be compared."""
    share: float | None
    """Share of the step (0 to 1) that the bound takes."""
    gpu_ns: int | None
    """Time in which the busiest device works."""
    host_ns: int | None
    """Time in which the host waits for nothing."""
    loader_ns: int | None
    """Time in which the host waits for the loader."""
    communication_ns: int | None
    """Time in which the busiest device runs collectives."""
    idle_share: float | None
    """Share of the step (0 to 1) in which nothing runs on the device."""
    all_fixes_ns: Interval | None
    """By how much in ns all fixes together make a step shorter, at least and at most."""
    likely_ns: int | None
    """The same, most likely; null where only bounds are known."""
    next_bound: str | None
    """The resource that bounds the step after all fixes."""


class BriefEvidence(msgspec.Struct, frozen=True):
    """A measured value that crossed a threshold, or a further place of the row before."""

    what: str | None
    """Name of the measured quantity; null for a further place."""
    observed: float | None
    """The value, in `unit`; null if nothing was measured at this place."""
    threshold: float | None
    """The value that it had to cross; null for a further place."""
    unit: str
    """Unit of both, such as `ns` or `share` (0 to 1)."""
    where: str | None
    """The most important place, its kind first: `kernel`, `operator`, `step`, `python` and others; null if none is
    named."""


class BriefFinding(msgspec.Struct, frozen=True):
    """One piece of advice; times are ns per step, null is unknown."""

    id: str
    """Id for `traceanalyzer finding` and `verify --finding`: that of its rule; of several findings of a rule each
    further one with its number, `host-sync#2`; in documents with several runs after the run, `run-2/host-sync`."""
    severity: str
    """`critical`, `high`, `medium`, `low` or `info`."""
    confidence: str
    """`A`: exact evidence, `B`: inferred from names and shapes, `C`: a heuristic."""
    claim: str
    """The finding in a few words."""
    action: str
    """What to do."""
    code: str | None
    """A line of code to begin with."""
    lines: tuple[str, ...]
    """Lines of the program that cause it, as `train.py:12 step`; empty where no stack was recorded."""
    saves_ns: Interval | None
    """By how much in ns this fix alone makes a step shorter, at least and at most; from 0 on, it may save nothing."""
    likely_ns: int | None
    """The same, most likely; null where only bounds are known, and where something unknown decides."""
    saves_share: Interval | None
    """The same as shares of the step (0 to 1)."""
    is_of_whole_run: bool
    """Whether `saves_ns` is of a whole run: a printed table does not say how many steps there are."""
    once_ns: Interval | None
    """What it saves once, outside of the typical steps, at least and at most; null if it is about the steps."""
    decided_by: str | None
    """What would show whether it saves anything, where it may save nothing."""
    blocked_by: str | None
    """The resource that has to be relieved before this saves anything; null where it saves now."""
    evidence: tuple[BriefEvidence, ...]
    """At most three rows."""
    not_when: str
    """When the advice does not apply."""
    refuted_if: str | None
    """What would refute it."""
    next: str
    """The next call to make."""


class BriefMention(msgspec.Struct, frozen=True):
    """A finding for which there was no more room; `traceanalyzer finding` gives it whole."""

    id: str
    """Id of the finding."""
    action: str
    """What to do."""
    saves_ns: Interval | None
    """By how much this fix alone makes a step shorter, at least and at most."""


class BriefWarning(msgspec.Struct, frozen=True):
    """A loss or a doubt of the recording."""

    id: str
    """Id of the warning."""
    message: str
    """What it means for the figures."""


class LeftOut(msgspec.Struct, frozen=True):
    """Number of things in the report that are not in the brief."""

    verdicts: int
    """Headlines of further runs."""
    findings: int
    """Findings that are not even mentioned, those that a later run of a document has settled included."""
    evidence: int
    """Rows of evidence and further places of the findings that are there."""
    warnings: int
    """Losses and doubts."""
    not_judged: int
    """Analyses and rules that could not run; the report has the reasons."""
    shortened: int
    """Texts that were cut."""


class Brief(msgspec.Struct, frozen=True):
    """A report in at most 8,000 characters."""

    schema_version: int
    """Version of this schema; it changes where a field changes its meaning."""
    generator: Generator
    """The program that wrote it."""
    source: ReportSource
    """The file that the report is about."""
    verdicts: tuple[BriefVerdict, ...]
    """What bounds the step; one for a trace, one per run of a document."""
    findings: tuple[BriefFinding, ...]
    """The first findings of the report in its order: certain before uncertain, and of these what saves most."""
    more_findings: tuple[BriefMention, ...]
    """Findings after those, in a line each."""
    warnings: tuple[BriefWarning, ...]
    """The first losses and doubts."""
    left_out: LeftOut
    """What is not here."""
    next: tuple[str, ...]
    """Calls that tell more, with ID and AFTER to be replaced."""


class WholeFinding(msgspec.Struct, frozen=True):
    """One finding with everything that the report knows of it."""

    schema_version: int
    """Version of this schema; it changes where a field changes its meaning."""
    generator: Generator
    """The program that wrote it."""
    source: ReportSource
    """The file that the report is about."""
    id: str
    """Id of the finding, as in the brief."""
    finding: Finding
    """The finding as the report has it."""
    refuted_if: str | None
    """What would refute it; null if nothing measured would."""
    next: tuple[str, ...]
    """Calls to make, with AFTER to be replaced by a recording after the change."""


def numbered(rules: Iterable[str]) -> Iterator[str]:
    """The id of each finding by its rule: `host-sync`, and of further findings of that rule `host-sync#2`."""
    seen: Counter[str] = Counter()
    for rule in rules:
        seen[rule] += 1
        yield rule if seen[rule] == 1 else f"{rule}#{seen[rule]}"


def finding_ids(report: Report) -> tuple[str, ...]:
    """The id of each finding of a report, unique in it; in documents with several runs it begins with the run."""
    findings = report.findings
    by_run = {run: numbered(f.rule for f in findings if f.run == run) for run in {f.run for f in findings}}
    ids = ((finding.run, next(by_run[finding.run])) for finding in findings)
    has_runs = len(report.headlines) > 1
    return tuple(f"{run}/{own}" if has_runs and run is not None else own for run, own in ids)


def position(report: Report, asked: str, where: str) -> int:
    """The position of the finding with an id.

    Args:
        report: The report.
        asked: The id.
        where: Name of the report in messages.

    Raises:
        UsageError: There is no such finding.
    """
    ids = finding_ids(report)
    if asked not in ids:
        raise UsageError(f"{where}: has no finding {asked}; it has: {', '.join(ids) or 'none'}")
    return ids.index(asked)
