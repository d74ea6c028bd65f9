"""Tests of the rule `copies-materialized`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.rules.judging import findings
from tests.rules.situations.copies_materialized import (
    cloning,
    copying,
    fires,
    fires_in_a_table,
    fires_on_a_cpu,
    fires_on_clones_in_a_row,
    fires_on_clones_on_the_host,
    printed,
)

RULE = "copies-materialized"


def test_half_to_all_of_the_copies() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(400 / 4400)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((200_000, 400_000))
    place = finding.evidence[0].where[0]
    assert (place.name, place.shapes) == ("aten::contiguous", "[[16,16,512,64],[16,16,512,64],[]]")


def test_names_the_operator_around_what_asks() -> None:
    (finding,) = findings(copying("aten::einsum", "aten::reshape", "aten::clone"), RULE)
    assert "aten::reshape in aten::einsum" in finding.summary.text


def test_of_clones_in_a_row_one_may_be_needed() -> None:
    (finding,) = findings(cloning(10, gpu=True, each=50), RULE)
    assert finding.confidence == "C"
    assert finding.saving is not None
    assert finding.saving.resource == "gpu"
    assert finding.saving.direct_ns_per_step == pytest.approx((225_000, 450_000)), "9 of 10, 50 us each"


def test_of_clones_that_cost_less_than_steps_differ_no_saving_is_promised() -> None:
    (finding,) = findings(fires_on_clones_in_a_row(), RULE)
    assert finding.saving is None


def test_clones_on_the_host_take_time_of_the_host() -> None:
    (finding,) = findings(fires_on_clones_on_the_host(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(9 * 207_000)


def test_copies_without_types_are_judged_by_who_asks() -> None:
    assert findings(copying("aten::contiguous", types=("", "")), RULE)
    assert findings(copying("aten::to", "aten::_to_copy", types=("", "")), RULE) == []


def test_a_table_tells_time_below_operators() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "B"
    assert "aten::reshape" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((50_000_000, 100_000_000))


def test_a_table_never_names_an_operator_without_time() -> None:
    (finding,) = findings(printed("aten::repeat", "50.000ms"), RULE)
    assert "aten::repeat" in finding.summary.text
    assert findings(printed("aten::repeat", "0.000us"), RULE) == []


def test_edge_gpu_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"gpu_share": share}) == []
    assert findings(fires(), RULE, {"gpu_share": share - 1e-9})


def test_edge_gpu_share_in_a_table() -> None:
    assert findings(fires_in_a_table(), RULE, {"gpu_share": 0.1}) == []
    assert findings(fires_in_a_table(), RULE, {"gpu_share": 0.0999})


def test_edge_clones_in_a_row() -> None:
    assert findings(cloning(4, gpu=False), RULE) == []
    assert findings(cloning(5, gpu=False), RULE)


def test_says_of_which_copies_it_knows_nothing() -> None:
    trace = fires()
    assert "says nothing of" not in findings(trace, RULE)[0].summary.text
    for number in range(12):  # in three steps, by nobody whom the trace names
        trace.memcpy("DtoD", 4096, 60 + number, 1)
    (finding,) = findings(trace, RULE)
    assert "graphs, compiled code or libraries: 4." in finding.summary.text
    assert finding.summary.text.startswith("4 copies per step within the GPU's memory")


def test_on_a_cpu_copies_that_the_program_asks_for() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(400_000 / 4_403_000)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 400_000, 0.83 * 400_000))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


def test_edge_host_share() -> None:
    share = findings(fires_on_a_cpu(), RULE)[0].evidence[0].observed
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share - 1e-9})
