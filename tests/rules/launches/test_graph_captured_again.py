"""Tests of the rule `graph-captured-again`: numbers worked out by hand, and edges of thresholds.

The programs: steps that capture graphs, and steps that replay them.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.judging import findings
from tests.structure.recording.test_workload import in_pieces


def capturing(*steps: bool) -> TraceBuilder:
    """Steps of 1 ms with kernels of 600 us; some capture a graph of ten launches before they replay it."""
    trace = TraceBuilder()
    for number, captures in enumerate(steps):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.launch_kernel("gemm", at + 20, 500, at=at + 5)
        if captures:
            trace.launch("cudaStreamBeginCapture_v10000", at + 100, 5)
            for call in range(10):
                trace.launch("cudaLaunchKernel", at + 110 + 10 * call, 5)
            trace.launch("cudaStreamEndCapture_v10000", at + 220, 5)
        trace.graph_launch(at + 300, 5, [("gemm", at + 600, 100, {})])
    return trace


def fires() -> TraceBuilder:
    """Each of four steps captures."""
    return capturing(True, True, True, True)


def quiet() -> TraceBuilder:
    """All steps replay what was captured before the recording."""
    return capturing(False, False, False, False)


def trap_warm_up() -> TraceBuilder:
    """The first two steps capture a graph each."""
    return capturing(True, True, False, False)


def trap_capture_of_a_server() -> TraceBuilder:
    """The recording is of nothing but captures."""
    return in_pieces(20, between=3)


RULE = "graph-captured-again"


def test_it_counts_captures_and_replays() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.severity, finding.saving) == ("medium", None)
    assert {key: finding.summary.params[key] for key in ("steps", "captures", "replays")} == {
        "steps": 4,
        "captures": 4,
        "replays": 4,
    }


def test_edge_steps() -> None:
    assert findings(fires(), RULE, {"steps": 4})
    assert findings(fires(), RULE, {"steps": 5}) == []
