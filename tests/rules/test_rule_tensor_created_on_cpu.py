"""Tests of the rule `tensor-created-on-cpu`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host, Stream
from tests.reading import plain
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.tensor_created_on_cpu import SHAPE, fires, make, move

RULE = "tensor-created-on-cpu"


def test_making_and_moving_go_away_but_for_a_launch() -> None:
    trace = fires()
    (finding,) = findings(trace, RULE)
    (row,) = plain(report(trace, RULE))["host_origins"]["rows"]
    time = (row["making_ns"] + row["moving_ns"]) / 4
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (time - 20_000, time)
    place = finding.evidence[0].where[0]
    assert (place.name, place.shapes) == ("aten::zeros", str(SHAPE[0]))
    assert finding.severity == "low", "small however large its share"


def test_without_steps_it_is_skipped() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        make(host, 150)
        move(host, stream)
        compute(host, stream, 2000)

    trace = looping(lambda *_: None, steps=0, prepare=step)
    assert "no step is marked" in (skipped(trace, RULE) or "")
    assert "which tensor" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_calls_per_step() -> None:
    assert findings(fires(), RULE, {"calls_per_step": 1})
    assert findings(fires(), RULE, {"calls_per_step": 1.01}) == []


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})
    assert share == pytest.approx(0.12, abs=0.01)
