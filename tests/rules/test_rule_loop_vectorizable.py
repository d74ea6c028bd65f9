"""Tests of the rule `loop-vectorizable`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import plain
from tests.rules.judging import findings, report, skipped
from tests.rules.situations.loop_vectorizable import fires, iterating, on_a_cpu, trap_many_calls_in_a_table

RULE = "loop-vectorizable"


def test_all_turns_but_one_go_away() -> None:
    (finding,) = findings(fires(), RULE)
    (row,) = plain(report(fires(), RULE))["repeats"]["rows"]
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(row["host_ns"] / 4 * 63 / 64)
    assert low == high / 2
    assert finding.saving.wall_ns_per_step[1] < high, "the GPU works while the loop begins"


def test_a_table_does_not_tell_who_calls() -> None:
    assert "does not show whether" in (skipped(trap_many_calls_in_a_table(), RULE) or "")


def test_edge_turns() -> None:
    assert findings(iterating(10), RULE)
    assert findings(iterating(9), RULE) == []
    assert findings(iterating(64), RULE, {"turns": 64})
    assert findings(iterating(64), RULE, {"turns": 65}) == []


def test_edge_host_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    share = finding.saving.direct_ns_per_step[1] / report(fires(), RULE).headlines[0].resources.step_ns
    assert findings(fires(), RULE, {"host_share": share * (1 + 1e-9)}) == []
    assert findings(fires(), RULE, {"host_share": share * (1 - 1e-9)})


def test_on_a_cpu_small_operators_cost_their_calls() -> None:
    (finding,) = findings(on_a_cpu(4), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 4_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.65 * removed, 1.1 * removed))


def test_on_a_cpu_gradients_of_small_pieces_are_added_up() -> None:
    """Twelve turns of two operators of 4 us, each with an evaluation of 5 us in the backward pass."""
    trace, engine = TraceBuilder(devices=()), 4297
    trace.step(2, 0, 1000)
    for turn in range(12):
        trace.op("aten::select", 8 * turn, 4)
        trace.op("aten::mul", 8 * turn + 4, 4, sequence=turn)
    for number, sequence in enumerate(range(11, -1, -1)):
        name = "autograd::engine::evaluate_function: MulBackward0"
        trace.op(name, 300 + 10 * number, 5, sequence=sequence, fwd_thread=1, tid=engine)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    removed = 11 * (8_000 + 5_000)
    assert finding.saving.direct_ns_per_step == pytest.approx((removed, 1.6 * removed))


def test_on_a_cpu_large_pieces_still_have_to_be_computed() -> None:
    (finding,) = findings(on_a_cpu(100), RULE)
    assert finding.saving is not None
    removed = 63 * 3 * 100_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * removed, removed))
