"""Rounding, splitting, and what the allocator does when memory gets scarce."""

from __future__ import annotations

import pytest

from tests.simulation.allocator.snapshots import MIB
from traceanalyzer.simulation.allocator.blocks import HeldBlock
from traceanalyzer.simulation.allocator.caching import CachingAllocator
from traceanalyzer.simulation.allocator.sizes import AllocatorSettings, segment_size, settings_of

KIB = 1024


@pytest.mark.parametrize(
    ("requested", "rounded"),
    [(0, 512), (1, 512), (512, 512), (513, 1024), (1100, 1536), (MIB + 1, MIB + 512), (3 * MIB, 3 * MIB)],
)
def test_requests_are_rounded_to_512_bytes(requested: int, rounded: int) -> None:
    assert AllocatorSettings().rounded(requested) == rounded


@pytest.mark.parametrize(
    ("requested", "rounded"),
    [
        (100, 512),
        (1100, 1536),
        (2048, 2048),
        (2049, 2560),
        (5000, 5120),
        (1200 * KIB, 1280 * KIB),
        (4 * MIB, 4 * MIB),
        (4 * MIB + 1, 5 * MIB),
        (7 * MIB + 1, 8 * MIB),
    ],
)
def test_requests_are_rounded_to_divisions_of_powers_of_two(requested: int, rounded: int) -> None:
    assert AllocatorSettings(divisions=(4,) * 16).rounded(requested) == rounded


def test_divisions_of_single_intervals() -> None:
    """The first is for all below 2 MiB, the last for all from 32 GiB on."""
    settings = AllocatorSettings(divisions=(0, 2, *(0,) * 13, 2))
    assert settings.rounded(MIB + 1) == MIB + 512
    assert settings.rounded(2 * MIB + 1) == 3 * MIB
    assert settings.rounded(4 * MIB + 1) == 4 * MIB + 512
    assert settings.rounded(2**37 + 1) == 2**37 + 2**36


@pytest.mark.parametrize(
    ("size", "mib"),
    [(512, 2), (MIB, 2), (MIB + 512, 20), (10 * MIB - 512, 20), (10 * MIB, 10), (10 * MIB + 512, 12), (21 * MIB, 22)],
)
def test_segments(size: int, mib: int) -> None:
    assert segment_size(size) == mib * MIB


def test_what_is_split_off() -> None:
    plain, expandable = AllocatorSettings(), AllocatorSettings(expandable_segments=True)
    assert plain.is_split(512, 512, is_large=False)
    assert not plain.is_split(2 * MIB, MIB, is_large=True)
    assert plain.is_split(2 * MIB, MIB + 512, is_large=True)
    assert expandable.is_split(2 * MIB, 512, is_large=True)
    assert not AllocatorSettings(max_split_size=30 * MIB).is_split(30 * MIB, 2 * MIB, is_large=True)


def test_settings_of_snapshots() -> None:
    recorded = {
        "PYTORCH_CUDA_ALLOC_CONF": "",
        "max_split_size": 134217728,
        "garbage_collection_threshold": 0.8,
        "expandable_segments": True,
        "roundup_power2_divisions": {"1": 4, "2": 0, "32768": 8, "odd": 3},
    }
    assert settings_of(recorded) == AllocatorSettings(
        expandable_segments=True,
        max_split_size=134217728,
        divisions=(4, *(0,) * 14, 8),
        garbage_collection_threshold=0.8,
    )
    assert settings_of({}) == AllocatorSettings()
    assert settings_of({"max_split_size": -1, "garbage_collection_threshold": 0.0}) == AllocatorSettings()
    damaged = {"max_split_size": "x", "garbage_collection_threshold": [], "roundup_power2_divisions": 3}
    assert settings_of({**damaged, "expandable_segments": "yes"}) == AllocatorSettings()


def filled(settings: AllocatorSettings, limit: int, *mib: int) -> tuple[CachingAllocator, list[HeldBlock]]:
    """An allocator with blocks that each have a segment."""
    allocator = CachingAllocator(settings, limit * MIB)
    blocks = [allocator.allocate(size * MIB, 0) for size in mib]
    return allocator, [block for block in blocks if block is not None]


def test_garbage_is_collected_by_age() -> None:
    """Above 105 of 150 MiB what was unused for longer than the average goes, although the request would not need it."""
    allocator, (old, young, reused) = filled(AllocatorSettings(garbage_collection_threshold=0.7), 150, 50, 44, 12)
    allocator.free(old)
    for _ in range(3):
        allocator.free(reused)
        assert allocator.allocate(12 * MIB, 0) is reused
    allocator.free(young)
    allocator.free(reused)
    assert allocator.allocate(60 * MIB, 0) is not None
    assert (allocator.reserved, allocator.retries) == ((44 + 12 + 60) * MIB, 0)


def test_no_garbage_is_collected_below_the_threshold() -> None:
    allocator, (cached, _) = filled(AllocatorSettings(garbage_collection_threshold=0.8), 100, 30, 20)
    allocator.free(cached)
    assert allocator.allocate(40 * MIB, 0) is not None
    assert allocator.reserved == 90 * MIB


def test_large_segments_are_freed_one_by_one_where_they_are_not_split() -> None:
    """One that is large enough, before all that is cached."""
    settings = AllocatorSettings(max_split_size=20 * MIB)
    allocator, (first, second, other) = filled(settings, 150, 40, 70, 12)
    for block in (first, second, other):
        allocator.free(block)
    assert allocator.allocate(48 * MIB, 0) is not None
    assert (allocator.reserved, allocator.retries) == ((40 + 12 + 48) * MIB, 0)


def test_large_segments_are_freed_together_from_the_largest_on() -> None:
    settings = AllocatorSettings(max_split_size=20 * MIB)
    allocator, blocks = filled(settings, 150, 40, 44, 50, 12)
    for block in blocks:
        allocator.free(block)
    assert allocator.allocate(90 * MIB, 0) is not None
    assert (allocator.reserved, allocator.retries) == ((40 + 12 + 90) * MIB, 0)


def test_a_request_that_does_not_fit() -> None:
    """All that is cached is freed, and what is in use stays."""
    allocator, (used, cached) = filled(AllocatorSettings(), 100, 60, 30)
    allocator.free(cached)
    assert allocator.allocate(50 * MIB, 0) is None
    assert (allocator.reserved, allocator.active, allocator.retries) == (60 * MIB, used.size, 1)


def test_expandable_segments_are_not_used_once_the_setting_is_off() -> None:
    """As before memory is shared with another process."""
    allocator = CachingAllocator(AllocatorSettings(expandable_segments=True))
    block = allocator.allocate(19 * MIB, 0)
    assert block is not None
    allocator.free(block)
    allocator.settings = AllocatorSettings()
    other = allocator.allocate(12 * MIB, 0)
    assert other is not None
    assert other.space is None
    allocator.free(other)
    assert allocator.allocate(11 * MIB, 0) is other
    assert allocator.reserved == 32 * MIB


def test_pages_are_not_freed_as_segments() -> None:
    """`max_split_size` keeps segments whole, but not those that expand: all pages that are free are given back."""
    settings = AllocatorSettings(expandable_segments=True, max_split_size=24 * MIB)
    allocator, (first, second, last) = filled(settings, 120, 40, 40, 20)
    allocator.free(second)
    assert allocator.allocate(70 * MIB, 0) is None
    assert (allocator.reserved, allocator.retries) == (60 * MIB, 1)
    allocator.free(last)
    allocator.free(first)
    assert allocator.allocate(110 * MIB, 0) is not None
