"""Tests of the rule `hang-rank-missing`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings, report

RULE = "hang-rank-missing"


def fires() -> FlightRun:
    """A rank sleeps, and three wait for it."""
    run = begun()
    run.collective("all_to_all", absent=(2,))
    return run


def fires_without_an_answer() -> FlightRun:
    run = begun()
    run.send(0, 1, only="send")
    return run


def quiet() -> FlightRun:
    return begun()


def trap_devices_that_stopped() -> FlightRun:
    """The rank has called it; its device did not finish it."""
    run = begun()
    run.collective(stuck=(2,))
    run.collective(stuck=range(4))
    return run


def trap_a_chain() -> FlightRun:
    """All call the same; the ranks that wait in one group are not what the other one waits for."""
    run = begun()
    run.collective(stuck=range(4))
    return run


def test_who_is_named_and_how_sure_it_is() -> None:
    (found,) = findings(fires(), RULE)
    assert [place.name for place in found.evidence[0].where] == ["2"]
    assert (found.severity, found.confidence, found.evidence[0].observed) == ("critical", "A", 3)
    assert found.summary.params["ranks"] == "2"
    assert found.summary.params["operation"] == "all_to_all"
    (unanswered,) = findings(fires_without_an_answer(), RULE)
    assert ([place.name for place in unanswered.evidence[0].where], unanswered.confidence) == (["1"], "B")


def test_beside_a_device_that_stopped() -> None:
    run = FlightRun(6)
    run.group("7", "ONE", (0, 1, 2))
    run.group("8", "TWO", (3, 4, 5))
    run.collective()
    run.collective("barrier", "7", stuck=(1,))
    run.collective("barrier", "7", stuck=(0, 1, 2))
    run.collective("all_gather", "8", absent=(5,))
    (found,) = findings(run, RULE)
    assert found.summary.params["ranks"] == "5"
    assert found.summary.params["group"] == "TWO (8)"
    (headline,) = report(run).headlines
    assert headline.text == "The device of 1 rank stopped: 1; 4 other ranks wait."


def test_more_absent_than_waiting_is_unsure() -> None:
    run = begun()
    run.collective(absent=(1, 2, 3))
    (found,) = findings(run, RULE)
    assert found.confidence == "C"
