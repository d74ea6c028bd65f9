"""Tests of the rule `gpu-underutilized`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires as loading
from tests.rules.situations.gpu_underutilized import (
    fires,
    fires_in_a_table,
    fires_on_one_of_two_devices,
    trap_memory_of_the_first_step,
    trap_single_kernel,
    trap_table_without_a_device,
    trap_warm_up,
    trap_work_that_was_not_recorded,
    working,
)
from traceanalyzer.formats import language, render
from traceanalyzer.formats.cards import card

RULE = "gpu-underutilized"


def test_causes_are_told_and_nothing_is_claimed() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is None
    assert finding.severity == "critical"
    busy = finding.evidence[0].observed
    assert busy == pytest.approx(200 / 974.5, rel=0.01)  # ten kernels of 20 us in a step of 974.5 us
    idle = sum(place.value or 0 for place in finding.evidence[0].where)
    assert idle == pytest.approx((1 - busy) * 974_500, rel=0.01), "the causes sum to the idle time"


def test_causes_are_told_in_words() -> None:
    """Ids of causes are for programs; people read what the summary calls them, in their language."""
    whole = report(fires(), RULE)
    (finding,) = whole.findings
    ids = {place.name for place in finding.evidence[0].where}
    assert "launch_bound" in ids
    for code in ("en", "ru", "zh"):
        shown = {spot.name for spot in card(finding, language.of(code)).evidence[0].where}
        assert len(shown) == len(ids)
        assert not shown & ids
    page = render(whole, "markdown")
    assert "  - the host running operators and launches: " in page
    assert "`launch_bound`" not in page
    assert ">the host running operators and launches" in render(whole, "html")


def test_resources_of_a_table_are_told_in_words() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    labels = [(place.name, place.label.text) for place in finding.evidence[0].where if place.label]
    assert labels == [("host", "host"), ("gpu", "GPU")]


def test_the_largest_cause_is_named() -> None:
    (finding,) = findings(loading(), RULE, {"events": 3})
    assert "waiting for the DataLoader" in finding.summary.text
    assert finding.severity == "high"


def test_devices_are_judged_one_by_one() -> None:
    (finding,) = findings(fires_on_one_of_two_devices(), RULE)
    assert "Device 1 works" in finding.summary.text


def test_waiting_for_memory_in_the_first_step_does_not_recur() -> None:
    """The three steps take 8, 0 and 0 ms of waiting and 4 ms of work each: without the 8 ms the GPU is busy."""
    assert findings(trap_memory_of_the_first_step(), RULE) == []


def test_what_cannot_be_judged_is_skipped() -> None:
    assert "only 2 kernels" in (skipped(trap_single_kernel(), RULE) or "")
    assert "every recorded step" in (skipped(trap_warm_up(), RULE) or "")
    assert "was not recorded" in (skipped(trap_work_that_was_not_recorded(), RULE) or "")
    assert "no device time" in (skipped(trap_table_without_a_device(), RULE) or "")


def test_a_table_tells_the_most_that_the_gpu_can_have_been_busy() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert "at most 20 %" in finding.summary.text
    assert finding.confidence == "B"
    rows = [(place.name, place.value) for place in finding.evidence[0].where if place.kind == "row"]
    assert rows == [("ProfilerStep*", 50_000_000.0), ("aten::mm", 50_000_000.0)], "per step"


def test_edge_busy_share() -> None:
    busy = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"busy_share": busy}) == []
    assert findings(fires(), RULE, {"busy_share": busy + 1e-9})


def test_edge_critical_share() -> None:
    busy = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"critical_share": busy})[0].severity == "high"
    assert findings(fires(), RULE, {"critical_share": busy + 1e-9})[0].severity == "critical"


def test_edge_events() -> None:
    trace = working(20, 80, kernels=10, steps=2)
    assert findings(trace, RULE, {"events": 20})
    assert findings(trace, RULE, {"events": 21}) == []
