"""Tests of the rule `step-time-outliers`: numbers worked out by hand, and edges of thresholds.

The programs: marked steps of which one may take longer.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def steps(*durations: int) -> TraceBuilder:
    """One step for each duration in us, of one kernel that is waited for."""

    def body(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, durations[number])
        host.wait(stream)

    return looping(body, steps=len(durations))


def fires() -> TraceBuilder:
    """One of seven steps takes twice as long."""
    return steps(1000, 1000, 1000, 2000, 1000, 1000, 1000)


def quiet() -> TraceBuilder:
    """All steps take about as long."""
    return steps(1000, 1010, 990, 1020, 1000, 980, 1000)


def trap_too_few_to_tell() -> TraceBuilder:
    """Three steps are too few to decide which one is unusual."""
    return steps(1000, 2000, 1000)


RULE = "step-time-outliers"


def test_it_names_the_longest_step() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.summary.params["long"], finding.summary.params["steps"]) == (1, 7)
    assert finding.summary.params["name"] == "3"
    assert finding.evidence[0].observed == pytest.approx(2, rel=0.03)
    assert (finding.severity, finding.saving) == ("info", None)


def test_a_step_at_the_edge_is_not_counted_among_the_others() -> None:
    trace = steps(1000, 1000, 1000, 1500, 1000, 1000, 1000)
    late = steps(2000, 1000, 1000, 1500, 1000, 1000, 1000)
    late.kernel("from_before", 0, 400, stream=9)
    numbers = [findings(one, RULE)[0].summary.params["steps"] for one in (trace, late)]
    assert numbers == [7, 6]


def test_it_says_that_collectives_take_longer() -> None:
    loop = GlooTraining()
    for number in range(5):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            loop.forward()
            loop.backward([3_000 if number == 2 else 100])
    (finding,) = findings(loop.finish(), RULE)
    assert "collectives take longer" in finding.summary.text


def test_says_why_it_cannot_judge() -> None:
    assert "too few" in (skipped(trap_too_few_to_tell(), RULE) or "")
    assert "single steps" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_steps() -> None:
    assert findings(fires(), RULE, {"steps": 7})
    assert findings(fires(), RULE, {"steps": 8}) == []
