"""Histories that are written by hand: where each block lies is what torch's allocator does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.simulation.allocator.snapshots import MIB, snapshot
from traceanalyzer.simulation.allocator.recording import RecordedMemory, recorded_memory
from traceanalyzer.simulation.allocator.sizes import settings_of
from traceanalyzer.trace.memory_snapshot import DeviceMemory

A, B, C, D = (0x7F00_0000_0000 + number * 0x1_0000_0000 for number in range(4))
"""Addresses of segments."""


class Written:
    """A history of one device, and what its allocator holds at the end."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.entries: list[dict[str, Any]] = []
        self.segments: dict[int, dict[str, Any]] = {}
        self.blocks: dict[int, dict[str, Any]] = {}

    def reserve(self, address: int, mib: int, *, stream: int = 0, pool: tuple[int, int] = (0, 0), at: str = "") -> None:
        """A segment, reserved from a line of the program."""
        self._add("segment_alloc", address, mib * MIB, stream, at)
        self.segments[address] = {
            "address": address,
            "total_size": mib * MIB,
            "stream": stream,
            "segment_type": "large" if mib > 2 else "small",
            "segment_pool_id": pool,
        }

    def release(self, address: int, *, at: str = "") -> None:
        """A segment is given back."""
        segment = self.segments.pop(address)
        self._add("segment_free", address, segment["total_size"], segment["stream"], at)

    def map(self, address: int, mib: int, *, is_large: bool = True) -> None:
        """Pages of an expandable segment get memory; they follow those that have some, or are the first."""
        self._add("segment_map", address, mib * MIB, 0, "")
        known = [one for one in self.segments.values() if one["address"] + one["total_size"] == address]
        if known:
            known[0]["total_size"] += mib * MIB
            return
        kind = "large" if is_large else "small"
        whole = {"address": address, "total_size": mib * MIB, "stream": 0, "segment_type": kind, "is_expandable": True}
        self.segments[address] = whole

    def unmap_end(self, address: int, mib: int) -> None:
        """The last pages of an expandable segment lose their memory."""
        self._add("segment_unmap", address, mib * MIB, 0, "")
        own = next(one for one in self.segments.values() if one["address"] + one["total_size"] == address + mib * MIB)
        own["total_size"] -= mib * MIB

    def alloc(self, address: int, requested: float, rounded: float = 0, *, stream: int = 0, at: str = "") -> None:
        """A block; sizes in MiB, and the rounded one if it is another."""
        size = round(requested * MIB)
        self._add("alloc", address, size, stream, at)
        self.blocks[address] = {
            "address": address,
            "requested_size": size,
            "size": round(rounded * MIB) or size,
            "state": "active_allocated",
            "stream": stream,
            "frames": _frames(at),
        }

    def free(self, address: int, *, at: str = "") -> None:
        """A block is freed at once."""
        self.ask_free(address)
        self.complete(address, at=at)

    def ask_free(self, address: int) -> None:
        """A block is freed by the program, but another stream uses it."""
        block = self.blocks[address]
        block["state"] = "active_pending_free"
        self._add("free_requested", address, block["requested_size"], block["stream"], "")

    def complete(self, address: int, *, at: str = "") -> None:
        """A block is free."""
        block = self.blocks.pop(address)
        self._add("free_completed", address, block["requested_size"], block["stream"], at)

    def fail(self, mib: int, free_mib: int, *, at: str = "") -> None:
        """A request does not fit; the device has some bytes left."""
        self._add("oom", free_mib * MIB, mib * MIB, 0, at)

    def lose(self, entries: int) -> Written:
        """The ring has lost its first entries."""
        del self.entries[:entries]
        return self

    def memory(self) -> DeviceMemory:
        """As a snapshot says it."""
        segments = [{**one, "blocks": self._blocks(one)} for _, one in sorted(self.segments.items())]
        plain: Mapping[str, Any] = {"segments": segments, "device_traces": [self.entries]}
        return snapshot(plain).devices[0]

    def recorded(self) -> RecordedMemory:
        """Ready for replays."""
        found = recorded_memory(self.memory(), settings_of(self.settings))
        assert isinstance(found, RecordedMemory), found
        return found

    def _blocks(self, segment: Mapping[str, Any]) -> list[dict[str, Any]]:
        cursor, end = segment["address"], segment["address"] + segment["total_size"]
        blocks: list[dict[str, Any]] = []
        for address in [*sorted(one for one in self.blocks if cursor <= one < end), end]:
            if address > cursor:
                blocks.append({"address": cursor, "size": address - cursor, "requested_size": 0, "state": "inactive"})
            if address < end:
                blocks.append(self.blocks[address])
                cursor = address + self.blocks[address]["size"]
        return blocks

    def _add(self, action: str, address: int, size: int, stream: int, at: str) -> None:
        entry = {"action": action, "addr": address, "size": size, "stream": stream, "frames": _frames(at)}
        self.entries.append({**entry, "time_us": len(self.entries)})


def _frames(at: str) -> list[dict[str, Any]]:
    """Frames as `file:function < file:function`, innermost first."""
    pairs = [one.strip().rsplit(":", 1) for one in at.split("<")] if at else []
    return [{"filename": file, "line": 1, "name": function[0] if function else "f"} for file, *function in pairs]
