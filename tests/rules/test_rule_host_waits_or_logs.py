"""Tests of the rule `host-waits-or-logs`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.host_waits_or_logs import (
    fires,
    fires_in_a_function,
    fires_where_it_only_prints,
    in_a_table,
    pausing,
    trap_device,
    trap_ranks,
    trap_unread_device,
)

RULE = "host-waits-or-logs"
PRINTING = 6 * 5_000 + 40 * 5_000
"""Time of `printing`: six operators of 5 us, and 3 + 2 us for each value."""


def test_printing_and_pauses_add_up() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == PRINTING + 2_000_000
    # without what recording 6 + 3 * 40 operators cost at least, 303.7 ns each (profiler_overhead.json), in a step of
    # 4.23 ms that is shorter by that of all of its 146
    kept = (0.8 * PRINTING + 0.5 * 2_000_000) / high
    assert low == pytest.approx(kept * (high - 126 * 303.7) * 4_230_000 / (4_230_000 - 146 * 303.7))
    assert "230.0 us printing" in finding.summary.text
    assert "2.000 ms in long pauses" in finding.summary.text
    assert finding.confidence == "C", "nothing tells what the pause is"
    assert finding.evidence[0].where[0].name == "aten::item", "what was done before it"
    assert "GPU" not in finding.summary.text + finding.advice.text + finding.not_when.text


def test_printing_alone() -> None:
    (finding,) = findings(fires_where_it_only_prints(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == PRINTING
    assert finding.confidence == "B"
    assert finding.summary.text.startswith("Tensors are printed")


def test_a_function_is_named() -> None:
    (finding,) = findings(fires_in_a_function(), RULE)
    assert finding.evidence[0].where[0].name == "train.py(40): write_log"
    assert finding.confidence == "B"
    assert "with_stack" not in finding.advice.text, "the recording has stacks"
    assert finding.summary.text.startswith("For 2.00")


def test_without_stacks_the_advice_is_to_record_them() -> None:
    (finding,) = findings(pausing(2000), RULE)
    assert "with_stack=True" in finding.advice.text
    assert "print" not in finding.advice.text, "nothing was printed"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] < 0.51 * finding.saving.direct_ns_per_step[1]


def test_control_steps_of_a_capture_make_it_a_larger_part() -> None:
    (plain,) = findings(pausing(2000), RULE)
    times = {
        "profiled": {"steps": 5, "mean_ns": 11, "median_ns": 11},
        "after": {"steps": 5, "mean_ns": 10, "median_ns": 10},
    }
    (told,) = findings(pausing(2000, metadata={"traceanalyzer": {"version": 1, "timing": times}}), RULE)
    assert plain.saving is not None
    assert told.saving is not None
    assert told.saving.direct_ns_per_step[1] == pytest.approx(1.1 * plain.saving.direct_ns_per_step[1])
    assert told.saving.direct_ns_per_step[0] == plain.saving.direct_ns_per_step[0]


def test_what_it_cannot_judge() -> None:
    assert "another rank" in (skipped(trap_ranks(), RULE) or "")
    assert "a device works" in (skipped(trap_device(), RULE) or "")
    assert "left no events" in (skipped(trap_unread_device(), RULE) or "")
    assert "no timeline" in (skipped(in_a_table(), RULE) or "")
    assert "fewer than three steps" in (skipped(pausing(2000, steps=2), RULE) or "")


def test_edge_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"share": share}) == []
    assert findings(fires(), RULE, {"share": share - 1e-9})


def test_edge_paused_share() -> None:
    assert findings(pausing(2000, every=2), RULE), "three of six steps"
    assert findings(pausing(2000, every=2), RULE, {"paused_share": 0.51}) == []
