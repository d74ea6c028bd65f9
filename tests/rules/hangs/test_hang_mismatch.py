"""Tests of the rule `hang-mismatch`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun
from tests.rules.judging import findings

RULE = "hang-mismatch"


def begun(ranks: int = 4) -> FlightRun:
    run = FlightRun(ranks, first=100)
    for _ in range(12):
        run.collective()
    return run


def fires() -> FlightRun:
    """A rank sends a tensor of another size."""
    run = begun()
    run.collective(stuck=range(4), other={1: {"input_sizes": [[7]]}})
    return run


def fires_in_a_circle() -> FlightRun:
    """Two ranks use two groups in opposite orders."""
    run = begun()
    run.group("8", "ONE", (0, 1))
    run.group("9", "TWO", (0, 1))
    for group in ("8", "9"):
        run.collective(group=group)
    run.collective(group="8", absent=(1,))
    run.collective(group="9", absent=(0,))
    return run


def quiet() -> FlightRun:
    return begun()


def trap_uneven_tokens() -> FlightRun:
    """Experts get different numbers of tokens, so that all-to-all has other sizes on each rank."""
    run = begun()
    run.collective("all_to_all", stuck=range(4), other={1: {"input_sizes": [[7]]}})
    return run


def trap_finished() -> FlightRun:
    """What is finished has fitted, whatever the sizes."""
    run = begun()
    run.collective(other={1: {"input_sizes": [[7]]}})
    run.collective(absent=(3,))
    return run


def test_what_is_said() -> None:
    (found,) = findings(fires(), RULE)
    assert found.summary.text == (
        "In default_pg (0), at number 113: all_reduce [1024] Float (rank 0, 2, 3), all_reduce [7] Float (rank 1)."
    )
    (circle,) = findings(fires_in_a_circle(), RULE)
    assert circle.title.text == "Ranks wait for each other in a circle"
    assert circle.summary.params["ranks"] == "0 > 1 > 0"
