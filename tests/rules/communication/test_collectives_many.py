"""Tests of the rule `collectives-many`: numbers worked out by hand, and edges of thresholds.

The programs: training steps that reduce their gradients one by one.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

REDUCTION = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def training(calls: int, dur: int, *, update: bool = True) -> TraceBuilder:
    """Three steps of a product of 5000 us and collectives of `dur` us behind it; sizes are not recorded."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 8})
    length = 5100 + calls * (dur + 5)
    for number in range(3):
        start = number * length
        trace.step(number, start, length)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, 5000, at=start + 10)
        for call in range(calls):
            begin = start + 5030 + call * (dur + 5)
            trace.launch_kernel(REDUCTION, begin, dur, at=start + 40 + 3 * call)
        if update:
            trace.op("Optimizer.step#SGD.step", start + length - 20, 10)
    return trace


def fires() -> TraceBuilder:
    """Two hundred reductions of 20 us."""
    return training(200, 20)


def quiet() -> TraceBuilder:
    """Ten large messages per step."""
    return training(10, 400)


def trap_long_collectives() -> TraceBuilder:
    """Many, but each is long: the links are busy."""
    return training(150, 200)


def trap_tensor_parallel_inference() -> TraceBuilder:
    """Two per layer, each of which the next layer needs."""
    return training(200, 20, update=False)


def over_gloo(reduces: list[int], *, passes: int = 1, elements: int = 1000) -> TraceBuilder:
    """Three steps of 2 ms on the CPU with passes that wait for so many all-reduces, one after the other."""
    loop = GlooTraining()
    for number in range(3):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            for _ in range(passes):
                loop.forward()
                loop.backward(reduces, elements=elements)
            loop.update()
    return loop.finish()


def fires_over_gloo() -> TraceBuilder:
    """Six messages of 4 kB, of 300 to 800 us."""
    return over_gloo([300, 400, 500, 600, 700, 800])


def trap_one_bucket_per_pass() -> TraceBuilder:
    """Six passes of an accumulation, each with its bucket."""
    return over_gloo([500], passes=6)


def trap_full_buckets() -> TraceBuilder:
    """A large model: each of six messages is a full bucket of 25 MiB."""
    return over_gloo([5000] * 6, elements=(25 << 20) // 4)


def trap_first_bucket() -> TraceBuilder:
    """The first bucket is small by design, and parameters that come late make two more."""
    return over_gloo([300, 400, 500, 600])


RULE = "collectives-many"


def test_nine_tenths_could_go() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params["calls"] == 200
    assert finding.summary.params["exposed"] == pytest.approx(4_000_000)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(3_600_000))


def test_says_why_it_cannot_judge() -> None:
    assert "between layers" in (skipped(trap_tensor_parallel_inference(), RULE) or "")
    assert "same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls() -> None:
    assert findings(fires(), RULE, {"calls": 200}) == []
    assert findings(fires(), RULE, {"calls": 199.9})


def test_edge_mean_ns() -> None:
    assert findings(fires(), RULE, {"mean_ns": 20_000}) == []
    assert findings(fires(), RULE, {"mean_ns": 20_001})


def test_edge_exposed_share() -> None:
    share = 4000 / 10_100
    assert findings(fires(), RULE, {"exposed_share": share + 0.001}) == []
    assert findings(fires(), RULE, {"exposed_share": share - 0.001})


def test_messages_on_the_cpu_that_fit_into_one_bucket() -> None:
    """Six of 3300 us in all: at most all but the shortest, at least 300 us for each of four that go away."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.evidence[0].observed == 4, "one bucket, and a first small one, would do"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_200_000, 3_000_000))
    assert "bucket_cap_mb" in (finding.code or "")


def test_edge_surplus() -> None:
    assert findings(fires_over_gloo(), RULE, {"surplus": 4.01}) == []
    assert findings(fires_over_gloo(), RULE, {"surplus": 4})


def test_edge_bytes() -> None:
    trace = over_gloo([500] * 6, elements=1 << 18)
    assert findings(trace, RULE) == []
    assert findings(trace, RULE, {"bytes": (1 << 20) + 1})
