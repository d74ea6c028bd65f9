"""Facts about the file, losses while reading, and skipped analyses with their reasons."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.kernels.attribution import Attribution
from traceanalyzer.formats.names import shorten
from traceanalyzer.formats.words import word
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report, TraceSummary
from traceanalyzer.report.section import Fact, Section, SectionColumn, SectionTable, Topic

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
_SKIPPED_REASON = Text("skipped-reason", "{analysis}: {reason}.", note="analysis is an identifier")
_TRACE = Text("trace-title", "Trace")
_FILE = Text("trace-file", "File")
_SIZE = Text("trace-size", "Size")
_EVENTS = Text("trace-events", "Events")
_SPAN = Text("trace-span", "Time span")
_STEPS_FROM = Text("trace-steps-from", "Steps", "a label; what follows says how steps were found")
_STEPS_FOUND = {
    "ProfilerStep": Text("trace-steps-marked", "by the profiler's marks", note="prof.step() sets them"),
    "whole-trace": Text("trace-steps-whole", "none is marked: the whole trace counts as one"),
    "device-events": Text("trace-steps-device", "none is marked: one, from the device's first to its last event"),
    "host-annotations": Text("trace-steps-host", "none is marked: one, from the host's first to its last annotation"),
}
"""How steps were found, by the ids of a report."""
_RANK = Text("trace-rank", "Rank")
_WORLD = Text("trace-world-size", "World size")
_OPTIONS = Text("trace-options", "Recorded")
_BY_OPERATORS = Text("trace-by-operators", "Device time that operators launched", "a label, followed by a share")
_BY_MODULES = Text("trace-by-modules", "Device time launched for modules", "a label, followed by a share")
_BY_CLASS = Text("trace-by-class", "Device time of a known kind of work", "a label, followed by a share")
_DEVICES = (
    SectionColumn(Text("device-id", "Device"), ""),
    SectionColumn(Text("device-name", "Name"), "", is_name=True),
    SectionColumn(Text("device-memory", "Memory"), "bytes"),
    SectionColumn(Text("device-capability", "Compute capability"), ""),
    SectionColumn(Text("device-sms", "Multiprocessors"), "count"),
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
        reasons = tuple(_SKIPPED_REASON(analysis=s.id, reason=s.reason) for s in report.skipped)
        yield Section("skipped", _SKIPPED, messages=reasons, topic=Topic.QUALITY, is_detail=True)
    if report.trace is not None:
        yield Section(
            "trace",
            _TRACE,
            facts=tuple(fact for fact in _facts(report, report.trace) if fact.value is not None),
            tables=tuple(_devices(report.trace, top)),
            topic=Topic.QUALITY,
            is_detail=True,
        )


def _warnings(report: Report, most: int) -> Iterator[Message]:
    """The first warnings, because a file may cause thousands."""
    for warning in report.warnings[:most]:
        message = warning.message
        short = {key: shorten(v, _NAME_WIDTH) if isinstance(v, str) else v for key, v in message.params.items()}
        yield Message(message.id, short, shorten(message.text, _WARNING_WIDTH))
    if len(report.warnings) > most:
        yield _MORE(hidden=len(report.warnings) - most)


def _facts(report: Report, trace: TraceSummary) -> Iterator[Fact]:
    yield Fact(_FILE, report.source.name, "")
    yield Fact(_SIZE, report.source.size_bytes, "bytes")
    yield Fact(_EVENTS, trace.events, "count")
    yield Fact(_SPAN, trace.span_ns, "ns")
    yield Fact(_STEPS_FROM, None if trace.steps_from is None else word(_STEPS_FOUND, trace.steps_from), "")
    yield Fact(_RANK, trace.rank, "count")
    yield Fact(_WORLD, trace.world_size, "count")
    options = [name for name in trace.options.__struct_fields__ if getattr(trace.options, name)]
    yield Fact(_OPTIONS, options or None, "")
    if (explained := report.result("attribution", Attribution)) is not None:
        yield Fact(_BY_OPERATORS, explained.operator_share, "share")
        yield Fact(_BY_MODULES, explained.module_share, "share")
        yield Fact(_BY_CLASS, explained.class_share, "share")


def _devices(trace: TraceSummary, top: int) -> Iterator[SectionTable]:
    described = [d for d in trace.devices if d.name is not None]
    if described:
        rows = tuple((d.id, d.name, d.memory_bytes, d.compute_capability, d.sm_count) for d in described[:top])
        yield SectionTable("devices", _DEVICES, rows, len(described))
