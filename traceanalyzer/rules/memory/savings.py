"""Detects what a program could do with less memory, by the replay of a snapshot or a trace, with bounds in bytes.

The replay tries each change (`simulation/allocator/ideas.py`); a rule is a change that is worth telling. Its interval
is what the peak loses by that change alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

from traceanalyzer.analyzers.memory import MemoryUse
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse, SnapshotDevice
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.selection import PeakSaving
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Rule, RulePage, page
from traceanalyzer.simulation.allocator.ideas import MemoryIdea
from traceanalyzer.simulation.memory_replay import MemoryReplay, MemorySaving

_EXACT = Text("memory-saved", "{size:bytes}", "bytes that a change saves; part of a sentence")
_RANGE = Text("memory-saved-range", "{least:bytes} to {most:bytes}", "bytes that a change saves; part of a sentence")
_UNKNOWN = Text(
    "memory-saved-unknown",
    "by an unknown amount (no segments are recorded)",
    "bytes that a change saves; part of a sentence, in place of a number of bytes",
)
_NEEDED = 0.5
"""Share of a device's memory from which on a trace is asked what would free it (own choice: a program that needs less
has no use for more)."""
_SCARCE = 0.9
"""Share of a device's memory from which on it is scarce (own choice)."""
_MUCH, _SOME = 0.2, 0.05
"""Shares of the peak that make a saving one of high or of medium severity (own choice)."""
_ALL_KEPT = page("activations-all-kept")
_LARGE = page("activations-large")
_LOGITS = page("logits-materialized")
_STATE = page("optimizer-state-large")
_HELD_LATE = page("gradients-held-late")
_TWICE = page("gradients-twice")


def found(facts: Facts, device: SnapshotDevice, idea: MemoryIdea) -> MemorySaving | None:
    """What a change saves on a device; None if it was not tried, or saves nothing."""
    return _found(facts, device.device, idea)


def _found(facts: Facts, number: int, idea: MemoryIdea) -> MemorySaving | None:
    replayed = facts.find("memory_replay", MemoryReplay)
    devices = () if replayed is None else replayed.devices
    return next((own for one in devices if one.device == number and (own := one.saving(idea))), None)


def lowered(facts: Facts, device: SnapshotDevice, idea: MemoryIdea) -> PeakSaving | None:
    """By how much a change lowers a device's peak; None if it was not tried, or saves nothing of it."""
    one = found(facts, device, idea)
    return None if one is None else one.saved.at_peak(device.device, device.peak_requested_bytes)


def saved(one: MemorySaving) -> dict[str, Message]:
    """What the peaks lose, as it stands in a sentence: of what the program asks for, and of what is reserved."""
    return {
        "saved": _interval(one.saved.requested_least, one.saved.requested_most),
        "reserved_saved": _interval(one.saved.reserved_least, one.saved.reserved_most),
    }


def _interval(least: int | None, most: int | None) -> Message:
    if least is None or most is None:
        return _UNKNOWN()
    return _EXACT(size=most) if least == most else _RANGE(least=least, most=most)


def _rule_of(idea: MemoryIdea, rule: RulePage, subject: Text, others: Mapping[MemoryIdea, Text] | None = None) -> Rule:
    """The rule of a change, or of several that have the same advice; the others have a summary of their own."""
    summaries = {idea: None, **(others or {})}

    def detect(facts: Facts, limits: Limits) -> Drafts:
        for device, change in product(_devices(facts), summaries):
            one, peak = _found(facts, device.number, change), device.peak
            if one is None or not peak or one.saved.requested_most <= limits["saved_share"] * peak:
                continue
            share = one.saved.requested_most / peak
            evidence = rule.evidence(limits, "saved_share", share, tuple(_places(device, one)), subject=subject())
            params = {
                "device": f"GPU{device.number}",
                "held": one.held_bytes,
                "peak": peak,
                "parts": one.parts or 0,
                **saved(one),
            }
            severity = _severity(device, share)
            less = one.saved.at_peak(device.number, peak)
            yield Draft((evidence,), None, params, severity=severity, summary=summaries[change], peak=less)

    return rule.rule(trace=detect, snapshot=detect)


class _Device(NamedTuple):
    """A device whose memory was recorded, by a snapshot or in a trace."""

    number: int
    peak: int
    is_scarce: bool
    """Whether memory ran out, or nearly."""
    is_of_trace: bool = False


def _devices(facts: Facts) -> Iterator[_Device]:
    snapshot, trace = facts.find("memory_snapshot", MemorySnapshotUse), facts.find("memory", MemoryUse)
    for device in snapshot.devices if snapshot is not None else ():
        is_scarce = device.failure is not None or device.retries > 0
        yield _Device(device.device, device.peak_requested_bytes, is_scarce)
    for used in trace.devices if trace is not None else ():
        peak, number = used.peak_allocated_bytes, used.device.removeprefix("GPU")
        held, capacity = used.peak_reserved_bytes or peak or 0, used.capacity_bytes
        if peak and number.isdigit() and held >= _NEEDED * (capacity or 0):
            yield _Device(int(number), peak, bool(capacity) and held >= _SCARCE * (capacity or 0), is_of_trace=True)


def _places(device: _Device, one: MemorySaving) -> Iterator[CodePlace]:
    """Lines that hold it; the device if none is known."""
    named = [row for row in one.lines if row.line is not None]
    for row in named:
        yield CodePlace("python", row.line or "", value=row.held_bytes, unit="bytes")
    if not named:
        yield CodePlace("memory", f"GPU{device.number}", value=one.held_bytes, unit="bytes")


def _severity(device: _Device, share: float) -> str:
    """Where memory did not run out, nothing is urgent; traces are rarely recorded because of memory."""
    if share >= _MUCH and device.is_scarce:
        return "high"
    if device.is_of_trace and not device.is_scarce:
        return "low"
    return "medium" if share >= _SOME else "low"


RULES = (
    _rule_of(MemoryIdea.CHECKPOINT, _ALL_KEPT, _ALL_KEPT.text("subject")),
    _rule_of(MemoryIdea.HALVED, _LARGE, _LARGE.text("subject")),
    _rule_of(MemoryIdea.LOGITS, _LOGITS, _LOGITS.text("subject")),
    _rule_of(MemoryIdea.STATE, _STATE, _STATE.text("subject")),
    _rule_of(
        MemoryIdea.GRADIENTS_FREED,
        _HELD_LATE,
        _HELD_LATE.text("subject"),
        {MemoryIdea.GRADIENTS_ZEROED: _HELD_LATE.text("summary-zeroed")},
    ),
    _rule_of(MemoryIdea.GRADIENTS_ONCE, _TWICE, _TWICE.text("subject")),
)
