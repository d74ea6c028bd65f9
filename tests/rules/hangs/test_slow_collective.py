"""Tests of the rule `slow-collective`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings

RULE = "slow-collective"


def fires() -> FlightRun:
    """A rank calls each collective 4 ms after the others."""
    run = FlightRun(4)
    for _ in range(20):
        run.collective(late_ns={1: 4_000_000})
    return run


def quiet() -> FlightRun:
    return begun()


def trap_clocks() -> FlightRun:
    """The clock of a rank is 50 ms ahead; all finish together."""
    run = begun()
    for entry in run.ranks[2].entries:
        entry["time_created_ns"] += 50_000_000
        entry["time_discovered_completed_ns"] += 50_000_000
    return run


def trap_now_one_now_another() -> FlightRun:
    run = FlightRun(4)
    for number in range(20):
        run.collective(late_ns={number % 4: 4_000_000})
    return run


def trap_a_hang() -> FlightRun:
    """Who is late does not matter once they wait."""
    run = fires()
    run.collective(absent=(0,))
    return run


def test_figures() -> None:
    (found,) = findings(fires(), RULE)
    figures = {"rank": "1", "last": 20, "collectives": 20, "late": 4_000_000.0, "interval": 16_500_000.0}
    assert found.summary.params | figures == found.summary.params
    assert found.confidence == "B"


def test_without_ends_clocks_may_differ() -> None:
    run = fires()
    for rank in run.ranks:
        for entry in rank.entries:
            entry["time_discovered_completed_ns"] = None
    (found,) = findings(run, RULE)
    assert found.confidence == "C"
