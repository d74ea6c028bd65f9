"""One rank of a run, from its trace or from its saved report."""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers import idle, kernel_classes, rank_facts, recording, step_breakdown
from traceanalyzer.analyzers.context import Context
from traceanalyzer.analyzers.idle import Idle
from traceanalyzer.analyzers.kernel_classes import KernelClasses
from traceanalyzer.analyzers.rank_facts import RankFacts
from traceanalyzer.analyzers.recording import Recording
from traceanalyzer.analyzers.resources import StepResources
from traceanalyzer.analyzers.step_breakdown import Average, StepBreakdown
from traceanalyzer.report.model import Report
from traceanalyzer.report.source import ReportSource, TraceSummary

ANALYSES = ("rank_facts", "step_breakdown", "resources", "kernel_classes", "idle", "recording")
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
    if rank_facts.missing(context) is not None:
        return None
    facts = rank_facts.analyze(context)
    return Member(
        source,
        summary,
        facts,
        facts.resources,
        step_breakdown.analyze(context).average if len(context.steps) else None,
        kernel_classes.analyze(context) if kernel_classes.missing(context) is None else None,
        idle.analyze(context) if idle.missing(context) is None else None,
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
