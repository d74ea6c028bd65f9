"""How the caching allocator rounds requests, and how much it reserves for them.

Source: `c10/cuda/CUDACachingAllocator.cpp` (`round_size`, `get_allocation_size`, `should_split`) and
`c10/cuda/CUDAAllocatorConfig.cpp` of PyTorch 2.4 to 2.9.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

KIB, MIB = 2**10, 2**20
LEAST_BLOCK = 512
"""Every block is a multiple of it, and a small remainder is split off from this size on."""
MOST_SMALL = MIB
"""Largest request of the pool of small blocks."""
SMALL_SEGMENT = 2 * MIB
"""What is reserved for small blocks at once; also the size of their pages where segments expand."""
LARGE_SEGMENT = 20 * MIB
"""What is reserved for large blocks below `LEAST_OWN` at once; also the size of their pages where segments expand."""
LEAST_OWN = 10 * MIB
"""From this size on a block gets a segment of its own size, rounded to `LARGE_STEP`."""
LARGE_STEP = 2 * MIB
_INTERVALS = 16
"""Powers of two from 1 MiB on that have a number of divisions each."""


class AllocatorSettings(msgspec.Struct, frozen=True):
    """The settings that decide where blocks lie (`PYTORCH_CUDA_ALLOC_CONF`)."""

    expandable_segments: bool = False
    max_split_size: int | None = None
    """Blocks of so many bytes are never split; None for no limit."""
    divisions: tuple[int, ...] = (0,) * _INTERVALS
    """Into how many steps the space between two powers of two is divided, from 1 MiB on; 0 or 1 for multiples of 512
    bytes (`roundup_power2_divisions`)."""
    garbage_collection_threshold: float = 0.0
    """Share of the allowed memory above which unused segments are freed; 0 for never."""

    def rounded(self, requested: int) -> int:
        """The bytes of a block for a request."""
        if requested < LEAST_BLOCK:
            return LEAST_BLOCK
        power = requested.bit_length() - 1
        divisions = self.divisions[min(max(power - 20, 0), _INTERVALS - 1)]
        if divisions < 2 or requested <= LEAST_BLOCK * divisions:
            return _multiple(requested, LEAST_BLOCK)
        return _multiple(requested, max(1 << power >> (divisions.bit_length() - 1), 1))

    def is_split(self, size: int, rest: int, *, is_large: bool) -> bool:
        """Whether a free block is divided for a request of a rounded size, and `rest` bytes of it stay free."""
        if not is_large or self.expandable_segments:
            return rest >= LEAST_BLOCK
        return rest > MOST_SMALL and (self.max_split_size is None or size < self.max_split_size)


def segment_size(size: int) -> int:
    """The bytes that are reserved for a block of a rounded size if no free one serves."""
    if size <= MOST_SMALL:
        return SMALL_SEGMENT
    return LARGE_SEGMENT if size < LEAST_OWN else _multiple(size, LARGE_STEP)


def settings_of(recorded: Mapping[str, Any]) -> AllocatorSettings:
    """The settings that a snapshot names; the defaults where it names none, or something else than their type."""
    split, threshold = recorded.get("max_split_size"), recorded.get("garbage_collection_threshold")
    divisions = recorded.get("roundup_power2_divisions")
    return AllocatorSettings(
        expandable_segments=recorded.get("expandable_segments") is True,
        max_split_size=split if isinstance(split, int) and split > 0 else None,
        divisions=_divisions(divisions) if isinstance(divisions, Mapping) else (0,) * _INTERVALS,
        garbage_collection_threshold=threshold if isinstance(threshold, float) and 0 < threshold < 1 else 0.0,
    )


def _divisions(recorded: Mapping[Any, Any]) -> tuple[int, ...]:
    """Snapshots name each interval by its first size in MiB, as text."""
    found = (recorded.get(str(1 << power)) for power in range(_INTERVALS))
    return tuple(one if isinstance(one, int) and one > 0 else 0 for one in found)


def _multiple(size: int, of: int) -> int:
    return -(-size // of) * of
