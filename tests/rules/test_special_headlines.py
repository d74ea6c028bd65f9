"""Recordings whose steps are not what they seem: captures, work from before, one late rank."""

from __future__ import annotations

from collections.abc import Container

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.builders.ranks import Meeting, run
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings, report, skipped
from tests.rules.ranks.test_comm_straggler import always, over_gloo
from traceanalyzer import sections
from traceanalyzer.formats import language, prices
from traceanalyzer.simulation.critical_path import CriticalPath
from traceanalyzer.simulation.replay_error import Replay

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
    assert headline.bound == "capture"
    assert "launch calls: 302, device events: 2" in headline.text
    assert "kernels do not run while they are captured" in (skipped(captured(launches=300), "gpu-underutilized") or "")
    assert found.findings == ()


@pytest.mark.parametrize("trace", [captured(launches=300, replays=2), captured(launches=20), captured(launches=0)])
def test_replays_and_little_captures_are_judged(trace: TraceBuilder) -> None:
    (headline,) = report(trace).headlines
    assert headline.message.id != "headline-capture-2"


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
    found = report(trace)
    (headline,) = found.headlines
    # the whole recording is one step, which begins when the device begins with what was recorded
    assert (headline.bound, headline.message.id) == ("gpu-compute", "headline-typical-gpu-compute-4")
    assert "1 % idle" in headline.text
    assert "gpu-underutilized" not in {finding.rule for finding in found.findings}
    warnings = {warning.message.id: warning.message.text for warning in found.warnings}
    assert "8.0 ms" in warnings["q-unrecorded-work"], "from 10 + 20 + 5 us until 8000.9 us"
    replay = found.result("replay", Replay)
    assert replay is not None
    assert (replay.modelled_ns, replay.abstained) == (replay.recorded_ns, False), "the launches were before the step"


def marked_late(before: int, *, length: int = 10_000) -> TraceBuilder:
    """A marked step whose first kernel starts so many microseconds after its launch; it stands where it was marked."""
    trace = TraceBuilder()
    trace.step(1, 0, length)
    trace.op("aten::mm", 0, 20)
    trace.launch_kernel(KERNEL, before + 15, length - before - 15, at=10, call_dur=5)
    return trace


@pytest.mark.parametrize(("before", "told"), [(2100, True), (1990, False)])
def test_work_from_before_in_a_marked_step_is_told_from_a_fifth_on(before: int, told: bool) -> None:
    trace = marked_late(before)
    trace.launch_kernel(KERNEL, 9_990, 5, at=9_980, stream=8)
    (headline,) = report(trace).headlines
    assert (headline.message.id == "headline-typical-earlier-work-2") is told
    assert ("21 % on work launched earlier" in headline.text) is told
    assert "is idle" not in headline.text


@pytest.mark.parametrize(
    "trace",
    [begun_late(before=0), begun_late(before=900), begun_late(before=8000, beside=7900), captured(launches=300)],
    ids=["at once", "less than a millisecond", "a recorded kernel ran meanwhile", "capture"],
)
def test_other_delays_are_no_earlier_work(trace: TraceBuilder) -> None:
    assert "q-unrecorded-work" not in {warning.message.id for warning in report(trace).warnings}


def test_a_short_wait_in_a_long_recording_changes_no_headline() -> None:
    (headline,) = report(begun_late(before=2000, steps=400)).headlines
    assert headline.bound == "gpu-compute"


def working(kernels: int, dur: int) -> TraceBuilder:
    """One step with kernels at its end, most of which the host spends in one operator."""
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 5000)
    trace.op("aten::mm", 5000, 5000)
    for number in range(kernels):
        start = 4000 + (dur + 10) * number
        trace.launch_kernel(KERNEL, start + 8, dur, at=start, call_dur=5)
    return trace


def asking(*names: str, count: int = 20, pause: int = 20) -> TraceBuilder:
    """Operators that launch a short kernel and read what it found, in one window without steps."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(count):
        host.work(pause)
        with host.op(names[number % len(names)], 5, 1):
            host.launch(Work(f"kernel_{number % 7}", 3), stream)
            host.copy("DtoH", 8, stream, dur=2, wait=True, call_dur=20)
    return finish(trace)


def waiting() -> TraceBuilder:
    """Operators after each of which the program waits for their kernel."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(20):
        with host.op("aten::mm"):
            host.launch(Work(f"kernel_{number % 7}", 40), stream)
        host.wait(stream)
    return finish(trace)


