"""Random programs on the model of the allocator, recorded as torch records them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from tests.simulation.allocator.snapshots import MIB, snapshot
from traceanalyzer.simulation.allocator.blocks import HeldBlock
from traceanalyzer.simulation.allocator.caching import CachingAllocator
from traceanalyzer.simulation.allocator.sizes import AllocatorSettings
from traceanalyzer.trace.memory_snapshot import DeviceMemory

ALLOC, FREE, EMPTY = "alloc", "free", "empty"


class Act(NamedTuple):
    """One call of a program."""

    what: str
    number: int
    """Bytes of an allocation; which of the blocks is freed, counted modulo their number."""
    stream: int = 0


_SIZES = st.one_of(
    st.integers(1, 4096), st.integers(4096, 2 * MIB), st.integers(2 * MIB, 12 * MIB), st.integers(12 * MIB, 60 * MIB)
)
_ACTS = st.one_of(
    st.builds(Act, st.just(ALLOC), _SIZES, st.sampled_from((0, 0, 0, 5))),
    st.builds(Act, st.just(ALLOC), _SIZES, st.sampled_from((0, 0, 0, 5))),
    st.builds(Act, st.just(FREE), st.integers(0, 40)),
    st.builds(Act, st.just(FREE), st.integers(0, 40)),
    st.builds(Act, st.just(EMPTY), st.just(0)),
)
PROGRAMS = st.lists(_ACTS, min_size=1, max_size=60).map(lambda acts: [Act(ALLOC, 1000), *acts])
SETTINGS = st.builds(
    AllocatorSettings,
    expandable_segments=st.booleans(),
    max_split_size=st.sampled_from((None, None, 24 * MIB)),
    divisions=st.sampled_from(((0,) * 16, (4,) * 16, (1, 8) * 8)),
)


class Recorder:
    """Runs a program, and writes what torch would write."""

    def __init__(self, settings: AllocatorSettings, limit: int | None = None) -> None:
        self.allocator = CachingAllocator(settings, limit)
        self.settings = settings
        self.held: list[tuple[HeldBlock, int]] = []
        """Blocks in use, and the bytes that were requested."""
        self.entries: list[dict[str, Any]] = []

    def run(self, program: Sequence[Act]) -> Recorder:
        """All calls of a program."""
        for act in program:
            before = self._reserved()
            if act.what == EMPTY:
                self.allocator.release()
                self._note_segments(before, "empty_cache")
            elif act.what == ALLOC:
                self._allocate(act, before)
            elif self.held:
                block, requested = self.held.pop(act.number % len(self.held))
                address, stream = block.address, self.streams()[id(block.pool)]
                self.allocator.free(block)
                self._note("free_requested", address, requested, stream, "train")
                self._note("free_completed", address, requested, stream, "train")
        return self

    def memory(self, lost: int = 0) -> DeviceMemory:
        """The snapshot, without the first entries of the ring."""
        requested = {id(block): size for block, size in self.held}
        streams = self.streams()
        segments = []
        for chain in self.chains():
            pool = chain[0].pool
            blocks = [
                {
                    "address": block.address,
                    "size": block.size,
                    "requested_size": requested.get(id(block), 0),
                    "state": "inactive" if block.is_free else "active_allocated",
                }
                for block in chain
            ]
            segments.append(
                {
                    "address": chain[0].address,
                    "total_size": sum(block.size for block in chain),
                    "stream": streams[id(pool)],
                    "segment_type": "large" if pool.is_large else "small",
                    "is_expandable": chain[0].space is not None,
                    "blocks": blocks,
                }
            )
        return snapshot({"segments": segments, "device_traces": [self.entries[lost:]]}).devices[0]

    def blocks(self) -> list[HeldBlock]:
        """All blocks with memory, free and used."""
        free = [one[-1] for pool in self.allocator._pools.values() for one in pool.free]
        return sorted([*free, *(block for block, _ in self.held)], key=lambda block: block.address)

    def chains(self) -> Iterator[list[HeldBlock]]:
        """Blocks that follow each other in a segment, from its start or from what is not mapped."""
        for block in self.blocks():
            if block.prev is not None and block.prev.is_mapped:
                continue
            chain: list[HeldBlock] = []
            following: HeldBlock | None = block
            while following is not None and following.is_mapped:
                chain.append(following)
                following = following.next
            yield chain

    def streams(self) -> dict[int, int]:
        """The stream of each pool."""
        return {id(pool): key[1] for key, pool in self.allocator._pools.items()}

    def _allocate(self, act: Act, before: dict[tuple[int, int, bool], int]) -> None:
        block = self.allocator.allocate(act.number, act.stream)
        if block is not None:
            self.held.append((block, act.number))
        self._note_segments(before, f"line {len(self.entries)}")
        if block is None:
            free = (self.allocator.limit or 0) - self.allocator.reserved
            self._note("oom", free, act.number, act.stream, self._last_line())
        else:
            self._note("alloc", block.address, act.number, act.stream, self._last_line())

    def _last_line(self) -> str:
        frames = self.entries[-1]["frames"] if self.entries else []
        return frames[0]["filename"] if frames else "train"

    def _reserved(self) -> dict[tuple[int, int, bool], int]:
        """Segments, and single pages of those that expand, with their streams."""
        found: dict[tuple[int, int, bool], int] = {}
        for chain in self.chains():
            start, size = chain[0].address, sum(block.size for block in chain)
            step = size if chain[0].space is None else chain[0].pool.page
            for address in range(start, start + size, step):
                found[address, step, chain[0].space is not None] = self.streams()[id(chain[0].pool)]
        return found

    def _note_segments(self, before: dict[tuple[int, int, bool], int], line: str) -> None:
        """What was given back, then what was reserved."""
        after = self._reserved()
        for address, size, expands in sorted(before.keys() - after.keys()):
            action = "segment_unmap" if expands else "segment_free"
            self._note(action, address, size, before[address, size, expands], line)
        for address, size, expands in sorted(after.keys() - before.keys()):
            action = "segment_map" if expands else "segment_alloc"
            self._note(action, address, size, after[address, size, expands], line)

    def _note(self, action: str, address: int, size: int, stream: int, line: str) -> None:
        frames = [{"filename": line, "line": 1, "name": "f"}]
        entry = {"action": action, "addr": address, "size": size, "stream": stream, "frames": frames}
        self.entries.append({**entry, "time_us": len(self.entries)})
