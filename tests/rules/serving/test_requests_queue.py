"""Tests of the rule `requests-queue`: numbers worked out by hand, and edges of thresholds.

The programs: a server's threads that wait for one accelerator, and one that waits for requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute, read_value
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

DEVICE = 17


def serving(*, threads: int, requests: int = 20, task: int = 900, wait: int = 2000, call: bool = True) -> TraceBuilder:
    """A request each 1000 us on the next thread, which waits until its task of `task` us has run.

    Its mark lasts longer than the wait, so that several requests are in flight.
    """
    trace = TraceBuilder(devices=())
    for number in range(requests):
        start, tid = 1000 * number, 4201 + number % threads
        trace.annotation("Stage::processRequest", start, wait + 50, tid=tid)
        if call:
            trace.add("mtia_runtime", "synchronizeStream", (start + 20, wait), (4201, tid), {"correlation": 1 + number})
        trace.add("mtia_ccp_events", "merge", (start + 1000, task), ("card", DEVICE), {"stream": 1})
    return trace


def fires() -> TraceBuilder:
    """Two or three threads wait at the same time, and the device works nearly always."""
    return serving(threads=4)


def quiet() -> TraceBuilder:
    """The device is idle for half of the time: requests do not wait for each other."""
    return serving(threads=4, task=400, wait=450)


def trap_one_request_after_the_other() -> TraceBuilder:
    """One thread waits for its own work only."""
    return serving(threads=1, wait=940)


WAITING = ("queue.py(154): get", "threading.py(288): wait", "<method 'acquire' of '_thread.lock' objects>")


def answering(wait: int, names: Sequence[str] = WAITING) -> TraceBuilder:
    """Twelve requests of 20 kernels of 10 us and 2 ms of Python; the program waits for each of them in functions."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=0), Stream()
    for number in range(12):
        with host.frame("worker.py(58): next_job"), ExitStack() as inner:
            for name in names:
                inner.enter_context(host.frame(name))
            host.work(wait + wait * number // 60)
        with host.frame("worker.py(71): handle"):
            for _ in range(20):
                compute(host, stream, 10)
            read_value(host, stream)
            host.work(2000)
    return finish(trace)


def fires_without_load() -> TraceBuilder:
    """The program takes from a queue in which there is nothing for 30 to 36 ms."""
    return answering(30_000)


def trap_it_sleeps() -> TraceBuilder:
    """The program pauses by itself."""
    return answering(30_000, ("<built-in function sleep>",))


RULE = "requests-queue"


def test_waiting_for_requests_is_said_and_not_counted_as_work() -> None:
    document = report(fires_without_load())
    assert document.headlines[0].message.text.startswith("The program waits for requests in `worker.py: next_job`")
    (finding,) = findings(fires_without_load(), RULE)
    assert finding.saving is None
    assert finding.action is not None
    assert finding.action.text == "Record under load"
    assert finding.evidence[0].where[0].name == "worker.py(58): next_job"
    assert finding.evidence[0].observed == pytest.approx(0.93, abs=0.02)
    for rule in ("gpu-underutilized", "step-time-outliers"):
        assert not findings(fires_without_load(), rule)
    (gap,) = findings(fires_without_load(), "host-python-gap")
    assert gap.saving is not None
    assert gap.saving.wall_ns_per_step[1] <= 2_000_000


def test_a_program_that_is_busy_waits_for_no_requests() -> None:
    (gap,) = findings(trap_it_sleeps(), "host-python-gap")
    assert gap.evidence[0].where[0].name == "worker.py(58): next_job"
    assert not findings(answering(100), RULE)


def test_the_mean_number_of_waiting_requests() -> None:
    # twenty waits of 2 ms in the 19.9 ms from the first task to the end of the last
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(40 / 19.9, rel=0.001)
    assert finding.summary.params["calls"] == 20
    assert finding.saving is None


def test_says_why_it_cannot_judge() -> None:
    assert "no server" in (skipped(trap_one_request_after_the_other(), RULE) or "")
    assert "same time" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_busy_share() -> None:
    # twenty tasks of 900 us
    assert findings(fires(), RULE, {"busy_share": 18 / 19.9 - 1e-6})
    assert findings(fires(), RULE, {"busy_share": 18 / 19.9 + 1e-6}) == []
