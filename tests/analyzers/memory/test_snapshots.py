"""What a memory snapshot shows, by programs whose figures are worked out by hand, and by recordings of others."""

from __future__ import annotations

import contextlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from tests.analyzers.memory.report_with import report_with
from tests.builders.memory_snapshot import (
    BACKWARD,
    FORWARD,
    MIB,
    OPTIMIZER,
    SAVED,
    TRAIN,
    MemoryRecorder,
    OutOfMemoryError,
)
from traceanalyzer.analyzers.memory import snapshots
from traceanalyzer.analyzers.memory.snapshots import SnapshotDevice
from traceanalyzer.readers import memory_snapshot
from traceanalyzer.readers.source import open_source
from traceanalyzer.rules.engine.headlines import held_memory
from traceanalyzer.sections import memory_snapshot as sections

RECORDINGS = (
    "cs336_forward_bf16_128", "cs336_forward_fp32_128", "cs336_nh_full", "llama32_3b", "mosaic_output", "nuggets_mini",
    "sketchkv", "verl_mem",
)  # fmt: skip


def of(memory: MemoryRecorder) -> SnapshotDevice:
    (device,) = snapshots.analyze(memory.read()).devices
    return device


def training(steps: int = 3, ring: int | None = None) -> MemoryRecorder:
    """A model of 40 MiB, made by a line of the program, in steps of four activations of 8 MiB."""
    memory = MemoryRecorder(ring=ring)
    memory.alloc(40 * MIB)
    state = None
    for _ in range(steps):
        activations = [memory.alloc(8 * MIB, FORWARD) for _ in range(4)]
        gradient = memory.alloc(40 * MIB, BACKWARD)
        for block in activations:
            memory.free(block, SAVED)
        with memory.part("Optimizer.step#AdamW.step"):
            state = state or memory.alloc(80 * MIB, OPTIMIZER)
            scratch = memory.alloc(MIB, OPTIMIZER)
            memory.free(scratch)
        memory.free(gradient)
    return memory


