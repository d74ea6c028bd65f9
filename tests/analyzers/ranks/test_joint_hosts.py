"""The work of hosts in the replay of all ranks: what a delay costs where hosts run ahead of devices that wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from tests.analyzers.ranks.joining import members
from tests.ordinary.programs.ranks import Rank, together
from traceanalyzer.analyzers.ranks import stragglers
from traceanalyzer.analyzers.ranks.member import Member, of_typical_steps, with_common_steps
from traceanalyzer.analyzers.ranks.stragglers import JointRun

LAYERS = 6


def ranks(
    compute: Callable[[int, int], int], host: Callable[[int, int], int], transfer: int = 50, count: int = 4
) -> dict[int, Member]:
    """Six iterations of six layers: the host works, launches a product and an all-reduce; it reads the loss at last."""
    every = [Rank(number, count, seed=90) for number in range(count)]
    for _ in range(6):
        together(every, compute=compute, layers=LAYERS, transfer=transfer, host=host)
    found = with_common_steps(members(rank.finish() for rank in every))
    return dict(of_typical_steps(found) or found)


def replayed(found: dict[int, Member]) -> JointRun:
    run = stragglers.prepare({rank: member.facts for rank, member in found.items()})
    assert isinstance(run, JointRun), run
    return run


def cost_ms(run: JointRun, rank: int) -> float:
    """What a step would be shorter by without the delays of a rank."""
    return float(run.times[0] - run.of_rank(run.times)[run.ranks.index(rank)]) / run.steps / 1e6


def test_a_delay_that_all_later_collectives_see_costs_once() -> None:
    """Each layer takes all hosts 468 us and devices 120. While rank 1 is 8 ms late, the hosts of the others launch all
    six layers, so that later their devices only wait for the host of rank 1, which works no slower than theirs."""
    found = ranks(lambda rank, layer: 60, lambda rank, layer: 400 + 8_000 * (rank == 1 and layer == 0))
    run = replayed(found)
    assert cost_ms(run, 1) == pytest.approx(8.0, rel=0.05)
    for other in (0, 2, 3):
        assert cost_ms(run, other) == pytest.approx(0, abs=0.1)


def test_a_delay_in_each_layer_costs_their_sum() -> None:
    found = ranks(lambda rank, layer: 300, lambda rank, layer: 3_600 if rank == 3 else 40)
    assert cost_ms(replayed(found), 3) == pytest.approx(LAYERS * (3.6 + 0.11 - 0.35), rel=0.05)


def test_a_slower_device_costs_what_it_computes_longer() -> None:
    found = ranks(lambda rank, layer: 5_040 if rank == 2 else 3_600, lambda rank, layer: 40)
    assert cost_ms(replayed(found), 2) == pytest.approx(LAYERS * 1.44, rel=0.05)


@pytest.mark.parametrize(("lag", "host"), [(3_000, 300), (900, 700), (500, 850), (6_000, 60)])
def test_a_rank_saves_at_most_what_the_work_of_other_hosts_leaves(lag: int, host: int) -> None:
    """One rank is late in two layers, or each in layers of its own."""
    late = {(number % 4, number) for number in range(LAYERS)} if lag < 1_000 else {(2, 0), (2, 3)}
    found = ranks(lambda rank, layer: 100, lambda rank, layer: host + 20 * rank + lag * ((rank, layer) in late))
    run = replayed(found)
    hosts = {rank: sum(member.facts.steps.host_ns) / run.steps / 1e6 for rank, member in found.items()}
    assert all(hosts.values())
    step = float(run.times[0]) / run.steps / 1e6
    for rank in run.ranks:
        left = step - max(own for other, own in hosts.items() if other != rank)
        assert cost_ms(run, rank) <= left + 0.001


def test_reports_of_old_versions_do_not_tell_the_work_of_hosts() -> None:
    """There what the others did meanwhile counts as delay of the late rank, as it did in these versions."""
    found = ranks(lambda rank, layer: 60, lambda rank, layer: 400 + 8_000 * (rank == 1 and layer == 0))
    old = {
        rank: replace(member, facts=replace(member.facts, steps=replace(member.facts.steps, host_ns=())))
        for rank, member in found.items()
    }
    assert cost_ms(replayed(old), 1) > 9.5
