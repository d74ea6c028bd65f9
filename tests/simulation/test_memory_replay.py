"""What is replayed of snapshots, and how it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.memory_snapshot import MIB, TRAIN, MemoryRecorder, OutOfMemoryError
from tests.rules.memory.programs import Training
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.readers import memory_snapshot
from traceanalyzer.readers.source import open_source
from traceanalyzer.simulation import memory_replay
from traceanalyzer.simulation.allocator.ideas import MemoryIdea
from traceanalyzer.simulation.memory_replay import ReplayedDevice


def replayed(memory: MemoryRecorder) -> ReplayedDevice:
    snapshot = memory.read()
    (device,) = memory_replay.analyze(snapshot, snapshots.analyze(snapshot)).devices
    return device


def test_a_training() -> None:
    """The peak is 4 MiB of weights, 8 of state, 48 of activations, and the first of four gradients."""
    device = replayed(Training().run())
    assert device.obstacle is None
    assert device.requested_peak_bytes == device.active_peak_bytes == (4 + 8 + 48 + 1) * MIB
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    assert device.moved_blocks == 0
    assert [one.idea for one in device.changes] == ["checkpoint", "halved", "state"]
    assert device.together is not None


def test_all_together_save_less_than_their_sum() -> None:
    device = replayed(Training().run())
    assert device.together is not None
    most = [one.saved.requested_most for one in device.changes]
    assert max(most) < device.together.requested_most < sum(most)


def test_a_saving_is_found_by_its_idea() -> None:
    device = replayed(Training().run())
    found = device.saving(MemoryIdea.STATE)
    assert found is not None
    assert (found.blocks, found.held_bytes) == (1, 8 * MIB)
    assert device.saving(MemoryIdea.NO_GRAPH) is None


def test_a_request_that_failed_fits_after_some_changes() -> None:
    """240 MiB of state and 4 of weights are held, and 200 are asked for of 400."""
    training = Training(state=240, limit=400)
    training.run()
    with pytest.raises(OutOfMemoryError):
        training.make(200, TRAIN)
    device = replayed(training.memory)
    assert {one.idea: one.fits for one in device.changes}["state"]
    assert not {one.idea: one.fits for one in device.changes}["checkpoint"]


def test_without_a_history() -> None:
    memory = MemoryRecorder(ring=0)
    memory.alloc(MIB)
    device = replayed(memory)
    assert device.obstacle == "no-history"
    assert device.changes == ()
    assert device.together is None


OBSTACLES = {
    "cs336_forward_bf16_128": None,
    "cs336_forward_fp32_128": None,
    "cs336_nh_full": None,
    "llama32_3b": None,
    "mosaic_output": "outside",
    "nuggets_mini": "stopped",
    "sketchkv": "no-history",
    "verl_mem": "no-history",
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_recordings(corpus: Path, name: str) -> None:
    with open_source(corpus / "field" / "memory" / f"{name}.pickle") as source:
        snapshot = memory_snapshot.read(source)
    devices = memory_replay.analyze(snapshot, snapshots.analyze(snapshot)).devices
    assert {device.obstacle for device in devices} == {OBSTACLES[name]}
    assert all(device.recorded_peak_bytes == device.replayed_peak_bytes for device in devices)


def test_a_recorded_step_keeps_gradients_and_activations(corpus: Path) -> None:
    with open_source(corpus / "field" / "memory" / "cs336_nh_full.pickle") as source:
        snapshot = memory_snapshot.read(source)
    (device,) = memory_replay.analyze(snapshot, snapshots.analyze(snapshot)).devices
    assert [one.idea for one in device.changes] == ["checkpoint", "state", "halved", "gradients-freed", "expandable"]
    assert device.changes[0].parts == 36
