"""Tests of the rule `comm-inefficient`: numbers worked out by hand, and edges of thresholds.

The programs: collectives of different sizes and speeds.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import Device
from tests.rules.communication.test_comm_exposed import MEGA
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

Message = tuple[int, int]
"""Elements of four bytes, and microseconds."""


def exchange(*messages: Message, steps: int = 3, compute: int = 2000, ranks: tuple[int, ...] = (0, 1)) -> TraceBuilder:
    """Steps of one product and some all-reduces, one after the other."""
    trace = TraceBuilder(distributed={"backend": "nccl", "rank": 0, "world_size": 2})
    start = 0
    for number in range(steps):
        begin = start
        trace.op("aten::mm", start + 5, 20)
        trace.launch_kernel("ampere_sgemm_128x64_nn", start + 20, compute, at=start + 10)
        end = start + 20 + compute
        for index, (nelems, dur) in enumerate(messages):
            at = start + 40 + 70 * index
            trace.collective("all_reduce", max(end + 2, at + 70), dur, at=at, nelems=nelems, ranks=ranks)
            end = max(end + 2, at + 70) + dur
        trace.step(number, begin, end + 10 - begin)
        start = end + 20
    return trace


def fires() -> TraceBuilder:
    """One of two large messages takes four times as long for the same bytes."""
    return exchange((10 * MEGA, 400), (10 * MEGA + 8, 1600))


def fires_for_many_small_messages() -> TraceBuilder:
    """Each parameter is sent by itself."""
    return exchange(*[(5_000, 60)] * 12, compute=500)


def quiet() -> TraceBuilder:
    """Large buckets, all equally fast."""
    return exchange((10 * MEGA, 400), (12 * MEGA, 480))


def trap_little_communication() -> TraceBuilder:
    """A few small messages in a long step: merging them gains nothing."""
    return exchange((5_000, 20), (5_000, 20), compute=20_000)


def trap_small_messages_beside_large_ones() -> TraceBuilder:
    """Many small messages, but nearly all time is in one large one."""
    return exchange(*[(1_000, 10)] * 8, (50 * MEGA, 2_000))


def fires_below_the_link() -> TraceBuilder:
    """All large messages move 10 GB/s: 42 MB in 4 ms and more, where the A100's NVLink carries 300 GB/s."""
    return exchange((10 * MEGA, 4_000), (12 * MEGA, 4_800))


RULE = "comm-inefficient"


def test_slow_messages_are_worth_the_time_beyond_the_best_rate() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(1_200_000, rel=0.01)
    assert finding.evidence[0].observed == pytest.approx(0.25, rel=0.01)
    assert finding.severity in ("info", "low"), "all of the slow ones may have waited for another rank"


def test_small_messages_would_fit_one_bucket() -> None:
    (finding,) = findings(fires_for_many_small_messages(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx((36 - 1) * 60_000 / 3, rel=0.01)
    assert "36 of 36" in finding.summary.text


def test_messages_far_below_the_link_are_worth_the_time_beyond_half_of_it() -> None:
    (finding,) = findings(fires_below_the_link(), RULE)
    assert finding.saving is not None
    # two ranks: the bus carries what the message has; at 150 GB/s, 10 and 12 times 4 MiB take 0.28 and 0.34 ms
    expected = 8_800_000 - 22 * 4 * MEGA / 150
    assert finding.saving.direct_ns_per_step == pytest.approx((0, expected), rel=0.001)
    assert finding.evidence[0].observed == pytest.approx(10 * 4 * MEGA / 4_000_000 / 300, rel=0.001)
    assert "NVLink" in finding.summary.text


def test_gpus_without_a_known_link_are_not_compared() -> None:
    unknown = fires_below_the_link()
    unknown.devices = (Device("Some Other GPU", 40 * 2**30),)
    assert findings(unknown, RULE) == []


def test_edge_share() -> None:
    assert findings(fires(), RULE, {"share": 0.49})
    assert findings(fires(), RULE, {"share": 0.51}) == []


def test_edge_large_bytes() -> None:
    assert findings(fires(), RULE, {"large_bytes": 40 * MEGA})
    assert findings(fires(), RULE, {"large_bytes": 40 * MEGA + 1}) == [], "the fast one is not large enough to compare"


def test_edge_small_bytes() -> None:
    small = fires_for_many_small_messages
    assert findings(small(), RULE, {"small_bytes": 20_001})
    assert findings(small(), RULE, {"small_bytes": 20_000}) == []


def test_edge_small_share() -> None:
    mixed = exchange(*[(5_000, 60)] * 3, (2 * MEGA, 180))
    assert findings(mixed, RULE, {"small_share": 0.499})
    assert findings(mixed, RULE, {"small_share": 0.5}) == [], "half of the time is in the large one"


def test_says_why_it_cannot_judge() -> None:
    assert "message sizes" in (skipped(fires_in_a_table(), RULE) or "")
    assert "message sizes" in (skipped(exchange((0, 500)), RULE) or "")
