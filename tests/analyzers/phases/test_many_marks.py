"""Thousands of marks and of names; times are microseconds."""

from __future__ import annotations

import pytest

from tests.analyzers.phases.reading_phases import by_name, phases_of, us
from tests.builders import TraceBuilder
from traceanalyzer.analyzers.phases import PLACES, ROWS
from traceanalyzer.structure.mark_forest import MANY, SINGLE, pattern


def numbered(count: int) -> TraceBuilder:
    """`layer_0` to `layer_N` of 1 to N + 1 us, each with one `attention` and one kernel."""
    trace = TraceBuilder()
    at = 0
    for number in range(count):
        trace.annotation(f"layer_{number}", at, number + 10)
        trace.annotation("attention", at + 1, 5)
        trace.launch_kernel("k", at + 3, 2, at=at + 2, call_dur=1)
        at += number + 12
    return trace


def test_names_that_differ_in_numbers_keep_their_rows_while_they_are_few() -> None:
    found = phases_of(numbered(MANY - 1))
    assert {row.name for row in found.rows} == {"attention", *(f"layer_{n}" for n in range(MANY - 1))}


def test_names_that_differ_in_numbers_share_a_row_but_for_the_most_expensive() -> None:
    count = 1000
    found = phases_of(numbered(count))
    rows = by_name(found)
    singles = {f"layer_{number}" for number in range(count - SINGLE, count)}
    assert rows.keys() == {"layer_*", "attention"} | singles
    group = rows["layer_*"]
    assert (group.names, group.calls) == (count - SINGLE, count - SINGLE)
    assert us(group.host_ns) == sum(number + 10 for number in range(count - SINGLE))
    assert us(group.device_ns) == 2 * (count - SINGLE)
    assert (rows["layer_999"].names, us(rows["layer_999"].host_ns)) == (1, 1009)
    assert (rows["attention"].names, rows["attention"].calls, rows["attention"].depth) == (1, count, 1)
    assert len(found.tree) == 2 * (1 + SINGLE)
    assert sum(place.calls for place in found.tree if place.name == "attention") == count
    assert found.hidden_rows.count == 0


def test_tables_are_bounded_and_what_is_beyond_is_counted() -> None:
    trace = TraceBuilder()
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [a + b for a in letters for b in letters]
    for number, name in enumerate(names):
        trace.annotation(name, 100 * number, 50 if name == "zz" else 10)
        trace.launch_kernel("k", 100 * number + 5, 3, at=100 * number + 1)
    found = phases_of(trace)
    assert (len(found.rows), len(found.tree)) == (ROWS, PLACES)
    assert found.rows[0].name == "zz"
    assert (found.hidden_rows.count, found.hidden_rows.calls) == (len(names) - ROWS, len(names) - ROWS)
    assert (found.hidden_places.count, found.hidden_places.calls) == (len(names) - PLACES, len(names) - PLACES)
    assert us(found.hidden_rows.host_self_ns) == 10 * (len(names) - ROWS)
    assert us(found.hidden_rows.device_self_ns) == 3 * (len(names) - ROWS)


def test_a_listed_place_never_lacks_the_one_around_it() -> None:
    trace = TraceBuilder()
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [a + b for a in letters for b in letters]
    for number, name in enumerate(names):
        trace.annotation(name, 100 * number, 50)
        trace.annotation("inside", 100 * number + 1, 49)
    found = phases_of(trace)
    assert len(found.tree) == PLACES
    for place in found.tree:
        assert (place.parent is None) == (place.depth == 0)
        assert place.parent is None or found.tree[place.parent].depth == place.depth - 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("iteration 17", "iteration *"),
        ("h.3.attn", "h.*.attn"),
        ("TransformerEncoderLayerWithAVeryLongName12", "TransformerEncoderLayerWithAVeryLongName*"),
        (
            "## Call CompiledFxGraph fz4gih4pgugpot6phta55no7ibvwocsgojegobns5gp6xtqwerty ##",
            "## Call CompiledFxGraph * ##",
        ),
        ("forward", "forward"),
    ],
)
def test_patterns_of_names(name: str, expected: str) -> None:
    assert pattern(name) == expected
