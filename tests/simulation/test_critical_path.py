"""The critical path and the slack of a step that was worked out by hand, times in microseconds."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer.analyzers import steps
from traceanalyzer.simulation import back_pointers, critical_path, model, replay_error, window
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.structure.context import Context

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def planned() -> TraceBuilder:
    """Loader 10 to 60; a launch at 70 whose kernel runs from 80 to 280; the host waits until 290, then works until 320.

    Another stream runs a kernel of 30 beside it, and a collective of 20.
    """
    trace = TraceBuilder()
    trace.step(1, 0, 320)
    trace.annotation(LOADER, 10, 50)
    trace.op("aten::mm", 62, 20)
    trace.launch_kernel("volta_sgemm_128x64_nn", 80, 200, at=70, call_dur=5)
    trace.op("aten::relu", 84, 10)
    trace.launch_kernel("relu_kernel", 96, 30, at=86, call_dur=5, stream=8)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 106, 20, at=96, call_dur=2, stream=20)
    trace.launch("cudaDeviceSynchronize", 100, 190)
    return trace


def step() -> Context:
    return Context(read_built(planned()))


def test_the_parts_of_the_path_sum_to_the_step() -> None:
    found: CriticalPath = critical_path.analyze(step())
    parts = {part.resource: part.ns_per_step / 1000 for part in found.parts}
    # host: 0-10, 60-70, 290-320; the launch takes 10, the way back 10
    assert parts == {
        "loader": 50,
        "host": 10 + 10 + 30,
        "launch": 10,
        "compute": 200,
        "copy": 0,
        "communication": 0,
        "device_gap": 0,
        "wake_up": 10,
        "unrecorded": 0,
        "asleep": 0,
    }
    assert found.step_ns == 320_000
    assert [(row.kernel_class, row.ns_per_step) for row in found.kernel_classes] == [("gemm", 200_000)]


def test_the_stretches_of_the_path_follow_each_other() -> None:
    stretches = critical_path.analyze(step()).stretches
    assert [(stretch.resource, stretch.start_ns // 1000, stretch.duration_ns // 1000) for stretch in stretches] == [
        ("host", 0, 10),
        ("loader", 10, 50),
        ("host", 60, 10),
        ("launch", 70, 10),
        ("compute", 80, 200),
        ("wake_up", 280, 10),
        ("host", 290, 30),
    ]


def test_operators_are_ranked_by_what_they_are_worth() -> None:
    rows = {row.operator: row for row in critical_path.analyze(step()).operators}
    product = rows["aten::mm"]
    assert product.host_ns_per_step == 8_000  # from 62 to 70
    assert product.device_ns_per_step == product.device_total_ns_per_step == 200_000
    assert product.ns_per_step == 8_000 + 10_000 + 200_000  # with the way of its launch
    assert rows[LOADER].ns_per_step == 50_000
    assert rows[None].ns_per_step == (10 + 2 + 30 + 10) * 1_000
    assert "aten::relu" not in rows


def test_slack_is_what_a_kernel_may_take_longer() -> None:
    found = model.require(step())
    names = [found.context.trace.names[code] for code in found.context.trace.device.name[found.graph.device.row]]
    left = back_pointers.slack_of_events(found.with_residuals, found.recorded, found.bounds, found.part_of_event)
    assert dict(zip(names, (left // 1000).tolist(), strict=True)) == {
        "volta_sgemm_128x64_nn": 0,
        "relu_kernel": 320 - 126,
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL": 320 - 126,
    }
    assert critical_path.analyze(found.context).device_slack_ns_per_step == 50_000


def test_owners_of_the_host_time_sum_to_it() -> None:
    found: CriticalPath = critical_path.analyze(step())
    owners = {row.name: row.ns_per_step / 1000 for row in found.owners}
    # the operator from 62 to 70; what nobody owns is 0-10, 60-62 and 290-320
    assert owners == {LOADER: 50, "aten::mm": 8, None: 42}


def test_kernels_that_could_take_twice_as_long() -> None:
    found: CriticalPath = critical_path.analyze(step())
    rows = [(row.name, row.slack_ns_per_step, row.ns_per_step) for row in found.kernels_with_slack]
    assert rows == [("relu_kernel", 30_000, 30_000), ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20_000, 20_000)]
    assert found.device_ns_per_step == 250_000
    assert {row.operator: row.device_slack_ns_per_step for row in found.operators}["aten::mm"] == 0


def test_a_stretch_names_what_takes_at_least_half_of_it() -> None:
    named = [stretch.mostly for stretch in critical_path.analyze(step()).stretches]
    assert named == [None, LOADER, "aten::mm", None, "volta_sgemm_128x64_nn", None, None]


def test_the_stretches_are_of_the_step_that_the_timeline_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = TraceBuilder()
    starts = [0, 100, 200, 300]
    for number, (start, length) in enumerate(zip(starts, (90, 94, 92, 92), strict=True)):
        trace.step(number, start, length)
        trace.launch_kernel("gemm", start + 40, 20, at=start + 10)
    context = Context(read_built(trace))
    shown = steps.analyze(context)
    monkeypatch.setattr(window, "MOST_EVENTS", 1)  # only the first step is modelled
    found = critical_path.analyze(Context(read_built(trace)))
    assert found.steps == 1
    assert found.stretches_start_ns == shown.start_ns == 200_000
    assert sum(stretch.duration_ns for stretch in found.stretches) == shown.duration_ns == 92_000


def test_clocks_that_disagree_count_no_time_twice() -> None:
    """A kernel of 300 that begins 20 before its launch call, as the device's clock has it."""
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.launch_kernel("gemm", 30, 300, at=50, call_dur=10)
    parts = {part.resource: part.ns_per_step / 1000 for part in critical_path.analyze(Context(read_built(trace))).parts}
    assert (parts["host"], parts["compute"]) == (30, 300)
    assert sum(parts.values()) == 330


