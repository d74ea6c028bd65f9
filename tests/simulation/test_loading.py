"""Waits for the loader that workers take over: predictions and the rule's saving agree.

Each step prepares its batch for 4 ms and computes for 6 ms. One worker beside the rest of the step costs at most 1.5 ms
for fetching a batch and 0.31 of what it loads: 2.74 ms.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from tests.rules.loader import test_dataloader_single_process as dataloader_single_process
from traceanalyzer.analyzers.loader.in_workers import room
from traceanalyzer.formats.what_if import answer
from traceanalyzer.pipeline import analyze
from traceanalyzer.prediction import whatif
from traceanalyzer.trace.capture_facts import Host

MS = 1e6


@pytest.mark.parametrize(
    ("built", "floor_ms", "expected"),
    [
        (dataloader_single_process.fires(), 0, (1.26, 2.63, 4)),
        (dataloader_single_process.fires(), 1, (0.57, 1.785, 3)),  # of 3 ms 1.5 ms and 0.31 are lost
        (dataloader_single_process.fires(), 2, (0, 1, 2)),
        (dataloader_single_process.fires(), 5, (0, 0, 0)),
        (dataloader_single_process.quiet(), 0, (0, 2, 4)),  # there are workers: more may not help
    ],
)
def test_workers_cost_something(built: TraceBuilder, floor_ms: float, expected: tuple[float, ...]) -> None:
    found = whatif(read_built(built), loader=floor_ms)
    assert found.saving_ns == pytest.approx([ms * MS for ms in expected], abs=0.1 * MS)


def test_a_loader_that_takes_no_time_needs_no_workers() -> None:
    found = whatif(read_built(dataloader_single_process.fires()), free=["loader"])
    assert found.saving_ns == pytest.approx([4 * MS] * 3, abs=0.1 * MS)
    assert "worker processes" not in answer(found).render("markdown")


def test_the_prediction_is_what_the_rule_promises() -> None:
    trace = read_built(dataloader_single_process.fires())
    (finding,) = [each for each in analyze(trace).findings if each.rule == "dataloader-bound"]
    assert finding.saving is not None
    low, point, high = whatif(trace, loader=0).saving_ns
    assert point == pytest.approx(finding.saving.point_ns_per_step)
    assert (low, high) == pytest.approx(finding.saving.direct_ns_per_step, rel=0.01)
    assert "worker processes" in answer(whatif(trace, loader=0)).render("markdown")


@pytest.mark.parametrize(
    ("host", "is_on_host", "is_free"),
    [
        (None, False, True),
        (None, True, False),
        (Host(cpus=4), False, True),
        (Host(cpus=3), False, False),
        (Host(cpus=16, threads=8), True, False),
        (Host(cpus=18, threads=8), True, True),
        (Host(cpus=8), True, False),
    ],
)
def test_a_worker_needs_a_core_of_its_own(host: Host | None, is_on_host: bool, is_free: bool) -> None:
    assert room(host, is_on_host=is_on_host).is_free is is_free
