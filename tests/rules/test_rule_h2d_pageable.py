"""Tests of the rule `h2d-pageable`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped, varied
from tests.rules.situations.h2d_pageable import BATCH, fires, fires_in_a_table, printed, trap_rocm_does_not_say

RULE = "h2d-pageable"


def test_pinned_memory_is_taken_to_be_as_fast_as_pcie_3() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == pytest.approx(varied(2_000_000), rel=0.01)  # 4 ms - 24 MB at 12 GB/s
    assert finding.confidence == "B"
    assert finding.evidence[0].observed == pytest.approx(4 / 24, rel=0.01)


def test_pinned_copies_of_the_trace_tell_the_bandwidth() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for pinned, dur in ((False, 4000), (True, 1000)):
            with host.op("aten::copy_"):
                host.copy("HtoD", BATCH, stream, dur=dur, pinned=pinned)
        compute(host, stream, 20_000)
        host.wait(stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3_000_000, 3_000_000), rel=0.01)
    assert finding.confidence == "A"


def test_a_table_prints_no_sizes() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 4_000_000)


def test_in_a_table_such_copies_hold_up_the_host_as_well() -> None:
    (finding,) = findings(printed("Memcpy HtoD (Pageable -> Device)", "40.000ms", 10, cpu="900.000ms"), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 4_000_000)
    assert finding.saving.resource == "host"


def test_rocm_is_skipped_with_the_reason() -> None:
    assert "pageable or pinned" in (skipped(trap_rocm_does_not_say(), RULE) or "")


def test_edge_copy_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"copy_share": share}) == []
    assert findings(fires(), RULE, {"copy_share": share - 1e-9})


def test_edge_call_ns() -> None:
    assert findings(fires_in_a_table(), RULE, {"call_ns": 4_000_000}) == []
    assert findings(fires_in_a_table(), RULE, {"call_ns": 3_999_999})
