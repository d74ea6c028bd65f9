"""ddp-unused-search."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.ddp_unused_search import (
    fires,
    fires_beside_a_gpu,
    fires_in_a_table,
    fires_on_views_of_buckets,
    fires_with_accumulation,
    fires_without_a_number,
    fires_without_shapes,
)

RULE = "ddp-unused-search"
ALL_USED = "ddp-unused-search-summary"
UNKNOWN = "ddp-unused-search-summary-unknown"


def test_from_the_walk_to_all_that_belongs_to_it() -> None:
    """200 us of walk, 20 to pass outputs on, and 20 notes of 4 us."""
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (200_000, 300_000)
    assert finding.summary.params["parameters"] == 10
    assert (finding.summary.id, finding.confidence, finding.stage) == (ALL_USED, "A", "preview")
    names = [place.name.rpartition("::")[2] for place in finding.evidence[0].where]
    assert names == ["search_unused_parameters", "_DDPSink", "select"]
    assert "find_unused_parameters=False" in (finding.code or "")


def test_a_gpu_that_waits_gains_as_much() -> None:
    (finding,) = findings(fires_beside_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(300_000, rel=0.05)


@pytest.mark.parametrize(
    ("build", "summary", "most"),
    [
        (fires_on_views_of_buckets, ALL_USED, 300_000),
        (fires_without_shapes, ALL_USED, 220_000),
        (fires_without_a_number, UNKNOWN, 220_000),
        (fires_with_accumulation, UNKNOWN, 300_000),
    ],
)
def test_says_only_what_the_recording_shows(build, summary: str, most: int) -> None:  # type: ignore[no-untyped-def]
    (finding,) = findings(build(), RULE)
    assert finding.summary.id == summary
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (200_000, most)
    assert ("parameters" in finding.summary.params) == (summary == ALL_USED)


def test_a_table_shows_the_walk() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.summary.id == UNKNOWN
    assert finding.evidence[0].observed == pytest.approx(0.04)


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})
