"""Tests of the rule `copies-exposed`: numbers worked out by hand, and edges of thresholds.

The programs: large copies in each step, alone on the GPU or beside kernels.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream
from tests.builders.transfers import Copy
from tests.builders.values import Time
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped

MASKS = 40_000_000
"""Bytes of a result."""


def copying(
    kind: Copy = "DtoH",
    dur: Time = 4000,
    *,
    nbytes: int = MASKS,
    times: int = 1,
    pinned: bool = False,
    gpu: Time = 4000,
    steps: int = 4,
) -> TraceBuilder:
    """Each step computes and copies, on the stream that computes, and then waits."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, gpu)
        for _ in range(times):
            with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_"):
                host.copy(kind, nbytes, stream, dur=dur, pinned=pinned)
        host.wait(stream)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """A result of 40 MB is copied for 4 ms after 4 ms of kernels."""
    return copying()


def quiet() -> TraceBuilder:
    """A copy of 0.5 ms beside 4 ms of kernels."""
    return copying(dur=500)


def trap_overlapped() -> TraceBuilder:
    """The copies run beside the kernels of the next batch."""
    other = Stream(20)

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::copy_"):
            host.copy("DtoH", MASKS, other, dur=4000, pinned=True)
        compute(host, stream, 8000)
        host.wait(stream)

    return looping(step)


def trap_pageable_to_the_device() -> TraceBuilder:
    """h2d-pageable is about these."""
    return copying("HtoD")


def trap_small_copies() -> TraceBuilder:
    """A hundred values, whose copies take 15 us each, beside a result that takes 0.2 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 1000)
        for _ in range(100):
            with host.op("aten::copy_"):
                host.copy("DtoH", 4096, stream, dur=15, wait=True)
        with host.op("aten::copy_"):
            host.copy("DtoH", 2_000_000, stream, dur=200, wait=True)

    return looping(step)


def trap_waits_for_kernels() -> TraceBuilder:
    """The call of a blocking copy of 0.1 ms takes 8 ms, because the kernels before it do."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 8000)
        with host.op("aten::copy_"):
            host.copy("DtoH", 1_000_000, stream, dur=100, call_dur=8100)

    return looping(step)


def trap_checkpoint() -> TraceBuilder:
    """One step of four saves the weights: a hundred copies of 0.2 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 4000)
        for _ in range(100 if number == 1 else 0):
            with host.op("aten::copy_"):
                host.copy("DtoH", 2_000_000, stream, dur=200)
        host.wait(stream)

    return looping(step)


def trap_now_and_then() -> TraceBuilder:
    """One step of four copies one large result."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 4000)
        if number == 1:
            with host.op("aten::copy_"):
                host.copy("DtoH", MASKS, stream, dur=30_000)
        host.wait(stream)

    return looping(step)


def trap_within_the_device() -> TraceBuilder:
    """No bus is involved."""
    return copying("DtoD")


RULE = "copies-exposed"


def test_the_copies_are_saved_at_most() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 4_000_000))
    low, high = finding.saving.wall_ns_per_step
    assert low == 0
    assert high == pytest.approx(4_000_000, rel=0.01)  # with the host's gap after the wait, which goes, too
    assert finding.evidence[0].observed == pytest.approx(0.5, rel=0.01)
    assert finding.summary.id == "copies-exposed-summary"
    assert finding.summary.params["bytes"] == MASKS


def test_what_the_host_computes_with_the_result_is_not_saved() -> None:
    """4 ms of kernels, 4 ms of copies, 8 ms of the host on what was copied: it still has to wait for the kernels."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 4000)
        with host.op("aten::to"), host.op("aten::_to_copy"), host.op("aten::copy_"):
            host.copy("DtoH", MASKS, stream, dur=4000, call_dur=8000)
        host.leaf("aten::argmax", 8000)

    (found,) = findings(looping(step, steps=4), "copies-exposed")
    assert found.saving is not None
    assert found.saving.wall_ns_per_step is not None
    assert found.saving.wall_ns_per_step[1] <= 4_000_000


def test_pinned_copies_to_the_device_get_their_own_advice() -> None:
    (finding,) = findings(copying("HtoD", pinned=True), RULE)
    assert finding.advice.id == "copies-exposed-advice-to-device"
    assert not finding.code


def test_each_direction_is_a_finding() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for kind in ("HtoD", "DtoH"):
            with host.op("aten::copy_"):
                host.copy(kind, MASKS, stream, dur=4000, pinned=True)
        compute(host, stream, 2000)
        host.wait(stream)

    found = findings(looping(step), RULE)
    assert [finding.saving and finding.saving.direct_ns_per_step[1] for finding in found] == [4_000_000] * 2


def test_what_kernels_run_beside_other_parts_of_the_copies_takes_nothing_from_the_rest() -> None:
    other = Stream(20)

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.op("aten::copy_"):
            host.copy("HtoD", MASKS, other, dur=7000, pinned=True)
        compute(host, stream, 2000)
        host.wait(other)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(5_000_000)


def test_a_copy_without_steps_may_be_the_only_one() -> None:
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    compute(host, stream, 1000)
    with host.op("aten::copy_"):
        host.copy("DtoH", MASKS, stream, dur=4000, wait=True)
    assert "comes again" in (skipped(trace, RULE) or "")


def test_edge_small_ns() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 4000)
        for nbytes, dur in ((MASKS, 4000), (4096, 3000)):
            with host.op("aten::copy_"):
                host.copy("DtoH", nbytes, stream, dur=dur)
        host.wait(stream)

    for small_ns, exposed in ((0, 7_000_000), (1_000_000, 6_000_000)):
        (finding,) = findings(looping(step), RULE, {"small_ns": small_ns})
        assert finding.saving is not None
        assert finding.saving.direct_ns_per_step[1] == pytest.approx(exposed)
