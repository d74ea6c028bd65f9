"""Tests of the rule `decode-batch-small`: numbers worked out by hand, and edges of thresholds.

The programs: steps of a language model's server, by its marks.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def served(*marks: str, busy: int = 950) -> TraceBuilder:
    """A step of 1000 us for each mark, in which the device works for `busy` us."""
    trace = TraceBuilder()
    for number, mark in enumerate(marks):
        start = 1000 * number
        trace.annotation(mark, start, 990)
        trace.launch_kernel(MATRIX_UNITS, start + 30, busy, at=start + 10)
    return trace


def fires() -> TraceBuilder:
    """Eight requests decode together."""
    return served(*4 * ["step[DECODE bs=8]"])


def quiet() -> TraceBuilder:
    """Two hundred and fifty-six do."""
    return served(*4 * ["step[DECODE bs=256]"])


def trap_prefill() -> TraceBuilder:
    """Prompts are computed: arithmetic bounds that."""
    return served(*4 * ["step[EXTEND bs=2 toks=3000]"])


def trap_a_waiting_device() -> TraceBuilder:
    """The device waits for the host: more requests are not what to look at first."""
    return served(*4 * ["step[DECODE bs=8]"], busy=300)


RULE = "decode-batch-small"


def test_tokens_per_second() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 8
    assert finding.summary.params["rate"] == pytest.approx(8000, rel=0.05)
    assert (finding.severity, finding.saving) == ("info", None)


def test_says_why_it_cannot_judge() -> None:
    assert "no mark" in (skipped(trap_prefill(), RULE) or "")
    assert "marks" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_tokens() -> None:
    assert findings(fires(), RULE, {"tokens": 8}) == []
    assert findings(fires(), RULE, {"tokens": 8.1})


def test_edge_busy_share() -> None:
    assert findings(fires(), RULE, {"busy_share": 0.9})
    assert findings(fires(), RULE, {"busy_share": 0.99}) == []
