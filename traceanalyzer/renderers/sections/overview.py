"""How long is a step, and where does it go?"""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.step_breakdown import PARTS, Average, StepBreakdown
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionPart

TITLE = Text("overview-title", "Step time")
_MEAN = Text(
    "overview-mean",
    "A step takes {mean:ns} on average, {median:ns} in the median ({count:count} steps).",
    one="A step takes {mean:ns} on average, {median:ns} in the median ({count:count} step).",
)
_SINGLE = Text("overview-single", "The one step takes {mean:ns}.")
_WHOLE = Text("overview-whole", "No steps are marked; the whole trace counts as one step of {mean:ns}.")
_INFERRED = Text(
    "overview-inferred",
    "Marks of {marks} suggest {count:count} steps of {mean:ns} on average, {median:ns} in the median.",
    note="marks is the name of an annotation, such as Optimizer.step",
    one="Marks of {marks} suggest {count:count} step of {mean:ns} on average, {median:ns} in the median.",
)
_LOADER = Text("overview-loader", "DataLoader")
_LOADER_EXCLUSIVE = Text(
    "overview-loader-exclusive", "Waiting for the DataLoader while nothing else runs, share of the step"
)
_LOADER_FULL = Text("overview-loader-full", "Waiting for the DataLoader in full, also while other work runs")
_LONGEST = Text("overview-longest", "Longest step")

PART_LABELS = {
    "kernel": Text("part-kernel", "Kernel"),
    "memcpy": Text("part-memcpy", "Memcpy"),
    "memset": Text("part-memset", "Memset"),
    "communication": Text("part-communication", "Communication"),
    "runtime": Text("part-runtime", "Runtime"),
    "dataloader": _LOADER,
    "cpu_exec": Text("part-cpu-exec", "CPU Exec"),
    "other": Text("part-other", "Other"),
}


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on the step and its parts."""
    del top
    breakdown = report.result("step_breakdown", StepBreakdown)
    if breakdown is None or breakdown.average is None:
        return
    yield Section(
        "overview",
        TITLE,
        messages=tuple(_messages(report, breakdown, breakdown.average)),
        facts=tuple(_facts(breakdown)),
        parts=tuple(_parts(breakdown)),
    )


def _messages(report: Report, breakdown: StepBreakdown, average: Average) -> Iterator[Message]:
    mean, median = average.duration_ns, breakdown.median_duration_ns
    if report.trace is not None and report.trace.steps_from != "ProfilerStep":
        yield _WHOLE(mean=mean)
    elif len(breakdown.steps) == 1:
        yield _SINGLE(mean=mean)
    else:
        yield _MEAN(mean=mean, median=median, count=len(breakdown.steps))
    inferred = breakdown.inferred
    if inferred is not None:
        yield _INFERRED(
            marks=inferred.steps_from,
            count=len(inferred.steps),
            mean=inferred.average.duration_ns,
            median=inferred.median_duration_ns,
        )


def _facts(breakdown: StepBreakdown) -> Iterator[Fact]:
    if breakdown.dataloader_full_share:
        yield Fact(_LOADER_EXCLUSIVE, breakdown.dataloader_share, "share")
        yield Fact(_LOADER_FULL, breakdown.dataloader_full_share, "share")
    if len(breakdown.steps) > 1:
        yield Fact(_LONGEST, max(step.duration_ns for step in breakdown.steps), "ns")


def _parts(breakdown: StepBreakdown) -> Iterator[SectionPart]:
    """The parts that occur, as means over the steps."""
    average = breakdown.average
    if average is None or not average.duration_ns:
        return
    for part in PARTS:
        value = getattr(average, f"{part}_ns")
        if value:
            yield SectionPart(PART_LABELS[part], value, "ns", value / average.duration_ns)