def taking(count: int = 20, *, frees: Container[int] = range(20)) -> TraceBuilder:
    """Operators each of which takes memory from the driver; some give it back."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(count):
        host.work(20 + number)
        with host.op("aten::mm"):
            host.call("cudaMalloc", 90)
            host.launch(Work(KERNEL, 5), stream)
        if number in frees:
            host.call("cudaFree", 120)
    return finish(trace)


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        (asking("aten::nonzero"), "`aten::nonzero`"),
        (asking("aten::item"), "`aten::item`"),
        (asking("aten::_unique2"), "`aten::_unique2`"),
        (asking("aten::index", "aten::masked_select", "aten::nonzero", "aten::nonzero"), "`aten::nonzero`"),
        (waiting(), "`cudaStreamSynchronize`"),
        (taking(), "`cudaFree`"),
    ],
)
def test_a_host_that_waits_most_of_the_time_is_an_answer(trace: TraceBuilder, name: str) -> None:
    (headline,) = report(trace).headlines
    assert headline.bound == "host"
    assert headline.message.id == "headline-waits-for-little-2"
    assert f"mostly {name}" in headline.text
    assert headline.share is not None
    assert headline.share >= 0.5


def last_wait() -> TraceBuilder:
    """Two kernels, and a wait at the end that takes most of the time: the profiler's own, or that of earlier work."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for _ in range(2):
        with host.op("aten::mm"):
            host.launch(Work(KERNEL, 50), stream)
    trace.launch("cudaDeviceSynchronize", 100, 900)
    return finish(trace)


@pytest.mark.parametrize(
    "trace",
    [asking("aten::nonzero", count=4), asking("aten::nonzero", pause=200), last_wait()],
    ids=["few", "mostly other work", "one wait"],
)
def test_other_hosts_with_little_work_are_no_answer(trace: TraceBuilder) -> None:
    (headline,) = report(trace).headlines
    assert headline.message.id == "headline-hardly-any-work-3"


@pytest.mark.parametrize("frees", [range(0), range(10, 30)], ids=["never", "what was tried"])
def test_memory_that_is_kept_is_start_up(frees: range) -> None:
    (headline,) = report(taking(40, frees=frees)).headlines
    assert headline.bound == "start-up"


@pytest.mark.parametrize(
    ("trace", "says"),
    [
        (working(1, 3000), "one kernel in 3.0 ms"),
        (working(2, 499), "2 kernels in 1.0 ms"),
        (working(2, 500), ""),
    ],
)
def test_hardly_any_work_is_bound_by_nothing(trace: TraceBuilder, says: str) -> None:
    (headline,) = report(trace).headlines
    assert (headline.message.id == "headline-hardly-any-work-3") is bool(says)
    assert says in headline.text
    assert (headline.bound == "none") is bool(says)


def test_where_events_are_missing_nobody_knows_what_a_finding_waits_for() -> None:
    """Products of 3 ms in a step of 104 ms, 100 of them without events: that time is not the host's."""
    trace = TraceBuilder()
    trace.step(1, 0, 104_000)
    for number in range(200):
        start, ident = (20 * number, number + 1) if number < 100 else (20 * number + 100_000, number + 500)
        trace.op("aten::mm", start, 10)
        trace.launch("cudaLaunchKernel", start + 1, 2, correlation=ident)
        trace.kernel(KERNEL, start + 4, 15, correlation=ident)
    (finding,) = findings(trace, "mixed-precision-unused")
    assert finding.saving is not None
    assert finding.saving.arithmetic is None
    assert (finding.latent, finding.blocked_by) == (True, None)
    assert "does not show what limits the program" in (prices.latent(finding, language.of("en")) or "")
    for rule in ("host-python-gap", "launch-bound-small-kernels"):
        assert "events are missing" in (skipped(trace, rule) or "")


