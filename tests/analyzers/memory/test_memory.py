"""Memory of devices: peaks, operators, steps, and blocks at the peak."""

from __future__ import annotations

import pytest

from tests.analyzers.memory.report_with import report_with
from tests.builders import OLD, ROCM, XPU, Dialect, TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import memory
from traceanalyzer.analyzers.memory import DeviceMemoryUse, MemoryUse
from traceanalyzer.analyzers.memory.holders import Holder, MemoryBlock, OperatorMemory
from traceanalyzer.analyzers.memory.levels import StepMemory
from traceanalyzer.pipeline import StepChoice
from traceanalyzer.sections import memory as section
from traceanalyzer.structure.context import Context


def analyzed(trace: TraceBuilder) -> MemoryUse:
    return memory.analyze(Context(read_built(trace)))


def only(trace: TraceBuilder) -> DeviceMemoryUse:
    (device,) = analyzed(trace).devices
    return device


class Pool:
    """Writes records with true totals."""

    def __init__(self, trace: TraceBuilder, held: int = 0, device: int | None = 0, reserved: int = 4096) -> None:
        self.trace, self.total, self.device, self.reserved = trace, held, device, reserved

    def change(self, nbytes: int, at: int, addr: int, tid: int | None = None) -> None:
        self.total += nbytes
        self.trace.memory(
            nbytes, at, addr=addr, allocated=self.total, reserved=self.reserved, device=self.device, tid=tid
        )


def test_peaks_are_the_highest_totals() -> None:
    trace = TraceBuilder()
    pool = Pool(trace, held=1000)
    pool.change(500, 1, 0xA)
    pool.change(300, 2, 0xB)
    pool.reserved = 8192
    pool.change(-500, 3, 0xA)
    found = only(trace)
    assert found.device == "GPU0"
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes) == (1800, 8192)
    assert not found.is_relative
    assert (found.allocations, found.allocated_bytes, found.frees, found.freed_bytes) == (2, 800, 1, 500)
    assert (found.allocated.time_ns, found.allocated.level_bytes) == ((0, 1000, 2000), (1500, 1800, 1300))
    assert found.reserved is not None
    assert (found.reserved.time_ns, found.reserved.level_bytes) == ((0, 2000), (4096, 8192))
    assert found.capacity_bytes == trace.devices[0].entry(0)["totalGlobalMem"]


@pytest.mark.parametrize(("dialect", "kind"), [(ROCM, None), (XPU, None), (ROCM, 20)])
def test_every_accelerator_is_a_gpu(dialect: Dialect, kind: int | None) -> None:
    trace = TraceBuilder(dialect)
    trace.memory(64, 1, addr=1, allocated=64, reserved=128, device=3, device_type=kind)
    assert [device.device for device in analyzed(trace).devices] == ["GPU3"]
    assert only(trace).peak_allocated_bytes == 64


def test_devices_come_by_number_and_the_cpu_last() -> None:
    trace = TraceBuilder()
    for device in (10, None, 2):
        trace.memory(64, 1, addr=1, allocated=64, reserved=128, device=device)
    trace.memory(64, 2, addr=2, allocated=64, device=-1, device_type=1)
    found = analyzed(trace)
    assert [device.device for device in found.devices] == ["GPU2", "GPU10", "CPU"]
    assert found.records_without_device == 1


def test_the_cpu_has_no_reserved_memory() -> None:
    """Torch 2.13 reports shared memory on the CPU with a total of 0 and its own size as reserved."""
    trace = TraceBuilder()
    pool = Pool(trace, device=None, reserved=0)
    pool.change(500, 1, 0xA)
    trace.memory(24576, 2, addr=0xF, allocated=0, reserved=24576)
    trace.memory(-24576, 3, addr=0xE, allocated=0, reserved=0)
    pool.change(100, 4, 0xB)
    found = only(trace)
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes, found.reserved) == (600, None, None)
    assert found.foreign_records == 2
    assert found.allocated.level_bytes == (500, 600)
    assert found.at_peak is not None
    assert found.at_peak.known_bytes == 600
    assert found.allocations == 3


