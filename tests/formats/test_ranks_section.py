"""The sections about a run of several ranks."""

from __future__ import annotations

from msgspec.structs import replace

from tests.analyzers.memory.report_with import report_with
from tests.analyzers.ranks.joining import members
from tests.builders import TraceBuilder
from tests.builders.ranks import Meeting, run
from traceanalyzer.analyzers.ranks.model import Ranks
from traceanalyzer.formats.html import render as html
from traceanalyzer.multirank import join
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Section
from traceanalyzer.sections import ranks


def shown(*traces: TraceBuilder) -> dict[str, Section]:
    return {section.id: section for section in ranks.build(join(members(traces), "run"), 5)}


def titles(section: Section) -> list[str]:
    return [str(column.title) for column in section.tables[0].columns]


def late(**how: object) -> tuple[TraceBuilder, ...]:
    return run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 1))], skew_ns={2: -9_000}, **how)  # type: ignore[arg-type]


def test_the_rank_that_would_take_longest_comes_first() -> None:
    section = shown(*late())["ranks"]
    assert titles(section) == ["Rank", "Step", "Without waiting", "Waiting", "Came last", "Parts of its step"]
    assert [row[0] for row in section.tables[0].rows] == [1, 0, 2]
    assert [row[3:5] for row in section.tables[0].rows] == [(0, 4), (300_000, 0), (300_000, 0)]
    # of 1525 us rank 1 computes 1300 and sends 200; the others compute 1000 and wait 300
    bars = "██████████████████████████▓▓▓▓ ◄", "████████████████████▓▓▓▓░░░░░░"
    assert [row[5] for row in section.tables[0].rows] == [bars[0], bars[1], bars[1]]
    said = " ".join(message.text for message in section.messages)
    assert "a rank waits 200 us per step" in said
    assert "rank 1 would take longest" in said


def test_all_waiting_is_shown_where_its_exposed_part_is_unknown() -> None:
    found = join(members(late()), "run").result("ranks", Ranks)
    assert found is not None
    rows = tuple(replace(row, exposed_wait_ns=None) for row in found.ranks)
    section, *_ = ranks.build(report_with("ranks", replace(found, exposed_wait_ns=None, ranks=rows)), 5)
    assert titles(section)[:5] == ["Rank", "Step", "Without waiting", "Waiting", "Came last"]
    assert {row[0]: row[3] for row in section.tables[0].rows} == {row.rank: row.wait_ns for row in rows}
    assert any(row.wait_ns for row in rows)


def test_who_is_waited_for_and_why() -> None:
    section = shown(*late())["ranks-late"]
    ((rank, caused, steps, reason, excess),) = section.tables[0].rows
    assert (rank, caused, steps, excess) == (1, 200_000, 4, 300_000)
    assert isinstance(reason, Text)
    assert reason().text == "computation"


def test_what_slow_ranks_cost() -> None:
    """A step takes 15 + 1300 + 5 + 200 + 5 us, without what rank 1 does longer 300 us less."""
    section = shown(*late())["ranks-slowdown"]
    ranks_table, kinds = section.tables
    assert ranks_table.rows == ((1, 1525 / 1225), (0, 1.0), (2, 1.0))
    assert kinds.rows[0][1] == 1525 / 1225
    (message,) = section.messages
    assert "Slowdown 1.245: a step takes 1.5 ms; it would take 1.2 ms" in message.text
    said = " ".join(message.text for message in shown(*late())["ranks"].messages)
    assert "Without the delays of rank 1 a step would be 300 us shorter." in said


def test_all_ranks_are_shown_however_few_rows_other_tables_have() -> None:
    found = join(members(run(8, [Meeting(lambda rank, step: 1000 + rank)])), "run")
    section = next(iter(ranks.build(found, 2)))
    assert len(section.tables[0].rows) == 8
    assert section.tables[0].is_whole


def test_ranks_that_are_late_at_different_times_are_told_together() -> None:
    meetings = [Meeting(lambda rank, step, late=late: 1000 + 400 * (rank == late)) for late in (1, 6)]  # type: ignore[misc]
    said = " ".join(message.text for message in shown(*run(8, meetings))["ranks"].messages)
    assert "Without the delays of ranks 1, 6 a step would be 800 us shorter" in said
    assert "without those of one of them by at most 400 us" in said


def test_clocks() -> None:
    (row, _) = shown(*late())["ranks-clocks"].tables[0].rows
    assert row == (2, -9_000, -9_000, -9_000, 0, 4, "trace.json")
    assert "ranks-clocks" not in shown(*late(clock=False))


def test_on_the_cpu_all_waiting_is_shown() -> None:
    traces = []
    for rank in range(2):
        trace = TraceBuilder(distributed={"backend": "gloo", "rank": rank, "world_size": 2})
        trace.step(1, 0, 9_000)
        trace.op("aten::mm", 5, 3000 + 1000 * rank)
        trace.annotation("gloo:all_reduce", 3010 + 1000 * rank, 3000 - 1000 * rank)
        traces.append(trace)
    sections = shown(*traces)
    assert [(row[0], row[3]) for row in sections["ranks"].tables[0].rows] == [(1, 0), (0, 1_000_000)]
    assert titles(sections["ranks-late"]) == ["Rank", "Waiting caused", "Steps"]
    assert any("500 us of it while nothing else runs" in message.text for message in sections["ranks"].messages)


def test_texts_of_tables_can_be_translated() -> None:
    found = shown(*late())
    assert found
    for section in found.values():
        assert isinstance(section.title, Text)
        assert all(isinstance(column.title, Text) for table in section.tables for column in table.columns)


def test_the_page_has_them() -> None:
    page = html(join(members(late()), "run"))
    assert 'id="section-ranks"' in page
    assert "Waiting, Transfer" in page, "and says what the words mean"


def test_without_all_ranks_of_a_group_nothing_is_split_into_waiting_and_transfer() -> None:
    """Of four ranks two are here; rank 1 comes 300 us later than rank 0, but the latest may be missing."""
    sections = shown(*run(4, [Meeting(lambda rank, step: 1000 + 300 * rank)])[:2])
    section = sections["ranks"]
    assert titles(section) == ["Rank", "Step", "Came last", "Parts of its step"]
    assert "ranks-late" not in sections
    assert "ranks-slowdown" not in sections
    said = " ".join(message.text for message in section.messages)
    assert "a rank spends 950 us per step" in said  # 500 + 200 of rank 1, 1,100 of rank 0 with what it waits
    assert "unknown" in said
    assert "transfer" not in said
    columns = [str(column.title) for column in sections["ranks-groups"].tables[0].columns]
    assert "Duration" in columns
    assert not {"Waiting", "Transfer", "Bus bandwidth"} & set(columns)
