"""The pictures of a peak: kinds that add up to the level, and stacks that add up to the peak."""

from __future__ import annotations

from tests.builders.memory_snapshot import MIB
from tests.rules.memory.programs import Training
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.analyzers.memory.snapshots import SnapshotDevice


def device() -> SnapshotDevice:
    (found,) = snapshots.analyze(Training().run().read()).devices
    return found


def test_kinds_add_up_to_the_level() -> None:
    found = device()
    assert found.over_time is not None
    assert found.over_time.time_ns == found.requested.time_ns
    levels = zip(*(kind.level_bytes for kind in found.over_time.kinds), strict=True)
    assert tuple(map(sum, levels)) == found.requested.level_bytes
    highest = {kind.kind: max(kind.level_bytes) // MIB for kind in found.over_time.kinds}
    assert highest["parameters"] == highest["gradients"] == 4
    assert (highest["optimizer"], highest["activations"]) == (8, 48)


def test_stacks_add_up_to_the_peak() -> None:
    found = device()
    held = found.stacks
    assert held is not None
    rows = list(zip(held.frame, held.depth, held.held_bytes, strict=True))
    assert sum(size for _, depth, size in rows if not depth) == found.peak_requested_bytes
    kinds = {held.frames[frame].name: size // MIB for frame, depth, size in rows if not depth}
    assert kinds["activations"] == 48
    names = {(held.frames[frame].name, size // MIB) for frame, _, size in rows}
    assert {("attend", 32), ("mlp", 16)} <= names
