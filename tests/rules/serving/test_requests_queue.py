"""Tests of the rule `requests-queue`: numbers worked out by hand, and edges of thresholds.

The programs: a server's threads that wait for one accelerator.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.judging import findings, skipped
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


RULE = "requests-queue"


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
