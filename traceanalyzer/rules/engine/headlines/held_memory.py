"""The headline of memory, of a snapshot or of a text: what was asked for where it ran out, else who holds most."""

from __future__ import annotations

from traceanalyzer.analyzers.memory.snapshot_peak import HeldLine
from traceanalyzer.analyzers.memory.snapshots import FailedAllocation, MemorySnapshotUse, SnapshotDevice
from traceanalyzer.analyzers.tables.printed_memory import PrintedAllocation, PrintedMemory
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.names import code_place
from traceanalyzer.simulation.memory_replay import MemoryReplay

_FAILED = Text(
    "headline-memory-failed",
    "Out of memory: {line} asked for {asked:bytes}; {free:bytes} were free, {inactive:bytes} reserved but unused.",
    "line is a file and a line such as train.py:12",
)
_FAILED_FREE = Text(
    "headline-memory-failed-free",
    "Out of memory: {line} asked for {asked:bytes}; {free:bytes} were free.",
    "line is a file and a line such as train.py:12",
)
_FAILED_ONLY = Text(
    "headline-memory-failed-only",
    "Out of memory: {line} asked for {asked:bytes}.",
    "line is a file and a line such as train.py:12",
)
NO_LINE = Text("headline-memory-no-line", "an unknown line", "in place of a line that asked for memory")
_PEAK = Text(
    "headline-memory-peak",
    "{peak:bytes} are held at the peak, most by {line}: {held:bytes}.",
    "line is a file and a line such as train.py:12",
)
_PEAK_OLDER = Text(
    "headline-memory-peak-older", "{peak:bytes} are held at the peak, {held:bytes} of it from before the history."
)
_DUMP = Text(
    "headline-memory-dump",
    "{held:bytes} are held at the dump, of {reserved:bytes} reserved; there is no history.",
)
_DUMP_LINE = Text(
    "headline-memory-dump-line",
    "{total:bytes} are held at the dump, most by {line}: {held:bytes}; there is no history.",
    "line is a file and a line such as train.py:12",
)
_SUMMARY = Text(
    "headline-memory-summary",
    "{device}: tensors hold {allocated:bytes} of {reserved:bytes} reserved, and held {peak:bytes} at the peak.",
    note="device is GPU0 and the like",
)
_SUMMARY_FAILED = Text(
    "headline-memory-summary-failed",
    "{device} ran out of memory {failures:count} times: tensors hold {allocated:bytes} of {reserved:bytes} reserved.",
    one="{device} ran out of memory once: tensors hold {allocated:bytes} of {reserved:bytes} reserved.",
    note="device is GPU0 and the like",
)
_SUMMARY_ONLY = Text(
    "headline-memory-summary-only",
    "{device}: tensors hold {allocated:bytes}, and held {peak:bytes} at the peak.",
    note="device is GPU0 and the like",
)
_WITH_ALL = Text(
    "headline-memory-with-all",
    "All changes below together would leave {after:estimated_bytes} at the peak.",
    note="after is an interval such as 8.9-11 GiB",
)
_LEAST = 0.05
"""Share of the peak that a line holds at least to be named where most is older than the history (own choice)."""


def of_snapshot(found: MemorySnapshotUse) -> Message:
    """What was asked for where memory ran out, else the peak, or the dump alone, and who holds most of it."""
    device = found.fullest
    if device.failure is not None:
        return _of_failure(device.failure)
    return _of_peak(device)


def with_all_changes(found: MemorySnapshotUse, replayed: MemoryReplay | None) -> Message | None:
    """What the peak would be with all changes that the replay tried; None if it tried fewer than two."""
    device = found.fullest
    devices = () if replayed is None else replayed.devices
    tried = next((one for one in devices if one.device == device.device), None)
    if tried is None or tried.together is None or len(tried.changes) < 2 or not tried.together.requested_most:
        return None
    peak, saved = device.peak_requested_bytes, tried.together
    return _WITH_ALL(after=(peak - saved.requested_most, None, peak - saved.requested_least))


def of_text(found: PrintedMemory) -> Message:
    """What was asked for in the first error, else what the first summary with a failure says."""
    if found.failures:
        return _of_failure(found.failures[0])
    summary = max(found.summaries, key=lambda one: one.failures or 0)
    told = {"device": f"GPU{summary.device}", "allocated": summary.allocated_bytes}
    if summary.reserved_bytes is None:
        return _SUMMARY_ONLY(**told, peak=summary.peak_bytes)
    told["reserved"] = summary.reserved_bytes
    if summary.failures:
        return _SUMMARY_FAILED(**told, failures=summary.failures)
    return _SUMMARY(**told, peak=summary.peak_bytes)


def _of_failure(failed: FailedAllocation | PrintedAllocation) -> Message:
    told = {"line": _short(failed.line) or NO_LINE(), "asked": failed.asked_bytes}
    if failed.device_free_bytes is None:
        return _FAILED_ONLY(**told)
    if failed.inactive_bytes is None:
        return _FAILED_FREE(**told, free=failed.device_free_bytes)
    return _FAILED(**told, free=failed.device_free_bytes, inactive=failed.inactive_bytes)


def _of_peak(device: SnapshotDevice) -> Message:
    row, peak, total = _largest(device), device.peak_requested_bytes, device.active_requested_bytes
    if not device.has_history:
        if row is None:
            return _DUMP(held=total, reserved=device.reserved_bytes)
        return _DUMP_LINE(total=total, line=_short(row.line), held=row.held_bytes)
    if row is None:
        return _PEAK_OLDER(peak=peak, held=device.peak_older_bytes)
    return _PEAK(peak=peak, line=_short(row.line), held=row.held_bytes)


def _largest(device: SnapshotDevice) -> HeldLine | None:
    """The line that holds most of the peak; None if there is none, or if most is older and the line holds little."""
    row = next((row for row in device.lines if row.line is not None), None)
    if row is None or 2 * device.peak_older_bytes <= device.peak_requested_bytes:
        return row
    least = _LEAST * device.peak_requested_bytes
    if device.has_history:  # what nothing is known of is no reason to name a line that holds less
        least = max(least, next((kind.older_bytes for kind in device.kinds if kind.kind == "unknown"), 0))
    return row if row.held_bytes >= least else None


def _short(line: str | None) -> str | None:
    """A line as people read it in a sentence: the file without its folders."""
    frame = None if line is None else python_frames.parse(line)
    return line if frame is None else code_place(frame.path, frame.line)