def test_without_totals_the_curve_is_relative_and_has_no_peak() -> None:
    trace = TraceBuilder(OLD)
    for at, nbytes in ((1, 500), (2, 300), (3, -800), (4, -200)):
        trace.memory(nbytes, at, device=0)
    found = only(trace)
    assert found.is_relative
    assert (found.peak_allocated_bytes, found.peak_reserved_bytes) == (None, None)
    assert found.allocated.level_bytes == (500, 800, 0, -200)
    assert found.at_peak is None


def test_six_figures_by_operator() -> None:
    trace = TraceBuilder()
    pool = Pool(trace)
    trace.op("outer", 0, 50)
    trace.op("inner", 10, 20)
    trace.op("inner", 35, 5)
    trace.op("idle", 45, 2)
    trace.op("outer", 60, 10)
    pool.change(100, 5, 1)
    pool.change(40, 12, 2)
    pool.change(-100, 15, 1)
    pool.change(7, 36, 3)
    pool.change(1000, 55, 4)  # in no operator
    found = analyzed(trace)
    assert found.operators == (
        OperatorMemory("GPU0", "outer", 2, 47, 100, 3, 1, 147, 100),
        OperatorMemory("GPU0", "inner", 2, -53, -53, 2, 2, 47, 47),
    )
    assert (found.devices[0].unattributed_allocations, found.devices[0].unattributed_bytes) == (1, 1000)


def test_an_operator_that_calls_itself_is_one() -> None:
    trace = TraceBuilder()
    trace.op("aten::x", 0, 50)
    trace.op("aten::x", 5, 40)
    Pool(trace).change(100, 10, 1)
    assert analyzed(trace).operators == (OperatorMemory("GPU0", "aten::x", 1, 100, 100, 1, 1, 100, 100),)


def test_records_belong_to_their_thread() -> None:
    trace = TraceBuilder()
    trace.op("main", 0, 50)
    trace.op("worker", 0, 50, tid=77)
    Pool(trace).change(100, 10, 1, tid=77)
    assert [row.name for row in analyzed(trace).operators] == ["worker"]


def held() -> TraceBuilder:
    """700 bytes at the peak, of which 100 are older than the trace and released in it, 200 older and kept."""
    trace = TraceBuilder(options=("with_stack",))
    pool = Pool(trace, held=300)
    trace.python_function("train.py(3): run", 0, 100)
    trace.python_function("torch/nn/functional.py(9): linear", 5, 50)
    trace.op("aten::linear", 10, 30)
    trace.op("aten::empty", 12, 5)
    pool.change(250, 14, 0xA)
    pool.change(150, 20, 0xB)
    pool.change(-150, 60, 0xB)
    pool.change(-100, 61, 0xC)
    trace.op("aten::mm", 70, 10)
    pool.change(30, 75, 0xB)
    return trace


def test_what_is_held_at_the_peak() -> None:
    found = only(held())
    contents = found.at_peak
    assert contents is not None
    assert found.peak_allocated_bytes == 700
    assert (contents.time_ns, contents.known_bytes, contents.older_bytes) == (20_000, 500, 200)
    assert contents.largest == (
        MemoryBlock(250, 14_000, None, "aten::linear", "train.py(3): run"),
        MemoryBlock(150, 20_000, 60_000, "aten::linear", "train.py(3): run"),
        MemoryBlock(100, None, 61_000, None, None),
    )
    assert contents.holders == (Holder("aten::linear", "train.py(3): run", 2, 400), Holder(None, None, 1, 100))


def test_an_empty_of_its_own_and_lines_of_torch_are_better_than_nothing() -> None:
    trace = TraceBuilder()
    trace.python_function("torch/nn/functional.py(9): linear", 0, 50)
    trace.op("aten::empty", 10, 10)
    Pool(trace).change(64, 15, 1)
    contents = only(trace).at_peak
    assert contents is not None
    assert contents.holders == (Holder("aten::empty", "torch/nn/functional.py(9): linear", 1, 64),)


