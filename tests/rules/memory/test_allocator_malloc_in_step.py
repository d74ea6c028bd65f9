"""Tests of the rule `allocator-malloc-in-step`: numbers worked out by hand, and edges of thresholds.

The programs: calls that allocate and free.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped, table, varied


def allocating(
    when: Callable[[int], bool], *, call: str = "cudaMalloc", dur: int = 300, steps: int = 6
) -> TraceBuilder:
    """Steps of 4 ms, some of which ask the driver for memory before they launch."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::empty"):
            if when(number):
                host.call(call, dur)
        compute(host, stream, 4000)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """Every step allocates for 0.3 ms while the GPU has nothing to do."""
    return allocating(lambda number: True)


def uncached(taken: int, freed: int) -> TraceBuilder:
    """Ten operators per step allocate; so many of them ask the driver, and so many tensors are given back to it."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for tensor in range(10):
            with host.op("aten::empty"):
                if tensor < taken:
                    host.call("cudaMalloc", 30)
            compute(host, stream, 100)
            if tensor < freed:
                host.call("cudaFree", 30)
        host.wait(stream)

    return looping(step, steps=4)


def quiet() -> TraceBuilder:
    """PyTorch reuses its memory."""
    return allocating(lambda number: False)


def trap_warm_up() -> TraceBuilder:
    """The first step allocates what the others reuse."""
    return allocating(lambda number: number == 0)


def fires_where_the_gpu_works() -> TraceBuilder:
    """The GPU waits for the first step's calls; later steps allocate while it works."""

    def step(host: Host, stream: Stream, number: int) -> None:
        if number == 0:
            host.call("cudaMalloc", 8000)
        compute(host, stream, 4000)
        host.call("cudaMalloc", 300)
        host.wait(stream)

    return looping(step, steps=3)


def trap_new_shape() -> TraceBuilder:
    """One later batch is larger than all before."""
    return allocating(lambda number: number in (0, 3))


def trap_expandable_segments() -> TraceBuilder:
    """Memory is mapped, which is made for use in the loop."""
    return allocating(lambda number: True, call="cuMemMap")


RULE = "allocator-malloc-in-step"


def test_an_allocator_that_is_off_is_named() -> None:
    (finding,) = findings(uncached(8, 4), RULE)
    assert "caching allocator seems to be off" in finding.summary.text
    assert "PYTORCH_NO_CUDA_MEMORY_CACHING" in (finding.code or "")
    for taken, freed in ((7, 7), (8, 3)):
        (other,) = findings(uncached(taken, freed), RULE)
        assert "caching allocator" not in other.summary.text, "some are taken from a cache, or kept in it"


def test_the_calls_go_away_where_the_gpu_waits_for_them() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx(varied(300_000), rel=0.01)
    assert finding.evidence[0].where[0].name == "cudaMalloc"


def test_what_comes_back_takes_no_more_than_all() -> None:
    """One step asks for little: what is usual is more than the mean, which is all that there is."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::empty"):
            host.call("cudaMalloc", 30 if number == 3 else 300)
        compute(host, stream, 4000)
        host.wait(stream)

    (finding,) = findings(looping(step, steps=6), RULE)
    time, every = finding.summary.params["time"], finding.summary.params["all"]
    assert time == pytest.approx((4 * 300_000 + 30_000) / 5)  # without the first step
    assert every == pytest.approx((5 * 300_000 + 30_000) / 6)
    assert finding.evidence[0].observed <= 1


def test_what_the_first_step_allocates_is_not_said_of_each() -> None:
    """Three steps are too few to leave one out, but the GPU waits for an allocation only in the first."""
    (finding,) = findings(fires_where_the_gpu_works(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 0)
    assert finding.severity == "info"
    assert finding.summary.params["time"] == 300_000


def test_steps_that_are_left_out_do_not_allocate_for_all() -> None:
    """One of five later steps allocates for 3 ms and is left out; the others allocate for 0.1 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.call("cudaMalloc", 3000 if number == 3 else 100)
        compute(host, stream, 4000)
        host.wait(stream)

    (finding,) = findings(looping(step, steps=6), RULE)
    assert finding.summary.params["time"] == 100_000
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx((100_000, 100_000), rel=0.05)


def test_what_comes_once_does_not_recur() -> None:
    """In one of two steps after the first it may be warm-up as well; in the only one it comes a second time."""
    assert findings(allocating(lambda number: number == 1, steps=3), RULE) == []
    assert findings(allocating(lambda number: number < 2, steps=3), RULE) == []
    assert findings(allocating(lambda _: True, steps=3), RULE)
    assert findings(allocating(lambda _: True, steps=2), RULE)


def test_one_step_that_empties_the_cache_does_not_speak_for_the_others() -> None:
    """The second of three steps frees ten blocks and allocates them again; each of them allocates one of 0.3 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10 if number == 1 else 0):
            host.call("cudaFree", 40)
        for _ in range(11 if number == 1 else 1):
            host.call("cudaMalloc", 300)
        compute(host, stream, 20_000)
        host.wait(stream)

    (finding,) = findings(looping(step, steps=3), RULE)
    assert (finding.summary.params["calls"], finding.summary.params["time"]) == (1, 300_000)
    assert [(place.name, place.value) for place in finding.evidence[0].where] == [("cudaMalloc", 300_000)]
    assert finding.saving is not None
    assert max(finding.saving.wall_ns_per_step) <= 310_000


def test_one_step_may_be_the_first() -> None:
    assert "only one step" in (skipped(allocating(lambda _: True, steps=1), RULE) or "")


def test_edge_steps_share() -> None:
    trace = allocating(lambda number: number in (1, 3), steps=5)  # two of the four after the first
    assert findings(trace, RULE, {"steps_share": 0.5})
    assert findings(trace, RULE, {"steps_share": 0.51}) == []


def printed(freed: int, taken: int = 40, *, time: int = 20) -> str:
    """A table of ten steps and 100 ms, with calls of the driver that take some of it."""
    rows = [
        {"Name": name, "Self CPU": f"{own}.000ms", "CPU total": total, "Self CUDA": device, "# of Calls": calls}
        for name, own, total, device, calls in (
            ("ProfilerStep*", 80 - 2 * time, "100.000ms", "0.000us", 10),
            ("aten::mm", 20, "20.000ms", "30.000ms", 100),
            ("cudaMalloc", time, f"{time}.000ms", "0.000us", taken),
            ("cudaFree", time, f"{time}.000ms", "0.000us", freed),
        )
    ]
    return table(rows, cpu="100.000ms", device="30.000ms")


def fires_in_a_printed_table() -> str:
    """Each step frees once; all calls take 4 of 10 ms."""
    return printed(10)


def trap_start_in_a_table() -> str:
    """A start allocates, and frees hardly anything."""
    return printed(2)


def test_calls_that_free_in_each_step_are_told_with_their_time() -> None:
    (found,) = findings(printed(20), "allocator-malloc-in-step")
    assert found.summary.text == (
        "6 calls per step allocate or free memory with the driver (cudaMalloc). They take 4.0 ms, 40 % of the profiled "
        "time."
    )


def test_edge_frees_in_a_table() -> None:
    assert not findings(printed(9), "allocator-malloc-in-step")


@pytest.mark.parametrize(("each", "fires"), [(2, False), (3, True)])
def test_edge_table_share(each: int, fires: bool) -> None:
    """5 ms would be a twentieth of 100 ms; the two calls take 4 and 6 ms."""
    assert bool(findings(printed(10, time=each), "allocator-malloc-in-step")) == fires