@pytest.mark.parametrize(("hole", "told"), [(2000, True), (1900, False)])
def test_a_recording_without_half_of_its_events(hole: int, told: bool) -> None:
    """100 kernels of 7 us on each side of a time without events, in which the runtime numbered 400 calls more."""
    trace = TraceBuilder()
    trace.step(1, 0, 2000 + hole)
    for number in range(200):
        start, ident = (10 * number, number + 1) if number < 100 else (10 * number + hole, number + 500)
        trace.launch("cudaLaunchKernel", start, 2, correlation=ident)
        trace.kernel(KERNEL, start + 3, 7, correlation=ident)
    found = report(trace)
    (headline,) = found.headlines
    assert (headline.message.id == "headline-removed-events-2") is told
    owners = next(section for section in sections.build(found, 10) if section.id == "host-owners")
    assert "owners-silent" not in [message.id for message in owners.messages], "nobody knows what the host did"
    path = found.result("critical_path", CriticalPath)
    assert path is not None
    unknown = next(part.ns_per_step for part in path.parts if part.resource == "unrecorded")
    assert unknown == pytest.approx(hole * 1000, rel=0.02)
    assert ("Events are missing: 2.0 of the 4.0 ms" in headline.text) is told


def late(extra: int, *, transfer: int = 200) -> tuple[TraceBuilder, ...]:
    return run(4, [Meeting(lambda rank, step: 1000 + extra * (rank == 2), transfer=transfer)])


def test_the_headline_names_the_late_rank() -> None:
    (headline,) = report(late(5000)).headlines
    assert headline.bound == "communication"
    assert "Rank 2 holds up the others, which costs 5.0 of the 6.2 ms of each step" in headline.text


def test_a_late_rank_bounds_programs_that_each_seem_bound_by_their_cpu() -> None:
    (headline,) = report(over_gloo(always(1, 4000))).headlines
    assert headline.bound == "communication"
    # rank 0 waits for 4 ms of a step of 4 + 3 + 0.5 ms, and little more
    assert "Rank 1 makes the others wait 4.0 of the 7.5 ms of each step" in str(headline.message)
    assert headline.share == pytest.approx(0.52, abs=0.02)
    for less in (0, 400):
        assert report(over_gloo(always(1, less))).headlines[0].bound == "host"


def test_slow_links_are_not_a_late_rank() -> None:
    (headline,) = report(late(300, transfer=3000)).headlines
    assert headline.bound == "communication"
    # 3 of 4 ranks wait for 300 us; all of them send for 3000 us.
    assert "Of the communication, 0.23 of the 3.2 ms is waiting for other ranks." in headline.text


def iterations(*, before: int = 0, marked: bool = False) -> TraceBuilder:
    """Six iterations of an optimizer, 2 ms each; the profiler began so many microseconds before the first."""
    trace = TraceBuilder(margins=(before, 0))
    thread, stream = Host(trace, at=10), Stream()
    for number in range(6):
        step = f"ProfilerStep#{number}" if marked else "Optimizer.step#SGD.step"
        with thread.annotation(step), thread.op("aten::mm"):
            thread.launch(Work(KERNEL, 2000), stream)
        thread.wait(stream)
    return finish(trace)


def test_most_of_a_recording_may_lie_before_its_first_event() -> None:
    (headline,) = report(iterations(before=3_000_000)).headlines
    assert (headline.bound, headline.message.id) == ("none", "headline-late-training")
    assert "Nothing was recorded for 3.0 s before the first event" in headline.text, "a training serves no requests"
    assert "only 12 ms have events" in headline.text
    assert "DataLoader" not in headline.text
    assert "After that: Limited by GPU compute" in headline.text


def one_pass(*, before: int = 0, load: int = 0) -> TraceBuilder:
    """A pass of ten kernels of 300 us, one after the other, whose input comes from pageable memory in 1 ms."""
    trace = TraceBuilder(devices=(A100,), margins=(before, 0))
    host, stream = Host(trace, at=10), Stream()
    with host.op("aten::copy_"):
        host.copy("HtoD", 4_000_000, stream, dur=1000)
    for number in range(10):
        with host.op(f"aten::layer_{number}", 5, 5):
            host.launch(Work(KERNEL, 300), stream, call_dur=load if number == 5 and load else 5)
    host.wait(stream)
    return finish(trace)


