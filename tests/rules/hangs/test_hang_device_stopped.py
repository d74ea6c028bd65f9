"""Tests of the rule `hang-device-stopped`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun
from tests.rules.judging import findings

RULE = "hang-device-stopped"


def begun(ranks: int = 4) -> FlightRun:
    run = FlightRun(ranks, first=100)
    for _ in range(12):
        run.collective()
    return run


def fires() -> FlightRun:
    """The device of a rank stops in an operation that the others finish."""
    run = begun()
    run.collective(stuck=(2,))
    run.collective(stuck=range(4))
    return run


def quiet() -> FlightRun:
    return begun()


def trap_root_of_a_broadcast() -> FlightRun:
    """The root of a broadcast finishes before the others have begun."""
    run = begun()
    run.collective("broadcast", stuck=(1, 2, 3))
    return run


def trap_a_rank_that_never_came() -> FlightRun:
    run = begun()
    run.collective(absent=(2,))
    return run


def test_who_is_named() -> None:
    (found,) = findings(fires(), RULE)
    assert [place.name for place in found.evidence[0].where] == ["2"]
    assert found.summary.params | {"ranks": "2", "passed": 3, "waiting": 3} == found.summary.params
