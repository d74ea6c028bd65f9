"""Detects what fills a device, by the text of an error or by a summary of memory."""

from __future__ import annotations

from collections.abc import Iterator

from traceanalyzer.analyzers.tables.printed_memory import PrintedAllocation, PrintedMemory
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message
from traceanalyzer.report.names import named_code
from traceanalyzer.rules.engine.headlines.held_memory import NO_LINE
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, page

_FRAGMENTED = page("memory-fragmented")
_EXHAUSTED = page("memory-exhausted")
_UNNAMED = "the GPU"
_MOST = 0.5
"""Share of a device that others hold, or of what is reserved that is of no use, from which on that is the reason (own
choice: most of it)."""


def fragmented(facts: Facts, limits: Limits) -> Drafts:
    """Allocations that failed although enough was reserved and unused, and retries beside such memory."""
    memory = facts.find("printed_memory", PrintedMemory)
    for failed in _failures(memory):
        if not failed.is_fragmentation or not failed.reserved_bytes:
            continue
        unusable = failed.inactive_bytes or 0
        evidence = _FRAGMENTED.evidence(limits, "unusable_share", unusable / failed.reserved_bytes, (_place(failed),))
        params = {**_told(failed), "free": failed.device_free_bytes or 0, "unusable": unusable}
        yield Draft(
            (evidence,), None, params, severity="high", confidence="A", summary=_FRAGMENTED.text("summary-error")
        )
    yield from _retried(memory, limits)


def _retried(memory: PrintedMemory | None, limits: Limits) -> Drafts:
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


def exhausted(facts: Facts, limits: Limits) -> Drafts:
    """Allocations that failed because tensors or other processes hold too much."""
    memory = facts.find("printed_memory", PrintedMemory)
    failures = list(_failures(memory))
    for failed in failures:
        if failed.is_fragmentation or len(failures) < limits["failures"]:
            continue
        kind = _why(failed)
        evidence = _EXHAUSTED.evidence(limits, "failures", len(failures), (_place(failed),))
        params = {
            **_told(failed),
            "level": failed.allocated_bytes or 0,
            "others": failed.elsewhere_bytes or 0,
            "free": failed.device_free_bytes or 0,
        }
        yield Draft(
            (evidence,),
            None,
            params,
            severity="critical",
            advice=_EXHAUSTED.text(f"advice-{'printed' if kind == 'error' else kind}"),
            summary=_EXHAUSTED.text(f"summary-{kind}"),
        )
    if not failures:
        yield from _full(memory, limits)


def _full(memory: PrintedMemory | None, limits: Limits) -> Drafts:
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


def _failures(memory: PrintedMemory | None) -> Iterator[PrintedAllocation]:
    """The failed allocations, one for each line and device: ranks and retries repeat them."""
    seen = set()
    for failed in memory.failures if memory else ():
        if (key := (failed.device, failed.line)) not in seen:
            seen.add(key)
            yield failed


def _why(failed: PrintedAllocation) -> str:
    """Why there was not enough: a limit beside the device's memory, others, or the program itself."""
    if failed.is_limited:
        return "limited"
    return "others" if (failed.elsewhere_bytes or 0) > _MOST * (failed.total_bytes or 0) else "error"


def _told(failed: PrintedAllocation) -> dict[str, int | str | Message]:
    frame = None if failed.line is None else python_frames.parse(failed.line)
    line = failed.line or NO_LINE() if frame is None else named_code(frame.function, frame.path, frame.line)
    return {"line": line, "device": _device(failed), "asked": failed.asked_bytes}


def _device(failed: PrintedAllocation) -> str:
    return _UNNAMED if failed.device is None else f"GPU{failed.device}"


def _place(failed: PrintedAllocation) -> CodePlace:
    if failed.line is not None:
        return CodePlace("python", failed.line, value=failed.asked_bytes, unit="bytes")
    return CodePlace("memory", _device(failed), value=failed.asked_bytes, unit="bytes")
