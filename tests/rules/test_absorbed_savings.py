"""Savings beside a loader whose workers set the pace: a shorter step only waits longer for them."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.loader.test_dataloader_bound import LOADER, WORKERS
from tests.rules.test_prices import MM, budget, prices, takes
from traceanalyzer.report.model import Saving


def saved(*waits: int, name: str = WORKERS) -> Saving:
    """What half of 10 ms of products saves in steps that wait for a batch for so many us before."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.range(name, waits[number])
        for _ in range(20):
            compute(host, stream, 500)
        host.wait(stream)

    return prices(looping(step, steps=len(waits))).saving(takes("gpu", 5000, 5000, MM), budget(30_000))


def test_what_waits_for_workers_may_absorb_saves_nothing_at_least() -> None:
    saving = saved(*[20_000] * 6)
    assert saving.wall_ns_per_step[0] == 0
    assert saving.point_ns_per_step == pytest.approx(2_500_000, rel=0.01)
    assert saving.wall_ns_per_step[1] == pytest.approx(5_000_000, rel=0.01)
    assert "workers of the DataLoader" in saving.basis.text


@pytest.mark.parametrize(
    ("waits", "name"),
    [
        pytest.param([20_000] * 6, LOADER, id="the program itself prepares batches"),
        pytest.param([100] * 5 + [60_000], WORKERS, id="one late batch"),
        pytest.param([1000] * 6, WORKERS, id="batches are ready"),
    ],
)
def test_trap_nothing_absorbs_it(waits: list[int], name: str) -> None:
    saving = saved(*waits, name=name)
    assert saving.wall_ns_per_step[0] > 4_000_000
    assert "DataLoader" not in saving.basis.text
