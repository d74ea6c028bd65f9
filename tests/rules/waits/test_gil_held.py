"""Tests of the rule `gil-held`: numbers worked out by hand, and edges of thresholds.

The programs: captures on a CPU of steps that wait in several places while another thread runs Python, or that only
seem to wait for it.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.rules.judging import findings, skipped, table

RULE = "gil-held"
MS = 1_000_000
FREE_LOCK_NS = 40_000


def steps(*, spread: bool = True, pause: int = 5000) -> TraceBuilder:
    """Three steps of 20 ms, of which 15 ms are pauses: after each of three operators, or all after the first."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            for each, name in enumerate(("aten::conv2d", "aten::relu", "aten::addmm")):
                host.leaf(name, 1600)
                if spread or not each:
                    host.work(pause if spread else 3 * pause)
            host.leaf("aten::mm", 200)
    return finish(trace)


def captured(trace: TraceBuilder, *, lock_ns: int | None = 5 * MS, others: int | None = 18 * MS, **control: int) -> Any:
    """The trace with what a capture measured: of 20 ms of a step 5 on a core, and by default none waiting for one."""
    times = {"steps": 3, "mean_ns": 20 * MS, "median_ns": 20 * MS, "cpu_ns": 5 * MS, "queued_ns": 0}
    threads = [] if others is None else [{"function": "train.py(7): watch", "ns": 3 * others}]
    trace.metadata["traceanalyzer"] = {
        "version": 1,
        "steps": 3,
        "threads": threads,
        "lock_wait_ns": lock_ns,
        "timing": {"profiled": times | {"others_ns": others}, "after": times | {"others_ns": others} | control},
    }
    return trace


def fires() -> TraceBuilder:
    """A thread runs all the time, and the step waits after three operators."""
    return captured(steps())


def fires_where_it_may_wait_for_a_result() -> TraceBuilder:
    """All waiting is in one place, but the lock is held whenever it is asked for."""
    return captured(steps(spread=False))


def quiet() -> TraceBuilder:
    """The other thread hardly runs."""
    return captured(steps(), others=MS // 2)


def trap_sleep_beside_a_thread_that_computes_without_the_lock() -> TraceBuilder:
    """The step sleeps while a thread multiplies matrices, and the lock is free whenever it is asked for."""
    return captured(steps(), lock_ns=FREE_LOCK_NS)


def trap_others_have_the_cores() -> TraceBuilder:
    """What looks like waiting is waiting for a core."""
    return captured(steps(), queued_ns=15 * MS)


def trap_no_other_thread() -> TraceBuilder:
    """There is one thread, which sleeps."""
    return captured(steps(), lock_ns=None, others=None)


def test_the_saving_is_what_neither_runs_nor_waits_for_a_core() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * 15 * MS, 17.5 * MS), rel=1e-3)
    assert "train.py(7): watch" in finding.summary.text
    assert finding.advice.text.startswith("Move the work of train.py(7): watch into a process")
    assert finding.evidence[0].where[0].name == "train.py(7): watch"
    assert finding.confidence == "B"


def test_other_threads_bound_it() -> None:
    (finding,) = findings(captured(steps(), others=6 * MS), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(8.5 * MS, rel=1e-3)


def test_waiting_for_a_core_is_in_neither_side() -> None:
    """Of 20 ms without the profiler 10 wait for a core; of the others 5 are on one, and 5 wait for the lock."""
    (finding,) = findings(captured(steps(), queued_ns=10 * MS), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5)


def test_in_one_place_nothing_is_sure() -> None:
    (finding,) = findings(fires_where_it_may_wait_for_a_result(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 0
    assert finding.confidence == "C"
    assert "may wait for a result" in finding.saving.basis.text


def test_the_same_time_is_no_pause_for_host_waits_or_logs() -> None:
    assert findings(trap_no_other_thread(), "host-waits-or-logs")
    assert findings(fires(), "host-waits-or-logs") == []


def test_without_a_capture_it_is_not_judged() -> None:
    assert "capture measures" in (skipped(steps(), RULE) or "")
    assert "no other thread" in (skipped(trap_no_other_thread(), RULE) or "")
    assert "other threads" in (skipped(in_a_table(), RULE) or "")


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


def test_edge_wait_ns() -> None:
    assert findings(captured(steps(), lock_ns=500_001), RULE)
    assert findings(captured(steps(), lock_ns=500_000), RULE) == []
