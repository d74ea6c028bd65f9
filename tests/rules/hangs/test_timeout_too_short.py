"""Tests of the rule `timeout-too-short`: dumps of runs whose operations come close to their limit."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings, report

RULE = "timeout-too-short"
SECOND = 1_000_000_000


def fires() -> FlightRun:
    """A rank saves a checkpoint and comes when the limit of 600 s is nearly over."""
    run = begun()
    run.collective(stuck=range(4), late_ns={2: 598 * SECOND})
    return run


def fires_for_what_has_finished() -> FlightRun:
    run = begun()
    run.collective(late_ns={2: 540 * SECOND})
    return run


def quiet() -> FlightRun:
    return begun()


def trap_a_rank_that_is_a_little_late() -> FlightRun:
    run = begun()
    run.collective(stuck=range(4), late_ns={2: 60 * SECOND})
    return run


def trap_a_rank_that_never_came() -> FlightRun:
    run = begun()
    run.collective(absent=(1,), late_ns={2: 598 * SECOND})
    return run


def test_how_late_the_last_one_came() -> None:
    (found,) = findings(fires(), RULE)
    assert (found.severity, found.summary.id) == ("high", "timeout-too-short-late")
    assert found.summary.params | {"ranks": "2", "taken": 598 * SECOND, "limit": 600 * SECOND} == found.summary.params
    assert report(fires()).headlines[0].message.id == "headline-hang-timeout"


def test_what_has_finished_is_of_low_severity() -> None:
    (found,) = findings(fires_for_what_has_finished(), RULE)
    assert (found.severity, found.summary.id) == ("low", "timeout-too-short-summary")


def test_the_time_of_the_device_counts_where_the_end_was_not_seen() -> None:
    run = begun()
    for entry in run.ranks[1].entries:
        entry.update(time_discovered_completed_ns=None, duration_ms=500_000.5)
    (found,) = findings(run, RULE)
    assert found.summary.params["taken"] == 500_000_500_000


def test_edge_share() -> None:
    run = begun()
    run.collective(stuck=range(4), late_ns={2: 480 * SECOND})
    assert len(findings(run, RULE)) == 1
    run = begun()
    run.collective(stuck=range(4), late_ns={2: 480 * SECOND - 1})
    assert not findings(run, RULE)