def on_the_cpu() -> TraceBuilder:
    """A step of 1000: operators until 300 and from 700 on; gloo reduces from 200 to 600; a sleep from 550 to 650.

    Another thread sleeps all the time.
    """
    trace = TraceBuilder(devices=(), distributed={"backend": "gloo", "rank": 0, "world_size": 2})
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 290)
    trace.annotation("gloo:all_reduce", 200, 400, tid=7001)
    trace.python_function("train.py(9): pause", 540, 120)
    trace.python_function("<built-in function sleep>", 550, 100)
    trace.op("aten::add_", 700, 200)
    trace.python_function("<built-in method acquire of _thread.lock object at 0x7>", 0, 1000, tid=9)
    return trace


def test_collectives_of_the_cpu_and_sleep_are_no_host_code() -> None:
    found = critical_path.analyze(Context(read_built(on_the_cpu())))
    parts = {part.resource: part.ns_per_step / 1000 for part in found.parts if part.ns_per_step}
    assert parts == {"host": 300 + 350, "communication": 250, "asleep": 100}
    # what is too short to show would count with the stretch before it, but all of these are shown
    assert [(stretch.resource, stretch.start_ns // 1000) for stretch in found.stretches] == [
        ("host", 0),
        ("communication", 300),
        ("asleep", 550),
        ("host", 650),
    ]
    assert sum(row.ns_per_step for row in found.owners) == 750_000, "the program, asleep or not"


def test_without_stacks_or_collectives_the_path_has_no_waits() -> None:
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("aten::mm", 10, 290)
    found = critical_path.analyze(Context(read_built(trace)))
    assert {part.resource for part in found.parts if part.ns_per_step} == {"host"}


def test_only_what_was_launched_before_the_end_of_earlier_work_is_held_up_by_it() -> None:
    """Until 8000 the device does what was launched before the recording; later a new stream waits for a collective."""
    trace = TraceBuilder()
    trace.step(1, 0, 20_600)
    trace.op("aten::mm", 10, 40)
    trace.launch_kernel("volta_sgemm_128x64_nn", 8000, 100, at=30, call_dur=5)
    for at in (8110, 8150, 8190):
        trace.launch_kernel("volta_sgemm_128x64_nn", at + 10, 20, at=at, call_dur=5)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8310, 11_690, at=8300, call_dur=5, stream=20)
    trace.launch_kernel("relu_kernel", 20_003, 497, at=8320, call_dur=5, stream=52)
    trace.launch("cudaDeviceSynchronize", 8400, 12_110)
    found = critical_path.analyze(Context(read_built(trace)))
    parts = {part.resource: part.ns_per_step / 1000 for part in found.parts if part.ns_per_step}
    assert parts["communication"] == 11_690
    assert parts["compute"] == pytest.approx(497, abs=200)
    assert parts.get("unrecorded", 0) <= 8000


def test_a_step_after_the_last_operator_is_one_of_the_device() -> None:
    """Without marks a step begins where the work of before the recording ends: here after the host's last operator."""
    trace = TraceBuilder()
    trace.op("aten::mm", 100, 50)
    trace.kernel("volta_sgemm_128x64_nn", 0, 2990)
    trace.launch_kernel("volta_sgemm_128x64_nn", 3000, 500, at=120, call_dur=5)
    found = critical_path.analyze(Context(read_built(trace)))
    parts = {part.resource: part.ns_per_step / 1000 for part in found.parts if part.ns_per_step}
    assert parts == {"compute": 500, "device_gap": 10}
    assert found.step_ns == 510_000


def test_a_recording_of_the_device_alone_waits_for_the_device() -> None:
    """`activities=[CUDA]` records calls and kernels, and no operators."""
    trace = TraceBuilder()
    for at in (0, 20, 40):
        trace.launch_kernel("volta_sgemm_128x64_nn", 10 + 25 * at, 500, at=at, call_dur=5)
    found = critical_path.analyze(Context(read_built(trace)))
    parts = {part.resource: part.ns_per_step / 1000 for part in found.parts if part.ns_per_step}
    assert parts == {"compute": 1500}


def test_work_that_is_launched_after_the_last_operator_is_of_the_recording() -> None:
    """A recording of one launch of a graph: the call comes after the operators, and the work long after both."""
    trace = TraceBuilder()
    trace.op("aten::copy_", 0, 50)
    trace.launch_kernel("graph_kernel", 1000, 5000, at=100, call_dur=500)
    found = replay_error.analyze(Context(read_built(trace)))
    assert not found.abstained
    assert found.modelled_ns == found.recorded_ns == 6_000_000
