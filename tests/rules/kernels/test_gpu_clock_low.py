"""Tests of the rule `gpu-clock-low`: numbers worked out by hand.

The programs: steps whose kernels take as long as the clock of the GPU lets them.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.clocks import HIGHEST, clocked
from tests.rules.judging import findings, report, skipped

RULE = "gpu-clock-low"
LOW = 1320


def fires() -> TraceBuilder:
    """Two thirds of the clock in all steps, at the limit of power."""
    return clocked([LOW] * 6, power=690, temperature=65)


def quiet() -> TraceBuilder:
    """A clock that is 5 % below the highest one."""
    return clocked([1881] * 6, power=690)


def trap_a_dip() -> TraceBuilder:
    """One step of six is at a low clock."""
    return clocked([HIGHEST] * 5 + [1700], power=400)


def trap_without_counters() -> TraceBuilder:
    """The same times without counters."""
    trace = clocked([LOW] * 6)
    trace.events = [event for event in trace.events if event["ph"] != "C"]
    return trace


def test_power_and_saving() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.id == "gpu-clock-low-summary-power"
    assert finding.summary.params["clock"] == pytest.approx(LOW)
    assert finding.summary.params["power"] == pytest.approx(690)
    assert finding.evidence[0].observed == pytest.approx(1)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert low == 0
    assert high == pytest.approx(1_500_000, rel=0.05)  # 4,500 us of work at two thirds of the clock


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (clocked([LOW] * 6, power=400, temperature=65), ""),
        (clocked([LOW] * 6, power=690, temperature=86), "-heat"),
        (clocked([345] * 6, work=50, rest=2000, power=90, temperature=40), "-idle"),
        (clocked([HIGHEST] * 3 + [LOW] * 3, power=695), "-power"),
        (clocked([HIGHEST] * 3 + [LOW] * 3, power=300, device=None), "-power"),
        (clocked([LOW] * 6, power=400, temperature=None), ""),
    ],
    ids=["unknown", "heat", "idle", "second half", "second half of an unknown GPU", "no temperature"],
)
def test_causes_by_what_stands_beside(trace: TraceBuilder, cause: str) -> None:
    (finding,) = findings(trace, RULE)
    assert finding.summary.id == f"{RULE}-summary{cause}"
    assert finding.advice.id == f"{RULE}-advice{cause}"


def test_an_idle_state_promises_nothing() -> None:
    (finding,) = findings(clocked([345] * 6, work=50, rest=2000, power=90), RULE)
    assert finding.saving is None
    assert finding.severity == "info"


def test_without_counters_it_is_skipped() -> None:
    assert findings(trap_without_counters(), RULE) == []
    assert "no counters" in (skipped(trap_without_counters(), RULE) or "")
    assert report(trap_without_counters()).result is not None


def test_edge_heat() -> None:
    trace = clocked([LOW] * 6, power=400, temperature=83)
    assert findings(trace, RULE)[0].summary.id.endswith("-heat")
    assert findings(trace, RULE, {"heat": 83.001})[0].summary.id.endswith("summary")


def test_edge_power() -> None:
    trace = clocked([LOW] * 6, power=630)
    assert findings(trace, RULE, {"power": 0.9})[0].summary.id.endswith("-power")
    assert findings(trace, RULE, {"power": 0.9 + 1e-9})[0].summary.id.endswith("summary")


def test_edge_idle() -> None:
    trace = clocked([345] * 6, work=50, rest=2000, power=90)
    share = findings(trace, RULE)[0].summary.params["works"]
    assert findings(trace, RULE, {"idle": share})[0].summary.id.endswith("summary")
    assert findings(trace, RULE, {"idle": share + 1e-9})[0].summary.id.endswith("-idle")
