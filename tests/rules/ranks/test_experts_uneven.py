"""Tests of the rule `experts-uneven`: numbers worked out by hand.

The programs: ranks that exchange the tokens of experts without a library, layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.rules.communication import test_comm_exposed as comm_exposed
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires as bound_by_loader
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

RULE = "experts-uneven"
DISPATCH = "void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*, float*, int*)"
COMBINE = "void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*, void*, int*)"
LAYERS = 8
Run = tuple[TraceBuilder, ...]


def experts(tokens: Callable[[int, int], int], **how: object) -> Run:
    """Layers of an exchange of 50 us, experts that compute for 200 us and more, and another exchange.

    Args:
        tokens: From rank and layer to microseconds that its experts take longer.
        how: As of `run`.
    """
    meetings = []
    for layer in range(LAYERS):
        meetings += [
            Meeting(lambda rank, step: 100, transfer=50, kernel=DISPATCH),
            Meeting(lambda rank, step, layer=layer: 200 + tokens(rank, layer), transfer=50, kernel=COMBINE),  # type: ignore[misc]
        ]
    return run(4, meetings, **how)  # type: ignore[arg-type]


def fires() -> Run:
    """In each layer the experts of another rank get most tokens."""
    return experts(lambda rank, layer: 100 * (rank == layer % 4))


def quiet() -> Run:
    """All experts get as many tokens."""
    return experts(lambda rank, layer: 0)


def trap_one_rank() -> Run:
    """One rank has the busy experts of all layers: that one is late."""
    return experts(lambda rank, layer: 100 * (rank == 2))


def trap_slow_network() -> Run:
    """The exchange takes long on all ranks alike."""
    slow = Meeting(lambda rank, step: 200, transfer=900, kernel=DISPATCH)
    return run(4, [slow] * 4)


def trap_library() -> Run:
    """The gradients of a training are reduced by a library; now this rank is late, now that."""
    return run(4, [Meeting(lambda rank, step: 200 + 100 * (rank == step % 4))] * 4)


def test_it_is_worth_the_waiting() -> None:
    """In each of 8 layers three of four ranks wait for 100 us: 600 us per step and rank."""
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((300_000, 600_000))
    # 16 exchanges of 50 us beside it
    assert "600 us of 1.4 ms per step is waiting" in finding.summary.text
    assert "4 ranks came last in turn" in finding.summary.text


def test_the_rank_with_all_busy_experts_is_late() -> None:
    found = {finding.rule: finding for finding in report(trap_one_rank()).findings}
    assert "rank 2" in found["comm-straggler"].summary.text


def test_without_clocks_nothing_is_said() -> None:
    assert "no collective was found on several ranks" in (skipped(experts(lambda r, n: 0, clock=False), RULE) or "")


def test_a_program_that_meets_no_other_rank_has_none_to_compare() -> None:
    assert skipped(bound_by_loader(), RULE) is None
    assert findings(bound_by_loader(), RULE) == []


def test_says_why_it_cannot_judge() -> None:
    assert "compare all ranks" in (skipped(comm_exposed.fires(), RULE) or "")
    assert "one rank" in (skipped(fires_in_a_table(), RULE) or "")
