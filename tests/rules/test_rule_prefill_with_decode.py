"""Tests of the rule `prefill-with-decode`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.prefill_with_decode import fires, served, trap_only_mixed, trap_prefill_alone

RULE = "prefill-with-decode"


def test_durations_and_requests() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params == {"mixed": 4_000_000, "decode": 1_000_000, "requests": 31}
    assert finding.evidence[0].observed == 4
    assert [place.name for place in finding.evidence[0].where] == ["execute_context_1(2000)_generation_31(31)"]
    assert (finding.severity, finding.saving, finding.stage) == ("info", None, "preview")


def test_marks_without_requests_that_decode() -> None:
    decode, mixed = ("step[DECODE bs=32]", 1000), ("step[MIXED bs=32 toks=2000]", 4000)
    (finding,) = findings(served(*4 * [decode], mixed, *4 * [decode]), RULE)
    assert finding.summary.params == {"mixed": 4_000_000, "decode": 1_000_000}
    assert "Every request" in finding.summary.text


def test_steps_of_the_profiler_around_the_marks() -> None:
    trace = fires()
    for number, start in enumerate([0, 1000, 2000, 3000, 4000, 8000, 9000, 10000, 11000]):
        trace.step(number, start, 4000 if number == 4 else 1000)
    (finding,) = findings(trace, RULE)
    assert finding.summary.params == {"mixed": 4_000_000, "decode": 1_000_000, "requests": 31}


@pytest.mark.parametrize("build", [trap_only_mixed, trap_prefill_alone])
def test_says_that_steps_to_compare_are_missing(build) -> None:  # type: ignore[no-untyped-def]
    assert "beside steps that only decode" in (skipped(build(), RULE) or "")


def test_a_table_has_no_steps() -> None:
    assert skipped(fires_in_a_table(), RULE)


def test_edge_ratio_of_durations() -> None:
    assert findings(fires(), RULE, {"ratio": 4})
    assert findings(fires(), RULE, {"ratio": 4.001}) == []


def test_edge_ratio_of_work() -> None:
    """The device works for 950 us of a decode step and 1450 us of the mixed one; then for 900 us of both."""
    decode, mixed = ("step[DECODE bs=32]", 1000), ("step[MIXED bs=32 toks=2000]", 1500)
    short = served(*4 * [decode], mixed, *4 * [decode])
    assert findings(short, RULE, {"ratio": 1.5})
    equal = served(*4 * [decode], mixed, *4 * [decode], work=900)
    assert findings(equal, RULE, {"ratio": 1.5}) == []
    assert findings(equal, RULE, {"ratio": 1})
