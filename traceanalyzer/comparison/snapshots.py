"""Compares two memory snapshots: what grew. The result is a report, because snapshots have no steps to be judged."""

from __future__ import annotations

import os

from traceanalyzer.analyzers.memory import snapshot_changes, snapshots
from traceanalyzer.analyzers.memory.snapshot_changes import MemorySnapshotChange
from traceanalyzer.errors import UsageError
from traceanalyzer.inputs import opening, sniffing
from traceanalyzer.inputs.opening import FileProgress, silent
from traceanalyzer.inputs.sniffing import FileKind
from traceanalyzer.knowledge import python_frames
from traceanalyzer.pipeline import report_of
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Headline, Report, ReportSource
from traceanalyzer.report.names import code_place
from traceanalyzer.rules.engine.runner import Advice
from traceanalyzer.trace.memory_snapshot import MemorySnapshot

_PEAK = Text(
    "headline-memory-change",
    "The peak of GPU{device:number} went from {base:bytes} to {head:bytes}.",
    "of two snapshots of memory",
)
_PEAK_LINE = Text(
    "headline-memory-change-line",
    "The peak of GPU{device:number} went from {base:bytes} to {head:bytes}; {line} changed most, from {before:bytes} "
    "to {after:bytes}.",
    "of two snapshots of memory; line is a file and a line such as train.py:12",
)
_NO_DEVICE = Text("headline-memory-change-none", "The snapshots have no device in common.")


def are_snapshots(base: str, head: str) -> bool:
    """Whether both are memory snapshots, by their first bytes.

    Raises:
        UsageError: Only one of them is.
    """
    found = [_is_snapshot(given) for given in (base, head)]
    if found[0] != found[1]:
        one, other = (base, head) if found[0] else (head, base)
        raise UsageError(f"{one}: is a memory snapshot, and {other} is none; name two of them")
    return found[0]


def _is_snapshot(given: str) -> bool:
    if not os.path.isfile(given):  # noqa: PTH113 - that of a path raises errors of names that are too long
        return False
    return any(sniffing.sniff(file).is_a(FileKind.MEMORY_SNAPSHOT) for file in opening.files([given]))


def diff_snapshots(base: str, head: str, progress: FileProgress | None = None) -> Report:
    """Compare two memory snapshots.

    Args:
        base: Before: a file.
        head: After: a file.
        progress: As of `comparison.diff`.

    Raises:
        UnusableInputError: One of them cannot be read.
        UsageError: One of them is no memory snapshot.
    """
    both = []
    for given in (base, head):
        content = opening.read(given, (progress or silent)(given))
        if not isinstance(content, MemorySnapshot):
            raise UsageError(f"{given}: is no memory snapshot")
        both.append(content)
    found = snapshot_changes.compare(*map(snapshots.analyze, both))
    headline = Headline(None, "memory", _headline(found), None, None, None)
    source = ReportSource(f"{both[0].name}, {both[1].name}", "memory_snapshots", None)
    losses = [loss for one in both for loss in one.losses]
    return report_of(source, None, {"memory_change": found}, {}, losses, Advice((headline,), (), ()))


def _headline(found: MemorySnapshotChange) -> Message:
    """The peak of the device whose peak changed most, and the line that changed most."""
    if not found.devices:
        return _NO_DEVICE()
    device = max(found.devices, key=lambda one: abs(one.figures[0].change_bytes))
    peak = device.figures[0]
    told = {"device": device.device, "base": peak.base_bytes, "head": peak.head_bytes}
    row = next((row for row in device.lines if row.name is not None and row.change_bytes), None)
    frame = None if row is None else python_frames.parse(row.name or "")
    if row is None or frame is None:
        return _PEAK(**told)
    line = code_place(frame.path, frame.line)
    return _PEAK_LINE(**told, line=line, before=row.base_bytes, after=row.head_bytes)
