"""Tests of the rule `hang-device-stopped`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders import watchdog
from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings

RULE = "hang-device-stopped"


def fires() -> FlightRun:
    """The device of a rank stops in an operation that the others finish."""
    run = begun()
    run.collective(stuck=(2,))
    run.collective(stuck=range(4))
    return run


def fires_before_it() -> FlightRun:
    """A kernel of one device does not end, so that it never begins what the others have begun."""
    run = begun()
    started = {"state": "started"}
    run.collective(stuck=range(4), other={0: started, 1: started, 3: started})
    return run


def fires_without_certainty() -> FlightRun:
    """Dumps on demand: two devices are still in the last operation, and nobody waits for them."""
    run = begun()
    run.collective(stuck=(2, 3))
    return run


def fires_for_a_log() -> str:
    lines = "".join(watchdog.caught(rank, 77) for rank in (0, 1, 2))
    return lines + watchdog.caught(3, 76, "_ALLGATHER_BASE")


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


def test_a_device_that_has_not_begun() -> None:
    (found,) = findings(fires_before_it(), RULE)
    assert (found.severity, found.summary.id) == ("critical", "hang-device-stopped-busy")
    assert found.summary.params["ranks"] == "2"


def test_where_nobody_waits_nothing_is_certain() -> None:
    (found,) = findings(fires_without_certainty(), RULE)
    assert (found.severity, found.confidence) == ("low", "C")
    assert (found.summary.id, found.summary.params["ranks"]) == ("hang-device-stopped-open", "2, 3")


def test_a_log_does_not_tell_a_device_from_another_call() -> None:
    (found,) = findings(fires_for_a_log(), RULE)
    assert (found.confidence, found.summary.id) == ("C", "hang-device-stopped-logged")
    assert found.summary.params | {"ranks": "3", "sequence": "76", "passed": 3} == found.summary.params
