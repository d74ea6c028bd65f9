"""A model of PyTorch's CUDA caching allocator: how much it has to reserve for a sequence of requests.

A request is served by the best fit among the free blocks of its stream and pool, or by a new segment. If the device has
no more memory, cached segments are freed and the request is tried again.

Source: `malloc`, `free_block`, `alloc_block`, `release_cached_blocks`, `release_available_cached_blocks` and
`garbage_collect_cached_blocks` in `c10/cuda/CUDACachingAllocator.cpp` of PyTorch 2.4 to 2.9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from traceanalyzer.simulation.allocator.blocks import BlockPool, HeldBlock
from traceanalyzer.simulation.allocator.expanding import expand, unmap
from traceanalyzer.simulation.allocator.sizes import MOST_SMALL, AllocatorSettings, segment_size

DEFAULT_POOL = -1
"""The pool that is no private one."""
_FIRST_ADDRESS = 1 << 62
"""Segments that are not in the recording have addresses above those of any device."""


class CachingAllocator:
    """The allocator of one device."""

    def __init__(
        self,
        settings: AllocatorSettings,
        limit: int | None = None,
        addresses: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        self.settings = settings
        self.limit = limit
        """Most bytes that can be reserved; None if requests never fail."""
        self.reserved = 0
        self.active = 0
        """Bytes of blocks in use, as rounded."""
        self.retries = 0
        """How often cached segments were freed because a request did not fit."""
        self._pools: dict[tuple[int, int, bool], BlockPool] = {}
        self._next_address = _FIRST_ADDRESS
        self._recorded = {size: iter(recorded) for size, recorded in (addresses or {}).items()}
        self._rounded: dict[int, int] = {}

    def pool(self, stream: int, private: int, *, is_large: bool) -> BlockPool:
        """The pool of a stream; `private` is the number of a private pool or `DEFAULT_POOL`."""
        key = (private, stream, is_large)
        found = self._pools.get(key)
        if found is None:
            found = self._pools[key] = BlockPool(is_large=is_large, is_private=private != DEFAULT_POOL)
        return found

    def allocate(self, requested: int, stream: int, private: int = DEFAULT_POOL) -> HeldBlock | None:
        """A block for a request; None if the device has not enough memory for it."""
        size = self._rounded.get(requested)
        if size is None:
            size = self._rounded[requested] = self.settings.rounded(requested)
        is_large = size > MOST_SMALL
        pool = self.pool(stream, private, is_large=is_large)
        block = pool.take(size, self.settings) or self._new(pool, size)
        if block is None:
            return None
        if block.size != size and self.settings.is_split(size, block.size - size, is_large=is_large):
            pool.add(block.cut(size))
        block.is_free = False
        self.active += block.size
        return block

    def free(self, block: HeldBlock) -> None:
        """A block is no longer used by the program nor by a stream."""
        self.active -= block.size
        block.is_free = True
        block.merge()
        block.pool.add(block)

    def release(self) -> None:
        """Free all segments without a used block, as `torch.cuda.empty_cache()` does; private pools keep theirs."""
        for key in sorted(self._pools):
            pool = self._pools[key]
            if pool.is_private:
                continue
            for *_, block in tuple(pool.free):
                if block.space is not None:
                    self.reserved -= unmap(block, block.space)
                elif block.is_whole:
                    self._release(block)

    def next_address(self, size: int) -> int:
        """The next recorded address of a segment of this size, then addresses above all others.

        They only decide between free blocks of one size, so two segments at one address do no harm.
        """
        for address in self._recorded.get(size, ()):
            return address
        address = self._next_address
        self._next_address += size
        return address

    def _new(self, pool: BlockPool, size: int) -> HeldBlock | None:
        """Memory from the device, after freeing what is cached if there is no other way."""
        self._collect_garbage()
        block = self._reserve(pool, size)
        if block is None and self._release_unsplit(pool, size):
            block = self._reserve(pool, size)
        if block is None:
            self.release()
            self.retries += 1
            block = self._reserve(pool, size)
        return block

    def _reserve(self, pool: BlockPool, size: int) -> HeldBlock | None:
        if self.settings.expandable_segments:
            return expand(self, pool, size)
        needed = segment_size(size)
        if self.limit is not None and self.reserved + needed > self.limit:
            return None
        self.reserved += needed
        return HeldBlock(pool, self.next_address(needed), needed)

    def _release(self, block: HeldBlock) -> None:
        block.pool.remove(block)
        self.reserved -= block.size

    def _release_unsplit(self, pool: BlockPool, size: int) -> bool:
        """Free segments that `max_split_size` keeps whole: one that is large enough, or the largest ones together."""
        limit = self.settings.max_split_size
        if limit is None:
            return False
        needed = max(size, limit)
        whole = [block for *_, block in pool.free if block.is_whole and block.space is None and block.size >= limit]
        enough = [block for block in whole if block.size >= needed]
        if enough:
            self._release(enough[0])
            return True
        released = 0
        while whole and released < needed:
            block = whole.pop()
            released += block.size
            self._release(block)
        return released >= needed

    def _collect_garbage(self) -> None:
        """Free large segments that were not used for longer than the average, until the threshold is kept."""
        threshold = self.settings.garbage_collection_threshold
        if not threshold or self.limit is None:
            return
        target = self.reserved - int(threshold * self.limit)
        while target > 0:
            ages = [
                (pool.requests - block.since, block)
                for (_, _, is_large), pool in sorted(self._pools.items(), key=lambda item: item[0])
                if is_large and not pool.is_private
                for *_, block in pool.free
                if block.is_whole and block.space is None
            ]
            total = sum(age for age, _ in ages)
            for age, block in ages:
                if age * len(ages) >= total:
                    target -= block.size
                    self._release(block)
            if not ages:
                return
