"""What lies outside of the typical steps, in the headline, where it is a good part of the recording."""

from __future__ import annotations

from traceanalyzer.analyzers.steps.outside import NO_STEP
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.warnings import OUTSIDE_KINDS, STEP_REASONS
from traceanalyzer.rules.engine import host_owners
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.recording import Outside, Recording
from traceanalyzer.structure.recording.left_out import OTHER_PHASE, UNKNOWN
from traceanalyzer.structure.recording.program_steps import WHOLE

_WORTH = 0.2
"""Share of the recording from which on the headline mentions what lies outside of the typical steps."""
_WAITS = 0.05
"""The device waits if it works for less than this share of the time (own choice: copies of results remain)."""
_NO_REASON = frozenset({NO_STEP, OTHER_PHASE, UNKNOWN})
"""Reasons that say less than what the host does."""

_ALSO = Text(
    "headline-also-outside",
    "{headline} Outside of the typical steps: {time:ns} {when}, {what}.",
    note="headline is a sentence; when: before the first step; what is a clause, such as: the GPU waits",
)
_BECAUSE = Text(
    "outside-because", "because of {reason}", note="reason is a noun, such as: allocation of memory; ends a sentence"
)
_HOST = Text(
    "outside-host",
    "for {part:ns} of it the host is in {owner}",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WAITS = Text(
    "outside-host-waits",
    "for {part:ns} of it the host is in {owner}, while the GPU waits",
    note="after a time; owner is a function, mark, module or operator; ends a sentence",
)
_HOST_WORKS = Text(
    "outside-host-works",
    "for {part:ns} of it the host is in {owner}, and the GPU works for {busy:percent}",
    note="after a time; owner is a function, mark, module or operator; busy is a share of the time; ends a sentence",
)
_SILENT = Text(
    "outside-silent", "in which hardly anything of the host was recorded", note="after a time; ends a sentence"
)
_SILENT_WAITS = Text(
    "outside-silent-waits",
    "in which hardly anything of the host was recorded and the GPU waits",
    note="after a time; ends a sentence",
)
_SILENT_WORKS = Text(
    "outside-silent-works",
    "in which hardly anything of the host was recorded and the GPU works for {busy:percent}",
    note="after a time; busy is a share of that time; ends a sentence",
)


def with_outside(facts: Facts, message: Message) -> Message:
    """The headline, with the largest time outside of the typical steps if all of them are a fifth of the recording."""
    recording = facts.find("recording", Recording)
    if recording is None or facts.summary is None or recording.steps_from == WHOLE or not recording.outside:
        return message
    if (recording.outside_ns or 0) < _WORTH * facts.summary.span_ns:
        return message
    largest = max(recording.outside, key=lambda part: part.duration_ns)
    return _ALSO(headline=message, time=largest.duration_ns, when=OUTSIDE_KINDS[largest.kind](), what=_what(largest))


def _what(part: Outside) -> Message:
    """Why a time is outside, or what host and device do in it."""
    if part.reason not in _NO_REASON:
        return _BECAUSE(reason=STEP_REASONS[part.reason]())
    busy = None if part.device_busy_ns is None else part.device_busy_ns / part.duration_ns
    said = {} if part.owner is None else {"owner": host_owners.name(part.owner), "part": part.owner.time_ns}
    if busy is None:
        return _HOST(**said) if said else _SILENT()
    if busy < _WAITS:
        return _HOST_WAITS(**said) if said else _SILENT_WAITS()
    return _HOST_WORKS(**said, busy=busy) if said else _SILENT_WORKS(busy=busy)
