"""How long is a step, and where does it go?"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from traceanalyzer.analyzers.kernels.accelerators import Accelerators
from traceanalyzer.analyzers.operators import Operators
from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionPart, Term, Topic
from traceanalyzer.sections import critical_path, throughput
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.recording import Recording, repetition
from traceanalyzer.structure.step_breakdown import PARTS, Average, StepBreakdown

TITLE = Text("overview-title", "Step time")
_MEAN = Text(
    "overview-mean",
    "A step takes {mean:ns} on average, {median:ns} in the median ({count:count} steps).",
    one="A step takes {mean:ns} on average, {median:ns} in the median ({count:count} step).",
)
_SINGLE = Text("overview-single", "The one step takes {mean:ns}.")
_TYPICAL = Text(
    "overview-typical",
    "{mean:ns} per step: the mean of {count:count} of {total:count} steps, without the unusual ones.",
    one="{mean:ns} per step: {count:count} of {total:count} steps, without the unusual ones.",
)
_BY_MARK = Text(
    "overview-by-mark",
    "A step takes {mean:ns} on average ({count:count} steps, by the marks of {mark}).",
    note="mark is the name of an event or a framework",
    one="The step takes {mean:ns} (by the mark of {mark}).",
)
_TYPICAL_BY_MARK = Text(
    "overview-typical-by-mark",
    "{mean:ns} per step: the mean of {count:count} of {total:count} steps by the marks of {mark}, without the unusual "
    "ones.",
    note="mark is the name of an event or a framework",
    one="{mean:ns} per step: {count:count} of {total:count} steps by the marks of {mark}, without the unusual ones.",
)
_REPEATED = {
    repetition.OPERATORS: Text(
        "overview-repeated",
        "No steps are marked, but operators repeat: a pass takes {mean:ns}, the mean over {count:count} of "
        "{total:count} passes.",
        note="a pass is one call of a model, or one turn of a loop",
        one="No steps are marked, but operators repeat: a pass takes {mean:ns} ({count:count} of {total:count}).",
    ),
    repetition.KERNELS: Text(
        "overview-repeated-kernels",
        "No steps are marked, but kernels repeat: a pass takes {mean:ns}, the mean over {count:count} of "
        "{total:count} passes.",
        note="a pass is one call of a model, or one turn of a loop",
        one="No steps are marked, but kernels repeat: a pass takes {mean:ns} ({count:count} of {total:count}).",
    ),
    repetition.BACKWARD: Text(
        "overview-backward-passes",
        "No steps are marked; a forward and backward pass takes {mean:ns}, the mean over {count:count} of "
        "{total:count}.",
        one="No steps are marked; a forward and backward pass takes {mean:ns} ({count:count} of {total:count}).",
    ),
}
"""How long a step takes that was found where a program repeats itself."""
_WHOLE = Text("overview-whole", "No steps are marked; the whole trace counts as one step of {mean:ns}.")
_PART = Text("overview-part", "No steps are marked; {mean:ns} of the {span:ns} of the trace count as one step.")
_INFERRED = Text(
    "overview-inferred",
    "Marks of {marks} suggest {count:count} steps of {mean:ns} on average, {median:ns} in the median.",
    note="marks is the name of an annotation, such as Optimizer.step",
    one="Marks of {marks} suggest {count:count} step of {mean:ns} on average, {median:ns} in the median.",
)
_UNLIKE = Text(
    "overview-unlike-mean",
    "Steps differ: {others:count} of {steps:number} take about {about:ns}, so the mean is {mean:ns}.",
    note="beside a picture of one step, which is much shorter or longer than the mean",
    one="Steps differ: {others:count} of {steps:number} takes {about:ns}, so the mean is {mean:ns}.",
)
_LOADER = Text("overview-loader", "DataLoader")
_LOADER_EXCLUSIVE = Text("overview-loader-exclusive", "DataLoader wait in which nothing else runs, share of the step")
_LOADER_FULL = Text("overview-loader-full", "DataLoader wait, including what other work hides")
_LONGEST = Text("overview-longest", "Longest step")

PART_LABELS = {
    "kernel": Text("part-kernel", "Kernels"),
    "memcpy": Text("part-memcpy", "Copies"),
    "memset": Text("part-memset", "Fills"),
    "communication": Text("part-communication", "Communication"),
    "runtime": Text("part-runtime", "Launches and other GPU calls"),
    "dataloader": _LOADER,
    "cpu_exec": Text("part-cpu-exec", "CPU in operators"),
    "other": Text("part-other", "Other"),
}
_OTHER = {
    "host": ("host_code", Text("part-other-host", "CPU between operators", "time in which the CPU runs other code")),
    "asleep": ("other", Text("part-other-asleep", "Sleep and waits", "the program waits for a clock, a lock, a file")),
    "unrecorded": ("other", Text("part-other-unrecorded", "Not recorded", "time whose events are missing")),
}
"""What the part in which no event of the others is active mostly is, by what a step waits for: its role and label."""
_MOSTLY = 0.5
"""Least share of that part that has its name (own choice)."""
_WORTH = 0.01
"""Share of a step of kernels of the program's own that communicate, from which on they are told from others."""
_UNLIKE_BY = 0.1
"""Share of the mean by which a step differs from it that does not stand for the others (own choice)."""
_TERMS = (
    Term(
        Text("define-step", "Step"),
        Text(
            "define-step-say",
            "A ProfilerStep range on the CPU, extended to the end of the last kernel that it launched. "
            "Without such marks one step lasts from the first operator, or from the end of work from before the "
            "recording, to the end of the last kernel.",
        ),
    ),
    Term(
        Text("define-window", "Window"),
        Text(
            "define-window-say",
            "From the start of the first to the end of the last step. Shares are of the window unless stated "
            "otherwise.",
        ),
    ),
    Term(
        Text("define-parts", "Parts of a step"),
        Text(
            "define-parts-say-2",
            "Every nanosecond belongs to the first of these that is active: kernels, copies, fills, communication, "
            "launches and other GPU calls, DataLoader, CPU in operators, other. So the parts sum to the step, and each "
            "part counts only time that no part before it covers.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on the step and its parts."""
    del top
    breakdown = report.result("step_breakdown", StepBreakdown)
    if breakdown is None or breakdown.average is None:
        return
    recording = report.result("recording", Recording)
    typical = recording.typical if recording else None
    average = typical.parts if typical else breakdown.average
    messages = _typical(recording, average) if recording and typical else _messages(report, breakdown, average)
    yield Section(
        "overview",
        TITLE,
        messages=(*messages, *critical_path.sentence(report)),
        facts=(*_facts(breakdown, average), *throughput.facts(report)),
        parts=tuple(_parts(report, average)),
        topic=Topic.SUMMARY,
        terms=_TERMS,
        is_essential=True,
    )


def _typical(recording: Recording, average: Average) -> Iterator[Message]:
    """The duration of a typical step, and how steps are marked."""
    counted, total = sum(step.is_typical for step in recording.steps), len(recording.steps)
    mean, mark = average.duration_ns, recording.steps_from
    if mark == "whole-trace":
        yield _PART(mean=mean, span=mean + (recording.outside_ns or 0)) if recording.has_more else _WHOLE(mean=mean)
    elif mark in _REPEATED:
        yield _REPEATED[mark](mean=mean, count=counted, total=total)
    elif mark != "ProfilerStep":
        text = _BY_MARK if counted == total else _TYPICAL_BY_MARK
        yield text(mark=frameworks.title(mark or ""), count=counted, total=total, mean=mean)
    elif total == 1:
        yield _SINGLE(mean=mean)
    elif counted == total:
        yield _MEAN(mean=mean, median=median(step.duration_ns for step in recording.steps), count=total)
    else:
        yield _TYPICAL(mean=mean, count=counted, total=total)


def unlike_mean(report: Report, drawn_ns: float) -> Message | None:
    """Why the mean that the report is about differs from the step that a picture shows; None if it hardly does.

    No step is like the mean where a loader works in bursts: some steps wait, the others do not.

    Args:
        report: The report.
        drawn_ns: The duration in ns of the step that is drawn.
    """
    recording = report.result("recording", Recording)
    typical = recording.typical if recording else None
    if typical is None or abs(drawn_ns - (mean := typical.parts.duration_ns)) <= _UNLIKE_BY * mean:
        return None
    others = [row.duration_ns for row in typical.rows if (row.duration_ns > mean) != (drawn_ns > mean)]
    return _UNLIKE(others=len(others), steps=len(typical.rows), about=median(others), mean=mean) if others else None


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


def _facts(breakdown: StepBreakdown, average: Average) -> Iterator[Fact]:
    if average.dataloader_full_ns and average.duration_ns:
        yield Fact(_LOADER_EXCLUSIVE, average.dataloader_ns / average.duration_ns, "share")
        yield Fact(_LOADER_FULL, average.dataloader_full_ns / average.duration_ns, "share")
    if len(breakdown.steps) > 1:
        yield Fact(_LONGEST, max(step.duration_ns for step in breakdown.steps), "ns")


def _parts(report: Report, average: Average) -> Iterator[SectionPart]:
    """The nonzero parts, as means over the steps that count."""
    if not average.duration_ns:
        return
    own = _own_collectives(report, average)
    for part in PARTS:
        value = getattr(average, f"{part}_ns") + {"kernel": -own, "communication": own}.get(part, 0.0)
        if value > 0:
            role, label = named(report, part)
            yield SectionPart(role, label, value, "ns", value / average.duration_ns)


def _own_collectives(report: Report, average: Average) -> float:
    """Time per step in ns of kernels of the program's own that communicate, in which no other kernel runs.

    The step breakdown, which follows the TensorBoard plugin, counts them as kernels; headline, resources and pictures
    say communication. Only with one device, on which both are about the same.
    """
    recording = report.result("recording", Recording)
    typical = recording.typical if recording else None
    is_one = report.trace is not None and len(report.trace.devices) <= 1
    if typical is None or not is_one or typical.parts is not average:
        return 0.0
    own = (typical.resources.exposed_communication_ns or 0.0) - average.communication_ns
    return min(own, average.kernel_ns) if own >= _WORTH * average.duration_ns else 0.0


def named(report: Report, part: str) -> tuple[str, Text]:
    """The role and the label of a part of a step; Other has those of what it mostly is, where that is known."""
    mostly = _other_is(report) if part == "other" else None
    return _OTHER[mostly] if mostly else (part, PART_LABELS[part])


def _other_is(report: Report) -> str | None:
    """What a typical step waits for in most of the time in which no event of its parts is active, as far as it shows.

    That is no device that the parts do not cover, and no time in a recording that does not show what bounds it; and
    where no operator was recorded, no time is between some.
    """
    path, average = report.result("critical_path", CriticalPath), _average(report)
    others = report.result("accelerators", Accelerators)
    is_unclear = not report.headlines or report.headlines[0].bound == "none"
    if path is None or average is None or not average.other_ns or is_unclear or (others and others.devices):
        return None
    times = _times_in_other(path, average, has_operators=report.result("operators", Operators) is not None)
    mostly = max(times, key=lambda resource: times[resource])
    return mostly if times[mostly] >= _MOSTLY * average.other_ns else None


def _times_in_other(path: CriticalPath, average: Average, *, has_operators: bool) -> dict[str, float]:
    """The time per step in ns of each resource in `_OTHER`, as far as the critical path shows it."""
    times = {
        part.resource: part.ns_per_step for part in path.parts if part.resource in _OTHER and part.resource != "host"
    }
    host = -average.runtime_ns  # calls in no operator, which are a part of their own
    for each in path.operators:
        host += each.host_ns_per_step if each.operator is None else 0.0
    for known in times.values():
        host -= known
    times["host"] = host if has_operators else 0.0
    return times


def _average(report: Report) -> Average | None:
    """The parts of a typical step, or of the mean step."""
    breakdown, recording = report.result("step_breakdown", StepBreakdown), report.result("recording", Recording)
    if recording and recording.typical:
        return recording.typical.parts
    return breakdown.average if breakdown else None
