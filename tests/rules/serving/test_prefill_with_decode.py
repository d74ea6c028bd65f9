"""Tests of the rule `prefill-with-decode`: numbers worked out by hand, and edges of thresholds.

The programs: steps of a language model's server that compute prompts, generate tokens, or both, by its marks.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

DECODE = "execute_context_0(0)_generation_32(32)"
MIXED = "execute_context_1(2000)_generation_31(31)"
PREFILL = "execute_context_2(4000)_generation_0(0)"


def served(*steps: tuple[str, int], work: int | None = None) -> TraceBuilder:
    """Steps one after another, each with a mark and its duration in us.

    The device works for all of a step but 50 us, or for `work` us.
    """
    trace = TraceBuilder()
    start = 0
    for mark, duration in steps:
        trace.annotation(mark, start, duration)
        busy = duration - 50 if work is None else work
        trace.launch_kernel(MATRIX_UNITS, start + duration - busy, busy, at=start + 10)
        start += duration
    return trace


def fires() -> TraceBuilder:
    """A prompt of 2000 tokens makes a step four times as long."""
    return served(*4 * [(DECODE, 1000)], (MIXED, 4000), *4 * [(DECODE, 1000)])


def quiet() -> TraceBuilder:
    """Chunks are so small that a step takes 40 % longer with one."""
    return served(*4 * [(DECODE, 1000)], (MIXED, 1400), *4 * [(DECODE, 1000)])


def trap_only_mixed() -> TraceBuilder:
    """All steps compute prompts, so the duration of a step without prompts is unknown."""
    return served(*6 * [(MIXED, 4000)])


def trap_prefill_alone() -> TraceBuilder:
    """A step of prompts only: no request decodes in it."""
    return served(*4 * [(DECODE, 1000)], (PREFILL, 4000), *4 * [(DECODE, 1000)])


def trap_the_host_is_slow() -> TraceBuilder:
    """The mixed step is longer, but the device does no more in it: fewer tokens would not shorten it."""
    return served(*4 * [(DECODE, 1000)], (MIXED, 4000), *4 * [(DECODE, 1000)], work=900)


def trap_memory_is_taken() -> TraceBuilder:
    """The mixed step is the first to take memory: that takes its time, not the prompt."""
    trace = served(*4 * [(DECODE, 1000)], (MIXED, 4000), *4 * [(DECODE, 1000)])
    trace.launch("cudaMalloc", 4020, 2900)
    return trace


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
