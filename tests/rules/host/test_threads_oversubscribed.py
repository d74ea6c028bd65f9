"""Tests of the rule `threads-oversubscribed`: numbers worked out by hand, and edges of thresholds.

The programs: programs on a CPU with more threads for an operator than cores, or as many.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.judging import findings, skipped, table
from tests.rules.optimizer.test_anomaly_mode import fires as without_capture


def working(dur: int, *, threads: int | None = 16, cpus: int = 2, steps: int = 4) -> TraceBuilder:
    """Steps of ten matrix products of 128 x 128 x 128, each in so many us.

    One core needs 4_194_304 operations / 24 per ns + 3 * 65_536 bytes / 4 per ns + 6 us = 229.9 us for each.
    """
    host = {} if threads is None else {"host": {"cpus": cpus, "threads": threads}}
    trace = TraceBuilder(devices=(), options=("record_shapes",), metadata={"traceanalyzer": {"version": 1, **host}})
    program = Host(trace, at=10)
    for number in range(steps):
        with program.annotation(f"ProfilerStep#{number}", 0, 0):
            for _ in range(10):
                shapes = [[128, 128], [128, 128]]
                program.leaf("aten::mm", dur, shapes=shapes, types=["float", "float"])
                program.work(10)
    return finish(trace)


def fires() -> TraceBuilder:
    """16 threads on two cores: each product takes 2 ms."""
    return working(2000)


def quiet() -> TraceBuilder:
    """The products take what one core needs."""
    return working(220)


def trap_as_many_threads_as_cores() -> TraceBuilder:
    """Other programs have the cores."""
    return working(2000, threads=2)


def trap_unknown_threads() -> TraceBuilder:
    """The capture does not know how many threads there are."""
    return working(2000, threads=None)


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


RULE = "threads-oversubscribed"
NEEDED = 2 * 128**3 / 24 + 3 * 4 * 128**2 / 4 + 6_000
"""What one core needs for a product, in ns."""


def test_what_one_core_needs_is_not_saved() -> None:
    (finding,) = findings(working(1000), RULE)
    assert finding.saving is not None
    step = 10 * 1_010_000
    assert finding.saving.direct_ns_per_step == pytest.approx((10 * (1_000_000 - NEEDED), 7 / 8 * step))
    assert "Threads of an operator: 16;" in finding.summary.text
    assert finding.code == "torch.set_num_threads(2)  # or OMP_NUM_THREADS=2 in the environment"
    assert finding.severity == "critical"


def test_without_the_numbers_nothing_is_said() -> None:
    assert "no more threads" in (skipped(trap_as_many_threads_as_cores(), RULE) or "")
    assert "traceanalyzer capture" in (skipped(trap_unknown_threads(), RULE) or "")
    assert "traceanalyzer capture" in (skipped(without_capture(), RULE) or "")
    assert "how many threads" in (skipped(in_a_table(), RULE) or "")


def test_edge_threads_per_core() -> None:
    assert findings(working(2000, threads=3), RULE)
    assert findings(working(2000, threads=3), RULE, {"threads_per_core": 1.5}) == []
