"""Steps of a language model's server that compute prompts, generate tokens, or both, by its marks."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS

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
