"""Tests of the rule `hang-all-waiting`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders import watchdog
from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings

RULE = "hang-all-waiting"


def fires() -> FlightRun:
    """All call the same, and nothing is finished."""
    run = begun()
    run.collective(stuck=range(4))
    return run


def quiet() -> FlightRun:
    return begun()


def trap_somebody_is_missing() -> FlightRun:
    run = begun()
    run.collective(absent=(2,))
    return run


def test_it_is_a_guess() -> None:
    (found,) = findings(fires(), RULE)
    assert (found.severity, found.confidence, found.evidence[0].observed) == ("high", "C", 4)


def test_of_a_log_only_those_with_a_line_are_known() -> None:
    (found,) = findings(watchdog.caught(0, 7) + watchdog.caught(1, 7), RULE)
    assert (found.confidence, found.summary.id) == ("C", "hang-all-waiting-logged")
