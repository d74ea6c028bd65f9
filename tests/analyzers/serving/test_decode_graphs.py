"""Decode steps of servers: how they reach the device, and of which size their graphs are."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read, read_built
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.serving.test_decode_not_in_graph import EAGER, GRAPH, served, trap_hardly_any_work
from tests.rules.serving.test_graph_batch_padded import Step, decode, fires, trap_drafts
from tests.rules.serving.test_graph_batch_padded import served as replayed
from traceanalyzer.analyzers.serving import decode_graphs
from traceanalyzer.analyzers.serving.decode_graphs import DecodeBatch
from traceanalyzer.structure.context import Context


def batches(trace: TraceBuilder) -> list[DecodeBatch]:
    return list(decode_graphs.analyze(Context(read_built(trace))).batches)


def sizes(trace: TraceBuilder) -> list[tuple[int, int | None, bool]]:
    return [(batch.requests, batch.size, batch.is_exact) for batch in batches(trace)]


def test_figures_of_steps_with_and_without_graphs() -> None:
    graph, eager = batches(served(*4 * [GRAPH], *4 * [EAGER]))
    assert (graph.requests, graph.in_graph, graph.steps) == (8, True, 4)
    assert (graph.median_duration_ns, graph.median_idle_ns, graph.median_device_ns) == (1_000_000, 100_000, 900_000)
    assert (eager.requests, eager.in_graph, eager.steps) == (40, False, 4)
    assert (eager.median_duration_ns, eager.median_idle_ns, eager.median_device_ns) == (2_000_000, 1_000_000, 1_000_000)
    assert (eager.longest, eager.start_ns) == ("step[DECODE bs=40]", 4_000_000)


def test_a_step_of_hardly_any_work_is_no_pass_of_the_model() -> None:
    assert [batch.requests for batch in batches(trap_hardly_any_work())] == [8]


def test_size_of_the_first_matrix_behind_the_graph() -> None:
    assert sizes(fires()) == [(17, 24, True)]


def test_steps_of_the_profiler_around_the_marks() -> None:
    trace = fires()
    for number in range(5):
        trace.step(number, 1000 * number, 1000)
    assert sizes(trace) == [(17, 24, True)]


def test_size_needs_the_types_of_inputs_and_the_marks_of_tokens() -> None:
    assert sizes(replayed(*3 * [Step("step[DECODE bs=17]", output=("", (24, 32000)))])) == [(17, None, False)]
    text = "[Executor] _forward_step 7: 0 ctx reqs, 17 gen reqs"  # with drafts there are more rows than requests
    assert sizes(replayed(*3 * [Step(text, output=("float", (68, 32000)))])) == [(17, None, False)]


def test_fewer_rows_than_requests_are_no_size() -> None:
    """Ranks that share a sequence have a part of its tokens each."""
    assert sizes(replayed(*3 * [decode(16, 4)])) == [(16, None, False)]


def test_other_threads_do_not_show_the_output() -> None:
    trace = replayed(*3 * [decode(17)])
    for number in range(3):
        trace.op("aten::slice", 1000 * number + 30, 1, shapes=[[64, 500]], types=["float"], tid=99)
    assert sizes(trace) == [(17, None, False)]


def test_pieces_of_a_graph() -> None:
    """Between two pieces attention works on the requests alone; the last piece puts out all rows."""
    trace = TraceBuilder()
    for number in range(3):
        start = 1000 * number
        trace.annotation("execute_context_0(0)_generation_5(5)", start, 950)
        trace.graph_launch(start + 10, 5, [(MATRIX_UNITS, start + 40, 300, {}), (MATRIX_UNITS, start + 340, 100, {})])
        trace.op("aten::slice", start + 20, 1, shapes=[[5, 4096]], types=["c10::BFloat16"])
        trace.launch_kernel("flash_fwd_kernel", start + 450, 100, at=start + 25)
        trace.graph_launch(start + 40, 5, [(MATRIX_UNITS, start + 560, 300, {})], graph=2)
        trace.op("aten::index", start + 50, 1, shapes=[[8, 4096], []], types=["c10::BFloat16", ""])
    assert sizes(trace) == [(5, 8, True)]


@pytest.mark.parametrize(
    "rows", [b"1e999", b"9223372036854775808", b"-24", b"24.0", b"true", b"null", 400 * b"[" + 400 * b"]"]
)
def test_a_size_that_is_no_size_is_unknown(rows: bytes) -> None:
    written = fires().to_bytes()
    damaged = written.replace(b"[[24, 32000]]", b"[[%b, 32000]]" % rows)
    assert damaged != written
    found = decode_graphs.analyze(Context(read(damaged))).batches
    assert [(batch.requests, batch.size) for batch in found] == [(17, None)]


@pytest.mark.parametrize("kind", [rb'"\ud800"', b"1e999", b"[]", b"{}"])
def test_a_type_that_is_no_text_is_unknown(kind: bytes) -> None:
    written = fires().to_bytes()
    damaged = written.replace(b'["float"]', b"[%b]" % kind)
    assert damaged != written
    found = decode_graphs.analyze(Context(read(damaged))).batches
    assert [(batch.requests, batch.size) for batch in found] == [(17, None)]


def test_marks_without_plain_decoding() -> None:
    reason = decode_graphs.ANALYSES[0].missing(Context(read_built(trap_drafts())))
    assert reason is not None
    assert reason.id == "skip-no-decode-steps"
