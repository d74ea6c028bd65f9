"""Tests of the rule `dump-missing`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders import watchdog
from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings

RULE = "dump-missing"


def fires() -> FlightRun:
    """A rank was killed while the others waited for it."""
    run = begun()
    run.collective(absent=(3,))
    return run.killed(3)


def fires_beside_another_cause() -> FlightRun:
    """A rank sleeps, and the dump of another one was not copied."""
    run = begun()
    run.collective(absent=(3,))
    return run.killed(1)


def fires_for_a_log() -> str:
    return watchdog.caught(0, 7) + watchdog.caught(2, 7)


def quiet() -> FlightRun:
    return begun()


def trap_a_ring_without_entries() -> FlightRun:
    """A rank that has recorded nothing has a dump."""
    run = begun()
    run.ranks[2].entries.clear()
    return run


def test_how_severe_it_is() -> None:
    (found,) = findings(fires(), RULE)
    assert (found.severity, found.confidence, found.summary.id) == ("high", "B", "dump-missing-awaited")
    (other,) = findings(fires_beside_another_cause(), RULE)
    assert (other.severity, other.confidence, other.summary.id) == ("low", "A", "dump-missing-summary")


def test_a_log_is_no_dump() -> None:
    (found,) = findings(fires_for_a_log(), RULE)
    assert (found.severity, found.confidence, found.summary.id) == ("high", "C", "dump-missing-logged-awaited")
    assert found.summary.params | {"ranks": "1", "waiting": 2} == found.summary.params
    (alone,) = findings(watchdog.caught(0, 7), RULE)
    assert (alone.severity, alone.summary.id) == ("low", "dump-missing-logged")
    assert "TORCH_NCCL_TRACE_BUFFER_SIZE=2000" in alone.advice.text
