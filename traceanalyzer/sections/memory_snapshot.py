"""What does a snapshot of memory hold, who holds the peak, and what could not be used?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from traceanalyzer.analyzers.memory.peak_picture import HeldFrame, HeldStacks
from traceanalyzer.analyzers.memory.snapshot_peak import GrowingLine, HeldLine, KeptLine
from traceanalyzer.analyzers.memory.snapshots import FailedAllocation, MemorySnapshotUse, SnapshotDevice
from traceanalyzer.knowledge import python_frames
from traceanalyzer.report.message import Message, Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import code_place, named_code
from traceanalyzer.report.section import Section, Term, Topic
from traceanalyzer.sections import columns
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, table

TITLE = Text("snapshot-title", "Memory by the snapshot")
FAILED_TITLE = Text("snapshot-failed-title", "Out of memory")
_LINES_TITLE = Text("snapshot-lines-title", "Who holds the peak")
_DUMP_LINES_TITLE = Text(
    "snapshot-dump-lines-title",
    "Who holds memory at the dump",
    "the dump is the moment at which a snapshot was written",
)
_MORE_TITLE = Text("snapshot-more-title", "More about the snapshot")
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
_STACK = Text(
    "snapshot-stack",
    "The stack that holds most, {held:bytes} of {kind}, is {stack}.",
    "stack is places in the code, the outermost first; kind is what memory holds: gradients, activations",
)
FRAGMENTED = Text(
    "snapshot-fragmented",
    "What was reserved but unused would have been enough in one piece: fragmentation alone explains the failure.",
)
NOT_FRAGMENTED = Text(
    "snapshot-not-fragmented",
    "What was reserved but unused would not have been enough in one piece: the program holds too much.",
)
_RETRIES = Text(
    "snapshot-retries",
    "{count:count} times segments were given back right before one was taken, which waits for the device.",
    one="{count:count} time segments were given back right before one was taken, which waits for the device.",
)
_BEFORE = Text("snapshot-before", "from before the history", "in place of the line of code that holds memory")
_NO_LINE = Text("snapshot-no-line", "no line of the program", "in place of the line of code that holds memory")
_MUCH, _DEEPEST = 0.05, 4
"""Share of the peak that a stack must hold to be named, and most of its innermost lines (own choice)."""
_WORTH = 0.01
"""Share of the peak from before the history from which on it is said (own choice)."""
KIND_LABELS = {
    "parameters": Text("snapshot-kind-parameters", "parameters", "what holds memory"),
    "gradients": Text("snapshot-kind-gradients", "gradients", "what holds memory"),
    "optimizer": Text("snapshot-kind-optimizer", "optimizer state", "what holds memory"),
    "activations": Text("snapshot-kind-activations", "activations", "what holds memory"),
    "temporary": Text("snapshot-kind-temporary", "temporary", "what holds memory"),
    "unknown": Text("snapshot-kind-unknown", "unknown", "what holds memory"),
}


def _line(row: HeldLine | KeptLine | GrowingLine | FailedAllocation) -> str | None:
    """A line as people find it: the end of its path, and the function."""
    frame = None if row.line is None else python_frames.parse(row.line)
    return row.line if frame is None else named_code(frame.function, frame.path, frame.line)


PEAK = Text("snapshot-peak", "Peak, requested")
RESERVED = Text("snapshot-reserved", "Reserved at the dump")
ACTIVE = Text("snapshot-active", "Active at the dump")
INACTIVE = Text("snapshot-inactive", "Reserved but unused")
REQUESTED_AT_DUMP = Text(
    "snapshot-requested-at-dump", "Requested at the dump", "the dump is the moment at which a snapshot was written"
)
_FIGURES = (
    Column(
        PEAK,
        "bytes",
        lambda row: row.peak_requested_bytes if row.has_history else None,
        if_any=known,
    ),
    Column(
        REQUESTED_AT_DUMP,
        "bytes",
        lambda row: None if row.has_history else row.active_requested_bytes,
        if_any=known,
    ),
    Column(Text("snapshot-peak-at", "Peak at", "time since the first entry"), "ns", "peak_ns", if_any=known),
    Column(RESERVED, "bytes", "reserved_bytes"),
    Column(ACTIVE, "bytes", "active_bytes"),
    Column(INACTIVE, "bytes", "inactive_bytes"),
    Column(
        Text("snapshot-unusable", "In pieces too small for the largest request"),
        "bytes",
        "unusable_bytes",
        is_extra=True,
    ),
    Column(
        Text("snapshot-free-segments", "In segments that nobody uses"), "bytes", "free_segments_bytes", is_extra=True
    ),
    Column(Text("snapshot-growth", "Growth per step"), "bytes", "growth_bytes_per_step", if_any=bool),
    Column(Text("snapshot-entries", "Entries of the history"), "count", "history_entries", is_extra=True),
    Column(Text("snapshot-span", "Time of the history"), "ns", lambda row: row.span_ns or None, if_any=known),
)
_NUMBERED = (Column(columns.DEVICE.title, "", lambda row: f"GPU{row.device}"), *_FIGURES)
_FAILURE = optional(
    known,
    Column(Text("snapshot-asked", "Asked for"), "bytes", "asked_bytes"),
    Column(Text("snapshot-asked-by", "By"), "", _line, is_name=True),
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
    Column(Text("snapshot-host-peak", "Peak of pinned host memory"), "bytes", "host_peak_bytes"),
)


class _OfDevice(NamedTuple):
    """A row of one of several devices."""

    device: str | None
    """None where there is only one."""
    part: Any
    peak: int
    has_history: bool = True

    @property
    def older(self) -> int | None:
        """Bytes from before the history; None if there is none."""
        return self.part.older_bytes if self.has_history else None

    @property
    def share(self) -> float | None:
        """The share of the peak that it holds."""
        return self.part.held_bytes / self.peak if self.peak else None


_DEVICE = Column(columns.DEVICE.title, "", "device", if_any=known)
KIND = Column(Text("snapshot-kind", "Kind", "of what holds memory"), "", lambda row: kind_label(row.part.kind))
_BLOCKS = Column(Text("snapshot-blocks", "Blocks"), "count", "part.blocks")
_HELD = Column(Text("snapshot-held", "Held"), "bytes", "part.held_bytes")
_OLDER_COLUMN = Column(Text("snapshot-older-column", "From before"), "bytes", "older", if_any=bool)
_LARGEST = Column(Text("snapshot-largest", "Largest"), "bytes", "part.largest_bytes", is_extra=True)
_LINE = columns.LINE.of(lambda row: row.part.line if isinstance(row.part.line, Message) else _line(row.part))
_KIND_COLUMNS = (_DEVICE, KIND, _BLOCKS, _HELD, _OLDER_COLUMN, columns.SHARE)
_LINE_COLUMNS = (_DEVICE, _LINE, KIND, _BLOCKS, _HELD, replace(_OLDER_COLUMN, is_extra=True), _LARGEST, columns.SHARE)
_KEPT_COLUMNS = (
    _DEVICE,
    Column(Text("snapshot-kept-line", "Keeps block after block"), "", lambda row: _line(row.part), is_name=True),
    _BLOCKS,
    Column(Text("snapshot-kept", "Kept"), "bytes", "part.kept_bytes"),
)
_SIZE_COLUMNS = (_DEVICE, Column(Text("snapshot-size", "Size"), "bytes", "part.size_bytes"), _BLOCKS, _HELD)
_PART_COLUMNS = (
    _DEVICE,
    columns.NAME.of("part.name"),
    Column(Text("snapshot-times", "Times"), "count", "part.times"),
    Column(Text("snapshot-part-peak", "Peak"), "bytes", "part.peak_bytes"),
    Column(Text("snapshot-part-growth", "Growth"), "bytes", "part.growth_bytes"),
)
_POOL_COLUMNS = (
    _DEVICE,
    Column(Text("snapshot-pool", "Private pool"), "", lambda row: str(row.part.pool)),
    Column(Text("snapshot-pool-segments", "Segments"), "count", "part.segments"),
    Column(Text("snapshot-pool-reserved", "Reserved"), "bytes", "part.reserved_bytes"),
    Column(Text("snapshot-pool-active", "Active"), "bytes", "part.active_bytes"),
)
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
_GROWING_COLUMNS = (
    _DEVICE,
    Column(Text("snapshot-growing-line", "Grows from step to step"), "", lambda row: _line(row.part), is_name=True),
    Column(Text("snapshot-growing", "Growth per step"), "bytes", "part.growth_bytes_per_step"),
    _HELD,
)
_HOST_COLUMNS = (
    Column(Text("snapshot-host-line", "Pins host memory"), "", lambda row: _line(row.part), is_name=True),
    _BLOCKS,
    _HELD,
    columns.SHARE,
)
_MORE = (
    ("memory_growing", _GROWING_COLUMNS, "growing"),
    ("memory_kept", _KEPT_COLUMNS, "kept"),
    ("memory_sizes", _SIZE_COLUMNS, "sizes"),
    ("memory_parts", _PART_COLUMNS, "parts"),
    ("memory_pools", _POOL_COLUMNS, "pools"),
)
"""Tables of details: their ids, their columns, and the field of a device that has their rows."""


def build(report: Report, top: int) -> Iterator[Section]:
    """Build what failed, the figures of each device, and the tables of what holds the peak."""
    found = report.result("memory_snapshot", MemorySnapshotUse)
    if found is None or not found.devices:
        return
    failed = next((device.failure for device in found.devices if device.failure is not None), None)
    if failed is not None:
        yield _failed(failed)
    yield _figures(found)
    yield from _holders(found, top)
    tables = [table(id_, shown, rows, top) for id_, shown, field in _MORE if (rows := _rows(found, field))]
    if found.host_lines:
        pinned = [_OfDevice(None, row, found.host_peak_bytes or 0) for row in found.host_lines]
        tables.append(table("memory_host_lines", _HOST_COLUMNS, pinned, top))
    if tables:
        yield detail("memory-more", _MORE_TITLE, Topic.MEMORY, tables)


def _rows(found: MemorySnapshotUse, field: str) -> list[_OfDevice]:
    """The rows of all devices."""
    is_alone = len(found.devices) == 1
    return [
        _OfDevice(None if is_alone else f"GPU{device.device}", row, device.peak_requested_bytes, device.has_history)
        for device in found.devices
        for row in getattr(device, field)
    ]


def _holders(found: MemorySnapshotUse, top: int) -> Iterator[Section]:
    """Who holds the peak, or what is held at the dump, by line; nothing where no line is known."""
    has_history = any(device.has_history for device in found.devices)
    lines = [row._replace(part=part) for row in _rows(found, "lines") for part in _told(row.part, row.has_history)]
    if any(not isinstance(row.part.line, Message) for row in lines):
        lines.sort(key=lambda row: -row.part.held_bytes)
        holders = table("memory_lines", _LINE_COLUMNS, lines, top)
        title = _LINES_TITLE if has_history else _DUMP_LINES_TITLE
        yield Section("memory-lines", title(), tables=(holders,), topic=Topic.MEMORY, is_essential=True)


class _Unnamed(NamedTuple):
    """What no line of the program is known of, in place of a line."""

    line: Message
    held_bytes: int
    older_bytes: int
    kind: str = "unknown"
    blocks: int | None = None
    largest_bytes: int | None = None


def _told(row: HeldLine, has_history: bool) -> Iterator[HeldLine | _Unnamed]:
    """A line, or what is from before the history and what no line is known of, so that the shares are of the whole."""
    if row.line is not None:
        yield row
        return
    older = row.older_bytes if has_history else 0
    for line, held in ((_BEFORE(), older), (_NO_LINE(), row.held_bytes - older)):
        if held == row.held_bytes:
            yield _Unnamed(line, held, row.older_bytes, row.kind, row.blocks, row.largest_bytes)
        elif held:
            yield _Unnamed(line, held, min(held, older))


def _failed(failed: FailedAllocation) -> Section:
    said: tuple[Message, ...] = ()
    if failed.inactive_bytes is not None:
        said = (FRAGMENTED(),) if failed.is_fragmentation else (NOT_FRAGMENTED(),)
    return Section(
        "memory-failed", FAILED_TITLE(), said, facts(_FAILURE, failed), topic=Topic.MEMORY, is_essential=True
    )


def _figures(found: MemorySnapshotUse) -> Section:
    """The figures of each device, and what reads them right."""
    is_alone = len(found.devices) == 1
    shown = facts(_FIGURES, found.devices[0]) if is_alone else ()
    of_devices = () if is_alone else (table("memory_devices", _NUMBERED, found.devices),)
    return Section(
        "memory-snapshot",
        TITLE(),
        tuple(_said(found.devices)),
        shown + facts(_HOST, found),
        tables=(*of_devices, table("memory_kinds", _KIND_COLUMNS, _rows(found, "kinds"))),
        terms=_TERMS,
        topic=Topic.MEMORY,
        is_essential=True,
    )


def _said(devices: tuple[SnapshotDevice, ...]) -> Iterator[Message]:
    if not any(device.has_history for device in devices):
        yield _NO_HISTORY()
    if any(device.stopped_before_dump for device in devices):
        yield _STOPPED()
    for device in devices:
        is_older = device.peak_older_bytes > _WORTH * device.peak_requested_bytes
        if device.peak_entry is not None and is_older:
            yield _OLDER(older=device.peak_older_bytes)
    device = max(devices, key=lambda one: one.peak_requested_bytes)
    yield from largest_stack(device.stacks, device.peak_requested_bytes)
    retries = sum(device.retries for device in devices)
    if retries:
        yield _RETRIES(count=retries)


def largest_stack(held: HeldStacks | None, peak: int) -> Iterator[Message]:
    """The stack of the program that holds most of a peak, if it holds a good part of it."""
    if held is None:
        return
    best: tuple[int, list[HeldFrame]] = (0, [])
    path: list[HeldFrame] = []
    columns = zip(held.frame, held.depth, held.held_bytes, [*held.depth[1:], 0], strict=False)
    for frame, depth, size, following in columns:
        path = [*path[:depth], held.frames[frame]] if 0 <= frame < len(held.frames) else path[:depth]
        if following <= depth == len(path) - 1 and depth and size > best[0]:
            best = (size, path)
    size, (kind, *frames) = best if best[1] else (0, [HeldFrame("unknown", "kind")])
    places = [code_place(frame.file, frame.line) or frame.name for frame in frames if frame.place == "own"]
    if places and size > _MUCH * peak:
        yield _STACK(held=size, kind=kind_label(kind.name), stack=" > ".join(places[-_DEEPEST:]))


def kind_label(kind: str) -> Message | str:
    """What blocks of a kind hold, in words."""
    return KIND_LABELS[kind]() if kind in KIND_LABELS else kind
