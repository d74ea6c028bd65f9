"""Snapshots for tests of the allocator: scripted ones, and those of the corpus."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from traceanalyzer.trace.memory_snapshot import (
    ACTIONS,
    STATES,
    DeviceMemory,
    MemoryBlocks,
    MemoryHistory,
    MemorySegments,
    MemorySnapshot,
)
from traceanalyzer.trace.table import UNKNOWN

MIB = 2**20
_STATES = {"active_awaiting_free": "active_pending_free"}


class _PlainData(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain data")


def recorded(path: Path) -> MemorySnapshot:
    """A snapshot of the corpus."""
    with path.open("rb") as file:
        return snapshot(_PlainData(file).load())


def snapshot(plain: Mapping[str, Any]) -> MemorySnapshot:
    """A snapshot from the data that torch dumps."""
    stacks: dict[tuple[tuple[str, int, str], ...], int] = {}

    def stack(frames: Sequence[Mapping[str, Any]] | None) -> int:
        if not frames:
            return UNKNOWN
        key = tuple((one["filename"], one["line"], one["name"]) for one in frames)
        return stacks.setdefault(key, len(stacks))

    traces = plain.get("device_traces", [])
    used = {number for number, trace in enumerate(traces) if trace}
    devices = sorted(used | {one.get("device", 0) for one in plain["segments"]}) or [0]
    found = []
    for device in devices:
        segments = [one for one in plain["segments"] if one.get("device", 0) == device]
        history = traces[device] if device < len(traces) else []
        found.append(DeviceMemory(device, _segments(segments), _blocks(segments, stack), _history(history, stack)))
    return MemorySnapshot(tuple(found), plain.get("allocator_settings") or {}, tuple(stacks))


def _segments(segments: Sequence[Mapping[str, Any]]) -> MemorySegments:
    pools = sorted({_pool(one) for one in segments} - {(0, 0)})
    return MemorySegments(
        device=np.array([one.get("device", 0) for one in segments], np.int32),
        address=np.array([one["address"] for one in segments], np.uint64),
        total_size=np.array([one["total_size"] for one in segments], np.int64),
        stream=np.array([one["stream"] for one in segments], np.int64),
        is_large=np.array([one["segment_type"] == "large" for one in segments], np.bool_),
        is_expandable=np.array([bool(one.get("is_expandable")) for one in segments], np.bool_),
        pool=np.array([pools.index(_pool(one)) if _pool(one) in pools else -1 for one in segments], np.int32),
    )


def _pool(segment: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(segment.get("segment_pool_id", (0, 0)))


def _blocks(segments: Sequence[Mapping[str, Any]], stack: Any) -> MemoryBlocks:
    rows = []
    for number, segment in enumerate(segments):
        address = segment["address"]
        for one in segment["blocks"]:
            state = _STATES.get(one["state"], one["state"])
            requested = one.get("requested_size", one["size"])
            rows.append((number, address, one["size"], requested, STATES.index(state), stack(one.get("frames"))))
            address += one["size"]
    columns = list(zip(*rows, strict=True)) or [()] * 6
    return MemoryBlocks(
        *(np.array(columns[i], d) for i, d in enumerate((np.int32, np.uint64, np.int64, np.int64, np.uint8, np.int32)))
    )


def _history(entries: Sequence[Mapping[str, Any]], stack: Any) -> MemoryHistory:
    return MemoryHistory(
        action=np.array([ACTIONS.index(one["action"]) for one in entries], np.uint8),
        address=np.array([0 if one["action"] == "oom" else one.get("addr", 0) for one in entries], np.uint64),
        size=np.array([one["size"] for one in entries], np.int64),
        stream=np.array([one["stream"] for one in entries], np.int64),
        time_us=np.array([one.get("time_us", 0) for one in entries], np.int64),
        frames=np.array([stack(one.get("frames")) for one in entries], np.int32),
        device_free=np.array([_device_free(one) for one in entries], np.int64),
    )


def _device_free(entry: Mapping[str, Any]) -> int:
    """What the device had free when a request failed; scripts write it where other entries have their address."""
    return entry.get("device_free", entry.get("addr", UNKNOWN)) if entry["action"] == "oom" else UNKNOWN
