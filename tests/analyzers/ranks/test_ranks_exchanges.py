"""Exchanges of experts place by place, and how much of its link a collective uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzers.ranks.joining import joined
from tests.builders import A100, V100, TraceBuilder
from tests.builders.ranks import Meeting, run
from tests.rules.judging import report
from tests.rules.ranks.test_experts_uneven import LAYERS, experts
from traceanalyzer import sections
from traceanalyzer.report.section import Section


def shown(traces: tuple[TraceBuilder, ...]) -> dict[str, Section]:
    return {section.id: section for section in sections.build(report(traces), 100)}


def test_the_rank_with_most_work_by_place() -> None:
    found = joined(experts(lambda rank, layer: 100 * (rank == layer % 4)))
    assert [row.place for row in found.exchanges] == list(range(1, 2 * LAYERS + 1))
    assert {row.collectives for row in found.exchanges} == {4}, "one in each of four steps"
    combined = found.exchanges[1::2]
    assert [row.last_rank for row in combined] == [layer % 4 for layer in range(LAYERS)]
    assert {row.wait_ns for row in combined} == {75_000}, "three of four ranks wait for 100 us"
    assert {(row.last_rank, row.wait_ns) for row in found.exchanges[::2]} == {(None, 0)}


def test_rotation_is_told_from_one_busy_rank() -> None:
    rotating = shown(experts(lambda rank, layer: 100 * (rank == layer % 4)))["ranks-exchanges"]
    assert "the rank with most work rotates: 4 ranks come last" in rotating.messages[0].text
    always = shown(experts(lambda rank, layer: 100 * (rank == 2)))["ranks-exchanges"]
    assert "rank 2 comes last in 8 places" in always.messages[0].text
    assert "ranks-exchanges" not in shown(run(4, [Meeting(lambda rank, step: 1000)]))


def test_bandwidth_is_a_share_of_a_known_link() -> None:
    traces = run(2, [Meeting(lambda rank, step: 1000)])
    found = joined(traces)
    assert found.link is not None
    assert (found.link.name, found.link.gb_per_s) == ("NVLink", 300)
    table = shown(traces)["ranks-groups"].tables[0]
    assert str(table.columns[-1].title) == "Of the link"
    assert "NVLink, 300 GB/s" in [
        fact.value.text for fact in shown(traces)["ranks"].facts if str(fact.label)[:4] == "Link"
    ]
    assert table.rows[0][-1] == pytest.approx(found.groups[0].bus_gb_per_s / 300)  # type: ignore[operator]


@pytest.mark.parametrize("other", [V100, replace(A100, name="Some GPU")], ids=["two kinds", "unknown"])
def test_an_unknown_link_is_no_column(other: object) -> None:
    traces = run(2, [Meeting(lambda rank, step: 1000)])
    traces[1].devices = (other,)  # type: ignore[assignment]
    assert joined(traces).link is None
    titles = [str(column.title) for column in shown(traces)["ranks-groups"].tables[0].columns]
    assert "Of the link" not in titles
