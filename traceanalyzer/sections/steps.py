"""What was recorded: the kind of program, its framework, its steps, and which of them are typical."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report, TraceSummary
from traceanalyzer.report.names import word
from traceanalyzer.report.section import Fact, Section, SectionTable, Term, Topic
from traceanalyzer.report.warnings import OUTSIDE_KINDS, STEP_REASONS
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, known, optional, table
from traceanalyzer.sections.host import label
from traceanalyzer.sections.overview import named
from traceanalyzer.structure.recording import Recording
from traceanalyzer.structure.recording.workload import PASSES_ALONE, WorkloadEvidence
from traceanalyzer.structure.step_breakdown import PARTS, Step, StepBreakdown
from traceanalyzer.trace.model import CUPTI_MONITOR, KINETO, PYTHON_EXPORTER

TITLE = Text("recording-title", "What was recorded")
STEPS_TITLE = Text("steps-title", "Steps")
_INFERRED = Text("steps-inferred-title", "Inferred steps")
_STEPS = Text("recording-steps-title", "Steps of the program")
_OUTSIDE = Text("recording-outside-title", "Outside of the typical steps")
_PROGRAM = Text("recording-program", "Program")
_BECAUSE = Text("recording-because", "Because of")
_FRAMEWORK = Text("recording-framework", "Framework")
_RECORDED_BY = Text("recording-by", "Recorded by")
_LEGACY = Text(
    "recording-by-legacy", "torch.autograd.profiler, the legacy profiler: operators, no launches and kernels"
)
_WRITER = Text("recording-writer", "Written by", "a label, followed by the program that wrote the trace")
_TYPICAL = Text("recording-typical", "Typical step")
_EARLIER = Text("recording-earlier", "Work from before the trace, at its start")
_REMOVED = Text("recording-removed", "Time whose events were removed")
_STARTUP = Text("recording-startup", "Loading, compilation and allocation")

WORKLOADS = {
    "training": Text("workload-training", "training"),
    "inference": Text("workload-inference", "inference"),
    "serving": Text("workload-serving", "serving", note="a server that answers requests with a model"),
    "graph-capture": Text("workload-graph-capture", "capture of a graph", note="a CUDA graph or HIP graph"),
    "start-up": Text("workload-start-up", "start-up of a program"),
    "micro-benchmark": Text("workload-micro-benchmark", "micro-benchmark"),
    "fragment": Text("workload-fragment", "fragment", note="a recording from which events were cut or removed"),
}
"""Texts of the kinds of programs, by id."""

_TRAINING_AND_PASSES = Text("workload-training-and-passes", "training, mostly passes that do not train")

_WRITERS = {
    KINETO: Text("writer-kineto", "torch {version}, Kineto", note="version is a number, or a range such as <1.12"),
    PYTHON_EXPORTER: Text("writer-python-exporter", "torch {version}, Python exporter"),
    CUPTI_MONITOR: Text("writer-cupti-monitor", "torch {version}, CUPTI monitor"),
}
_WRITERS_OF_ANY = {
    KINETO: Text("writer-kineto-any", "torch, Kineto"),
    PYTHON_EXPORTER: Text("writer-python-exporter-any", "torch 2.13 or later, Python exporter"),
    CUPTI_MONITOR: Text("writer-cupti-monitor-any", "torch 2.13 or later, CUPTI monitor"),
}
"""Texts of what wrote a trace, where the version of torch is known and where it is not."""

_EVIDENCE = {
    "captures": Text("evidence-captures", "{count:count} captures of graphs", one="{count:count} capture of a graph"),
    "launches-without-events": Text(
        "evidence-launches-without-events",
        "{count:count} launch calls that start no kernel",
        one="{count:count} launch call that starts no kernel",
    ),
    "benchmark-marks": Text("evidence-benchmark-marks", "marks of a benchmark such as {name}"),
    "hardly-any-device-work": Text("evidence-hardly-any-device-work", "only {time_ns:ns} of work of the device"),
    "backward-without-optimizer": Text(
        "evidence-backward-without-optimizer", "a backward pass ({name}) without an optimizer, a loader or marked steps"
    ),
    "hidden-rows": Text("evidence-hidden-rows", "most of the time is in rows that are not printed"),
    "removed-events": Text("evidence-removed-events", "{time_ns:ns} whose events were removed"),
    "foreign-steps": Text("evidence-foreign-steps", "steps of a different process than all other events"),
    "no-device-events": Text("evidence-no-device-events", "a sign of a device ({name}), but no device events"),
    "only-collectives": Text(
        "evidence-only-collectives",
        "hardly anything but {count:count} collectives",
        one="hardly anything but {count:count} collective",
    ),
    "kernels-without-launches": Text(
        "evidence-kernels-without-launches",
        "{count:count} device events without launches and operators",
        one="{count:count} device event without launches and operators",
    ),
    "one-call": Text("evidence-one-call", "one call that launches everything, and no marked step"),
    "loading": Text("evidence-loading", "{time_ns:ns} in which code is loaded or compiled, or memory allocated"),
    "framework": Text("evidence-framework", "marks of a server such as {name}"),
    "requests-in-flight": Text(
        "evidence-requests-in-flight",
        "{count:count} marks {name}, several of them active at once",
        one="{count:count} mark {name}, several of them active at once",
    ),
    "optimizer-steps": Text(
        "evidence-optimizer-steps",
        "{count:count} optimizer steps ({name})",
        one="{count:count} optimizer step ({name})",
    ),
    "optimizer-operators": Text("evidence-optimizer-operators", "arithmetic of an optimizer ({name})"),
    "backward-operators": Text("evidence-backward-operators", "a backward pass ({name})"),
    PASSES_ALONE: Text(
        "evidence-passes-without-training",
        "{count:count} typical steps without a backward pass",
        one="{count:count} typical step without a backward pass",
    ),
    "training-framework": Text("evidence-training-framework", "marks of a framework for training such as {name}"),
    "no-backward": Text("evidence-no-backward", "no backward pass"),
    "no-backward-printed": Text(
        "evidence-no-backward-printed",
        "no printed row belongs to a backward pass, but not all rows are printed",
        note="rows of a table",
    ),
}
_START_UP = frozenset({"start-up", "micro-benchmark"})
"""Kinds of programs for which the start-up time matters."""
_PHASES = {
    "prefill": Text("phase-prefill", "prefill", note="a server computes the prompts of requests"),
    "decode": Text("phase-decode", "decode", note="a server generates tokens"),
    "mixed": Text("phase-mixed", "prefill and decode"),
    "capture": Text("phase-capture", "capture of a graph"),
    "diffusion": Text("phase-diffusion", "diffusion"),
}
_COLUMNS = (
    replace(columns.STEP, is_name=True, if_any=bool),
    columns.DURATION,
    Column(Text("recording-step-typical", "Typical"), "bool", "is_typical"),
    Column(
        Text("recording-step-reason", "Unlike the others because of"),
        "",
        lambda step: word(STEP_REASONS, step.reason) if step.reason and not step.is_typical else "",
        if_any=bool,
    ),
    Column(
        Text("recording-step-phase", "Phase"),
        "",
        lambda step: word(_PHASES, step.phase) if step.phase else "",
        if_any=bool,
    ),
    Column(Text("recording-step-requests", "Requests"), "count", "requests", if_any=known),
    Column(Text("recording-step-tokens", "Tokens"), "count", "tokens", if_any=known),
)
_OUTSIDE_COLUMNS = (
    columns.TIME.of("duration_ns"),
    Column(Text("recording-outside-start", "Start", "point in time"), "ns", "start_ns"),
    Column(Text("recording-outside-when", "Where"), "", lambda part: word(OUTSIDE_KINDS, part.kind)),
    Column(Text("recording-outside-busy", "GPU works"), "ns", "device_busy_ns", if_any=known),
    Column(
        Text("recording-outside-host", "The CPU is mostly in"),
        "",
        lambda part: label(part.owner) if part.owner else None,
        is_name=True,
        if_any=known,
    ),
    Column(
        Text("recording-outside-owner", "Time there"),
        "ns",
        lambda part: part.owner.time_ns if part.owner else None,
        if_any=known,
    ),
    Column(
        Text("recording-outside-reason", "Because of"),
        "",
        lambda part: word(STEP_REASONS, part.reason) if part.reason in STEP_REASONS else "",
        if_any=bool,
    ),
)
_TERMS = (
    Term(
        _TYPICAL,
        Text(
            "define-typical-say",
            "The mean over the steps that are alike. Left out are steps that an edge of the trace or a one-off "
            "makes more than 20 % different. Headline, findings and savings are about the typical step. With fewer "
            "than two such steps, all count.",
        ),
    ),
)


def build_recording(report: Report, top: int) -> Iterator[Section]:
    """Build the section on the kind of program, and details: its steps where they differ, and what is outside."""
    recording = report.result("recording", Recording)
    if recording is None:
        return
    is_legacy = any(warning.id == "read-legacy-list" for warning in report.warnings)
    legacy = (Fact(_RECORDED_BY, _LEGACY(), "", is_essential=True),) if is_legacy else ()
    facts = (*_facts(recording), *(legacy or writer(report.trace)))
    yield Section("recording", TITLE, facts=facts, topic=Topic.STEPS, terms=_TERMS, is_essential=True)
    if any(
        step.reason or step.phase for step in recording.steps
    ):  # one is left out, or marks show more than their length
        rows = table("recording_steps", _COLUMNS, recording.steps[:top], total=len(recording.steps))
        yield detail("recording-steps", _STEPS, Topic.STEPS, (rows,))
    if recording.outside:
        longest = sorted(recording.outside, key=lambda part: -part.duration_ns)
        count = len(longest) + recording.outside_omitted
        rows = table("recording_outside", _OUTSIDE_COLUMNS, longest[:top], total=count)
        yield detail("recording-outside", _OUTSIDE, Topic.STEPS, (rows,))


def _facts(recording: Recording) -> Iterator[Fact]:
    is_apart = any(evidence.kind == PASSES_ALONE for evidence in recording.evidence)
    program = _TRAINING_AND_PASSES() if is_apart else word(WORKLOADS, recording.workload)
    yield Fact(_PROGRAM, program, "", is_essential=True)
    if recording.framework:
        yield Fact(_FRAMEWORK, frameworks.title(recording.framework), "", is_essential=True)
    if recording.evidence:
        yield Fact(_BECAUSE, tuple(map(_reason, recording.evidence)), "")
    if recording.typical_step_ns is not None:
        yield Fact(_TYPICAL, recording.typical_step_ns, "ns")
    if recording.window is not None and recording.window.unrecorded_work_ns:
        yield Fact(_EARLIER, recording.window.unrecorded_work_ns, "ns")
    if recording.window is not None and recording.window.removed_ns:
        yield Fact(_REMOVED, recording.window.removed_ns, "ns")
    if recording.workload in _START_UP:
        yield Fact(_STARTUP, recording.startup_ns, "ns")


def writer(trace: TraceSummary | None) -> Iterator[Fact]:
    """What wrote the trace, if the file shows it."""
    if trace is None or trace.writer is None:
        return
    if trace.writer in _WRITERS and trace.torch_version:
        yield Fact(_WRITER, _WRITERS[trace.writer](version=trace.torch_version), "")
    else:
        yield Fact(_WRITER, word(_WRITERS_OF_ANY, trace.writer), "")


def _reason(evidence: WorkloadEvidence) -> Message | Text:
    text = _EVIDENCE.get(evidence.kind)
    if text is None:
        return word({}, evidence.kind)
    return text(name=evidence.name or "", count=evidence.count, time_ns=evidence.time_ns)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build a table of the steps, and one of inferred steps."""
    breakdown = report.result("step_breakdown", StepBreakdown)
    if breakdown is None:
        return
    if len(breakdown.steps) > 1:
        yield detail("steps", STEPS_TITLE, Topic.STEPS, (_table(report, "steps", breakdown.steps, top),))
    if breakdown.inferred is not None:
        rows = _table(report, "inferred_steps", breakdown.inferred.steps, top)
        yield detail("inferred-steps", _INFERRED, Topic.STEPS, (rows,))


def _table(report: Report, name: str, steps: tuple[Step, ...], top: int) -> SectionTable:
    """Up to `top` steps in the order of time, without parts that no step has."""
    parts = optional(bool, *(Column(named(report, part)[1], "ns", f"{part}_ns") for part in PARTS))
    return table(name, (columns.STEP, columns.DURATION, *parts), steps, top)