def test_an_address_taken_twice_ends_the_first_block() -> None:
    trace = TraceBuilder()
    pool = Pool(trace)
    pool.change(100, 1, 0xA)
    pool.change(500, 2, 0xA)
    contents = only(trace).at_peak
    assert contents is not None
    assert [block.size_bytes for block in contents.largest] == [500]


def growing() -> TraceBuilder:
    """Three steps of 100 us that take 100, 300 and 200 bytes and give 60, 100 and 0 of them back."""
    trace = TraceBuilder()
    pool = Pool(trace, held=1000)
    for number, (taken, given) in enumerate(((100, 60), (300, 100), (200, 0))):
        begin = number * 100
        trace.step(number, begin, 100)
        trace.op("aten::mm", begin + 5, 90)
        trace.launch_kernel("k", begin + 60, 70, at=begin + 50)  # runs on into the next step
        pool.change(taken, begin + 10, number + 1)
        if given:
            pool.change(-given, begin + 20, number + 10)
    return trace


def test_churn_and_growth_by_step_of_the_host() -> None:
    found = analyzed(growing())
    (device,) = found.devices
    assert found.steps_from == "ProfilerStep"
    assert device.steps == (
        StepMemory("0", 1, 100, 1, 60, 1100, 1040),
        StepMemory("1", 1, 300, 1, 100, 1340, 1240),
        StepMemory("2", 1, 200, 0, 0, 1440, 1440),
    )
    assert device.growth_bytes_per_step == 200.0


def test_steps_that_optimizers_suggest() -> None:
    trace = TraceBuilder()
    pool = Pool(trace)
    trace.op("aten::mm", 0, 250)
    for start in (0, 100, 200):
        trace.annotation("Optimizer.step#SGD.step", start, 20)
        pool.change(64, start + 10, start + 1)
    found = analyzed(trace)
    assert found.steps_from == "Optimizer.step"
    assert [step.end_bytes for step in found.devices[0].steps] == [64, 128, 192]


def test_one_step_has_no_growth() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    Pool(trace).change(100, 10, 1)
    found = only(trace)
    assert found.steps == (StepMemory("0", 1, 100, 0, 0, 100, 100),)
    assert found.growth_bytes_per_step is None


def test_chosen_steps_have_their_own_peak() -> None:
    whole = Context(read_built(growing()))
    found = memory.analyze(Context(whole.trace, StepChoice(0, 0).of(whole.steps)))
    (device,) = found.devices
    assert device.peak_allocated_bytes == 1340  # the device still works on step 0 when the host takes 300 more
    assert [step.name for step in device.steps] == ["0"]
    assert [row.calls for row in found.operators] == [2]


def test_without_records_it_says_why() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    context = Context(read_built(trace))
    reason = memory.ANALYSES[0].missing(context)
    assert reason is not None
    assert reason.id == "skip-no-memory"
    assert memory.analyze(context).devices == ()
    assert memory.ANALYSES[0].missing(Context(read_built(held()))) is None


def test_sections() -> None:
    report = report_with("memory", analyzed(growing()))
    found = {part.id: part for part in section.build(report, 2)}
    assert list(found) == ["memory", "memory-at-peak", "memory-operators", "memory-steps"]
    assert all(part.is_detail for part in found.values())
    assert [message.id for message in found["memory"].messages] == ["memory-growth"]
    assert found["memory"].tables[0].rows[0][:3] == ("GPU0", 1440, 4096)
    assert [message.params for message in found["memory-at-peak"].messages] == [{"device": "GPU0", "older": 840}]
    assert found["memory-steps"].tables[0].rows == (
        ("GPU0", "0", 1, 100, 60, 1100, 1040),
        ("GPU0", "1", 1, 300, 100, 1340, 1240),
    )
    assert found["memory-steps"].tables[0].total_rows == 3
    assert list(section.build(report_with("memory", None), 5)) == []


def test_a_relative_level_is_said() -> None:
    trace = TraceBuilder(OLD)
    trace.memory(500, 1, device=0)
    first = next(iter(section.build(report_with("memory", analyzed(trace)), 5)))
    assert [message.id for message in first.messages] == ["memory-relative"]
    assert first.tables[0].rows[0][1] is None
