"""Tests of the rule `gpu-underutilized`: numbers worked out by hand, and edges of thresholds.

The programs: gPUs with and without enough to do.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped, table
from tests.rules.loader.test_dataloader_bound import fires as loading
from traceanalyzer.formats import language, render
from traceanalyzer.formats.cards import card


def working(gpu: int, host_time: int, *, kernels: int = 10, steps: int = 6) -> TraceBuilder:
    """Steps of kernels that take some time on the GPU, and some to launch."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(kernels):
            host.work(host_time)
            compute(host, stream, gpu)
        host.wait(stream)

    return looping(step, steps=steps)


def unmarked(*host_times: int) -> TraceBuilder:
    """Passes of ten kernels of 20 us each, before each of which the host works for so long."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.work(1000)
        for position in range(10):
            with host.op(f"aten::{('conv2d', 'relu', 'add', 'mul', 'mm')[position % 5]}", 5, 5):
                host.work(host_times[number])
                host.launch(Work("elementwise", 20), stream)
        host.wait(stream)

    trace = looping(step, steps=len(host_times))
    trace.events[:] = [event for event in trace.events if not str(event["name"]).startswith("ProfilerStep")]
    return trace


@pytest.mark.parametrize(("host_times", "tells"), [((9000, 20000, 80), False), ((9000, 9000, 9000), True)])
def test_passes_that_get_warm_are_not_judged(host_times: tuple[int, ...], tells: bool) -> None:
    assert bool(findings(unmarked(*host_times), "gpu-underutilized")) is tells


def fires() -> TraceBuilder:
    """A kernel takes 20 us, launching it 95 us."""
    return working(20, 80)


def trap_memory_of_the_first_step() -> TraceBuilder:
    """The GPU waits for memory in the first of three steps, and for nothing in the others."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if number == 0:
            host.call("cudaMalloc", 8000)
        for _ in range(10):
            compute(host, stream, 400)
        host.wait(stream)

    return looping(step, steps=3)


def launching_slowly() -> TraceBuilder:
    """Operators take 60 us each to launch a kernel of 20 us."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            with host.op("aten::mul", 50, 5):
                host.launch(Work("elementwise", 20), stream)
        host.wait(stream)

    return looping(step)


def in_a_function() -> TraceBuilder:
    """Between its kernels the program is in a function of its own."""
    return pausing(3000, 200, function="env.py(12): step")


def in_no_function() -> TraceBuilder:
    """Between its kernels nothing is recorded on the CPU."""
    return pausing(3000, 200, function=None)


def pausing(pause: int, gpu: int, *, function: str | None) -> TraceBuilder:
    """Ten kernels and then a pause of the CPU in a step."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, gpu)
        host.wait(stream)
        if function is None:
            host.work(pause)
            return
        with host.frame(function):
            host.work(pause)

    return looping(step)


def trap_work_that_waits_for_a_stream() -> TraceBuilder:
    """Kernels are launched far ahead and run late, for a reason that the trace does not show."""
    trace = TraceBuilder()
    for number in range(3):
        start = number * 10_000
        trace.step(number, start, 10_000)
        for place in range(10):
            trace.op("aten::mm", start + 10 + 20 * place, 15)
            trace.launch_kernel("gemm", start + 500 + 900 * place, 100, at=start + 12 + 20 * place)
        trace.launch("cudaDeviceSynchronize", start + 300, 9000)
    return trace


def fires_on_one_of_two_devices() -> TraceBuilder:
    """One device is busy, the other one mostly waits."""
    other = Stream(7, device=1)

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 500)
            compute(host, other, 50)
        host.wait(stream, other)

    return looping(step)


def fires_in_a_table() -> str:
    """Device time is a fifth of the host time."""
    return printed("200.000ms")


def quiet() -> TraceBuilder:
    """The host is always ahead."""
    return working(400, 20)


def quiet_in_a_table() -> str:
    """Device time is nearly the host time, which waits for it."""
    return printed("980.000ms")


def trap_table_without_a_device() -> str:
    """The table of a program on the CPU."""
    rows = [{"Name": "aten::mm", "Self CPU": "1.000s", "CPU total": "1.000s", "# of Calls": 10}]
    return table(rows, cpu="1.000s")


def trap_evaluation_between_steps() -> TraceBuilder:
    """The GPU is busy in the steps; between them the program evaluates on the CPU for a long time."""

    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}"):
            for _ in range(10):
                compute(host, stream, 400)
            host.wait(stream)
        host.work(50_000)
    return trace


def trap_warm_up() -> TraceBuilder:
    """The recording contains only a step that loads its code."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(30):
            host.call("cuModuleLoadData", 2000)
            compute(host, stream, 100)
        host.wait(stream)

    return looping(step, steps=1)


def trap_single_kernel() -> TraceBuilder:
    """A test of one operator, recorded with what surrounds it."""
    return working(20, 5000, kernels=1, steps=2)


def trap_work_that_was_not_recorded() -> TraceBuilder:
    """The host waits for a GPU that seems to do nothing: its work belongs to something else."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 20)
        host.wait(stream)
        host.call("cudaStreamSynchronize", 20_000)

    return looping(step, steps=4)


