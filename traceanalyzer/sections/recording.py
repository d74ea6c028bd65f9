"""What was recorded: the kind of program, its framework, and which steps are typical."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.formats.words import word
from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Term, Topic
from traceanalyzer.report.warnings import STEP_REASONS
from traceanalyzer.structure.recording import RecordedStep, Recording
from traceanalyzer.structure.recording.workload import WorkloadEvidence

TITLE = Text("recording-title", "What was recorded")
_STEPS = Text("recording-steps-title", "Steps of the program")
_PROGRAM = Text("recording-program", "Program")
_BECAUSE = Text("recording-because", "Because of")
_FRAMEWORK = Text("recording-framework", "Framework")
_TYPICAL = Text("recording-typical", "Typical step")
_EARLIER = Text("recording-earlier", "Work from before the recording, at its start")
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

_EVIDENCE = {
    "captures": Text(
        "evidence-captures",
        "{count:count} captures of graphs",
        one="{count:count} capture of a graph",
    ),
    "launches-without-events": Text(
        "evidence-launches-without-events",
        "{count:count} launch calls that start no kernel",
        one="{count:count} launch call that starts no kernel",
    ),
    "benchmark-marks": Text("evidence-benchmark-marks", "marks of a benchmark such as {name}"),
    "hardly-any-device-work": Text("evidence-hardly-any-device-work", "only {time_ns:ns} of work of the device"),
    "backward-without-optimizer": Text(
        "evidence-backward-without-optimizer",
        "a backward pass ({name}) without an optimizer, a loader or marked steps",
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
    "backward-operators": Text("evidence-backward-operators", "a backward pass ({name})"),
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
    SectionColumn(Text("recording-step", "Step"), "", is_name=True),
    SectionColumn(Text("recording-step-duration", "Duration"), "ns"),
    SectionColumn(Text("recording-step-typical", "Typical"), "bool"),
    SectionColumn(Text("recording-step-reason", "Unlike the others because of"), ""),
    SectionColumn(Text("recording-step-phase", "Phase"), ""),
    SectionColumn(Text("recording-step-requests", "Requests"), "count"),
    SectionColumn(Text("recording-step-tokens", "Tokens"), "count"),
)
_TERMS = (
    Term(
        Text("define-typical", "Typical step"),
        Text(
            "define-typical-say",
            "The mean over the steps that are alike. Left out are steps that an edge of the recording or a one-off "
            "makes more than 20 % different. Headline, findings and savings are about the typical step. With fewer "
            "than three such steps, all count.",
        ),
    ),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the section on the kind of program, and a detail with the steps where they differ."""
    found = report.result("recording", Recording)
    if found is None:
        return
    facts = tuple(_facts(found))
    yield Section("recording", TITLE, facts=facts, topic=Topic.STEPS, terms=_TERMS, is_essential=True)
    table = _steps(found, top)
    if table is not None:
        yield Section("recording-steps", _STEPS, tables=(table,), topic=Topic.STEPS, is_detail=True)


def _facts(found: Recording) -> Iterator[Fact]:
    yield Fact(_PROGRAM, word(WORKLOADS, found.workload), "", is_essential=True)
    if found.framework:
        yield Fact(_FRAMEWORK, frameworks.title(found.framework), "", is_essential=True)
    if found.evidence:
        yield Fact(_BECAUSE, tuple(map(_reason, found.evidence)), "")
    if found.typical_step_ns is not None:
        yield Fact(_TYPICAL, found.typical_step_ns, "ns")
    if found.window is not None and found.window.unrecorded_work_ns:
        yield Fact(_EARLIER, found.window.unrecorded_work_ns, "ns")
    if found.window is not None and found.window.removed_ns:
        yield Fact(_REMOVED, found.window.removed_ns, "ns")
    if found.workload in _START_UP:
        yield Fact(_STARTUP, found.startup_ns, "ns")


def _reason(evidence: WorkloadEvidence) -> Message | Text:
    text = _EVIDENCE.get(evidence.kind)
    if text is None:
        return word({}, evidence.kind)
    return text(name=evidence.name or "", count=evidence.count, time_ns=evidence.time_ns)


def _steps(found: Recording, top: int) -> SectionTable | None:
    """The steps, where one is left out, or marks show more than their length; without columns that nothing fills."""
    if not any(step.reason or step.phase for step in found.steps):
        return None
    rows = tuple(map(_row, found.steps[:top]))
    used = [number for number in range(len(_COLUMNS)) if any(row[number] not in (None, "") for row in rows)]
    columns = tuple(_COLUMNS[number] for number in used)
    return SectionTable(
        "recording_steps", columns, tuple(tuple(row[number] for number in used) for row in rows), len(found.steps)
    )


def _row(step: RecordedStep) -> tuple[object, ...]:
    return (
        step.name,
        step.duration_ns,
        step.is_typical,
        word(STEP_REASONS, step.reason) if step.reason else "",
        word(_PHASES, step.phase) if step.phase else "",
        step.requests,
        step.tokens,
    )
