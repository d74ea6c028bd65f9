"""A report in one row: wasted time, and unknown values."""

from __future__ import annotations

import pytest

from tests.analyzers.ranks.joining import members
from tests.builders import V100, TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES
from tests.reading import read, read_built
from traceanalyzer.batching import record
from traceanalyzer.batching.record import Output, Row
from traceanalyzer.multirank import join
from traceanalyzer.pipeline import analyze
from traceanalyzer.structure.recording import Recording


def row(trace: TraceBuilder) -> Row:
    return record.row_of("x.json", analyze(read_built(trace)))


def test_idle_and_exposed_communication_are_wasted() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 10, 30, at=5)
    trace.launch_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30, 40, at=6, stream=20)
    found = row(trace)
    assert found.idle_ns == 40_000
    assert found.exposed_communication_ns == 30_000, "10 us of 40 are hidden by the product"
    assert found.wasted_ns == 70_000
    assert found.devices == 1


def test_work_that_follows_the_hosts_is_no_waste() -> None:
    """Nothing is marked; a graph that is launched before the host is done works long after it."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 50)
    trace.graph_launch(10, 20, [(f"kernel {number}", 1000 + 100 * number, 90, {}) for number in range(9)])
    found = row(trace)
    assert found.busy_share is not None
    assert found.idle_ns is not None
    assert found.window_ns is not None
    assert found.wasted_ns == found.idle_ns == pytest.approx((1 - found.busy_share) * found.window_ns, abs=1)


def test_every_gpu_counts() -> None:
    trace = TraceBuilder(devices=(V100, V100))
    trace.step(1, 0, 100)
    trace.launch_kernel("volta_sgemm_128x64_nn", 10, 30, at=5)
    trace.launch_kernel("volta_sgemm_128x64_nn", 10, 80, at=6, device=1)
    found = row(trace)
    assert (found.devices, found.wasted_ns, found.window_ns) == (2, 70_000 + 20_000, 100_000)


def test_without_a_gpu_nothing_is_known_of_it() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.op("aten::mm", 10, 20)
    found = row(trace)
    assert (found.devices, found.busy_share, found.idle_ns, found.wasted_ns) == (None, None, None, None)
    assert found.mean_step_ns == 100_000


def test_a_record_reads_back() -> None:
    trace = TraceBuilder()
    trace.step(1, 0, 100)
    trace.launch_kernel("ampere_sgemm_128x64_nn", 10, 30, at=5)
    done = record.record_of("x.json", "f", (Output("json", "x.json.report.json", 7),), None, analyze(read_built(trace)))
    data = record.encode(done).encode()
    assert record.decode(data) == done
    assert record.decode(data[:-9]) is None
    assert record.decode(b"\xff") is None


def test_a_gpu_with_hardly_any_work_wastes_nothing() -> None:
    """Half a second in which one kernel ran, or less than a millisecond of kernels, says nothing of a program."""
    alone, short, busy = TraceBuilder(), TraceBuilder(), TraceBuilder()
    for trace, kernels in ((alone, [5_000]), (short, [400, 500]), (busy, [500, 600])):
        trace.step(1, 0, 500_000)
        for number, length in enumerate(kernels):
            trace.launch_kernel("ampere_sgemm_128x64_nn", 1000 + 20_000 * number, length, at=5 + number)
    assert [row(trace).is_hollow for trace in (alone, short, busy)] == [True, True, False]
    without = TraceBuilder()
    without.step(1, 0, 100)
    without.op("aten::mm", 10, 20)
    assert not row(without).is_hollow, "there is no GPU"


def test_a_recording_without_a_step_of_the_program_wastes_nothing() -> None:
    """Two kernels of 5 ms; what lies between them is loading of code, most of the recording, or part of the program."""

    def recording(loading_us: int) -> TraceBuilder:
        trace = TraceBuilder()
        trace.op("aten::mm", 0, 100_000)
        for number, start in enumerate((1_000, 90_000)):
            trace.launch_kernel("ampere_sgemm_128x64_nn", start, 5_000, at=start - 10 + number)
        trace.launch("cuModuleLoadData", 10_000, loading_us)
        return trace

    start_up, program = row(recording(70_000)), row(recording(10_000))
    assert (start_up.has_typical_step, start_up.is_hollow) == (False, True)
    assert (program.has_typical_step, program.is_hollow) == (True, False)


def test_a_step_is_the_typical_one_of_the_report() -> None:
    """The third step took half of the time because it loaded nothing; the mean over all steps is not what is shown."""
    trace = TraceBuilder()
    for number, (start, length) in enumerate(((0, 100), (100, 102), (202, 50), (252, 104))):
        trace.step(number, start, length)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 5, length // 2, at=start + 2)
    report = analyze(read_built(trace))
    found = record.row_of("x.json", report)
    recording = report.result("recording", Recording)
    assert recording is not None
    assert found.mean_step_ns == recording.typical_step_ns == 102_000
    assert (found.median_step_ns, found.steps) == (102_000, 4)
    assert found.busy_share == pytest.approx(0.5)
    assert found.window_ns == 306_000, "three typical steps"


def test_savings_count_for_each_step_of_the_program() -> None:
    """Four updates without marks of the profiler, whose breakdown is one step; a saving is of one of the four."""
    report = analyze(read((FIXTURES / "synthetic" / "no_profiler_step.json.gz").read_bytes()))
    found = record.row_of("x.json", report)
    advice = next((row, finding) for row, finding in zip(found.advice, report.findings, strict=True) if finding.saving)
    assert found.steps == 4
    assert advice[0].wall_ns == tuple(4 * ns for ns in advice[1].saving.wall_ns_per_step)


def test_a_report_on_ranks_has_a_typical_step() -> None:
    """15 + 1000 + 5 us until the ranks meet, 200 us of transfer and 5 us. It lists no steps: those of ranks differ."""
    found = record.row_of("x.json", join(members(run(2, [Meeting(lambda _, __: 1000)], steps=3)), "run"))
    assert (found.mean_step_ns, found.steps, found.median_step_ns) == (1_225_000, None, None)
