"""Compares two memory snapshots: what grew. The result is a report, because snapshots have no steps to be judged."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from traceanalyzer.analyzers.memory import snapshot_changes, snapshots
from traceanalyzer.analyzers.memory.snapshot_changes import MemorySnapshotChange
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse
from traceanalyzer.errors import UnusableInputError, UsageError
from traceanalyzer.inputs import opening, saved_reports
from traceanalyzer.inputs.opening import FileProgress, silent
from traceanalyzer.inputs.storage import local_path
from traceanalyzer.knowledge import python_frames
from traceanalyzer.pipeline import report_of
from traceanalyzer.readers import memory_snapshot
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Headline, Report, ReportSource
from traceanalyzer.report.names import code_place
from traceanalyzer.rules.engine.runner import Advice
from traceanalyzer.trace.memory_snapshot import MemorySnapshot
from traceanalyzer.trace.model import Loss
from traceanalyzer.urls import is_url, shown

_HEAD = 4096
"""Bytes of a file that tell what it is."""
_OF_SNAPSHOT = re.compile(rb'"format"\s*:\s*"memory_snapshot"')

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
_DUMP = Text(
    "headline-memory-change-dump",
    "What GPU{device:number} holds at the dump went from {base:bytes} to {head:bytes}.",
    "of two snapshots of memory without a history",
)
_DUMP_LINE = Text(
    "headline-memory-change-dump-line",
    "What GPU{device:number} holds at the dump went from {base:bytes} to {head:bytes}; {line} changed most, from "
    "{before:bytes} to {after:bytes}.",
    "of two snapshots of memory without a history; line is a file and a line such as train.py:12",
)
_NO_DEVICE = Text("headline-memory-change-none", "The snapshots have no device in common.")


def are_snapshots(base: str, head: str) -> bool:
    """Whether both are memory snapshots, or saved reports on one, by their first bytes.

    Raises:
        UsageError: Only one of them is.
    """
    found = [_is_snapshot(given) for given in (base, head)]
    if found[0] != found[1]:
        one, other = (base, head) if found[0] else (head, base)
        raise UsageError(f"{shown(one)}: is a memory snapshot, and {shown(other)} is none; name two of them")
    return found[0]


def _is_snapshot(given: str) -> bool:
    if not is_url(given) and not os.path.isfile(local_path(given)):  # noqa: PTH113 - that of a path raises errors of long names
        return False
    if not opening.is_one_file(given):
        return False
    try:
        with opening.open_source(given) as source:
            head = source.peek(_HEAD)
    except UnusableInputError:  # whoever reads it says why
        return False
    if saved_reports.is_head_of_saved(head):
        return _OF_SNAPSHOT.search(head) is not None
    return memory_snapshot.begins(head)


class _Side(NamedTuple):
    """One side as it was read."""

    name: str
    found: MemorySnapshotUse
    losses: tuple[Loss, ...]


def _read(given: str, progress: FileProgress) -> _Side:
    content = opening.read(given, progress(given))
    if isinstance(content, MemorySnapshot):
        return _Side(content.name, snapshots.analyze(content), content.losses)
    found = content.result("memory_snapshot", MemorySnapshotUse) if isinstance(content, Report) else None
    if not isinstance(content, Report) or found is None:
        raise UsageError(f"{shown(given)}: is no memory snapshot")
    return _Side(content.source.name, found, ())


def diff_snapshots(base: str, head: str, progress: FileProgress | None = None) -> Report:
    """Compare two memory snapshots.

    Args:
        base: Before: a snapshot or a saved report on one, as a file or a URL.
        head: After: the same.
        progress: As of `comparison.diff`.

    Raises:
        UnusableInputError: One of them cannot be read.
        UsageError: One of them is no memory snapshot.
    """
    both = [_read(given, progress or silent) for given in (base, head)]
    found = snapshot_changes.compare(*(one.found for one in both))
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
        return (_DUMP if found.is_of_dumps else _PEAK)(**told)
    line = code_place(frame.path, frame.line)
    text = _DUMP_LINE if found.is_of_dumps else _PEAK_LINE
    return text(**told, line=line, before=row.base_bytes, after=row.head_bytes)
