"""One rank of a run, from its trace or from its saved report."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.kernels import classes
from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.ranks import rank_facts
from traceanalyzer.analyzers.ranks.rank_facts import RankFacts
from traceanalyzer.report.model import Report, ReportSource, TraceSummary
from traceanalyzer.structure import recording, step_breakdown
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.resources import StepResources
from traceanalyzer.structure.step_breakdown import Average, StepBreakdown

NEEDED = ("rank_facts", "step_breakdown", "resources", "kernel_classes", "idle", "recording")
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
        classes.analyze(context) if classes.ANALYSES[0].missing(context) is None else None,
        idle.analyze(context) if idle.ANALYSES[0].missing(context) is None else None,
        recording.analyze(context) if len(context.steps) else None,
        any(loss.id in DAMAGE for loss in context.trace.losses),
    )


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
        any(warning.id in DAMAGE for warning in report.warnings),
    )
