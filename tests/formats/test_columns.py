"""Tables and facts of sections, made of columns as data."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from traceanalyzer.report.message import Text
from traceanalyzer.report.section import Topic
from traceanalyzer.sections.columns import Column, detail, facts, known, optional, share, table


@dataclass(frozen=True)
class Device:
    number: int


@dataclass(frozen=True)
class Row:
    name: str
    time_ns: int
    note: str | None = None
    device: Device = Device(3)


NAME, TIME = Column(Text("x-name", "Name"), "", "name"), Column(Text("x-time", "Time"), "ns", "time_ns")
NOTE = Column(Text("x-note", "Note"), "", "note", if_any=known)
ROWS = (Row("a", 30), Row("b", 10, "late"), Row("c", 0))


def test_a_cell_is_an_attribute_a_dotted_one_or_a_function_of_the_row() -> None:
    columns = (NAME, NAME.of("device.number"), NAME.of(lambda row: row.name * 2))
    assert table("x", columns, ROWS).rows == (("a", 3, "aa"), ("b", 3, "bb"), ("c", 3, "cc"))


@pytest.mark.parametrize(
    ("top", "total", "names", "counted"), [(None, None, "abc", 3), (2, None, "ab", 3), (1, 9, "a", 9)]
)
def test_rows_are_cut_and_all_are_counted(top: int | None, total: int | None, names: str, counted: int) -> None:
    shown = table("x", (NAME,), ROWS, top, total)
    assert (shown.rows, shown.total_rows) == (tuple((name,) for name in names), counted)


def test_an_optional_column_is_judged_by_all_rows() -> None:
    assert table("x", (NAME, NOTE), ROWS, 1).rows == (("a", None),)
    assert table("x", (NAME, NOTE), ROWS[:1]).rows == (("a",),)
    (titles,) = {
        tuple(str(column.title) for column in table("x", (NAME, NOTE), rows).columns) for rows in (ROWS[:1], ())
    }
    assert titles == ("Name",)


def test_zero_is_a_known_value_but_no_true_one() -> None:
    assert table("x", optional(known, TIME), ROWS[2:]).rows == ((0,),)
    assert table("x", optional(bool, TIME), ROWS[2:]).rows == ((),)


@pytest.mark.parametrize(("whole", "shares"), [(40, (0.75, 0.25, 0.0)), (0, (None, None, None))])
def test_shares_in_nothing_are_unknown(whole: float, shares: tuple[float | None, ...]) -> None:
    assert table("x", (share("time_ns", whole),), ROWS).rows == tuple((value,) for value in shares)


def test_facts_are_the_columns_of_one_row() -> None:
    assert [(str(fact.label), fact.value, fact.unit) for fact in facts((TIME, NOTE), ROWS[0])] == [("Time", 30, "ns")]


def test_a_detail_is_left_out_of_the_first_screen() -> None:
    section = detail("x", Text("x-title", "Title"), Topic.GPU, (table("x", (NAME,), ROWS),))
    assert (section.is_detail, section.topic, len(section.tables)) == (True, Topic.GPU, 1)
