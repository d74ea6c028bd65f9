"""What grew from one snapshot to another."""

from __future__ import annotations

from tests.builders.memory_snapshot import FORWARD, MIB, TRAIN, MemoryRecorder
from traceanalyzer.analyzers.memory import snapshot_changes, snapshots
from traceanalyzer.analyzers.memory.snapshot_changes import ChangedSetting, MemorySnapshotChange
from traceanalyzer.analyzers.memory.snapshots import MemorySnapshotUse

LOG = (("/home/me/train.py", 33, "log"), *TRAIN)


def program(*, logged: int = 0, ring: int | None = None, device: int = 0) -> MemorySnapshotUse:
    """Weights of 30 MiB, an activation of 12, and what is logged, in MiB."""
    memory = MemoryRecorder(ring=ring, device=device)
    memory.alloc(30 * MIB)
    memory.alloc(12 * MIB, FORWARD)
    if logged:
        memory.alloc(logged * MIB, LOG)
    return snapshots.analyze(memory.read())


def lines(found: MemorySnapshotChange) -> dict[str | None, tuple[int | None, int | None]]:
    (device,) = found.devices
    return {row.name: (row.base_bytes, row.head_bytes) for row in device.lines}


def test_the_line_that_grew() -> None:
    found = snapshot_changes.compare(program(), program(logged=20))
    assert lines(found) == {"/home/me/train.py(33): log": (0, 20 * MIB)}
    figures = {row.figure: row.change_bytes // MIB for row in found.devices[0].figures}
    assert figures == {"peak": 20, "reserved": 20, "active": 20, "inactive": 0}
    kinds = {row.name: row.change_bytes for row in found.devices[0].kinds}
    assert kinds == {"unknown": 20 * MIB, "activations": 0}
    assert found.common_lines == 2


def test_the_other_way_round() -> None:
    found = snapshot_changes.compare(program(logged=20), program(logged=5))
    assert lines(found) == {"/home/me/train.py(33): log": (20 * MIB, 5 * MIB)}
    assert found.devices[0].lines[0].change_bytes == -15 * MIB


def test_the_same_program_has_not_changed() -> None:
    found = snapshot_changes.compare(program(), program())
    assert lines(found) == {}
    assert (found.settings, found.without_history, found.base_only) == ((), (), ())


def test_what_makes_two_hard_to_compare() -> None:
    found = snapshot_changes.compare(program(), program(ring=0, device=1))
    assert (found.devices, found.base_only, found.head_only) == ((), (0,), (1,))
    assert found.without_history == ("head",)


def test_settings_that_differ() -> None:
    expandable = MemorySnapshotUse(program().devices, {"expandable_segments": "True"}, None, None)
    found = snapshot_changes.compare(program(), expandable)
    assert found.settings == (ChangedSetting("expandable_segments", None, "True"),)
