"""graph-batch-padded."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.graph_batch_padded import (
    decode,
    fires,
    fires_for_a_graph_of_several_batches,
    fires_without_ids,
    served,
    trap_drafts,
    trap_other_graphs,
)

RULE = "graph-batch-padded"


def test_rows_of_the_output() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.summary.params == {
        "padded": 5,
        "steps": 5,
        "requests": 17,
        "size": 24,
        "share": pytest.approx(7 / 24),
    }
    assert (finding.confidence, finding.stage) == ("B", "preview")
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert (low, high) == (0, pytest.approx(900_000 * 7 / 24))


@pytest.mark.parametrize("build", [fires_for_a_graph_of_several_batches, fires_without_ids])
def test_graph_of_several_batches(build) -> None:  # type: ignore[no-untyped-def]
    """Six of eight steps compute at least three of eight requests for nothing."""
    (finding,) = findings(build(), RULE)
    assert finding.summary.params == {"padded": 6, "steps": 8, "requests": 5, "size": 8, "share": 6 / 8 * 3 / 8}
    assert "or more" in finding.summary.text


def test_the_batch_with_most_padding_is_named() -> None:
    (finding,) = findings(served(*2 * [decode(20, 24)], *3 * [decode(9, 16)]), RULE)
    assert (finding.summary.params["requests"], finding.summary.params["size"]) == (9, 16)
    assert [place.name for place in finding.evidence[0].where] == ["step[DECODE bs=9]", "step[DECODE bs=20]"]


def test_says_what_is_missing() -> None:
    assert "size of the graphs" in (skipped(trap_other_graphs(), RULE) or "")
    assert "one token per request" in (skipped(trap_drafts(), RULE) or "")
    assert skipped(fires_in_a_table(), RULE)


def test_edge_share() -> None:
    assert findings(served(*5 * [decode(12, 16)]), RULE, {"share": 0.25})
    assert findings(served(*5 * [decode(12, 16)]), RULE, {"share": 0.2501}) == []
