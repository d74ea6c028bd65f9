"""Facts about the file, losses while reading, and skipped analyses with their reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from traceanalyzer.analyzers.kernels.attribution import Attribution
from traceanalyzer.knowledge import frameworks
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import RecordingOptions, Report
from traceanalyzer.report.names import shorten, word
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, table
from traceanalyzer.structure.recording import Recording, repetition

_WARNINGS = Text("warnings-title", "Warnings")
_MORE = Text(
    "warnings-more",
    "{hidden:count} more warnings; all are in the JSON report.",
    one="{hidden:count} more warning; all are in the JSON report.",
)
_LEAST_WARNINGS = 8
_WARNING_WIDTH = 400
_NAME_WIDTH = 150
_SKIPPED = Text("skipped-title", "Skipped")
_SKIPPED_REMEDY = Text(
    "skipped-remedy",
    "Record with {option}: {checks:count} more checks.",
    note="option is code, such as profile_memory=True",
    one="Record with {option}: {checks:count} more check.",
)
_SKIPPED_REST = Text(
    "skipped-rest",
    "{checks:count} more checks do not apply to this trace; the JSON report has the reason of each.",
    note="checks could not be made",
    one="{checks:count} more check does not apply to this trace; the JSON report has the reason.",
)
_OPTION = re.compile(r"\b(?:record_shapes|profile_memory|with_stack|with_flops)=True")
"""What a recording needs for more checks, as the reasons say it; code is the same in all languages."""
_TRACE = Text("trace-title", "Trace")
_STEPS_FOUND = {
    "ProfilerStep": Text("trace-steps-marked", "by the profiler's marks", note="prof.step() sets them"),
    "whole-trace": Text("trace-steps-whole", "none is marked: the trace counts as one"),
    repetition.OPERATORS: Text("trace-steps-repeated", "none is marked: where operators repeat"),
    repetition.KERNELS: Text("trace-steps-repeated-kernels", "none is marked: where kernels repeat"),
    repetition.BACKWARD: Text("trace-steps-backward", "none is marked: each forward pass with its backward pass"),
    "device-events": Text("trace-steps-device", "none is marked: one, from the device's first to its last event"),
    "host-annotations": Text("trace-steps-host", "none is marked: one, from the CPU's first to its last annotation"),
}
"""How steps were found, by the ids of a report."""
_STEPS_MARKED = Text("trace-steps-by", "by the marks of {mark}", note="mark is the name of an event or a framework")


def _steps_found(report: Report, found: str) -> Message | Text:
    """How the steps of the report were found: the profiler's marks, other ones, or none."""
    recording = report.result("recording", Recording)
    mark = (recording.steps_from if recording is not None else None) or found
    return word(_STEPS_FOUND, found) if mark in _STEPS_FOUND else _STEPS_MARKED(mark=frameworks.title(mark))


_FACTS = optional(
    known,
    columns.FILE.of("source.name"),
    Column(Text("trace-size", "Size"), "bytes", "source.size_bytes"),
    Column(Text("trace-events", "Events"), "count", "trace.events"),
    Column(Text("trace-span", "Time span"), "ns", "trace.span_ns"),
    Column(
        Text("trace-steps-from", "Steps", "a label; what follows says how steps were found"),
        "",
        lambda report: _steps_found(report, report.trace.steps_from) if report.trace.steps_from is not None else None,
    ),
    Column(columns.RANK.title, "count", "trace.rank"),
    Column(Text("trace-world-size", "World size"), "count", "trace.world_size"),
    Column(Text("trace-options", "Recorded"), "", lambda report: _options(report.trace.options)),
)
_ATTRIBUTED = optional(
    known,
    Column(
        Text("trace-by-operators", "Device time that operators launched", "a label, followed by a share"),
        "share",
        "operator_share",
    ),
    Column(
        Text("trace-by-modules", "Device time launched for modules", "a label, followed by a share"),
        "share",
        "module_share",
    ),
    Column(
        Text("trace-by-class", "Device time of a known kind of work", "a label, followed by a share"),
        "share",
        "class_share",
    ),
)
_DEVICES = (
    columns.DEVICE.of("id"),
    columns.NAME,
    Column(Text("device-memory", "Memory"), "bytes", "memory_bytes"),
    Column(Text("device-capability", "Compute capability"), "", "compute_capability"),
    Column(Text("device-sms", "Multiprocessors"), "count", "sm_count"),
)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the warnings and skipped analyses, if any, and the facts about the file."""
    if report.warnings:
        yield Section(
            "warnings",
            _WARNINGS,
            messages=tuple(_warnings(report, max(top, _LEAST_WARNINGS))),
            topic=Topic.QUALITY,
            is_essential=True,
        )
    if report.skipped:
        yield detail("skipped", _SKIPPED, Topic.QUALITY, (), messages=tuple(_skipped(report)))
    if report.trace is not None:
        explained = report.result("attribution", Attribution)
        devices = [device for device in report.trace.devices if device.name is not None]
        yield detail(
            "trace",
            _TRACE,
            Topic.QUALITY,
            (table("devices", _DEVICES, devices, top),) if devices else (),
            facts=(*facts(_FACTS, report), *(facts(_ATTRIBUTED, explained) if explained is not None else ())),
        )


def _skipped(report: Report) -> Iterator[Message]:
    """What can be had by recording more, each with its number of checks, then the number of all others."""
    yield from remedies(report)
    others = sum(option is None for option in _options_needed(report))
    if others:
        yield _SKIPPED_REST(checks=others)


def remedies(report: Report) -> Iterator[Message]:
    """What can be had by recording more, each with its number of checks."""
    needed = Counter(option for option in _options_needed(report) if option is not None)
    for name, checks in needed.most_common():
        yield _SKIPPED_REMEDY(option=name, checks=checks)


def _options_needed(report: Report) -> Iterator[str | None]:
    """The option without which each check was not made; None for what no option brings.

    An analysis and the rule that is about it have one name, and are one check.
    """
    rules = {skipped.id for skipped in report.skipped if "_" not in skipped.id}
    for skipped in report.skipped:
        if "_" in skipped.id and skipped.id.replace("_", "-") in rules:
            continue
        option = _OPTION.search(skipped.reason.text)
        yield option[0] if option and not _was_on(report, option[0]) else None


def _was_on(report: Report, option: str) -> bool:
    """Whether the recording had an option, so that the rest of the reason is what is missing."""
    return report.trace is not None and bool(getattr(report.trace.options, option.partition("=")[0]))


def _warnings(report: Report, most: int) -> Iterator[Message]:
    """The first warnings, because a file may cause thousands."""
    for warning in report.warnings[:most]:
        message = warning.message
        short = {key: shorten(v, _NAME_WIDTH) if isinstance(v, str) else v for key, v in message.params.items()}
        yield Message(message.id, short, shorten(message.text, _WARNING_WIDTH))
    if len(report.warnings) > most:
        yield _MORE(hidden=len(report.warnings) - most)


def _options(options: RecordingOptions) -> list[str] | None:
    """The names of the options that were on; None if there are none."""
    return [name for name in options.__struct_fields__ if getattr(options, name)] or None
