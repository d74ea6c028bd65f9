"""The content of a memory snapshot of torch: what its caching allocator holds, and what it did before, per device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from traceanalyzer.trace.model import Loss

ACTIONS = (
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "other",
)
"""What an entry of the history says; `action` is the position here."""
STATES = ("inactive", "active_allocated", "active_pending_free", "other")
"""States of a block; `state` is the position here."""

Frame = tuple[str, int, str]
"""File, line and function of a frame."""


class MemoryHistory(msgspec.Struct, frozen=True, eq=False):
    """What the allocator of one device did, in the order of the ring."""

    action: NDArray[np.uint8]
    """Position in `ACTIONS`."""
    address: NDArray[np.uint64]
    """0 where there is none, as of an allocation that failed."""
    size: NDArray[np.int64]
    """Bytes as recorded: those that the program asked for, of allocations, frees and allocations that failed."""
    stream: NDArray[np.int64]
    time_us: NDArray[np.int64]
    """Since 1970; 0 where unknown."""
    frames: NDArray[np.int32]
    """Position in `MemorySnapshot.stacks`; -1 is unknown."""
    device_free: NDArray[np.int64]
    """Bytes that the device had free when an allocation failed; -1 where unknown, and for all else."""

    def __len__(self) -> int:
        return len(self.action)


class MemorySegments(msgspec.Struct, frozen=True, eq=False):
    """What the allocator reserved on one device at the dump, in the order of the file."""

    device: NDArray[np.int32]
    address: NDArray[np.uint64]
    total_size: NDArray[np.int64]
    stream: NDArray[np.int64]
    is_large: NDArray[np.bool_]
    is_expandable: NDArray[np.bool_]
    pool: NDArray[np.int32]
    """Number of a private pool, such as that of a graph; -1 is the default pool."""

    def __len__(self) -> int:
        return len(self.address)


class MemoryBlocks(msgspec.Struct, frozen=True, eq=False):
    """The blocks of these segments, in the order of the file."""

    segment: NDArray[np.int32]
    """Position in the segments of the device."""
    address: NDArray[np.uint64]
    size: NDArray[np.int64]
    """Bytes as the allocator rounded them."""
    requested: NDArray[np.int64]
    """Bytes that the program asked for; those of `size` where the file does not say."""
    state: NDArray[np.uint8]
    """Position in `STATES`."""
    frames: NDArray[np.int32]
    """Position in `MemorySnapshot.stacks`; -1 is unknown."""

    def __len__(self) -> int:
        return len(self.address)


class DeviceMemory(msgspec.Struct, frozen=True):
    """The memory of one device."""

    device: int
    segments: MemorySegments
    blocks: MemoryBlocks
    history: MemoryHistory


class MemoryAnnotation(msgspec.Struct, frozen=True):
    """The begin or the end of a part of the program, as it named it."""

    name: str
    stage: str
    """`START` or `END`."""
    device: int
    time_us: int


class MemorySnapshot(msgspec.Struct, frozen=True):
    """What one process wrote."""

    devices: tuple[DeviceMemory, ...]
    settings: Mapping[str, Any] = {}
    """Settings of the allocator, as the file names them."""
    stacks: tuple[tuple[Frame, ...], ...] = ()
    """Stacks of calls, the innermost frame first; equal ones once."""
    annotations: tuple[MemoryAnnotation, ...] = ()
    name: str = ""
    size_bytes: int | None = None
    losses: tuple[Loss, ...] = ()
    host_reserved: int | None = None
    """Bytes of pinned host memory that the allocator of the host holds; None if the file does not say."""
    host_active: int | None = None
    """Those of them that the program uses."""
    host: DeviceMemory | None = None
    """Segments and history of pinned host memory; None if the file has neither."""
