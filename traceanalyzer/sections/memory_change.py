"""What grew from one memory snapshot to another?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analyzers.memory.snapshot_changes import FigureChange, HeldChange, MemorySnapshotChange
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import named_code, word
from traceanalyzer.report.section import Section, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, known, table
from traceanalyzer.sections.memory_snapshot import (
    ACTIVE,
    INACTIVE,
    KIND,
    KIND_LABELS,
    PEAK,
    REQUESTED_AT_DUMP,
    RESERVED,
)

TITLE = Text("memory-change-title", "What changed between the snapshots")
_LINES_TITLE = Text("memory-change-lines-title", "Lines that hold more or less")
_SETTING = Text(
    "memory-change-setting",
    "The allocator was set up differently: {name} was {base}, then {head}.",
    "name is a setting; base and head are its values",
)
_UNSET = Text("memory-change-unset", "unknown", "in place of the value of a setting")
_BASE_ONLY = Text("memory-change-base-only", "Only the first one has GPU{device:number}.", "of two snapshots of memory")
_HEAD_ONLY = Text(
    "memory-change-head-only", "Only the second one has GPU{device:number}.", "of two snapshots of memory"
)
_NO_HISTORY = {
    "base": Text(
        "memory-change-base-no-history",
        "The first snapshot has no history: its peak is what is held at the dump, and may have been higher.",
    ),
    "head": Text(
        "memory-change-head-no-history",
        "The second snapshot has no history: its peak is what is held at the dump, and may have been higher.",
    ),
}
_UNRELATED = Text(
    "memory-change-unrelated",
    "No line of a program holds memory in both: they may be of different programs, or without stacks.",
    "of two snapshots of memory",
)
_AT_DUMP = Text(
    "memory-change-both-no-history", "Neither snapshot has a history: what is held at the dumps is compared."
)
_FIGURES = {"peak": PEAK, "reserved": RESERVED, "active": ACTIVE, "inactive": INACTIVE}


class _Row(NamedTuple):
    device: str | None
    name: Message | str | None
    part: FigureChange | HeldChange


_DEVICE = Column(columns.DEVICE.title, "", "device", if_any=known)
_BYTES = (
    Column(Text("memory-change-base", "Before"), "bytes", "part.base_bytes"),
    Column(Text("memory-change-head", "After"), "bytes", "part.head_bytes"),
    Column(Text("memory-change-change", "Change", "of bytes"), "+bytes", "part.change_bytes"),
)
_FIGURE_COLUMNS = (_DEVICE, Column(Text("memory-change-what", "Memory"), "", "name"), *_BYTES)
_KIND_COLUMNS = (_DEVICE, Column(KIND.title, "", "name"), *_BYTES)
_LINE_COLUMNS = (_DEVICE, columns.LINE, *_BYTES)


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the figures of both snapshots, what changed by kind, and by line."""
    found = report.result("memory_change", MemorySnapshotChange)
    if found is None:
        return
    is_alone = len(found.devices) == 1
    named = [(None if is_alone else f"GPU{device.device}", device) for device in found.devices]
    texts = {**_FIGURES, "peak": REQUESTED_AT_DUMP} if found.is_of_dumps else _FIGURES
    figures = [_Row(name, _label(texts, row.figure), row) for name, device in named for row in device.figures]
    kinds = [_Row(name, _label(KIND_LABELS, row.name or ""), row) for name, device in named for row in device.kinds]
    tables = (
        table("memory_change_figures", _FIGURE_COLUMNS, figures),
        table("memory_change_kinds", _KIND_COLUMNS, kinds),
    )
    yield Section(
        "memory-change",
        TITLE(),
        tuple(_said(found)),
        tables=tables if figures else (),
        topic=Topic.MEMORY,
        is_essential=True,
    )
    lines = [_Row(name, _line(row.name), row) for name, device in named for row in device.lines if row.name is not None]
    if lines:
        shown = table("memory_change_lines", _LINE_COLUMNS, lines, top)
        yield Section("memory-change-lines", _LINES_TITLE(), tables=(shown,), topic=Topic.MEMORY, is_essential=True)


def _said(found: MemorySnapshotChange) -> Iterator[Message]:
    """What makes the two hard to compare."""
    for device in found.base_only:
        yield _BASE_ONLY(device=device)
    for device in found.head_only:
        yield _HEAD_ONLY(device=device)
    if found.is_of_dumps:
        yield _AT_DUMP()
    for side in found.without_history if not found.is_of_dumps else ():
        yield _NO_HISTORY[side]()
    for one in found.settings:
        values = {"base": one.base or _UNSET(), "head": one.head or _UNSET()}
        yield _SETTING(name=one.name, **values)
    if found.devices and not found.common_lines:
        yield _UNRELATED()


def _label(texts: dict[str, Text], key: str) -> Message:
    found = word(texts, key)
    return found() if isinstance(found, Text) else found


def _line(line: str | None) -> str | None:
    frame = None if line is None else python_frames.parse(line)
    return line if frame is None else named_code(frame.function, frame.path, frame.line)
