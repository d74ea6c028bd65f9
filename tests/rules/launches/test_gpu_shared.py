"""Tests of the rule `gpu-shared`: numbers worked out by hand, and delays that have a reason in the recording.

The programs: passes of a small model, in which kernels start 3 ms late now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest

from tests.builders import Time, TraceBuilder, micros
from tests.builders.timeline import Host, Stream, Work, finish
from tests.reading import read_built
from tests.rules.judging import findings, report, skipped
from traceanalyzer.structure import unrecorded_work
from traceanalyzer.structure.context import Context

RULE = "gpu-shared"
When = Callable[[int], bool]
LATE_NS = 3_000_000
KERNELS, PASSES = 10, 36


class LateStream(Stream):
    """A stream on which some works start 3 ms late, by their number from 0 on."""

    def __init__(self, when: When) -> None:
        super().__init__()
        self._when = when
        self._number = -1

    def run(self, dur: Time, not_before: int, ranges: list[tuple[int, str]]) -> tuple[Decimal, Decimal]:
        self._number += 1
        return super().run(dur, not_before + (LATE_NS if self._when(self._number) else 0), ranges)


def every_third_pass(number: int) -> bool:
    """The fourth kernel of each third pass, twelve in all."""
    return number % (3 * KERNELS) == 3


Before = Callable[[Host, Stream, int], None]


def passes(
    when: When,
    *,
    before: Before = lambda _, __, ___: None,
    kernel: Callable[[int], str] = lambda _: "kernel",
    count: int = PASSES,
) -> TraceBuilder:
    """Passes of ten short kernels, each of which finds its GPU free, and a wait for them.

    No operator is called twice, so that nothing tells the passes apart and the recording is one step.
    """
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), LateStream(when)
    for number in range(count * KERNELS):
        with host.op(f"aten::mm_{number}", 10, 5):
            before(host, stream, number)
            host.launch(Work(kernel(number), 5), stream)
        if number % KERNELS == KERNELS - 1:
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Twelve of 360 kernels start 3 ms late, all over the recording."""
    return passes(every_third_pass)


def quiet() -> TraceBuilder:
    """Every kernel starts as soon as it is launched."""
    return passes(lambda _: False)


def trap_warm_up() -> TraceBuilder:
    """All late starts are in the first passes."""
    return passes(lambda number: 10 <= number < 120 and number % 5 == 3)


def trap_nine_are_few() -> TraceBuilder:
    """Nine late starts may be chance."""
    return passes(lambda number: number % (4 * KERNELS) == 3)


def trap_all_are_late() -> TraceBuilder:
    """Every kernel takes as long to start: the clocks are set apart, or the driver is slow."""
    return passes(lambda _: True)


def trap_event_waits() -> TraceBuilder:
    """The stream is made to wait for an event before each of these kernels."""

    def await_event(host: Host, _: Stream, number: int) -> None:
        if every_third_pass(number):
            host.call("cudaStreamWaitEvent")

    return passes(every_third_pass, before=await_event)


def trap_first_use() -> TraceBuilder:
    """Each late kernel is the first of its name, whose code is loaded."""
    return passes(every_third_pass, kernel=lambda number: f"new_{number}" if every_third_pass(number) else "kernel")


def trap_collectives() -> TraceBuilder:
    """What starts late are collectives, which wait for other ranks."""
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    return passes(every_third_pass, kernel=lambda number: name if number % KERNELS == 3 else "kernel")


def trap_profiler_writes() -> TraceBuilder:
    """The profiler writes its buffers while these kernels do not start."""

    def flush(host: Host, _: Stream, number: int) -> None:
        if every_third_pass(number):
            host.trace.add("overhead", "Buffer Flush", (micros(host.now), 3100), (-1, 0), {})

    return passes(every_third_pass, before=flush)


def trap_pageable_copies() -> TraceBuilder:
    """A pageable copy takes 3 ms before each of these kernels: the stream is not free."""

    def copy(host: Host, stream: Stream, number: int) -> None:
        if every_third_pass(number):
            host.copy("HtoD", 40_000_000, stream, dur=3000)

    return passes(lambda _: False, before=copy)