def test_a_pass_that_waited_for_its_request_is_worth_what_it_is_of_the_recording() -> None:
    for before, severity in ((0, "high"), (3_000_000, "info")):
        (finding,) = (each for each in report(one_pass(before=before)).findings if each.rule == "h2d-pageable")
        assert finding.severity == severity


def test_one_cold_pass_says_so_once_and_nothing_in_it_is_severe() -> None:
    found = report(one_pass(load=4_000))
    (headline,) = found.headlines
    assert headline.bound == "start-up"
    assert headline.text.count("one cold pass: record a warm one") == 1
    assert {finding.severity for finding in found.findings} <= {"low", "info"}
    assert "cold" not in report(one_pass()).headlines[0].text


def test_the_start_and_the_warm_up_of_the_profiler_are_no_wait() -> None:
    """The profiler takes some milliseconds to start; where it marks steps, it began with its first warm-up step."""
    assert report(iterations(before=50_000)).headlines[0].bound == "gpu-compute"
    assert report(iterations(before=3_000_000, marked=True)).headlines[0].bound == "gpu-compute"


def loaded(moving: int = 1000, *, name: str = "aten::to", steps: int = 8) -> TraceBuilder:
    """A model is cast and brought to the GPU within the trace: 20 tensors; then come steps of about 1 ms."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for _ in range(20):
        with thread.op(name, moving):
            thread.copy("HtoD", 1_000_000, stream, dur=90, wait=True)
    for number in range(steps):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.op("aten::mm", 10):
                thread.launch(Work(KERNEL, 950), stream)
            thread.wait(stream)
    return finish(trace)


def test_a_trace_that_is_mostly_start_up_says_so_first_and_then_what_limits_a_step() -> None:
    (headline,) = report(loaded()).headlines
    assert headline.message.text == (
        "Most of the trace, 22 of the 30 ms, is start-up: moving or casting tensors (`aten::to`)."
    )
    assert headline.qualifier is not None
    assert headline.qualifier.text.startswith("A typical step: Limited by GPU compute: mostly matrix multiplications, ")
    assert "This happens only once: record a few steps after a warm-up." in headline.text


def test_other_work_before_the_steps_that_is_most_of_a_trace_is_named_by_its_owner() -> None:
    (headline,) = report(loaded(name="aten::normal_")).headlines
    assert headline.message.text == (
        "Most of the trace, 22 of the 30 ms, is before the first step, longest in `aten::normal_`."
    )


def test_start_up_that_is_less_than_half_of_the_trace_does_not_lead() -> None:
    (headline,) = report(loaded(200)).headlines
    assert headline.message.text.startswith("Limited by GPU compute: ")


def _reading_one_by_one(readings: int, each: int) -> TraceBuilder:
    """Steps with an operator of cuDNN whose kernels were not recorded, and a loop that reads values one by one."""
    trace, at = TraceBuilder(), 0
    for number in range(4):
        length = 1000 + readings * each
        trace.step(number, at, length)
        trace.op("aten::cudnn_convolution", at + 10, 100)
        for turn in range(readings):
            begin = at + 500 + turn * each
            trace.op("aten::select", begin, 3)
            trace.op("aten::item", begin + 4, each - 6)
            trace.op("aten::_local_scalar_dense", begin + 5, each - 8)
        at += length
    return trace


def test_a_loop_of_quick_readings_is_said_though_the_gpu_was_not_recorded() -> None:
    (found,) = report(_reading_one_by_one(200, 20)).headlines
    assert found.bound == "host"
    assert found.message.text == (
        "The CPU reads single values in a loop: 4.0 of the 5.0 ms of each step, 200 times `aten::item`."
    )
    assert "Reading takes 20 us a turn, mostly Python and operators" in found.text


def test_long_readings_wait_for_the_gpu_that_was_not_recorded() -> None:
    (found,) = report(_reading_one_by_one(20, 400)).headlines
    assert "the CPU waits for it" in found.text
