"""decode-not-in-graph.

The programs: decode steps of a server, with and without graphs.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import MATRIX_UNITS
from tests.rules.judging import findings, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table

KERNELS = 10


def served(*steps: tuple[str, int, int]) -> TraceBuilder:
    """Steps one after another: mark, duration in us, and how long each of ten kernels runs for.

    With a graph the kernels follow each other at the end of the step; a duration below 0 stands for kernels that are
    launched one by one, in equal distances.
    """
    trace = TraceBuilder()
    start = 0
    for mark, signed, work in steps:
        duration = abs(signed)
        trace.annotation(mark, start, duration)
        if signed > 0:
            first = start + duration - KERNELS * work
            runs = [(MATRIX_UNITS, first + work * node, work, {}) for node in range(KERNELS)]
            trace.graph_launch(start + 5, 10, runs)  # type: ignore[arg-type]
        else:
            pause = (duration - 20) // KERNELS
            for node in range(KERNELS):
                at = start + 10 + pause * node
                trace.launch_kernel(MATRIX_UNITS, at + pause - work, work, at=at)
        start += duration
    return trace


GRAPH = ("step[DECODE bs=8]", 1000, 90)
"""The GPU is idle for 100 of 1000 us."""
EAGER = ("step[DECODE bs=40]", -2000, 100)
"""The GPU is idle for 1000 of 2000 us."""


def fires() -> TraceBuilder:
    """Forty requests are more than the largest graph holds."""
    return served(*4 * [GRAPH], *4 * [EAGER], *4 * [GRAPH])


def fires_between_sizes() -> TraceBuilder:
    """Seven requests run without a graph, although graphs for six and eight are there."""
    six = ("step[DECODE bs=6]", 1000, 90)
    return served(*4 * [six], *4 * [GRAPH], *3 * [("step[DECODE bs=7]", -2000, 100)], *4 * [GRAPH])


def quiet() -> TraceBuilder:
    """The host is fast enough: the GPU is idle for a sixth of the steps without a graph."""
    return served(*4 * [GRAPH], *4 * [("step[DECODE bs=40]", -2400, 200)], *4 * [GRAPH])


def trap_no_graphs() -> TraceBuilder:
    """No step replays a graph: graphs are off, not too small."""
    return served(*8 * [EAGER])


def trap_prompts() -> TraceBuilder:
    """What is launched kernel by kernel are prompts."""
    return served(*4 * [GRAPH], *3 * [("step[EXTEND bs=2 toks=900]", -2000, 100)], *4 * [GRAPH])


def trap_a_slow_host() -> TraceBuilder:
    """Steps with graphs wait for the host as long: it is something else that it does."""
    return served(*4 * [("step[DECODE bs=8]", 2000, 90)], *4 * [EAGER], *4 * [("step[DECODE bs=8]", 2000, 90)])


def trap_hardly_any_work() -> TraceBuilder:
    """A step without a graph launches two kernels: it is no pass of the model."""
    trace = served(*8 * [GRAPH])
    trace.annotation("step[DECODE bs=40]", 8000, 1900)
    for at in (8010, 9000):
        trace.launch_kernel(MATRIX_UNITS, at + 20, 50, at=at)
    return trace


RULE = "decode-not-in-graph"


def test_batches_above_the_largest_graph() -> None:
    (finding,) = findings(fires(), RULE)
    params = finding.summary.params
    assert (params["eager"], params["steps"], params["requests"], params["other"]) == (4, 12, 40, 8)
    assert (params["time"], params["idle"]) == (2_000_000, 1_000_000)
    assert (params["usual"], params["rest"]) == (1_000_000, 100_000)
    assert finding.evidence[0].observed == (1_000_000 - 100_000) / 2_000_000
    assert (finding.severity, finding.saving, finding.stage) == ("low", None, "preview")
    assert "max_cudagraph_capture_size" in finding.advice.text


def test_batches_below_the_largest_graph() -> None:
    (finding,) = findings(fires_between_sizes(), RULE)
    assert (finding.summary.params["requests"], finding.summary.params["other"]) == (7, 6)
    assert "padding" in finding.advice.text


def test_says_what_is_missing() -> None:
    assert "no decode step replays a graph" in (skipped(trap_no_graphs(), RULE) or "")
    assert skipped(fires_in_a_table(), RULE)


def test_edge_idle_share() -> None:
    assert findings(fires(), RULE, {"idle_share": 0.45})
    assert findings(fires(), RULE, {"idle_share": 0.4501}) == []
