"""decode-not-in-graph."""

from __future__ import annotations

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.decode_not_in_graph import fires, fires_between_sizes, trap_no_graphs

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