def printed(device: str) -> str:
    """A table of ten steps and one second of host time."""
    half = {"Self CPU": "500.000ms", "CPU total": "500.000ms"}
    rows = [
        {"Name": "ProfilerStep*", **half, "CPU total": "1.000s", "Self CUDA": "0.000us", "# of Calls": 10},
        {"Name": "aten::mm", **half, "Self CUDA": device, "# of Calls": 99},
    ]
    return table(rows, cpu="1.000s", device=device)


RULE = "gpu-underutilized"


def test_causes_are_told_and_nothing_is_claimed() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None
    assert finding.severity == "critical"
    busy = finding.evidence[0].observed
    assert busy == pytest.approx(200 / 974.5, rel=0.01)  # ten kernels of 20 us in a step of 974.5 us
    idle = sum(place.value or 0 for place in finding.evidence[0].where)
    assert idle == pytest.approx((1 - busy) * 974_500, rel=0.01), "the causes sum to the idle time"


def test_causes_are_told_in_words() -> None:
    """Ids of causes are for programs; people read what the summary calls them, in their language."""
    whole = report(fires(), RULE)
    (finding,) = whole.findings
    ids = {place.name for place in finding.evidence[0].where}
    assert "launch_bound" in ids
    for code in ("en", "ru", "zh"):
        shown = {spot.name for spot in card(finding, language.of(code)).evidence[0].where}
        assert len(shown) == len(ids)
        assert not shown & ids
    page = render(whole, "markdown")
    assert "  - the CPU running operators and launches: " in page
    assert "`launch_bound`" not in page
    assert ">the CPU running operators and launches" in render(whole, "html")


def test_resources_of_a_table_are_told_in_words() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    labels = [(place.name, place.label.text) for place in finding.evidence[0].where if place.label]
    assert labels == [("host", "CPU"), ("gpu", "GPU")]


def test_the_largest_cause_is_named() -> None:
    (finding,) = findings(loading(), RULE, {"events": 3})
    assert "waiting for the DataLoader" in finding.summary.text
    assert finding.severity == "high"


@pytest.mark.parametrize(
    ("trace", "action"),
    [
        (launching_slowly(), "Launch fewer and larger kernels"),
        (in_a_function(), "Shorten what the CPU does between launches"),
        (in_no_function(), "Find out what the CPU does there: with_stack=True"),
        (fires_in_a_table(), "Record a trace: it shows what the GPU waits for"),
    ],
)
def test_what_to_do_is_about_the_largest_part(trace: TraceBuilder | str, action: str) -> None:
    (finding,) = findings(trace, RULE)
    assert finding.action is not None
    assert finding.action.text == action
    assert "largest part" not in finding.advice.text


def test_the_part_of_the_program_is_named() -> None:
    (finding,) = findings(in_a_function(), RULE)
    assert "`env.py: step`" in finding.advice.text


def test_what_nobody_can_change_is_told_by_the_headline_alone() -> None:
    assert findings(trap_work_that_waits_for_a_stream(), RULE) == []


def test_nothing_is_said_twice_of_the_largest_part() -> None:
    """The gaps between launches have a finding with a price: a second card about them has nothing to add."""
    rules = {finding.rule for finding in report(fires()).findings}
    assert "launch-bound-small-kernels" in rules
    assert RULE not in rules


def test_devices_are_judged_one_by_one() -> None:
    (finding,) = findings(fires_on_one_of_two_devices(), RULE)
    assert "Device 1 works" in finding.summary.text


def test_waiting_for_memory_in_the_first_step_does_not_recur() -> None:
    """The three steps take 8, 0 and 0 ms of waiting and 4 ms of work each: without the 8 ms the GPU is busy."""
    assert findings(trap_memory_of_the_first_step(), RULE) == []


def test_what_cannot_be_judged_is_skipped() -> None:
    assert "too few kernels" in (skipped(trap_single_kernel(), RULE) or "")
    assert findings(trap_warm_up(), RULE) == []
    assert "was not recorded" in (skipped(trap_work_that_was_not_recorded(), RULE) or "")
    assert "no device time" in (skipped(trap_table_without_a_device(), RULE) or "")


def test_a_table_tells_the_most_that_the_gpu_can_have_been_busy() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert "at most 20 %" in finding.summary.text
    assert finding.confidence == "B"
    rows = [(place.name, place.value) for place in finding.evidence[0].where if place.kind == "row"]
    assert rows == [("ProfilerStep*", 50_000_000.0), ("aten::mm", 50_000_000.0)], "per step"


def test_edge_critical_share() -> None:
    busy = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"critical_share": busy})[0].severity == "high"
    assert findings(fires(), RULE, {"critical_share": busy + 1e-9})[0].severity == "critical"


def test_edge_events() -> None:
    trace = working(20, 80, kernels=10, steps=2)
    assert findings(trace, RULE, {"events": 20})
    assert findings(trace, RULE, {"events": 21}) == []
