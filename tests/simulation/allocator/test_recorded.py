"""Replays of other people's snapshots, against an independent reader's values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.simulation.allocator.snapshots import recorded
from traceanalyzer.simulation.allocator.changes import UseExpandableSegments
from traceanalyzer.simulation.allocator.recording import RecordedMemory, recorded_memory
from traceanalyzer.simulation.allocator.replaying import replay
from traceanalyzer.simulation.allocator.sizes import settings_of
from traceanalyzer.structure.block_lifetimes import Obstacle

REPLAYED = ("cs336_forward_bf16_128", "cs336_forward_fp32_128", "cs336_nh_full", "llama32_3b")
OBSTACLES = {
    "mosaic_output": Obstacle.OUTSIDE,
    "nuggets_mini": Obstacle.STOPPED,
    "sketchkv": Obstacle.NO_HISTORY,
    "verl_mem": Obstacle.NO_HISTORY,
}

pytestmark = pytest.mark.corpus


def memory_of(corpus: Path, name: str) -> RecordedMemory | Obstacle:
    snapshot = recorded(corpus / "field" / "memory" / f"{name}.pickle")
    assert len(snapshot.devices) == 1
    return recorded_memory(snapshot.devices[0], settings_of(snapshot.settings))


@pytest.mark.parametrize("name", REPLAYED)
def test_unchanged_replays(corpus: Path, name: str) -> None:
    """Peaks are exact, and each of some thousand blocks lies at the recorded address."""
    memory = memory_of(corpus, name)
    assert isinstance(memory, RecordedMemory)
    expected = json.loads((corpus / "expected" / "memory" / f"{name}.json").read_text("utf-8"))[0]
    found = replay(memory)
    assert found.requested_peak == expected["peak_requested_bytes"]
    assert found.requested_peak_entry == expected["peak_entry"]
    assert found.reserved_peak == memory.reserved_peak
    assert found.reserved_end == expected["reserved_bytes"]
    assert (found.moved, found.retries, found.failures) == (0, 0, 0)


@pytest.mark.parametrize("name", REPLAYED)
def test_without_what_was_cached_before(corpus: Path, name: str) -> None:
    """The history alone needs what was reserved, within 1 %: the step is like those before it."""
    memory = memory_of(corpus, name)
    assert isinstance(memory, RecordedMemory)
    found = replay(memory, keeps_cached=False)
    assert found.reserved_peak == pytest.approx(memory.reserved_peak, rel=0.01)
    expanded = replay(memory, [UseExpandableSegments()], keeps_cached=False)
    assert expanded.active_peak <= expanded.reserved_peak <= 1.06 * expanded.active_peak


@pytest.mark.parametrize("name", sorted(OBSTACLES))
def test_what_cannot_be_replayed(corpus: Path, name: str) -> None:
    assert memory_of(corpus, name) is OBSTACLES[name]


def test_blocks_of_the_history(corpus: Path) -> None:
    memory = memory_of(corpus, "llama32_3b")
    assert isinstance(memory, RecordedMemory)
    expected = json.loads((corpus / "expected" / "memory" / "llama32_3b.json").read_text("utf-8"))[0]
    blocks = memory.blocks
    assert int(blocks.requested[blocks.alive_at(-1)].sum()) == expected["start_requested_bytes"]
    assert int(blocks.requested[blocks.alive_at(expected["peak_entry"])].sum()) == expected["peak_requested_bytes"]
    assert int(blocks.requested[blocks.alive_at(blocks.entries)].sum()) == 0
    assert int(blocks.requested[blocks.died == blocks.entries].sum()) == expected["active_requested_bytes"]
    assert int((blocks.born >= 0).sum()) == expected["entries"]["alloc"]
