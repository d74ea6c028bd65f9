"""The pictures of a peak: kinds that add up to the level, and stacks that add up to the peak."""

from __future__ import annotations

from itertools import pairwise

from tests.builders.memory_snapshot import MIB, MemoryRecorder
from tests.rules.memory.programs import Training
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.analyzers.memory.peak_picture import MemorySpan
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


def test_spans_say_which_part_of_the_program_ran_when() -> None:
    found = device()
    names = [span.name for span in found.running]
    assert names[:4] == ["setup", "forward", "backward", "optimizer"]
    assert names[1:] == ["forward", "backward", "optimizer"] * 3
    assert all(one.end_ns == two.start_ns for one, two in pairwise(found.running))
    assert found.running[-1].end_ns == found.span_ns


def test_annotated_parts_have_times_within_the_history() -> None:
    """A part that began before the history is cut, one that had not ended lasts to its end, an earlier one is none."""
    memory = MemoryRecorder()
    with memory.part("over"):
        memory.now_us += 5
    memory.marks.append({"stage": "START", "name": "load", "device": 0, "time_us": memory.now_us})
    memory.now_us += 100
    block = memory.alloc(MIB)
    memory.marks.append({"stage": "END", "name": "load", "device": 0, "time_us": memory.now_us + 5})
    memory.marks.append({"stage": "START", "name": "step", "device": 0, "time_us": memory.now_us + 6})
    memory.marks.append({"stage": "START", "name": "other device", "device": 1, "time_us": memory.now_us + 6})
    memory.free(block)
    (found,) = snapshots.analyze(memory.read()).devices
    assert found.annotated == (MemorySpan("load", 0, 15_000), MemorySpan("step", 16_000, 30_000))
    assert found.span_ns == 30_000
