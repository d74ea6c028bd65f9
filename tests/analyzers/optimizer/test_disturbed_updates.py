"""Updates in which a thread loses its core: by how much they exceed undisturbed ones."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.reading import read_built
from traceanalyzer.analyzers.optimizer import analyze
from traceanalyzer.structure.context import Context

STEP = "Optimizer.step#Adam.step"


def updates(*holes: int, operators: int = 10) -> TraceBuilder:
    """Updates of 510 us, each with a hole of so many us."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number, hole in enumerate(holes):
        with host.annotation(f"ProfilerStep#{number}", 0, 0), host.annotation(STEP, 0, 0):
            for _ in range(operators):
                host.leaf("aten::add_", 50)
                host.work(1)
            host.work(hole)
    return finish(trace)


def stalled(trace: TraceBuilder) -> int:
    return analyze(Context(read_built(trace))).rows[0].stalled_ns


def test_two_disturbed_updates_of_eight() -> None:
    assert stalled(updates(0, 0, 8000, 0, 0, 4000, 0, 0)) == pytest.approx(12_000_000, rel=0.02)


def test_one_disturbed_update_of_few_or_of_one() -> None:
    assert stalled(updates(0, 0, 8000, 0)) == pytest.approx(8_000_000, rel=0.02)
    assert stalled(updates(8000)) == pytest.approx(8_000_000, rel=0.02)


@pytest.mark.parametrize("holes", [(0,) * 8, (8000,) * 8, (0, 0, 2000, 0, 0, 0)])
def test_trap_updates_that_take_as_long_or_short_holes(holes: tuple[int, ...]) -> None:
    assert stalled(updates(*holes)) == 0
