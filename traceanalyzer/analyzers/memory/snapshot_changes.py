"""What grew from one memory snapshot to another, by device, by kind and by line?

Lines are matched by file, line and function. What a side holds of a line or a kind is what lives at its peak.
"""

from __future__ import annotations

import msgspec

from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse, SnapshotDevice

_Held = dict[str | None, int]
"""Bytes by the name of a kind or a line."""
_MOST_LINES = 200
"""Lines that a result keeps, those with the largest change first; a snapshot keeps as many."""


class HeldChange(msgspec.Struct, frozen=True):
    """What a kind or a line holds at the peaks of two snapshots."""

    name: str | None
    """The kind, or the line of the program; null where the stack has none."""
    base_bytes: int | None
    """Bytes in the first snapshot; null if unknown."""
    head_bytes: int | None
    """Bytes in the second snapshot; null if unknown."""

    @property
    def change_bytes(self) -> int | None:
        """Bytes that the second one holds more; None if unknown."""
        if self.base_bytes is None or self.head_bytes is None:
            return None
        return self.head_bytes - self.base_bytes


class FigureChange(msgspec.Struct, frozen=True):
    """A figure of one device in two snapshots."""

    figure: str
    """`peak` of requested bytes, without a history what is held at the dump; there also `reserved`, `active` and
    `inactive` bytes."""
    base_bytes: int
    """Bytes in the first snapshot."""
    head_bytes: int
    """Bytes in the second snapshot."""

    @property
    def change_bytes(self) -> int:
        """Bytes that the second one has more."""
        return self.head_bytes - self.base_bytes


class DeviceMemoryChange(msgspec.Struct, frozen=True):
    """The memory of one device in two snapshots."""

    device: int
    """Number of the device."""
    figures: tuple[FigureChange, ...]
    """Peak, and what was reserved, active and inactive at the dump."""
    kinds: tuple[HeldChange, ...]
    """What lives at the peaks by kind, the largest change first."""
    lines: tuple[HeldChange, ...]
    """What lives at the peaks by line of the program, the largest change first; without those that did not change."""


class ChangedSetting(msgspec.Struct, frozen=True):
    """A setting of the allocator that differs."""

    name: str
    """Name as in the file."""
    base: str | None
    """Value in the first snapshot; null if it has none."""
    head: str | None
    """Value in the second snapshot; null if it has none."""


class MemorySnapshotChange(msgspec.Struct, frozen=True):
    """What changed from one snapshot to another."""

    devices: tuple[DeviceMemoryChange, ...]
    """Devices of both, by number."""
    base_only: tuple[int, ...]
    """Devices that only the first one has."""
    head_only: tuple[int, ...]
    """Devices that only the second one has."""
    settings: tuple[ChangedSetting, ...]
    """Settings that differ, by name."""
    without_history: tuple[str, ...]
    """Sides (`base`, `head`) that have no history, so that their peak is what is held at the dump."""
    common_lines: int
    """Lines of the program that hold memory in both."""

    @property
    def is_of_dumps(self) -> bool:
        """Whether neither has a history, so that only what is held at the dumps is compared."""
        return len(self.without_history) > 1


def compare(base: MemorySnapshotUse, head: MemorySnapshotUse) -> MemorySnapshotChange:
    """Compare two snapshots of one program."""
    before, after = ({device.device: device for device in side.devices} for side in (base, head))
    names = sorted(base.settings.keys() | head.settings.keys())
    settings = (ChangedSetting(name, base.settings.get(name), head.settings.get(name)) for name in names)
    sides = (("base", base), ("head", head))
    of_base, of_head = ({row.line for device in side.devices for row in device.lines} - {None} for side in (base, head))
    return MemorySnapshotChange(
        devices=tuple(_device(before[number], after[number]) for number in sorted(before.keys() & after.keys())),
        base_only=tuple(sorted(before.keys() - after.keys())),
        head_only=tuple(sorted(after.keys() - before.keys())),
        settings=tuple(one for one in settings if one.base != one.head),
        without_history=tuple(name for name, side in sides if not any(one.has_history for one in side.devices)),
        common_lines=len(of_base & of_head),
    )


def _device(base: SnapshotDevice, head: SnapshotDevice) -> DeviceMemoryChange:
    fields = {
        "peak": "peak_requested_bytes",
        "reserved": "reserved_bytes",
        "active": "active_bytes",
        "inactive": "inactive_bytes",
    }
    kinds = _held(_kinds(base), _kinds(head))
    lines = _held(_lines(base), _lines(head), _MOST_LINES)
    return DeviceMemoryChange(
        device=base.device,
        figures=tuple(FigureChange(name, getattr(base, field), getattr(head, field)) for name, field in fields.items()),
        kinds=kinds,
        lines=tuple(row for row in lines if row.change_bytes != 0)[:_MOST_LINES],
    )


def _kinds(side: SnapshotDevice) -> _Held:
    return {row.kind: row.held_bytes for row in side.kinds}


def _lines(side: SnapshotDevice) -> _Held:
    return {row.line: row.held_bytes for row in side.lines}


def _held(base: _Held, head: _Held, most: int | None = None) -> tuple[HeldChange, ...]:
    """What both hold; a name that a side lacks is unknown there if it kept only its `most` largest ones."""
    missing = [None if most is not None and len(side) >= most else 0 for side in (base, head)]
    rows = [HeldChange(name, base.get(name, missing[0]), head.get(name, missing[1])) for name in {**base, **head}]
    return tuple(sorted(rows, key=lambda row: (-abs(row.change_bytes or 0), row.name or "")))
