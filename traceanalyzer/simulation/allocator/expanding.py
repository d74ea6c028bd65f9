"""Expandable segments: addresses for more than the whole device, which get memory page by page.

One segment of a stream and pool grows at its end, so its free memory is not cut into pieces that serve no request.

Source: `ExpandableSegment`, `find_expandable_block`, `map_block` and `unmap_block` in
`c10/cuda/CUDACachingAllocator.cpp`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.simulation.allocator.blocks import AddressRange, BlockPool, HeldBlock

if TYPE_CHECKING:
    from traceanalyzer.simulation.allocator.caching import CachingAllocator

ADDRESSES = 1 << 44
"""Bytes of addresses of a segment: the allocator takes nine eighths of the device; more than any has."""


def expand(allocator: CachingAllocator, pool: BlockPool, size: int) -> HeldBlock | None:
    """A block of at least some bytes, mapped and out of its pool; None if the device has not enough memory."""
    block = _place(allocator, pool, size)
    if not block.is_mapped and not _map(allocator, block, min(block.size, size)):
        return None
    while block.size < size and (behind := block.next) is not None:
        if not _map(allocator, behind, min(size - block.size, behind.size)):
            return None
        block = behind
    pool.remove(block)
    return block


def unmap(block: HeldBlock, space: AddressRange) -> int:
    """Give back the whole pages of a free block of an expandable segment; returns their bytes."""
    pool = block.pool
    start = space.base - (space.base - block.address) // space.page * space.page
    end = space.base + (block.address + block.size - space.base) // space.page * space.page
    if end <= start:
        return 0
    pool.remove(block)
    if block.address + block.size > end:
        pool.add(block.cut(end - block.address))
    if start > block.address:
        rest = block.cut(start - block.address)
        pool.add(block)
        block = rest
    block.is_mapped = False
    bytes_of_pages = block.size
    block.merge()
    pool.add(block)
    return bytes_of_pages


def _place(allocator: CachingAllocator, pool: BlockPool, size: int) -> HeldBlock:
    """The lowest addresses with room for a block: what is not mapped, with a free block before it."""
    for *_, block in pool.unmapped:
        before = block.prev
        first = before if before is not None and before.is_free else block
        if _has_room(first, size):
            return first
    base = allocator.next_address(ADDRESSES)
    block = HeldBlock(pool, base, ADDRESSES, AddressRange(base, pool.page))
    block.is_mapped = False
    pool.add(block)
    return block


def _has_room(block: HeldBlock | None, size: int) -> bool:
    room = 0
    while room < size and block is not None and block.is_free:
        room += block.size
        block = block.next
    return room >= size


def _map(allocator: CachingAllocator, block: HeldBlock, size: int) -> bool:
    """Give memory to the first bytes of a block, in whole pages; false if the device has not enough."""
    pages = min(-(-size // block.pool.page) * block.pool.page, block.size)
    if allocator.limit is not None and allocator.reserved + pages > allocator.limit:
        return False
    pool = block.pool
    pool.remove(block)
    if pages < block.size:
        pool.add(block.cut(pages))
    block.is_mapped = True
    allocator.reserved += pages
    block.merge()
    pool.add(block)
    return True
