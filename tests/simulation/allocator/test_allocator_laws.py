"""Laws of the allocator and its replays for arbitrary programs."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.simulation.allocator.recorder import PROGRAMS, SETTINGS, Act, Recorder
from tests.simulation.allocator.snapshots import MIB, snapshot
from traceanalyzer.simulation.allocator.changes import DropBlocks, FreeBlocks, ResizeBlocks, UseExpandableSegments
from traceanalyzer.simulation.allocator.recording import RecordedMemory, recorded_memory
from traceanalyzer.simulation.allocator.replaying import replay, requested_peak
from traceanalyzer.simulation.allocator.sizes import LEAST_BLOCK, AllocatorSettings
from traceanalyzer.structure.block_lifetimes import Obstacle
from traceanalyzer.trace.memory_snapshot import ACTIONS, STATES

FIXED = SETTINGS.filter(lambda settings: not settings.expandable_segments)
LIMITS = st.sampled_from((None, 40 * MIB, 100 * MIB, 200 * MIB))


def check(recorder: Recorder) -> None:
    """What holds of an allocator at any time."""
    allocator = recorder.allocator
    blocks = recorder.blocks()
    assert all(one.address + one.size <= other.address for one, other in pairwise(blocks))
    assert sum(block.size for block in blocks) == allocator.reserved
    assert sum(block.size for block, _ in recorder.held) == allocator.active <= allocator.reserved
    assert all(block.size >= requested for block, requested in recorder.held)
    assert not any(block.is_free for block, _ in recorder.held)
    assert all(block.size % LEAST_BLOCK == 0 for block in blocks)
    for chain in recorder.chains():
        assert not any(one.is_free and other.is_free for one, other in pairwise(chain))
        assert all(one.next is other and other.prev is one for one, other in pairwise(chain))


@given(PROGRAMS, SETTINGS, LIMITS)
def test_blocks_do_not_overlap(program: list[Act], settings: AllocatorSettings, limit: int | None) -> None:
    recorder = Recorder(settings, limit)
    for act in program:
        recorder.run([act])
        check(recorder)
        assert limit is None or recorder.allocator.reserved <= limit


@given(PROGRAMS, SETTINGS)
def test_what_is_freed_can_be_given_back(program: list[Act], settings: AllocatorSettings) -> None:
    recorder = Recorder(settings).run(program)
    recorder.run([Act("free", 0)] * len(recorder.held))
    check(recorder)
    assert recorder.allocator.active == 0
    recorder.allocator.release()
    assert recorder.allocator.reserved == 0
    assert recorder.blocks() == []


def replayable(recorder: Recorder, lost: int = 0) -> RecordedMemory:
    """The recording of a program that allocates."""
    found = recorded_memory(recorder.memory(lost), recorder.settings)
    assume(found is not Obstacle.NO_HISTORY)
    assert isinstance(found, RecordedMemory), found
    return found


def modulo(lost: int, recorder: Recorder) -> int:
    """Entries that the ring has lost: not all of them."""
    return lost % max(len(recorder.entries), 1)


def highest(recorder: Recorder, lost: int) -> int:
    """Peak of requested bytes from an entry on, by adding up."""
    change = {"alloc": 1, "free_completed": -1}
    steps = [change.get(one["action"], 0) * one["size"] for one in recorder.entries]
    return max(sum(steps[:end]) for end in range(lost, len(steps) + 1))


@given(PROGRAMS, SETTINGS)
def test_an_unchanged_replay_is_exact(program: list[Act], settings: AllocatorSettings) -> None:
    recorder = Recorder(settings).run(program)
    memory = replayable(recorder)
    found = replay(memory)
    assert (found.reserved_peak, found.reserved_end) == (memory.reserved_peak, recorder.allocator.reserved)
    assert (found.moved, found.retries, found.failures) == (0, 0, 0)
    assert found.requested_peak == highest(recorder, 0) == requested_peak(memory)


@given(PROGRAMS, FIXED, LIMITS)
def test_an_unchanged_replay_fails_where_the_program_did(
    program: list[Act], settings: AllocatorSettings, limit: int | None
) -> None:
    recorder = Recorder(settings, limit).run(program)
    memory = replayable(recorder)
    found = replay(memory)
    assert (found.reserved_peak, found.moved) == (memory.reserved_peak, 0)
    assert found.failures == sum(one["action"] == "oom" for one in recorder.entries)


@given(PROGRAMS, SETTINGS, st.integers(0, 150))
def test_a_ring_that_lost_its_beginning(program: list[Act], settings: AllocatorSettings, lost: int) -> None:
    recorder = Recorder(settings).run(program)
    lost = modulo(lost, recorder)
    memory = replayable(recorder, lost)
    found = replay(memory)
    assert found.moved == 0
    assert (found.reserved_peak, found.reserved_end) == (memory.reserved_peak, recorder.allocator.reserved)
    assert found.requested_peak == highest(recorder, lost)
    without = replay(memory, keeps_cached=False)
    assert without.requested_peak == found.requested_peak
    assert without.reserved_peak >= without.active_peak


def some(memory: RecordedMemory, chosen: list[int]) -> np.ndarray:
    """Some blocks of a recording."""
    return np.unique(np.array(chosen, np.int64) % len(memory.blocks))


CHOSEN = st.lists(st.integers(0, 60), min_size=1)


@given(PROGRAMS, SETTINGS, st.integers(0, 60), CHOSEN, st.integers(0, 100))
def test_less_memory_never_needs_more(
    program: list[Act], settings: AllocatorSettings, lost: int, chosen: list[int], entry: int
) -> None:
    recorder = Recorder(settings).run(program)
    memory = replayable(recorder, modulo(lost, recorder))
    rows = some(memory, chosen)
    before = replay(memory)
    changes = (DropBlocks(rows), ResizeBlocks(rows, 0.5), FreeBlocks(rows, np.full(len(rows), entry)))
    for change in changes:
        after = replay(memory, [change])
        assert after.requested_peak <= before.requested_peak
        assert after.active_peak <= after.reserved_peak
        assert after.requested_peak <= after.active_peak
    together = replay(memory, changes)
    assert together == replay(memory, changes[::-1])
    assert together == replay(memory, [DropBlocks(rows)])


@given(PROGRAMS, FIXED)
def test_what_changes_nothing(program: list[Act], settings: AllocatorSettings) -> None:
    memory = replayable(Recorder(settings).run(program))
    rows = np.arange(len(memory.blocks))
    nothing = (
        DropBlocks(rows[:0]),
        ResizeBlocks(rows, 1.0),
        FreeBlocks(rows, np.full(len(rows), memory.blocks.entries)),
    )
    assert replay(memory, nothing) == replay(memory)


@given(PROGRAMS, st.integers(0, 60))
def test_expandable_segments_hold_whole_pages_beyond_what_is_used(program: list[Act], lost: int) -> None:
    recorder = Recorder(AllocatorSettings()).run(program)
    memory = replayable(recorder, modulo(lost, recorder))
    found = replay(memory, [UseExpandableSegments()], keeps_cached=False)
    assert found.requested_peak == replay(memory).requested_peak
    assert found.active_peak <= found.reserved_peak
    later = replay(memory, [UseExpandableSegments(from_start=False)])
    assert later.active_peak <= later.reserved_peak


def test_pages_of_two_streams() -> None:
    """No page belongs to both."""
    whole = {"address": 2**40, "total_size": 20 * MIB, "segment_type": "large", "is_expandable": True}
    used = {"address": 2**40, "size": 2 * MIB, "requested_size": 2 * MIB, "state": "active_allocated"}
    segments = [{**whole, "stream": 0, "blocks": [used]}, {**whole, "stream": 5, "blocks": []}]
    entries = [{"action": "alloc", "addr": 2**40, "size": 2 * MIB, "stream": 0}]
    found = recorded_memory(
        snapshot({"segments": segments, "device_traces": [entries]}).devices[0], AllocatorSettings()
    )
    assert isinstance(found, RecordedMemory)
    assert replay(found).requested_peak == 2 * MIB


_ADDRESSES = st.integers(0, 12).map(lambda number: 2**40 + number * MIB)
_BYTES = st.sampled_from((0, 1, 512, MIB, 2 * MIB, 3 * MIB, 20 * MIB, 2**40, 2**62, -1))
_ANY_ENTRY = st.fixed_dictionaries(
    {
        "action": st.sampled_from(ACTIONS),
        "addr": st.one_of(_ADDRESSES, _ADDRESSES, st.integers(0, 2**64 - 1)),
        "size": _BYTES,
        "stream": st.integers(0, 1),
    }
)
_ANY_BLOCK = st.fixed_dictionaries({"size": _BYTES, "requested_size": _BYTES, "state": st.sampled_from(STATES)})
_ANY_SEGMENT = st.fixed_dictionaries(
    {
        "address": _ADDRESSES,
        "total_size": _BYTES,
        "stream": st.integers(0, 1),
        "segment_type": st.sampled_from(("small", "large")),
        "is_expandable": st.booleans(),
        "blocks": st.lists(_ANY_BLOCK, max_size=4),
    }
)


@given(st.lists(_ANY_ENTRY, max_size=12), st.lists(_ANY_SEGMENT, max_size=3), SETTINGS)
def test_damaged_snapshots(
    entries: list[dict[str, Any]], segments: list[dict[str, Any]], settings: AllocatorSettings
) -> None:
    """A reason or a replay, whatever a file says."""
    for one in segments:
        at = one["address"]
        for block in one["blocks"]:
            block["address"] = at % 2**64
            at += block["size"]
    found = recorded_memory(snapshot({"segments": segments, "device_traces": [entries]}).devices[0], settings)
    assert isinstance(found, Obstacle) or min(peaks_of(found)) >= 0


def peaks_of(memory: RecordedMemory) -> list[int]:
    """Peaks of requested bytes, unchanged and with changes of all blocks."""
    changes = [ResizeBlocks(np.arange(len(memory.blocks)), 0.5), UseExpandableSegments()]
    return [replay(memory).requested_peak, replay(memory, changes, keeps_cached=False).requested_peak]


@pytest.mark.parametrize("settings", [AllocatorSettings(), AllocatorSettings(expandable_segments=True)])
def test_a_program_without_memory(settings: AllocatorSettings) -> None:
    assert recorded_memory(Recorder(settings).memory(), settings) is Obstacle.NO_HISTORY
    found = recorded_memory(Recorder(settings).run([Act("alloc", 1)]).memory(), settings)
    assert isinstance(found, RecordedMemory)
    assert replay(found).reserved_peak == 2 * MIB
