"""Blocks of memory, and the pools of those that are free.

A segment is a chain of blocks, each of which is used or free. Free neighbours are always merged. Pages of expandable
segments can also be without memory (not mapped).

Source: `Block`, `BlockPool`, `get_free_block` and `try_merge_blocks` in `c10/cuda/CUDACachingAllocator.cpp`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import count
from typing import NamedTuple

from traceanalyzer.simulation.allocator.sizes import (
    LARGE_SEGMENT,
    SMALL_SEGMENT,
    AllocatorSettings,
)

_serials = count()


class AddressRange(NamedTuple):
    """The addresses of an expandable segment, which has far more of them than memory."""

    base: int
    page: int
    """Bytes that get memory at once."""


class HeldBlock:
    """A block of a segment."""

    __slots__ = ("address", "is_free", "is_mapped", "next", "pool", "prev", "serial", "since", "size", "space")

    def __init__(self, pool: BlockPool, address: int, size: int, space: AddressRange | None = None) -> None:
        self.pool, self.address, self.size, self.space = pool, address, size, space
        self.prev: HeldBlock | None = None
        self.next: HeldBlock | None = None
        self.is_free = True
        self.is_mapped = True
        self.serial = next(_serials)
        self.since = 0
        """How many requests its pool had had when the block became free."""

    @property
    def is_whole(self) -> bool:
        """Whether it is its whole segment."""
        return self.prev is None and self.next is None

    def cut(self, size: int) -> HeldBlock:
        """Keep the first bytes; returns the rest, which belongs to no pool yet."""
        rest = HeldBlock(self.pool, self.address + size, self.size - size, self.space)
        rest.is_mapped = self.is_mapped
        rest.prev, rest.next = self, self.next
        if self.next is not None:
            self.next.prev = rest
        self.next, self.size = rest, size
        return rest

    def merge(self) -> None:
        """Join the free blocks beside it, which leave their pool."""
        before, after = self.prev, self.next
        if before is not None and before.is_free and before.is_mapped == self.is_mapped:
            self.pool.remove(before)
            self.address, self.prev = before.address, before.prev
            self.size += before.size
            if self.prev is not None:
                self.prev.next = self
        if after is not None and after.is_free and after.is_mapped == self.is_mapped:
            self.pool.remove(after)
            self.next = after.next
            self.size += after.size
            if self.next is not None:
                self.next.prev = self


class BlockPool:
    """Free blocks of one stream: small or large ones, of a private pool or the default one."""

    def __init__(self, *, is_large: bool, is_private: bool) -> None:
        self.is_large, self.is_private = is_large, is_private
        self.free: list[tuple[int, int, int, HeldBlock]] = []
        """By size, then by address."""
        self.unmapped: list[tuple[int, int, HeldBlock]] = []
        """Addresses of expandable segments without memory, in their order."""
        self.requests = 0

    @property
    def page(self) -> int:
        """Bytes that an expandable segment gets at once."""
        return LARGE_SEGMENT if self.is_large else SMALL_SEGMENT

    def add(self, block: HeldBlock) -> None:
        """Take a free block, or one that is not mapped."""
        if block.is_mapped:
            block.since = self.requests
            insort(self.free, (block.size, block.address, block.serial, block))
        else:
            insort(self.unmapped, (block.address, block.serial, block))

    def remove(self, block: HeldBlock) -> None:
        """Give a block up, before its size or address changes."""
        if block.is_mapped:
            del self.free[bisect_left(self.free, (block.size, block.address, block.serial))]
        else:
            del self.unmapped[bisect_left(self.unmapped, (block.address, block.serial))]

    def take(self, size: int, settings: AllocatorSettings) -> HeldBlock | None:
        """The smallest free block that serves a request of a rounded size; of equal ones that of the lowest address."""
        self.requests += 1
        free = self.free
        at = bisect_left(free, (size,))
        if at == len(free):
            return None
        if free[at][3].space is not None:
            at = self._least_room(at) if settings.expandable_segments else self._next_fixed(at)
            if at == len(free):
                return None
        block = free[at][3]
        limit = settings.max_split_size
        if limit is not None and (size < limit <= block.size or (size >= limit and block.size >= size + LARGE_SEGMENT)):
            return None
        del free[at]
        return block

    def _least_room(self, at: int) -> int:
        """Blocks at the end of what is mapped can grow, so they count with the addresses behind them."""
        free = self.free
        room = _room(free[at][3])
        while free[at][3].space is not None and at + 1 < len(free) and (more := _room(free[at + 1][3])) < room:
            at, room = at + 1, more
        return at

    def _next_fixed(self, at: int) -> int:
        """Expandable segments are not used once the setting is off, as before memory is shared with a process."""
        while at < len(self.free) and self.free[at][3].space is not None:
            at += 1
        return at


def _room(block: HeldBlock) -> int:
    behind = block.next
    return block.size + (behind.size if behind is not None and not behind.is_mapped else 0)
