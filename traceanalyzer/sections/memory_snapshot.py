"""What does a snapshot of memory hold, who holds the peak, and what could not be used?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analyzers.memory.snapshot_peak import HeldKind, HeldLine, HeldSize, KeptLine
from traceanalyzer.analyzers.memory.snapshots import (
    FailedAllocation,
    MemoryPart,
    MemorySnapshotUse,
    PrivatePool,
    SnapshotDevice,
)
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import named_code
from traceanalyzer.report.section import Section, SectionTable, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, share, table

TITLE = Text("snapshot-title", "Memory of GPU {device:number}", "device is the number of a device")
_FAILED_TITLE = Text("snapshot-failed-title", "Out of memory")
_LINES_TITLE = Text("snapshot-lines-title", "Who holds the peak of GPU {device:number}", "device is a number")
_MORE_TITLE = Text("snapshot-more-title", "More about the memory of GPU {device:number}", "device is a number")
_STOPPED = Text(
    "snapshot-stopped",
    "Recording had stopped before the dump: what the history leaves alive is no active block. The level begins with "
    "what the history frees without having allocated it.",
)
_NO_HISTORY = Text(
    "snapshot-no-history",
    "The snapshot has no history, so it shows only what is held at the dump. Call "
    "torch.cuda.memory._record_memory_history() at the start of the program.",
)
_OLDER = Text(
    "snapshot-older",
    "{older:bytes} of the peak were allocated before the history begins, which keeps only its last entries.",
)
_FRAGMENTED = Text(
    "snapshot-fragmented",
    "What was reserved but unused would have been enough in one piece: fragmentation alone explains the failure.",
)
_NOT_FRAGMENTED = Text(
    "snapshot-not-fragmented",
    "What was reserved but unused would not have been enough in one piece: the program holds too much.",
)
_RETRIES = Text(
    "snapshot-retries",
    "{count:count} times segments were given back right before one was taken, which waits for the device.",
    one="{count:count} time segments were given back right before one was taken, which waits for the device.",
)
_WORTH = 0.01
"""Share of the peak from before the history from which on it is said (own choice)."""
_KINDS = {
    "parameters": Text("snapshot-kind-parameters", "parameters", "what holds memory"),
    "gradients": Text("snapshot-kind-gradients", "gradients", "what holds memory"),
    "optimizer": Text("snapshot-kind-optimizer", "optimizer state", "what holds memory"),
    "activations": Text("snapshot-kind-activations", "activations", "what holds memory"),
    "temporary": Text("snapshot-kind-temporary", "temporary", "what holds memory"),
    "unknown": Text("snapshot-kind-unknown", "unknown", "what holds memory"),
}


def _line(row: HeldLine | KeptLine | FailedAllocation) -> str | None:
    """A line as people find it: the end of its path, and the function."""
    frame = None if row.line is None else python_frames.parse(row.line)
    return row.line if frame is None else named_code(frame.function, frame.path, frame.line)


_FIGURES = optional(
    known,
    Column(Text("snapshot-peak", "Peak, requested"), "bytes", "peak_requested_bytes"),
    Column(Text("snapshot-peak-at", "Peak at", "time since the first entry"), "ns", "peak_ns"),
    Column(Text("snapshot-reserved", "Reserved at the dump"), "bytes", "reserved_bytes"),
    Column(Text("snapshot-active", "Active at the dump"), "bytes", "active_bytes"),
    Column(Text("snapshot-inactive", "Reserved but unused"), "bytes", "inactive_bytes"),
    Column(Text("snapshot-unusable", "In pieces too small for the largest request"), "bytes", "unusable_bytes"),
    Column(Text("snapshot-free-segments", "In segments that nobody uses"), "bytes", "free_segments_bytes"),
    Column(Text("snapshot-entries", "Entries of the history"), "count", "history_entries"),
    Column(Text("snapshot-span", "Time of the history"), "ns", lambda row: row.span_ns or None),
)
_FAILURE = optional(
    known,
    Column(Text("snapshot-asked", "Asked for"), "bytes", "asked_bytes"),
    Column(Text("snapshot-asked-by", "By"), "", _line),
    Column(Text("snapshot-device-free", "Free on the device"), "bytes", "device_free_bytes"),
    Column(Text("snapshot-failed-reserved", "Reserved"), "bytes", "reserved_bytes"),
    Column(Text("snapshot-failed-level", "Held by the program"), "bytes", "level_bytes"),
    Column(Text("snapshot-failed-inactive", "Reserved but unused"), "bytes", "inactive_bytes"),
    Column(Text("snapshot-failed-largest", "Largest unused block"), "bytes", "largest_inactive_bytes"),
    Column(Text("snapshot-failures", "Failed allocations"), "count", "failures"),
)
_HOST = optional(
    known,
    Column(Text("snapshot-host-reserved", "Pinned host memory"), "bytes", "host_reserved_bytes"),
    Column(Text("snapshot-host-active", "Pinned host memory in use"), "bytes", "host_active_bytes"),
)


def _kind(row: HeldKind | HeldLine) -> Message | str:
    return _KINDS[row.kind]() if row.kind in _KINDS else row.kind


_KIND = Column(Text("snapshot-kind", "Kind", "of what holds memory"), "", _kind)
_BLOCKS = Column(Text("snapshot-blocks", "Blocks"), "count", "blocks")
_HELD = Column(Text("snapshot-held", "Held"), "bytes", "held_bytes")
_OLDER_COLUMN = Column(Text("snapshot-older-column", "From before"), "bytes", "older_bytes", if_any=bool)
_LARGEST = Column(Text("snapshot-largest", "Largest"), "bytes", "largest_bytes", is_extra=True)
_PART_COLUMNS = (
    columns.NAME,
    Column(Text("snapshot-times", "Times"), "count", "times"),
    Column(Text("snapshot-part-peak", "Peak"), "bytes", "peak_bytes"),
    Column(Text("snapshot-part-growth", "Growth"), "bytes", "growth_bytes"),
)
_POOL_COLUMNS = (
    Column(Text("snapshot-pool", "Private pool"), "", lambda row: str(row.pool)),
    Column(Text("snapshot-pool-segments", "Segments"), "count", "segments"),
    Column(Text("snapshot-pool-reserved", "Reserved"), "bytes", "reserved_bytes"),
    Column(Text("snapshot-pool-active", "Active"), "bytes", "active_bytes"),
)
_KEPT_COLUMNS = (
    Column(Text("snapshot-kept-line", "Keeps block after block"), "", _line, is_name=True),
    _BLOCKS,
    Column(Text("snapshot-kept", "Kept"), "bytes", "kept_bytes"),
)
_SIZE_COLUMNS = (Column(Text("snapshot-size", "Size"), "bytes", "size_bytes"), _BLOCKS, _HELD)
_TERMS = (
    Term(
        Text("define-snapshot-requested", "Requested, Active, Reserved"),
        Text(
            "define-snapshot-requested-say",
            "Requested is what the program asked for; active is what the allocator gave, rounded; reserved is what it "
            "holds from the driver.",
        ),
    ),
)


class _Table(NamedTuple):
    id: str
    columns: tuple[Column, ...]
    rows: tuple[HeldSize | MemoryPart | PrivatePool | KeptLine, ...]


def build(report: Report, top: int) -> Iterator[Section]:
    """Build the figures of each device, what failed, and the tables of what holds the peak."""
    found = report.result("memory_snapshot", MemorySnapshotUse)
    if found is None:
        return
    for place, device in enumerate(found.devices):
        if device.failure is not None:
            yield _failed(device.failure)
        yield _device(device, found if place == 0 else None)
        yield from _holders(device, top)
        yield from _details(device, top)


def _failed(failed: FailedAllocation) -> Section:
    said: tuple[Message, ...] = ()
    if failed.inactive_bytes is not None:
        said = (_FRAGMENTED(),) if failed.is_fragmentation else (_NOT_FRAGMENTED(),)
    return Section(
        "memory-failed", _FAILED_TITLE(), said, facts(_FAILURE, failed), topic=Topic.MEMORY, is_essential=True
    )


def _device(device: SnapshotDevice, whole: MemorySnapshotUse | None) -> Section:
    """The figures of a device, and what reads them right; those of the host stand with the first one."""
    said = [
        _NO_HISTORY() if not device.entries else None,
        _STOPPED() if device.stopped_before_dump else None,
        _OLDER(older=device.peak_older_bytes) if _is_mostly_seen(device) else None,
        _RETRIES(count=device.retries) if device.retries else None,
    ]
    figures = facts(_FIGURES, device) + (facts(_HOST, whole) if whole is not None else ())
    kinds = table("memory_kinds", (_KIND, _BLOCKS, _HELD, _OLDER_COLUMN, _share(device)), device.kinds)
    return Section(
        "memory-snapshot",
        TITLE(device=device.device),
        tuple(message for message in said if message is not None),
        figures,
        tables=(kinds,),
        terms=_TERMS,
        topic=Topic.MEMORY,
        is_essential=True,
    )


def _is_mostly_seen(device: SnapshotDevice) -> bool:
    """Whether the peak is in the history, and a part of it worth a word is from before."""
    return device.peak_entry is not None and device.peak_older_bytes > _WORTH * device.peak_requested_bytes


def _share(device: SnapshotDevice) -> Column:
    return share("held_bytes", device.peak_requested_bytes)


def _holders(device: SnapshotDevice, top: int) -> Iterator[Section]:
    named = [row for row in device.lines if row.line is not None]
    if not named:
        return
    shown = (columns.LINE.of(_line), _KIND, _BLOCKS, _HELD, _OLDER_COLUMN, _LARGEST, _share(device))
    rows = table("memory_lines", shown, named, top)
    title = _LINES_TITLE(device=device.device)
    yield Section("memory-lines", title, tables=(rows,), topic=Topic.MEMORY, is_essential=True)


def _details(device: SnapshotDevice, top: int) -> Iterator[Section]:
    tables: list[SectionTable] = []
    for id_, shown, rows in (
        _Table("memory_kept", _KEPT_COLUMNS, device.kept),
        _Table("memory_sizes", _SIZE_COLUMNS, device.sizes),
        _Table("memory_parts", _PART_COLUMNS, device.parts),
        _Table("memory_pools", _POOL_COLUMNS, device.pools),
    ):
        if rows:
            tables.append(table(id_, shown, rows, top))
    if tables:
        yield detail("memory-more", _MORE_TITLE(device=device.device), Topic.MEMORY, tables)
