"""Steps of a language model's server, by its marks."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS


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