def test_the_peak_and_who_holds_it() -> None:
    device = of(training())
    assert device.peak_requested_bytes == (40 + 80 + 32 + 40) * MIB
    assert device.active_requested_bytes == 120 * MIB
    assert device.peak_older_bytes == 0
    assert device.start_requested_bytes == 0
    kinds = {row.kind: row.held_bytes // MIB for row in device.kinds}
    assert kinds == {"optimizer": 80, "gradients": 40, "parameters": 40, "activations": 32}
    lines = {row.line: row.held_bytes // MIB for row in device.lines}
    assert lines["/home/me/model.py(30): forward"] == 32
    assert lines["/home/me/train.py(20): step"] == 80
    assert lines[None] == 40
    assert [(row.size_bytes // MIB, row.blocks) for row in device.sizes] == [(80, 1), (40, 2), (8, 4)]


def test_a_ring_that_lost_its_beginning_is_counted_from_its_end() -> None:
    whole, ring = of(training()), of(training(ring=25))
    assert ring.peak_requested_bytes == whole.peak_requested_bytes
    assert ring.peak_older_bytes == 120 * MIB
    assert ring.start_requested_bytes > 0
    older = {row.line: row.older_bytes // MIB for row in ring.lines}
    assert older["/home/me/train.py(20): step"] == 80


def test_recording_that_stopped_before_the_dump() -> None:
    memory = MemoryRecorder()
    block = memory.alloc(5 * MIB)
    memory.is_recording = False
    memory.free(block)
    device = of(memory)
    assert device.stopped_before_dump
    assert device.peak_requested_bytes == 5 * MIB
    assert device.active_bytes == 0
    assert device.reserved is None


def test_without_a_history_the_dump_is_all_there_is() -> None:
    device = of(training(ring=0))
    assert device.peak_entry is None
    assert device.peak_requested_bytes == 120 * MIB
    assert device.largest_request_bytes is None
    assert device.requested.level_bytes == ()


def test_requested_and_rounded_bytes() -> None:
    memory = MemoryRecorder()
    memory.alloc(700)
    device = of(memory)
    assert (device.active_requested_bytes, device.active_bytes, device.reserved_bytes) == (700, 1024, 2 * MIB)
    assert device.inactive_bytes == 2 * MIB - 1024


def test_what_is_inactive() -> None:
    memory = MemoryRecorder()
    alone = memory.alloc(30 * MIB)
    first, _ = memory.alloc(6 * MIB), memory.alloc(6 * MIB)
    memory.free(alone)
    memory.free(first)
    device = of(memory)
    assert device.free_segments_bytes == 30 * MIB
    assert device.unusable_bytes == 14 * MIB  # 6 and 8 MiB beside the block that is in use; 30 MiB were asked for
    assert device.largest_inactive_bytes == 30 * MIB


def test_private_pools() -> None:
    memory = MemoryRecorder()
    memory.alloc(MIB)
    with memory.private_pool(7):
        memory.alloc(3 * MIB)
    (pool,) = of(memory).pools
    assert (pool.segments, pool.reserved_bytes, pool.active_bytes) == (1, 20 * MIB, 3 * MIB)


def test_annotated_parts() -> None:
    (part,) = of(training()).parts
    assert (part.name, part.times) == ("Optimizer.step#AdamW.step", 3)
    assert part.peak_bytes == (40 + 40 + 80 + 1) * MIB
    assert part.growth_bytes == 80 * MIB


def test_growth_from_update_to_update() -> None:
    memory = MemoryRecorder()
    kept = []
    for _ in range(5):
        with memory.part("Optimizer.step#SGD.step"):
            memory.free(memory.alloc(8 * MIB, OPTIMIZER))
        kept.append(memory.alloc(3 * MIB))
    device = of(memory)
    assert (device.steps, device.growth_bytes_per_step) == (5, 3 * MIB)
    assert of(training()).growth_bytes_per_step is None
    assert of(training(6)).growth_bytes_per_step == 0


def test_out_of_memory() -> None:
    memory = MemoryRecorder(limit=100 * MIB)
    memory.alloc(60 * MIB)
    with pytest.raises(OutOfMemoryError):
        memory.alloc(50 * MIB, FORWARD)
    failed = of(memory).failure
    assert failed is not None
    assert failed.asked_bytes == 50 * MIB
    assert failed.line == "/home/me/model.py(30): forward"
    assert failed.device_free_bytes == 40 * MIB
    assert (failed.reserved_bytes, failed.inactive_bytes, failed.largest_inactive_bytes) == (60 * MIB, 0, 0)
    assert not failed.is_fragmentation


def test_a_failure_after_which_the_program_went_on() -> None:
    memory = MemoryRecorder(limit=100 * MIB)
    memory.alloc(60 * MIB)
    with contextlib.suppress(OutOfMemoryError):
        memory.alloc(50 * MIB)
    memory.alloc(30 * MIB)
    failed = of(memory).failure
    assert failed is not None
    assert (failed.reserved_bytes, failed.level_bytes, failed.largest_inactive_bytes) == (60 * MIB, 60 * MIB, None)


def test_segments_given_back_for_others() -> None:
    memory = MemoryRecorder(limit=100 * MIB)
    memory.free(memory.alloc(60 * MIB))
    memory.alloc(70 * MIB)
    assert of(memory).retries == 1


def test_lines_of_torch_are_not_the_program() -> None:
    memory = MemoryRecorder()
    inner = ("/usr/lib/python3/site-packages/torch/nn/functional.py", 5, "linear")
    native = ("??", 0, "torch::unwind::unwind()")
    memory.alloc(MIB, (native, ("CUDACachingAllocator.cpp", 3, "malloc"), inner, *TRAIN))
    assert of(memory).lines[0].line == "/home/me/train.py(12): step"


def _named(line: str | None) -> str:
    found = re.fullmatch(r"(.*)\((\d+)\): (.*)", line or "")
    return f"{found[1]}:{found[2]}:{found[3]}" if found else "unknown"


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_figure_of_the_references(name: str, corpus: Path) -> None:
    references: list[dict[str, Any]] = json.loads((corpus / "expected" / "memory" / f"{name}.json").read_text("utf-8"))
    with open_source(corpus / "field" / "memory" / f"{name}.pickle") as source:
        devices = snapshots.analyze(memory_snapshot.read(source)).devices
    assert references
    for device, reference in zip(devices, references, strict=True):
        at = None if device.peak_ns is None or device.start_ns is None else (device.start_ns + device.peak_ns) // 1000
        same = (
            "device", "segments", "reserved_bytes", "active_bytes", "active_requested_bytes", "inactive_bytes",
            "stopped_before_dump", "start_requested_bytes", "peak_requested_bytes", "entries",
        )  # fmt: skip
        found = {key: getattr(device, key) for key in same} | {
            "peak_entry": -1 if device.peak_entry is None else device.peak_entry,
            "peak_time_us": at,
            "peak_from_before_history_bytes": device.peak_older_bytes,
        }
        assert found == {key: reference[key] for key in found}
        lines = {_named(row.line): row.held_bytes - row.older_bytes for row in device.lines}
        named = dict(reference["peak_by_line"])
        assert {line: lines[line] for line in named} == named


def test_which_line_grows() -> None:
    """A log of 3 MiB a step; the state of the optimizer is made once, and scratch is freed."""
    log = (("/home/me/train.py", 33, "log"), *TRAIN)
    memory = MemoryRecorder()
    memory.alloc(40 * MIB)
    for _ in range(6):
        memory.free(memory.alloc(8 * MIB, FORWARD))
        with memory.part("Optimizer.step#SGD.step"):
            memory.free(memory.alloc(8 * MIB, OPTIMIZER))
        memory.alloc(3 * MIB, log)
    (line,) = of(memory).growing
    assert (line.line, line.growth_bytes_per_step, line.held_bytes) == ("/home/me/train.py(33): log", 3 * MIB, 15 * MIB)
    assert of(training(6)).growing == ()


def test_growth_of_a_ring_that_lost_its_beginning() -> None:
    memory = training(6, ring=60)
    assert of(memory).growing == ()


def test_what_holds_the_peak_adds_up_with_what_is_from_before_the_history() -> None:
    memory = MemoryRecorder(ring=4)
    memory.alloc(60 * MIB, ())
    memory.alloc(20 * MIB, TRAIN)
    memory.alloc(20 * MIB, FORWARD)
    report = report_with("memory_snapshot", snapshots.analyze(memory.read()))
    (section,) = (one for one in sections.build(report, 10) if one.id == "memory-lines")
    rows = section.tables[0].rows
    assert [str(row[0]) for row in rows] == [
        "from before the history",
        "me/model.py:30 forward",
        "me/train.py:12 step",
    ]
    assert math.fsum(row[-1] for row in rows) == pytest.approx(1)


def test_a_line_that_holds_less_than_what_nothing_is_known_of_is_no_headline() -> None:
    memory = MemoryRecorder(ring=2)
    memory.alloc(60 * MIB, ())
    memory.alloc(40 * MIB, TRAIN)
    said = held_memory.of_snapshot(snapshots.analyze(memory.read()))
    assert str(said) == "100 MiB are held at the peak, 60 MiB of it from before the history."
