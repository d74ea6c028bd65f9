"""Detects what fills a device, by snapshots of memory: fragments, too much held, tensors kept, unused graphs.

Fragments and too much held are also told by what is printed: texts of errors, and summaries of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.analyzers.memory.snapshot_peak import HeldLine
from traceanalyzer.analyzers.tables import printed_memory
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import named_code
from traceanalyzer.rules.engine.headlines.held_memory import NO_LINE
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page
from traceanalyzer.rules.memory import savings
from traceanalyzer.simulation.allocator.ideas import MemoryIdea

_FRAGMENTED = page("memory-fragmented")
_EXHAUSTED = page("memory-exhausted")
_KEPT = page("tensors-kept")
_UNUSED = page("graph-unused")
_UNNAMED = "the GPU"
_MOST = 0.5
"""Share of a device that others hold, or of what is reserved that is of no use, from which on that is the reason (own
choice: most of it)."""
_SHOWN = 5
_BY_KIND = {
    "activations": (_EXHAUSTED.text("summary-activations"), _EXHAUSTED.text("advice-activations")),
    "gradients": (_EXHAUSTED.text("summary-gradients"), _EXHAUSTED.text("advice-gradients")),
    "optimizer": (_EXHAUSTED.text("summary-optimizer"), _EXHAUSTED.text("advice-optimizer")),
    "parameters": (_EXHAUSTED.text("summary-parameters"), _EXHAUSTED.text("advice-parameters")),
    "unknown": (_EXHAUSTED.text("summary-unknown"), _EXHAUSTED.text("advice-unknown")),
}
"""Summary and advice by the kind that holds most."""


def _devices(facts: Facts) -> Iterator[snapshots.SnapshotDevice]:
    found = facts.find("memory_snapshot", snapshots.MemorySnapshotUse)
    yield from () if found is None else found.devices


def _gpu(device: snapshots.SnapshotDevice) -> str:
    return f"GPU{device.device}"


def _named(line: str | None) -> str:
    """A line as it stands in a sentence."""
    frame = None if line is None else python_frames.parse(line)
    return (line or "?") if frame is None else named_code(frame.function, frame.path, frame.line)


def _places(device: snapshots.SnapshotDevice, kind: str) -> tuple[CodePlace, ...]:
    """The lines that hold most of a kind at the peak; the device if none is known."""
    rows = [row for row in device.lines if row.line is not None and row.kind == kind]
    return tuple(map(_place, rows[:_SHOWN])) or (_whole(device, device.peak_requested_bytes),)


def _place(row: HeldLine) -> CodePlace:
    return CodePlace("python", row.line or "", value=row.held_bytes, unit="bytes")


def _whole(device: snapshots.SnapshotDevice, size: int) -> CodePlace:
    return CodePlace("memory", _gpu(device), value=size, unit="bytes")


def _fragmented(facts: Facts, limits: Limits) -> Drafts:
    for device in _devices(facts):
        failed = device.failure
        is_hit = failed is not None and failed.is_fragmentation
        if device.is_expandable or not device.reserved_bytes or not (is_hit or (failed is None and device.retries)):
            continue
        share = device.unusable_bytes / device.reserved_bytes
        if share <= limits["unusable_share"]:
            continue
        where = _of_failure(failed) or (_whole(device, device.unusable_bytes),)
        evidence = _FRAGMENTED.evidence(limits, "unusable_share", share, where)
        params: dict[str, Any] = {
            "device": _gpu(device),
            "unusable": device.unusable_bytes,
            "reserved": device.reserved_bytes,
            "largest": device.largest_request_bytes or 0,
        }
        severity, confidence = ("high", "A") if is_hit else ("low", "B")
        replayed = savings.found(facts, device, MemoryIdea.EXPANDABLE)
        advice = _replayed(facts, device, MemoryIdea.EXPANDABLE, _FRAGMENTED.text("advice-replayed"), params)
        if replayed is not None and replayed.fits:
            advice = _FRAGMENTED.text("advice-fits")
        yield Draft((evidence,), None, params, severity=severity, confidence=confidence, advice=advice)


def _of_failure(failed: snapshots.FailedAllocation | None) -> tuple[CodePlace, ...]:
    return (
        ()
        if failed is None or failed.line is None
        else (CodePlace("python", failed.line, value=failed.asked_bytes, unit="bytes"),)
    )


def _exhausted(facts: Facts, limits: Limits) -> Drafts:
    for device in _devices(facts):
        failed = device.failure
        if failed is None or failed.is_fragmentation or failed.failures < limits["failures"] or not device.kinds:
            continue
        most = device.kinds[0]
        if most.kind == "unknown" and len(device.kinds) > 1:
            most = device.kinds[1]
        largest = max((row.largest_bytes for row in device.lines if row.kind == most.kind), default=0)
        evidence = _EXHAUSTED.evidence(limits, "failures", failed.failures, _places(device, most.kind))
        params = {
            "device": _gpu(device),
            "asked": failed.asked_bytes,
            "line": _named(failed.line),
            "level": failed.level_bytes,
            "held": most.held_bytes,
            "most": max(0, most.held_bytes - largest),
        }
        summary, advice = _BY_KIND.get(most.kind, _BY_KIND["unknown"])
        yield Draft((evidence,), None, params, severity="critical", advice=advice, summary=summary)


def _kept(facts: Facts, limits: Limits) -> Drafts:
    for device in _devices(facts):
        peak = device.peak_requested_bytes
        rows = [row for row in device.kept if row.blocks >= limits["blocks"]]
        total = sum(row.kept_bytes for row in rows)
        if not rows or total <= limits["kept_share"] * peak:
            continue
        places = tuple(CodePlace("python", row.line, value=row.kept_bytes, unit="bytes") for row in rows[:_SHOWN])
        evidence = _KEPT.evidence(limits, "kept_share", total / peak, places)
        params: dict[str, Any] = {
            "device": _gpu(device),
            "line": _named(rows[0].line),
            "blocks": sum(row.blocks for row in rows),
            "kept": total,
        }
        severity = "high" if total > 0.1 * peak else "medium"
        advice = _replayed(facts, device, MemoryIdea.NOT_KEPT, _KEPT.text("advice-replayed"), params)
        lower = savings.lowered(facts, device, MemoryIdea.NOT_KEPT)
        yield Draft((evidence,), None, params, severity=severity, advice=advice, peak=lower)


def _unused(facts: Facts, limits: Limits) -> Drafts:
    for device in _devices(facts):
        peak, unused = device.peak_requested_bytes, device.unused_graph_bytes
        if not unused or unused <= limits["unused_share"] * peak:
            continue
        evidence = _UNUSED.evidence(limits, "unused_share", unused / peak, _places(device, "activations"))
        params: dict[str, Any] = {"device": _gpu(device), "unused": unused, "peak": peak}
        advice = _replayed(facts, device, MemoryIdea.NO_GRAPH, _UNUSED.text("advice-replayed"), params)
        lower = savings.lowered(facts, device, MemoryIdea.NO_GRAPH)
        yield Draft((evidence,), None, params, severity="medium", advice=advice, peak=lower)


def _replayed(
    facts: Facts, device: snapshots.SnapshotDevice, idea: MemoryIdea, advice: Text, params: dict[str, Any]
) -> Text | None:
    """The advice with what the replay says, whose bytes are added to `params`; None if there is none."""
    found = savings.found(facts, device, idea)
    if found is None:
        return None
    params |= savings.saved(found)
    return advice


# The same by what is printed: texts of errors, and summaries of memory.


def _printed_fragments(facts: Facts, limits: Limits) -> Drafts:
    """Allocations that failed although enough was reserved and unused, and retries beside such memory."""
    memory = facts.find("printed_memory", printed_memory.PrintedMemory)
    for failed in _failures(memory):
        if not failed.is_fragmentation or not failed.reserved_bytes:
            continue
        unusable = failed.inactive_bytes or 0
        evidence = _FRAGMENTED.evidence(
            limits, "unusable_share", unusable / failed.reserved_bytes, (_printed_place(failed),)
        )
        params = {**_asked(failed), "free": failed.device_free_bytes or 0, "unusable": unusable}
        yield Draft(
            (evidence,), None, params, severity="high", confidence="A", summary=_FRAGMENTED.text("summary-error")
        )
    yield from _retried(memory, limits)


def _retried(memory: printed_memory.PrintedMemory | None, limits: Limits) -> Drafts:
    """Summaries of memory with retries, and with much that is of no use."""
    for summary in memory.summaries if memory else ():
        unusable = summary.unusable_bytes or 0
        reserved = summary.reserved_bytes or 0
        if not summary.retries or not reserved or unusable <= limits["unusable_share"] * reserved:
            continue
        place = CodePlace("memory", f"GPU{summary.device}", value=unusable, unit="bytes")
        evidence = _FRAGMENTED.evidence(limits, "unusable_share", unusable / reserved, (place,))
        params = {
            "device": f"GPU{summary.device}",
            "unusable": unusable,
            "reserved": reserved,
            "retries": summary.retries,
        }
        severity = "high" if summary.failures else "low"
        yield Draft(
            (evidence,), None, params, severity=severity, confidence="B", summary=_FRAGMENTED.text("summary-printed")
        )


def _printed_exhaustion(facts: Facts, limits: Limits) -> Drafts:
    """Allocations that failed because tensors or other processes hold too much."""
    memory = facts.find("printed_memory", printed_memory.PrintedMemory)
    failures = list(_failures(memory))
    for failed in failures:
        if failed.is_fragmentation or len(failures) < limits["failures"]:
            continue
        summary, advice = _why(failed)
        evidence = _EXHAUSTED.evidence(limits, "failures", len(failures), (_printed_place(failed),))
        params = {
            **_asked(failed),
            "level": failed.allocated_bytes or 0,
            "others": failed.elsewhere_bytes or 0,
            "free": failed.device_free_bytes or 0,
        }
        yield Draft(
            (evidence,),
            None,
            params,
            severity="critical",
            advice=advice,
            summary=summary,
        )
    if not failures:
        yield from _full(memory, limits)


def _full(memory: printed_memory.PrintedMemory | None, limits: Limits) -> Drafts:
    """Summaries of memory with failures that fragments do not explain."""
    for summary in memory.summaries if memory else ():
        is_little = (summary.unusable_bytes or 0) <= _MOST * (summary.reserved_bytes or 0)
        if (summary.failures or 0) < limits["failures"] or not is_little:
            continue
        place = CodePlace("memory", f"GPU{summary.device}", value=summary.peak_bytes, unit="bytes")
        evidence = _EXHAUSTED.evidence(limits, "failures", summary.failures or 0, (place,))
        counted = {
            "device": f"GPU{summary.device}",
            "failures": summary.failures or 0,
            "level": summary.peak_bytes,
        }
        yield Draft(
            (evidence,),
            None,
            counted,
            severity="critical",
            advice=_EXHAUSTED.text("advice-printed"),
            summary=_EXHAUSTED.text("summary-printed"),
        )


def _failures(memory: printed_memory.PrintedMemory | None) -> Iterator[printed_memory.PrintedAllocation]:
    """The failed allocations, one for each line and device: ranks and retries repeat them."""
    seen = set()
    for failed in memory.failures if memory else ():
        if (key := (failed.device, failed.line)) not in seen:
            seen.add(key)
            yield failed


def _why(failed: printed_memory.PrintedAllocation) -> tuple[Text, Text]:
    """Why there was not enough: a limit beside the device's memory, others, or the program itself; with what to do."""
    if failed.is_limited:
        return _EXHAUSTED.text("summary-limited"), _EXHAUSTED.text("advice-limited")
    if (failed.elsewhere_bytes or 0) > _MOST * (failed.total_bytes or 0):
        return _EXHAUSTED.text("summary-others"), _EXHAUSTED.text("advice-others")
    return _EXHAUSTED.text("summary-error"), _EXHAUSTED.text("advice-printed")


def _asked(failed: printed_memory.PrintedAllocation) -> dict[str, Any]:
    frame = None if failed.line is None else python_frames.parse(failed.line)
    line = failed.line or NO_LINE() if frame is None else named_code(frame.function, frame.path, frame.line)
    return {"line": line, "device": _printed_device(failed), "asked": failed.asked_bytes}


def _printed_device(failed: printed_memory.PrintedAllocation) -> str:
    return _UNNAMED if failed.device is None else f"GPU{failed.device}"


def _printed_place(failed: printed_memory.PrintedAllocation) -> CodePlace:
    if failed.line is not None:
        return CodePlace("python", failed.line, value=failed.asked_bytes, unit="bytes")
    return CodePlace("memory", _printed_device(failed), value=failed.asked_bytes, unit="bytes")


RULES = (
    _FRAGMENTED.rule(snapshot=lambda facts, limits: (*_fragmented(facts, limits), *_printed_fragments(facts, limits))),
    _EXHAUSTED.rule(snapshot=lambda facts, limits: (*_exhausted(facts, limits), *_printed_exhaustion(facts, limits))),
    _KEPT.rule(snapshot=_kept),
    _UNUSED.rule(snapshot=_unused),
)
