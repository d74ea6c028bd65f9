"""Histories from the first request on: the model puts every block where torch's allocator puts it.

Each is written by the rules of `c10/cuda/CUDACachingAllocator.cpp`: addresses, segments and their sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulation.allocator.snapshots import MIB
from tests.simulation.allocator.written import A, B, C, D, Written
from traceanalyzer.simulation.allocator.replaying import replay

HALF_KIB = 512 / MIB


def small_blocks() -> tuple[Written, int]:
    """Multiples of 512 bytes side by side in 2 MiB."""
    written = Written()
    written.reserve(A, 2)
    written.alloc(A, 1 / MIB, HALF_KIB)
    written.alloc(A + 512, 600 / MIB, 2 * HALF_KIB)
    written.alloc(A + 3 * 512, 512 / MIB)
    written.free(A + 512)
    written.alloc(A + 512, 513 / MIB, 2 * HALF_KIB)
    return written, 2


def small_pool_is_full() -> tuple[Written, int]:
    """1 MiB is still small; the third needs another segment."""
    written = Written()
    written.reserve(A, 2)
    written.alloc(A, 1)
    written.alloc(A + MIB, 1)
    written.reserve(B, 2)
    written.alloc(B, 1)
    return written, 4


def large_blocks() -> tuple[Written, int]:
    """Below 10 MiB they share 20 MiB; 1 MiB or less is not split off."""
    written = Written()
    written.reserve(A, 20)
    for number in range(3):
        written.alloc(A + number * 6 * MIB, 6)
    written.alloc(A + 18 * MIB, 1.5, 2)
    written.reserve(B, 20)
    written.alloc(B, 6)
    return written, 40


def segments_of_their_own() -> tuple[Written, int]:
    """From 10 MiB on, rounded to 2 MiB; the rest of 1 MiB belongs to the block."""
    written = Written()
    written.reserve(A, 10)
    written.alloc(A, 10)
    written.reserve(B, 12)
    written.alloc(B, 11, 12)
    written.reserve(C, 12)
    written.alloc(C, 10 + 1 / MIB, 10 + HALF_KIB)
    written.alloc(C + 10 * MIB + 512, 1.5, 2 - HALF_KIB)
    return written, 34


def best_fit() -> tuple[Written, int]:
    """The smallest free block that serves a request, whatever came first."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.reserve(B, 16)
    written.alloc(B, 16)
    written.free(A)
    written.free(B)
    written.alloc(B, 12)
    written.alloc(B + 12 * MIB, 3, 4)
    written.alloc(A, 4)
    return written, 46


def lowest_address() -> tuple[Written, int]:
    """Of equal free blocks."""
    written = Written()
    written.reserve(B, 16)
    written.alloc(B, 16)
    written.reserve(A, 16)
    written.alloc(A, 16)
    written.free(A)
    written.free(B)
    written.alloc(A, 14)
    return written, 32


def merged_neighbours() -> tuple[Written, int]:
    """Three free blocks side by side serve one request."""
    written = Written()
    written.reserve(A, 20)
    for address, mib in ((A, 6), (A + 6 * MIB, 6), (A + 12 * MIB, 8)):
        written.alloc(address, mib)
    for address in (A, A + 12 * MIB, A + 6 * MIB):
        written.free(address)
    written.alloc(A, 19.5, 20)
    return written, 20


def streams() -> tuple[Written, int]:
    """A stream does not get what another one has freed."""
    written = Written()
    written.reserve(A, 20)
    written.alloc(A, 8)
    written.free(A)
    written.reserve(B, 20, stream=7)
    written.alloc(B, 8, stream=7)
    written.alloc(A, 8)
    return written, 40


def emptied_cache() -> tuple[Written, int]:
    """Segments without a used block are given back, others not."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.reserve(B, 20)
    written.alloc(B, 8)
    written.alloc(B + 8 * MIB, 8)
    written.free(A)
    written.free(B)
    written.release(A, at="empty_cache")
    written.alloc(B, 8)
    written.reserve(C, 24, at="train")
    written.alloc(C, 24, at="train")
    return written, 50


def retry() -> tuple[Written, int]:
    """A request that does not fit gives back what is cached: at most 89 MiB were there."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.reserve(B, 20)
    written.alloc(B, 8)
    written.free(A)
    written.release(A, at="train")
    written.reserve(C, 40, at="train")
    written.alloc(C, 40, at="train")
    return written, 60


def used_by_another_stream() -> tuple[Written, int]:
    """A block is not given to anybody before its free is completed."""
    written = Written()
    written.reserve(A, 12)
    written.alloc(A, 12)
    written.ask_free(A)
    written.reserve(B, 12)
    written.alloc(B, 12)
    written.complete(A)
    written.alloc(A, 12)
    return written, 24


def rounded_to_divisions() -> tuple[Written, int]:
    """Four steps between powers of two: 1.2 MiB take 1.25, and 17 take 20."""
    written = Written(roundup_power2_divisions={str(1 << power): 4 for power in range(16)})
    written.reserve(A, 20)
    written.alloc(A, 1.2, 1.25)
    written.alloc(A + round(1.25 * MIB), 1.25)
    written.reserve(B, 20)
    written.alloc(B, 17, 20)
    written.reserve(C, 2)
    written.alloc(C, 1100 / MIB, 3 * HALF_KIB)
    return written, 42


def blocks_that_are_not_split() -> tuple[Written, int]:
    """From `max_split_size` on a block serves only requests that are large and little smaller."""
    written = Written(max_split_size=32 * MIB)
    written.reserve(A, 64)
    written.alloc(A, 64)
    written.free(A)
    written.reserve(B, 20)
    written.alloc(B, 8)
    written.reserve(C, 40)
    written.alloc(C, 40)
    written.alloc(A, 50, 64)
    return written, 124