def trap_another_stream() -> TraceBuilder:
    """The GPU computes on another stream while these kernels do not start."""
    side = Stream(20)

    def compute(host: Host, _: Stream, number: int) -> None:
        if every_third_pass(number):
            host.launch(Work("long", 3100), side)

    return passes(every_third_pass, before=compute)


def trap_clocks() -> TraceBuilder:
    """The GPU's clock is behind: kernels seem to start before their launch, and later ones late."""
    trace = fires()
    for event in trace.events[::2]:
        if event.get("cat") == "kernel":
            event["ts"] -= 40
    return trace


def trap_graphs() -> TraceBuilder:
    """What starts late are graphs, which are uploaded."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), LateStream(every_third_pass)
    for number in range(PASSES * KERNELS):
        if number % KERNELS == 3:
            host.graph([Work("in_graph", 5)], stream)
        else:
            with host.op("aten::mm", 10, 5):
                host.launch(Work("kernel", 5), stream)
        if number % KERNELS == KERNELS - 1:
            host.wait(stream)
    return finish(trace)


def test_figures_and_saving() -> None:
    """Twelve times 3 ms, 4 us of which are the usual way to the GPU."""
    (finding,) = findings(fires(), RULE)
    params = finding.summary.params
    # nothing is before the first kernel, and six of a pass are launched while a late one has not started
    assert (params["late"], params["judged"]) == (12, PASSES * KERNELS - 1 - 12 * 6)
    assert (params["median"], params["longest"]) == (4000, LATE_NS + 4000)
    assert params["time"] == 12 * (LATE_NS + 4000)
    assert finding.saving is not None
    least, most = finding.saving.wall_ns_per_step
    assert least == 0
    assert 0.9 * 12 * LATE_NS < most <= params["time"]
    assert finding.severity == "high"
    assert finding.where[0].kind == "idle"


def test_it_is_not_called_slow_launching_nor_earlier_work() -> None:
    """The very first kernel of a stream is late, too: as the others show, nothing from before the recording runs."""
    trace = passes(lambda number: number == 0 or every_third_pass(number))
    assert unrecorded_work.longest_ns(Context(read_built(trace))) == 0
    found = report(trace)
    assert RULE in [finding.rule for finding in found.findings]
    assert not {finding.rule for finding in found.findings if finding.severity in ("medium", "high", "critical")} - {
        RULE
    }
    (headline,) = found.headlines
    assert headline.bound == "none"
    assert "Work was launched meanwhile, but waits for something that the trace does not show" in headline.text


def test_without_more_late_starts_the_first_one_is_earlier_work() -> None:
    trace = passes(lambda number: number == 0)
    assert unrecorded_work.longest_ns(Context(read_built(trace))) == LATE_NS + 4000
    assert skipped(trace, RULE) == "no kernel started late while its GPU was free"


@pytest.mark.parametrize("starts", [12, 13])
def test_edge_starts(starts: int) -> None:
    assert bool(findings(fires(), RULE, {"starts": starts})) == (starts <= 12)


def test_a_replay_starts_them_sooner() -> None:
    """The last kernel of each third pass is late, and the host waits for it: of 12 times 3 ms of 850 half are gone."""
    trace = passes(lambda number: number % (3 * KERNELS) == KERNELS - 1, before=lambda host, _, __: host.work(2300))
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    assert finding.saving.estimated_by == "model"
    assert finding.saving.point_ns_per_step == pytest.approx(6 * LATE_NS, rel=0.01)


def test_steps_that_are_longer_because_of_it_count_although_they_are_not_typical() -> None:
    """Twelve of 60 passes wait 3 ms for a kernel; the others show what is typical."""
    trace = TraceBuilder(options=("record_shapes",))
    host, stream = Host(trace, at=10), LateStream(lambda number: number % (5 * KERNELS) == 3)
    for _ in range(60):
        for operator in range(KERNELS):
            with host.op(f"aten::operator_{operator}", 10, 5):
                host.launch(Work("kernel", 5), stream)
        host.wait(stream)
    (finding,) = findings(finish(trace), RULE)
    assert (finding.severity, finding.saving) == ("medium", None)
    assert finding.summary.params["time"] == 12 * (LATE_NS + 4000)
    assert finding.evidence[0].observed > 0.5
    assert "longer than the typical ones" in finding.summary.text
