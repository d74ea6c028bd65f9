"""Steps of servers by kind; times are microseconds."""

from __future__ import annotations

from tests.analyzers.memory.report_with import in_english, report_with
from tests.analyzers.phases.reading_phases import phases_of, us
from tests.builders import TraceBuilder
from traceanalyzer.sections import phases as section


def roofline(context: int, generation: int, tokens: int) -> str:
    """A mark of vLLM: requests of both kinds, and tokens of the prompts."""
    sums = "sq{0}sk{0}sqsq{0}sqsk{0}"
    first, second = sums.format(tokens), sums.format(generation)
    return f"execute_{tokens + generation}_context_{context}({first})_generation_{generation}({second})"


def test_prefill_decode_and_mixed_steps() -> None:
    trace = TraceBuilder()
    marks = ((roofline(1, 0, 900), 50), (roofline(0, 4, 0), 20), (roofline(0, 8, 0), 30), (roofline(2, 6, 100), 40))
    for number, (name, dur) in enumerate(marks):
        trace.annotation(name, 100 * number, dur)
        trace.launch_kernel("k", 100 * number + 5, dur // 2, at=100 * number + 1)
    found = {kind.kind: kind for kind in phases_of(trace).kinds}
    assert list(found) == ["decode", "prefill", "mixed"]  # the two at 50 in the order of their names
    decode, prefill, mixed = found["decode"], found["prefill"], found["mixed"]
    assert (decode.framework, decode.steps, decode.median_requests, decode.max_requests) == ("vllm", 2, 6, 8)
    assert (decode.tokens, decode.median_tokens, decode.generation_requests, decode.context_requests) == (12, 6, 12, 0)
    assert (us(decode.host_ns), us(decode.median_host_ns)) == (50, 25)
    assert (us(decode.device_ns), us(decode.median_device_ns)) == (25, 12.5)
    assert us(decode.idle_ns) == 50 - 25
    assert (prefill.steps, prefill.tokens, us(prefill.device_ns)) == (1, 900, 25)
    assert (mixed.steps, mixed.max_requests, mixed.tokens, mixed.context_requests) == (1, 8, 106, 2)


def test_marks_of_two_dialects_are_one_step() -> None:
    trace = TraceBuilder()
    trace.annotation(roofline(0, 32, 0), 0, 60)
    trace.annotation("step[DECODE bs=32]", 5, 50)
    trace.launch_kernel("k", 20, 30, at=10)
    (kind,) = phases_of(trace).kinds
    assert (kind.framework, kind.kind, kind.steps, kind.generation_requests) == ("sglang", "decode", 1, 32)
    assert (us(kind.host_ns), us(kind.device_ns)) == (60, 30)


def test_what_the_frameworks_own_mark_does_not_tell_another_may() -> None:
    trace = TraceBuilder()
    trace.annotation("step[IDLE bs=3]", 0, 60)
    trace.annotation(roofline(1, 2, 10), 5, 50)
    (kind,) = phases_of(trace).kinds
    assert (kind.framework, kind.kind, kind.max_requests, kind.tokens) == ("sglang", "mixed", 3, 12)
    assert (kind.device_ns, kind.median_device_ns, kind.idle_ns) == (None, None, None)


def test_a_mark_that_does_not_tell_its_kind() -> None:
    trace = TraceBuilder()
    trace.annotation("execute_new_2_cached_30", 0, 60)
    trace.annotation("execute_new_4_cached_0", 100, 60)
    found = phases_of(trace)
    assert {(kind.kind, kind.steps, kind.max_requests, kind.tokens) for kind in found.kinds} == {
        (None, 1, 32, None),
        ("prefill", 1, 4, None),
    }
    first, *_ = section.build(report_with("phases", found), 10)
    assert first.id == "phases-kinds"
    assert in_english(first.tables[0].rows) == (
        ("unknown", 1, 32, 60_000, 60_000),
        ("prefill", 1, 4, 60_000, 60_000),
    )


def test_a_program_that_is_no_server_has_no_kinds() -> None:
    trace = TraceBuilder()
    trace.annotation("## forward ##", 0, 60)
    assert phases_of(trace).kinds == ()
