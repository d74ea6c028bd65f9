"""Recordings whose steps are not what they seem: captures, work from before, one late rank."""

from __future__ import annotations

import pytest
from traceanalyzer.analyzers.launches.recording_start import earlier_work_ns

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.builders.timeline import Host, Stream, Work, finish
from tests.reading import read_built
from tests.rules.judging import report, skipped
from traceanalyzer.analyzers.context import Context

KERNEL = "ampere_sgemm_128x64_nn"


def captured(*, launches: int, kernels: int = 2, replays: int = 0) -> TraceBuilder:
    """Launch calls within the capture of a graph, which start nothing, and some kernels outside of it."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for _ in range(kernels):
        thread.launch(Work(KERNEL, 10), stream)
    thread.call("cudaStreamBeginCapture_v10000", 20)
    for _ in range(launches):
        with thread.op("aten::mm", 40):
            thread.call("cudaLaunchKernel", 5)
    thread.call("cudaStreamEndCapture", 20)
    thread.call("cudaGraphInstantiateWithFlags", 400)
    for _ in range(replays):
        thread.graph([Work(KERNEL, 30)] * launches, stream)
    thread.wait(stream)
    return finish(trace)


def test_a_capture_is_not_bound_by_the_host() -> None:
    found = report(captured(launches=300))
    (headline,) = found.headlines
    assert headline.bound == "none"
    assert "holds the capture of graphs (302 launch calls, but work on the device: 2)" in headline.message.text
    assert "kernels do not run while they are captured" in (skipped(captured(launches=300), "gpu-underutilized") or "")


@pytest.mark.parametrize("trace", [captured(launches=300, replays=2), captured(launches=20), captured(launches=0)])
def test_replays_and_little_captures_are_judged(trace: TraceBuilder) -> None:
    (headline,) = report(trace).headlines
    assert headline.message.id != "headline-capture"


def begun_late(*, before: int, beside: int = 0, steps: int = 40) -> TraceBuilder:
    """The first recorded kernel starts so many microseconds after its launch; then the device never rests."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    stream.free_ns = before * 1000
    if beside:
        thread.launch(Work(KERNEL, beside), Stream(number=20))
    for _ in range(steps):
        with thread.op("aten::mm", 20):
            thread.launch(Work(KERNEL, 100), stream)
    thread.wait(stream)
    return finish(trace)


def test_work_from_before_the_recording_is_no_idle_time() -> None:
    trace = begun_late(before=8000)
    # the launch of the first kernel returns at 10 + 20 + 5 us, and the kernel starts at 8000.9 us
    assert earlier_work_ns(Context(read_built(trace))) == 8_000_900 - 35_000
    found = report(trace)
    (headline,) = found.headlines
    assert headline.bound == "none"
    assert "began in the middle of the device's work: for 7.966 ms of" in headline.message.text
    assert "before its first recorded event" in (skipped(trace, "gpu-underutilized") or "")
    assert "gpu-underutilized" not in {finding.rule for finding in found.findings}


@pytest.mark.parametrize(
    "trace",
    [begun_late(before=0), begun_late(before=900), begun_late(before=8000, beside=7900), captured(launches=300)],
    ids=["at once", "less than a millisecond", "a recorded kernel ran meanwhile", "capture"],
)
def test_other_delays_are_no_earlier_work(trace: TraceBuilder) -> None:
    assert earlier_work_ns(Context(read_built(trace))) == 0


def test_a_short_wait_in_a_long_recording_changes_no_headline() -> None:
    (headline,) = report(begun_late(before=2000, steps=400)).headlines
    assert headline.bound == "gpu-compute"


def late(extra: int, *, transfer: int = 200) -> tuple[TraceBuilder, ...]:
    return run(4, [Meeting(lambda rank, step: 1000 + extra * (rank == 2), transfer=transfer)])


def test_the_headline_names_the_late_rank() -> None:
    (headline,) = report(late(5000)).headlines
    assert headline.bound == "communication"
    assert "wait for rank 2, each for 5.000 ms of each step" in headline.message.text


def test_slow_links_are_not_a_late_rank() -> None:
    (headline,) = report(late(300, transfer=3000)).headlines
    assert headline.bound == "communication"
    assert headline.message.id == "headline-communication"