def failed_request() -> tuple[Written, int]:
    """It gives back what is cached, and is not replayed as a block."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.reserve(B, 20)
    written.alloc(B, 8)
    written.free(A)
    written.release(A, at="train")
    written.fail(100, 60, at="train")
    written.reserve(C, 14, at="train")
    written.alloc(C, 14, at="train")
    return written, 50


def expandable() -> tuple[Written, int]:
    """Pages of 20 MiB at the end of what is mapped; a whole unused page is given back."""
    written = Written(expandable_segments=True)
    written.map(A, 20)
    written.alloc(A, 3)
    written.map(A + 20 * MIB, 20)
    written.alloc(A + 3 * MIB, 19)
    written.map(A + 40 * MIB, 20)
    written.alloc(A + 22 * MIB, 30)
    written.map(B, 2, is_large=False)
    written.alloc(B, 1)
    written.free(A + 22 * MIB)
    written.free(A + 3 * MIB)
    written.alloc(A + 3 * MIB, 22, 22)
    written.free(A + 3 * MIB)
    written.alloc(A + 3 * MIB, 19)
    written.unmap_end(A + 40 * MIB, 20)
    written.alloc(A + 22 * MIB, 4)
    return written, 62


def private_pool() -> tuple[Written, int]:
    """Blocks of a CUDA graph lie in segments of their own, on the same stream."""
    written = Written()
    written.reserve(A, 20)
    written.alloc(A, 8)
    written.free(A)
    written.reserve(B, 20, pool=(0, 1))
    written.alloc(B, 8)
    written.alloc(A, 6)
    written.alloc(B + 8 * MIB, 6)
    written.free(B)
    written.free(B + 8 * MIB)
    written.free(A)
    written.release(A, at="empty_cache")
    written.reserve(D, 60)
    written.alloc(D, 60)
    return written, 80


def expandable_with_a_hole() -> tuple[Written, int]:
    """A block that can grow counts with the addresses behind it: a hole of 16 MiB fits better than 8 at the end."""
    written = Written(expandable_segments=True)
    written.map(A, 20)
    written.alloc(A, 8)
    written.map(A + 20 * MIB, 20)
    written.alloc(A + 8 * MIB, 16)
    written.alloc(A + 24 * MIB, 8)
    written.free(A + 8 * MIB)
    written.alloc(A + 8 * MIB, 6)
    return written, 40


def almost_fitting_blocks() -> tuple[Written, int]:
    """A block that is not split serves no request that is 20 MiB smaller."""
    written = Written(max_split_size=32 * MIB)
    written.reserve(A, 60)
    written.alloc(A, 60)
    written.free(A)
    written.reserve(B, 40)
    written.alloc(B, 40)
    written.alloc(A, 42, 60)
    return written, 100


HISTORIES = (
    almost_fitting_blocks,
    expandable_with_a_hole,
    small_blocks,
    small_pool_is_full,
    large_blocks,
    segments_of_their_own,
    best_fit,
    lowest_address,
    merged_neighbours,
    streams,
    emptied_cache,
    retry,
    used_by_another_stream,
    rounded_to_divisions,
    blocks_that_are_not_split,
    failed_request,
    expandable,
    private_pool,
)


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_every_block_lies_where_it_lay(history: Callable[[], tuple[Written, int]]) -> None:
    written, peak_mib = history()
    memory = written.recorded()
    assert not memory.ranges  # nothing was reserved before
    assert memory.reserved_peak == peak_mib * MIB
    replayed = replay(memory)
    assert replayed.moved == 0
    assert replayed.reserved_peak == peak_mib * MIB
    assert replayed.reserved_end == sum(one["total_size"] for one in written.segments.values())
    assert replay(memory, keeps_cached=False) == replayed


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.__name__)
def test_rings_that_lost_their_beginning(history: Callable[[], tuple[Written, int]]) -> None:
    """What was there before follows from the dump: every later block lies where it lay."""
    entries = len(history()[0].entries)
    cuts = 0
    for cut in range(1, entries):
        written = history()[0].lose(cut)
        if not any(one["action"] == "alloc" for one in written.entries):
            break
        replayed = replay(written.recorded())
        assert replayed.moved == 0, cut
        assert replayed.reserved_end == sum(one["total_size"] for one in written.segments.values())
        cuts += 1
    assert cuts


def test_limits() -> None:
    """A request that failed, or fit only once cached memory was given back, shows what can be reserved."""
    assert retry()[0].recorded().limit == 90 * MIB - 1
    assert failed_request()[0].recorded().limit == 80 * MIB
    assert emptied_cache()[0].recorded().limit is None
    assert (replay(retry()[0].recorded()).retries, replay(failed_request()[0].recorded()).failures) == (1, 1)


def test_a_limit_below_the_memory_of_the_device() -> None:
    """A request fails although the device has room: the program may only use a part of it."""
    written = large_blocks()[0]
    written.fail(100, 1000)
    memory = written.recorded()
    assert memory.limit == 140 * MIB - 1
    assert replay(memory).failures == 1


def test_memory_that_is_given_back_and_needed_again() -> None:
    """Without stacks it looks like a request that did not fit, but later more than that is reserved."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.free(A)
    written.release(A)
    written.reserve(B, 20)
    written.alloc(B, 8)
    assert written.recorded().limit == 50 * MIB - 1
    written.reserve(C, 30)
    written.alloc(C, 30)
    memory = written.recorded()
    assert (memory.limit, memory.releases.tolist()) == (None, [4])
    assert replay(memory).reserved_peak == 50 * MIB
