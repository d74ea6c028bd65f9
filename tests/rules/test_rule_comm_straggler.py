"""Tests of the rule `comm-straggler`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.ranks import Meeting, run
from tests.rules.judging import findings, report, skipped
from tests.rules.situations import comm_exposed
from tests.rules.situations.comm_straggler import (
    always,
    fires,
    fires_for_the_cause,
    fires_over_gloo,
    fires_without_numbers,
    meeting,
    over_gloo,
    trap_somebody_else_each_time,
)
from tests.rules.situations.dataloader_bound import fires_in_a_table

RULE = "comm-straggler"
TWO = {"steps": 2}


def late(extra: int, **how: object):  # type: ignore[no-untyped-def]
    """Rank 2 of 4 is late by exactly this time."""
    return run(4, [Meeting(lambda rank, step: 1000 + extra * (rank == 2))], **how)  # type: ignore[arg-type]


def test_it_is_worth_what_the_others_wait() -> None:
    (finding,) = findings(late(400), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((400_000, 400_000)), "a step is as long on all ranks"
    assert finding.saving.wall_ns_per_step == pytest.approx((400_000 * 0.98 / 1.02, 400_000))
    assert "rank 2: it makes a step 400.0 us (25 %) longer" in finding.summary.text
    assert "computes 400.0 us longer" in finding.summary.text


def test_at_least_what_it_is_later_than_the_next() -> None:
    (finding,) = findings(run(4, [Meeting(lambda r, s: 1000 + {2: 400, 1: 300}.get(r, 0))]), RULE)
    assert finding.saving is not None
    # without rank 2 they would wait for rank 1, which comes 100 us before it
    assert finding.saving.direct_ns_per_step == pytest.approx((100_000, 100_000))


def test_two_late_ranks_gain_nothing_for_sure() -> None:
    (finding,) = findings(run(4, [Meeting(lambda r, s: 1000 + 400 * (r in (1, 2)))]), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, pytest.approx(800_000 / 3))
    assert "another rank is equally late" in finding.saving.basis.text


def test_numbers_and_order_say_the_same() -> None:
    numbered, ordered = findings(fires(), RULE), findings(fires_without_numbers(), RULE)
    assert numbered == ordered


def test_the_cause_is_named_and_not_who_was_delayed() -> None:
    (finding,) = findings(fires_for_the_cause(), RULE)
    assert "rank 2" in finding.summary.text
    names = {place.name for evidence in finding.evidence for place in evidence.where if place.kind == "kernel"}
    assert names == {"all_reduce (tp0)", *(f"all_reduce (dp{n})" for n in range(4))}


def test_its_saving_is_not_claimed_again_for_exposed_communication() -> None:
    found = report(late(400))
    rules = {finding.rule: finding for finding in found.findings}
    exposed = rules["comm-exposed"]
    assert exposed.saving is not None
    assert exposed.saving.direct_ns_per_step[1] == pytest.approx(200_000), "transfer only"
    assert "without waiting for other ranks" in exposed.saving.basis.text


def test_edge_wait_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"wait_share": share})
    assert findings(fires(), RULE, {"wait_share": share + 1e-9}) == []


def test_edge_step_share() -> None:
    mostly = run(4, [meeting(lambda rank, step: 400 * (rank == (1 if step == 4 else 2)))])
    assert findings(mostly, RULE, {"step_share": 0.75})
    assert findings(mostly, RULE, {"step_share": 0.76}) == []


def test_edge_of_waiting() -> None:
    assert findings(fires(), RULE, {"of_waiting": 0.9})
    assert findings(trap_somebody_else_each_time(), RULE, {"step_share": 0.25, "of_waiting": 0.26}) == []
    assert findings(trap_somebody_else_each_time(), RULE, {"step_share": 0.25, "of_waiting": 0.24})


def test_edge_steps() -> None:
    short = run(4, [meeting(always(2))], steps=2)
    assert findings(short, RULE, TWO)
    assert findings(short, RULE, {"steps": 3}) == []
    assert "too few steps" in (skipped(short, RULE) or "")


def test_says_why_it_cannot_judge() -> None:
    assert "compare all ranks" in (skipped(comm_exposed.fires(), RULE) or "")
    assert "compare all ranks" in (skipped(fires()[:1], RULE) or "")
    assert "one rank" in (skipped(fires_in_a_table(), RULE) or "")
    alone = run(2, [Meeting(lambda r, s: 1000, groups=[(0,), (1,)])])
    assert "no collective was found on several ranks" in (skipped(alone, RULE) or "")


def test_over_gloo_the_spread_of_steps_makes_the_interval() -> None:
    """2.0 to 2.5 ms in six steps."""
    (finding,) = findings(fires_over_gloo(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((2_000_000, 2_500_000), rel=0.01)
    assert finding.summary.params["rank"] == 1


def test_over_gloo_a_tenth_of_the_steps_may_be_disturbed() -> None:
    """Of 21 steps the other rank is late in two, and one takes far longer; of nine steps none may be disturbed."""
    run = over_gloo(lambda rank, step: (9000 if step == 7 else 2000) * (rank if step not in (3, 11) else 1 - rank), 21)
    (finding,) = findings(run, RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1_750_000, 2_000_000), rel=0.15)
    assert finding.summary.params["excess"] is None, "nothing recorded explains a sleep"
    few = over_gloo(lambda rank, step: 2000 * (rank if step != 3 else 1 - rank), 9)
    assert findings(few, RULE) == []


def test_edge_host_least() -> None:
    """The least of 2.0 to 2.5 ms is 0.889 of the mean."""
    assert findings(fires_over_gloo(), RULE, {"host_least": 0.89}) == []
    assert findings(fires_over_gloo(), RULE, {"host_least": 0.88})


def test_edge_host_steps() -> None:
    assert findings(fires_over_gloo(), RULE, {"host_steps": 7}) == []
    assert findings(fires_over_gloo(), RULE, {"host_steps": 6})
