"""The chart of a run that stands still: the number of each rank in its groups, and which of them hold up the others."""

from __future__ import annotations

from tests.builders.flight_recorder import FlightRun
from traceanalyzer import pipeline
from traceanalyzer.formats import hang_charts
from traceanalyzer.formats.charts import NARROW, WIDE, Lanes
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.formats.pictures import lay_out


def chart(run: FlightRun) -> Lanes | None:
    return next(hang_charts.of_report(pipeline.analyze_dumps(run.dumps(), "run"), ENGLISH), None)


def begun(ranks: int = 4) -> FlightRun:
    run = FlightRun(ranks, first=100)
    run.group("7", "TENSOR", (0, 1))
    run.group("8", "TENSOR", (2, 3))
    for group in ("0", "7", "8"):
        run.collective(group=group)
    return run


def shown(found: Lanes | None) -> list[tuple[int, int, str, str]]:
    assert found is not None
    return [(box.row, int(box.begin), box.role, box.text) for box in found.boxes]


def test_the_number_of_each_rank_in_its_groups() -> None:
    run = begun()
    run.collective(group="8", absent=(3,))
    run.collective(absent=(2, 3))
    found = chart(run)
    assert found is not None
    assert found.columns == ("default_pg", "TENSOR")
    assert shown(found) == [
        (0, 0, "runtime", "102"),
        (0, 1, "kernel", "101"),
        (1, 0, "runtime", "102"),
        (1, 1, "kernel", "101"),
        (2, 0, "dataloader", "101"),
        (2, 1, "runtime", "102"),
        (3, 0, "dataloader", "101"),
        (3, 1, "dataloader", "101"),
    ]
    assert found.description.endswith("In TENSOR (8) all came to 101, the first to 102.")


def test_devices_that_stopped_part_in_what_they_finished() -> None:
    run = begun()
    run.collective(stuck=(1,))
    run.collective(stuck=range(4))
    found = chart(run)
    assert [(row, role, text) for row, column, role, text in shown(found) if column == 0] == [
        (0, "runtime", "102"),
        (1, "dataloader", "101"),
        (2, "runtime", "102"),
        (3, "runtime", "102"),
    ]
    assert found is not None
    assert found.description.endswith("In default_pg (0) all finished 101, the first 102.")


def test_of_many_ranks_those_that_hold_up_the_others_are_drawn() -> None:
    run = FlightRun(64)
    run.collective()
    run.collective(absent=(60,))
    found = chart(run)
    assert found is not None
    assert len(found.labels) == 32
    assert "Rank 60" in found.labels
    assert found.description.endswith("32 more ranks are not drawn.")


def test_a_rank_without_a_dump_has_no_box() -> None:
    run = FlightRun(3)
    run.collective()
    run.collective(absent=(2,))
    assert {row for row, *_ in shown(chart(run.killed(2)))} == {0, 1}


def test_one_dump_has_no_chart() -> None:
    run = FlightRun(1)
    run.collective()
    assert chart(run) is None


def test_names_of_columns_are_shortened_to_their_room() -> None:
    run = FlightRun(12)
    for number in range(3):
        run.group(str(number + 1), "A_VERY_LONG_NAME_OF_A_GROUP_" + "ABC"[number], range(12))
        run.collective(group=str(number + 1))
    found = chart(run)
    assert found is not None
    for width in (WIDE, NARROW):
        picture = lay_out(found, ENGLISH, width)
        below = [label for label in picture.labels if label.anchor == "middle" and label.role == "muted"]
        assert len(below) == 3
        assert all(len(label.text) * 7 < width / 3 for label in below)
        names = [label for label in picture.labels if label.anchor == "end"]
        assert all(label.x >= len(label.text) * 6 for label in names)


def test_a_rank_that_called_something_else_differs_where_all_came_equally_far() -> None:
    run = begun()
    run.collective(stuck=range(4), other={1: {"input_sizes": [[7]]}})
    found = chart(run)
    assert [role for _, column, role, _ in shown(found) if column == 0] == [
        "runtime",
        "communication",
        "runtime",
        "runtime",
    ]
    assert found is not None
    assert [series.label for series in found.series] == ["Differs from the others", "Waits", "Has finished"]
