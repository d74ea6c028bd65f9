"""Work is compared under the lowest caller that both sides have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.comparison.alignment import aligned
from traceanalyzer.comparison.measurement import LaunchedWork, Path

REGION = "Torch-Compiled Region: 0/0"
EAGER = {
    ("block",): LaunchedWork(1, 0, 0),
    ("block", "aten::linear"): LaunchedWork(4, 0, 0),
    ("block", "aten::linear", "aten::addmm"): LaunchedWork(4, 4, 400),
    ("block", "aten::add"): LaunchedWork(6, 6, 60),
    ("block", "aten::sort"): LaunchedWork(1, 2, 30),
    ("head",): LaunchedWork(1, 1, 20),
}


def rows(base: dict[Path, LaunchedWork], head: dict[Path, LaunchedWork]) -> dict[str, tuple[float, float]]:
    """Time on both sides by path."""
    one, two = aligned(base, head)
    assert one.keys() == two.keys()
    return {
        f"{key.owner} / {key.name}" if key.owner else key.name: (cost.device_ns or 0, two[key].device_ns or 0)
        for key, cost in one.items()
    }


def test_equal_sides_are_compared_at_every_caller() -> None:
    assert rows(EAGER, EAGER) == {
        "block / aten::linear / aten::addmm": (400, 400),
        "block / aten::add": (60, 60),
        "block / aten::sort": (30, 30),
        "head": (20, 20),
    }


def test_operators_that_moved_into_compiled_code_are_one_row_with_it() -> None:
    """Three of four products and all but one sum are in the region now; sorting is where it was."""
    compiled = {
        ("block",): LaunchedWork(1, 0, 0),
        ("block", REGION): LaunchedWork(1, 3, 150),
        ("block", REGION, "aten::addmm"): LaunchedWork(3, 3, 200),
        ("block", "aten::linear"): LaunchedWork(1, 0, 0),
        ("block", "aten::linear", "aten::addmm"): LaunchedWork(1, 1, 100),
        ("block", "aten::add"): LaunchedWork(1, 1, 10),
        ("block", "aten::sort"): LaunchedWork(1, 2, 30),
        ("head",): LaunchedWork(1, 1, 20),
    }
    assert rows(EAGER, compiled) == {"block": (460, 460), "block / aten::sort": (30, 30), "head": (20, 20)}


def test_callers_of_one_side_count_as_those_around_them() -> None:
    """Another version of torch has another operator in between, and a mark was added."""
    newer = {
        ("block",): LaunchedWork(1, 0, 0),
        ("block", "new mark", "aten::linear"): LaunchedWork(4, 0, 0),
        ("block", "new mark", "aten::linear", "aten::_addmm_activation"): LaunchedWork(4, 4, 300),
        ("block", "new mark", "aten::add"): LaunchedWork(6, 6, 60),
        ("block", "aten::sort"): LaunchedWork(1, 2, 30),
        ("head",): LaunchedWork(1, 1, 20),
    }
    found = rows(EAGER, newer)
    assert found["block / aten::linear"] == (400, 300)
    assert found["block / aten::add"] == (60, 60)


def test_fewer_calls_without_compiled_code_stay_where_they_are() -> None:
    fewer = {**EAGER, ("block", "aten::add"): LaunchedWork(1, 1, 10)}
    assert rows(EAGER, fewer)["block / aten::add"] == (60, 10)


_SIDES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "c", REGION]), max_size=4).map(tuple),
    st.builds(LaunchedWork, st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)),
    max_size=12,
).map(lambda side: {path[:depth]: LaunchedWork(1, 0, 0) for path in side for depth in range(len(path))} | side)


@given(_SIDES, _SIDES)
def test_rows_add_up_to_all_work(base: dict[Path, LaunchedWork], head: dict[Path, LaunchedWork]) -> None:
    for side, table in zip((base, head), aligned(base, head), strict=True):
        work = sum(launches.device_ns for launches in side.values())
        assert sum(cost.device_ns or 0 for cost in table.values()) == pytest.approx(work)
    one, two = aligned(base, base)
    assert one == two
