"""One rank of a run, from its trace or from its saved report, and which of its steps and collectives count.

Steps that the profiler did not mark are counted from the first that a trace shows. If all ranks count alike,
collectives without a recorded number are matched by their order within each step. Where ranks count differently, the
same number may be another step on each rank, and these collectives are not matched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, compress
from typing import TypeVar, cast

import msgspec
from msgspec.structs import replace

from traceanalyzer.analyzers import host, idle
from traceanalyzer.analyzers.host import HostOwners, stalls
from traceanalyzer.analyzers.host.stalls import HostStalls
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.kernels import classes
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.analyzers.ranks.rank_facts import RankCollectives, RankFacts, RankSteps
from traceanalyzer.report.model import Report, ReportSource, TraceSummary
from traceanalyzer.structure import recording, step_breakdown
from traceanalyzer.structure.analysis import Analysis
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.left_out import FEWEST, MARKED
from traceanalyzer.structure.recording.program_steps import WHOLE
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown

T = TypeVar("T")
NEEDED = (
    "rank_facts",
    "step_breakdown",
    "resources",
    "kernel_classes",
    "idle",
    "recording",
    "host_owners",
    "host_stalls",
)
"""Results of a saved report that `of_report` uses."""
DAMAGE = frozenset(["read-truncated", "read-lost-event", "read-gzip-truncated", "read-gzip-damaged"])
"""Losses by which events are missing that had been recorded."""


class Member(msgspec.Struct, frozen=True):
    """The facts about one rank that the report of a run needs."""

    source: ReportSource
    summary: TraceSummary
    facts: RankFacts
    resources: StepResources | None = None
    """Time of each resource per step, over all steps of the facts."""
    average: Average | None = None
    """Parts of a step."""
    kernel_classes: KernelClasses | None = None
    idle: Idle | None = None
    recording: Recording | None = None
    host_owners: HostOwners | None = None
    host_stalls: HostStalls | None = None
    is_damaged: bool = False
    """Whether events are missing because the file is damaged or cut off."""


def of_trace(context: Context, source: ReportSource, summary: TraceSummary) -> Member | None:
    """The member that a trace is; None if it names no rank and has no collectives."""
    if rank_facts.ANALYSES[0].missing(context) is not None:
        return None
    facts = rank_facts.analyze(context)
    return Member(
        source,
        summary,
        facts,
        facts.resources,
        step_breakdown.analyze(context).average if len(context.steps) else None,
        _result(context, classes.ANALYSES[0], KernelClasses),
        _result(context, idle.ANALYSES[0], Idle),
        recording.analyze(context) if len(context.steps) else None,
        _result(context, host.ANALYSES[0], HostOwners),
        _result(context, stalls.ANALYSES[0], HostStalls),
        any(loss.id in DAMAGE for loss in context.trace.losses),
    )


def _result(context: Context, analysis: Analysis, _: type[T]) -> T | None:
    """The result of an analysis; None if the trace has not what it needs."""
    return cast("T", analysis.run(context)) if analysis.missing(context) is None else None


def of_report(report: Report) -> Member | None:
    """The member for the rank of a saved report; None if the report does not contain enough."""
    facts = report.result("rank_facts", RankFacts)
    breakdown = report.result("step_breakdown", StepBreakdown)
    if facts is None or report.trace is None:
        return None
    return Member(
        report.source,
        report.trace,
        facts,
        facts.resources or report.result("resources", StepResources),
        breakdown.average if breakdown else None,
        report.result("kernel_classes", KernelClasses),
        report.result("idle", Idle),
        report.result("recording", Recording),
        report.result("host_owners", HostOwners),
        report.result("host_stalls", HostStalls),
        any(warning.id in DAMAGE for warning in report.warnings),
    )


def with_common_steps(members: Mapping[int, Member]) -> Mapping[int, Member]:
    """The ranks; collectives without a number belong to no step if the ranks do not count the same steps.

    A file that was cut off has fewer steps: those that it has are the first ones.
    """
    if not any(map(_counts, members.values())) or _count_alike(list(members.values())):
        return members
    return {rank: _without_order(member) for rank, member in members.items()}


def _counts(member: Member) -> bool:
    """Whether the steps of a rank are those of the program, which are counted."""
    return member.recording is not None and member.recording.steps_from not in (MARKED, WHOLE, None)


def _count_alike(members: list[Member]) -> bool:
    """Whether all ranks have the same marks of steps, and those that are not cut off equally many."""
    marks = {member.recording.steps_from for member in members if member.recording is not None}
    whole = {len(member.facts.steps.name) for member in members if not member.is_damaged}
    most = max(len(member.facts.steps.name) for member in members)
    return len(marks) == 1 and all(map(_counts, members)) and whole <= {most}


def _without_order(member: Member) -> Member:
    own = member.facts.collectives
    step = tuple(None if number is None else place for number, place in zip(own.sequence, own.step, strict=True))
    return replace(member, facts=replace(member.facts, collectives=replace(own, step=step)))


def of_typical_steps(members: Mapping[int, Member]) -> Mapping[int, Member] | None:
    """The ranks with only the steps that all of them keep, and their typical resources; None if all steps count."""
    names = _kept([member.recording for member in members.values()])
    if names is None or not all(_has_steps_of_program(member) for member in members.values()):
        return None
    return {rank: _typical_of(member, names) for rank, member in members.items()}


def _has_steps_of_program(member: Member) -> bool:
    """Whether the recording names the same steps as the facts; reports of old versions may not."""
    own = member.recording.steps if member.recording is not None else ()
    return {step.name for step in own} >= set(member.facts.steps.name) and len(own) >= len(member.facts.steps.name) > 1


def _typical_of(member: Member, names: frozenset[str]) -> Member:
    typical = member.recording.typical if member.recording is not None else None
    own = member.resources if typical is None else typical.resources
    return replace(member, facts=only_steps(member.facts, names), resources=own)


def only_steps(facts: RankFacts, names: frozenset[str]) -> RankFacts:
    """A rank without some steps and their collectives; collectives between steps are kept."""
    stays = [name in names for name in facts.steps.name]
    place = [number - 1 for number in accumulate(map(int, stays))]
    own = facts.collectives
    rows = [step is None or stays[step] for step in own.step]
    columns = {field: tuple(compress(getattr(own, field), rows)) for field in RankCollectives.__struct_fields__}
    columns["step"] = tuple(None if step is None else place[step] for step in columns["step"])
    steps = RankSteps(*(tuple(compress(getattr(facts.steps, field), stays)) for field in RankSteps.__struct_fields__))
    return replace(facts, steps=steps, collectives=RankCollectives(**columns))


def _kept(recordings: Sequence[Recording | None]) -> frozenset[str] | None:
    """Names of the steps that count on every rank; None where all steps do."""
    own = [one for one in recordings if one is not None and one.steps_from != WHOLE]
    if not own or len(own) < len(recordings) or all(step.is_typical for one in own for step in one.steps):
        return None
    names = frozenset.intersection(*(frozenset(s.name for s in one.steps if s.is_typical) for one in own))
    return names if len(names) >= FEWEST else None
