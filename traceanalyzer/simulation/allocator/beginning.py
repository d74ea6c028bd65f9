"""What the allocator held when the history of a snapshot begins: what it held at the dump, less what happened since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec
import numpy as np

from traceanalyzer.simulation.allocator.blocks import AddressRange, BlockPool, HeldBlock
from traceanalyzer.simulation.allocator.caching import DEFAULT_POOL, CachingAllocator
from traceanalyzer.simulation.allocator.expanding import ADDRESSES, unmap
from traceanalyzer.simulation.allocator.sizes import LARGE_SEGMENT, SMALL_SEGMENT
from traceanalyzer.structure.block_lifetimes import BEFORE, Lifetimes
from traceanalyzer.trace.memory_snapshot import ACTIONS, DeviceMemory, MemoryHistory
from traceanalyzer.trace.table import I64, Bool

_ALLOC, _FREE, _MAP, _UNMAP = (
    ACTIONS.index(name) for name in ("segment_alloc", "segment_free", "segment_map", "segment_unmap")
)
_PAGE = SMALL_SEGMENT


class PoolKey(msgspec.Struct, frozen=True, order=True):
    """Which pool memory belongs to."""

    stream: int
    private: int
    """Number of the private pool, or `DEFAULT_POOL`."""
    is_large: bool


class ReservedRange(msgspec.Struct, frozen=True):
    """A segment, or pages of an expandable one that follow each other."""

    address: int
    size: int
    pool: PoolKey
    base: int | None = None
    """Lowest known address of the expandable segment that has the pages; None for a segment that is not expandable."""


def reserved_at_start(device: DeviceMemory) -> tuple[ReservedRange, ...]:
    """What was reserved before the first entry of the history, by address."""
    fixed: dict[int, ReservedRange] = {}
    pages: dict[PoolKey, set[int]] = defaultdict(set)
    for one in _at_dump(device):
        if one.base is not None:
            pages[one.pool].update(_pages(one.address, one.size))
        else:
            fixed[one.address] = one
    history = device.history
    owners = _owners(history) | {page: pool for pool, own in pages.items() for page in own}
    lowest = {pool: page for page, pool in sorted(owners.items(), reverse=True)}
    for entry in np.flatnonzero(np.isin(history.action, (_ALLOC, _FREE, _MAP, _UNMAP)))[::-1].tolist():
        action, address, size = int(history.action[entry]), int(history.address[entry]), int(history.size[entry])
        stream = int(history.stream[entry])
        if action == _ALLOC:
            fixed.pop(address, None)
        elif action == _FREE:
            pool = PoolKey(stream, DEFAULT_POOL, size > SMALL_SEGMENT)
            fixed[address] = ReservedRange(address, size, pool)
        else:
            pool = _owner(owners, address, stream, size)
            change = pages[pool].difference_update if action == _MAP else pages[pool].update
            change(_pages(address, size))
            lowest[pool] = min(lowest.get(pool, address // _PAGE), address // _PAGE)
    expandable = (one for pool, own in pages.items() for one in _runs(pool, sorted(own), lowest))
    return tuple(sorted((*fixed.values(), *expandable), key=lambda one: one.address))


def place(
    allocator: CachingAllocator,
    ranges: Sequence[ReservedRange],
    blocks: Lifetimes,
    stays: Bool,
    *,
    keeps_cached: bool,
) -> dict[int, HeldBlock]:
    """Reserve what was reserved at the start, with the blocks in it.

    Args:
        allocator: A new one.
        ranges: Of `reserved_at_start`.
        blocks: Those from before the history come first.
        stays: Which of these are where they were; segments that are left without any are given back.
        keeps_cached: Whether segments stay that were empty at the start.

    Returns:
        The blocks by row.
    """
    count = int(np.searchsorted(blocks.born, BEFORE, side="right"))
    starts = np.array([one.address for one in ranges], np.uint64)
    of_range = np.searchsorted(starts, blocks.address[:count], side="right") - 1
    rows = {
        number: np.array(list(own), np.int64)
        for number, own in groupby(range(count), key=lambda row: int(of_range[row]))
    }
    placed: dict[int, HeldBlock] = {}
    chains: dict[PoolKey, _Chain] = {}
    for number, one in enumerate(ranges):
        had = rows.get(number)
        own = np.zeros(0, np.int64) if had is None else had[stays[had]]
        if not len(own) and (had is not None or not keeps_cached):
            continue
        pool = allocator.pool(one.pool.stream, one.pool.private, is_large=one.pool.is_large)
        if one.base is not None:
            chain = chains.setdefault(one.pool, _Chain(pool, AddressRange(one.base, pool.page)))
            chain.leave_out(one.address)
        else:
            chain = _Chain(pool, None)
        placed.update(_fill(allocator, chain, one, blocks, own))
        allocator.reserved += one.size
    for chain in chains.values():
        chain.leave_out(chain.end + ADDRESSES)
    if not keeps_cached or not stays[:count].all():
        _unmap_free(allocator, chains.values())
    return placed


class _Chain:
    """The blocks of one segment, from its first address on."""

    def __init__(self, pool: BlockPool, space: AddressRange | None) -> None:
        self.pool, self.space = pool, space
        self.last: HeldBlock | None = None

    @property
    def end(self) -> int:
        """The first address behind the last block."""
        if self.last is not None:
            return self.last.address + self.last.size
        return 0 if self.space is None else self.space.base

    def append(self, address: int, size: int) -> HeldBlock:
        """A block behind the last one."""
        block = HeldBlock(self.pool, address, size, self.space)
        block.prev = self.last
        if self.last is not None:
            self.last.next = block
        self.last = block
        return block

    def append_free(self, address: int, size: int) -> None:
        """A free block, if it has any bytes."""
        if size > 0:
            self.pool.add(self.append(address, size))

    def leave_out(self, address: int) -> None:
        """Addresses without memory from the last block up to an address."""
        if address > self.end:
            block = self.append(self.end, address - self.end)
            block.is_mapped = False
            self.pool.add(block)


def _fill(
    allocator: CachingAllocator, chain: _Chain, one: ReservedRange, blocks: Lifetimes, rows: I64
) -> Iterable[tuple[int, HeldBlock]]:
    """The blocks of a segment, with the free ones between them.

    A rounded size is unknown where the block does not live at the dump. What the allocator would not have split off
    belongs to it.
    """
    cursor, end = one.address, one.address + one.size
    addresses = [*blocks.address[rows].tolist(), end]
    for row, address, behind in zip(rows.tolist(), addresses, addresses[1:], strict=False):
        size = int(blocks.size[row])
        if size < 0:
            size = allocator.settings.rounded(int(blocks.requested[row]))
            if not allocator.settings.is_split(size, behind - address - size, is_large=one.pool.is_large):
                size = behind - address
        chain.append_free(cursor, address - cursor)
        block = chain.append(address, min(size, behind - address))
        block.is_free = False
        allocator.active += block.size
        cursor = address + block.size
        yield row, block
    chain.append_free(cursor, end - cursor)


def _unmap_free(allocator: CachingAllocator, chains: Iterable[_Chain]) -> None:
    for chain in chains:
        for *_, block in tuple(chain.pool.free):
            if block.space is not None:
                allocator.reserved -= unmap(block, block.space)


def _at_dump(device: DeviceMemory) -> Iterable[ReservedRange]:
    segments = device.segments
    for row in range(len(segments)):
        pool = PoolKey(int(segments.stream[row]), int(segments.pool[row]), bool(segments.is_large[row]))
        address, size = int(segments.address[row]), int(segments.total_size[row])
        yield ReservedRange(address, size, pool, address if segments.is_expandable[row] else None)


def _pages(address: int, size: int) -> range:
    return range(address // _PAGE, (address + size) // _PAGE)


def _owners(history: MemoryHistory) -> dict[int, PoolKey]:
    """The pools of pages that the history maps: small ones get their memory one by one."""
    rows = np.flatnonzero(history.action == _MAP)
    columns = (history.address[rows], history.size[rows], history.stream[rows])
    return {
        page: PoolKey(stream, DEFAULT_POOL, size > SMALL_SEGMENT)
        for address, size, stream in zip(*(one.tolist() for one in columns), strict=True)
        for page in _pages(address, size)
    }


def _owner(owners: Mapping[int, PoolKey], address: int, stream: int, size: int) -> PoolKey:
    """The pool of pages, or a guess by their size where they were mapped before the history and are no more."""
    known = owners.get(address // _PAGE)
    return PoolKey(stream, DEFAULT_POOL, size % LARGE_SEGMENT == 0) if known is None else known


def _runs(pool: PoolKey, pages: Sequence[int], lowest: Mapping[PoolKey, int]) -> Iterable[ReservedRange]:
    """Pages that follow each other, as ranges."""
    base = min(pages[0], lowest.get(pool, pages[0])) * _PAGE if pages else 0
    for _, group in groupby(enumerate(pages), key=lambda pair: pair[1] - pair[0]):
        own = [page for _, page in group]
        yield ReservedRange(own[0] * _PAGE, len(own) * _PAGE, pool, base)
