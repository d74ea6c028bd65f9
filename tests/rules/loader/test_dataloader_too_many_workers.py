"""Tests of the rule `dataloader-too-many-workers`: numbers worked out by hand, and edges of thresholds.

The programs: loaders with more and with fewer workers than cores.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import WORKERS
from tests.rules.loader.test_dataloader_bound import fires as without_capture


def training(workers: int = 8, *, cpus: int | None = 2, wait: int = 100) -> TraceBuilder:
    """Steps of 4 ms and a wait, and what a capture tells of workers and cores."""
    trace = TraceBuilder(devices=())
    host_facts = {} if cpus is None else {"cpus": cpus, "threads": 1}
    loader = {"workers": workers, "persistent_workers": True, "epochs": 1}
    trace.metadata["traceanalyzer"] = {"version": 1, "host": host_facts, "loaders": [loader]}
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            host.range(WORKERS, wait)
            host.leaf("aten::linear", 4_000)
    return finish(trace)


def fires() -> TraceBuilder:
    """Eight workers on two hardware threads; batches are ready."""
    return training()


def quiet() -> TraceBuilder:
    """Two workers on eight."""
    return training(2, cpus=8)


def trap_as_many_as_cores() -> TraceBuilder:
    """Two workers on two."""
    return training(2)


def trap_slow_loader() -> TraceBuilder:
    """The program waits for its eight workers: more may be right, if they wait for a network."""
    return training(wait=4_000)


def trap_unknown_cores() -> TraceBuilder:
    """A capture without the number of cores."""
    return training(cpus=None)


RULE = "dataloader-too-many-workers"


def test_eight_workers_on_two_hardware_threads() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 4
    assert finding.evidence[1].observed == pytest.approx(0.1 / 4.1, rel=0.01)
    assert finding.saving is None, "the trace does not show the workers"
    assert "num_workers=1" in (finding.code or "")
    assert (finding.severity, finding.stage) == ("medium", "preview")


def test_only_a_capture_knows() -> None:
    assert "only a capture" in (skipped(trap_unknown_cores(), RULE) or "")
    assert "only a capture" in (skipped(without_capture(), RULE) or "")


def test_edge_per_core() -> None:
    assert findings(training(4), RULE, {"per_core": 2}) == []
    assert findings(training(4), RULE, {"per_core": 1.99})
