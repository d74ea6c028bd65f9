"""Tests of the rule `hang-mismatch`: dumps of runs with a planted fault."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun, begun
from tests.rules.judging import findings

RULE = "hang-mismatch"


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
    assert circle.summary.text == (
        "0, 1 wait for each other, as in 0 > 1 > 0: each waits in an operation that the next one calls only later."
    )


def test_all_ranks_of_two_crossed_pairs_are_named() -> None:
    run = begun()
    run.group("8", "TENSOR", (0, 1, 2, 3))
    run.group("9", "DATA", (0, 1, 2, 3))
    for group in ("8", "9"):
        run.collective(group=group)
    run.collective(group="8", absent=(2, 3))
    run.collective(group="9", absent=(0, 1))
    (found,) = findings(run, RULE)
    assert found.summary.params == {"ranks": "0-3", "circle": "0 > 2 > 0"}


def test_two_sends_that_wait_for_each_other() -> None:
    run = begun(2)
    run.send(0, 1, only="send")
    run.send(1, 0, only="send")
    (found,) = findings(run, RULE)
    assert (found.summary.id, found.advice.id) == ("hang-mismatch-circle-sends", "hang-mismatch-advice-peers")
    run = begun(2)
    run.send(0, 1, only="recv")
    run.send(1, 0, only="recv")
    assert findings(run, RULE)[0].summary.id == "hang-mismatch-circle-recvs"
