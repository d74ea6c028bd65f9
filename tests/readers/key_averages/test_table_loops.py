"""Loops of the program above a table."""

from __future__ import annotations

import pytest

from tests.readers.key_averages.test_table_rates import TABLE, read

LOOP = "    for _ in range(100):"


@pytest.mark.parametrize(
    ("lines", "loops"),
    [
        ([LOOP, "        model(x)"], (100,)),
        (["for step in range(1_000): train()"], (1000,)),
        (["for i in range(5):", "    for j in range( 20 ):"], (20, 5)),
        (["for batch in loader:", "for i in range(n):", "range(100)"], ()),
        (["for i in range(99999999999):"], ()),
        ([LOOP, *["text"] * 59], (100,)),
        ([LOOP, *["text"] * 60], ()),
    ],
)
def test_loops_are_those_of_the_lines_above(lines: list[str], loops: tuple[int, ...]) -> None:
    (table,) = read(*lines, TABLE).tables
    assert table.loops == loops


def test_a_loop_belongs_to_the_next_table_only() -> None:
    first, second = read(LOOP, TABLE, TABLE).tables
    assert (first.loops, second.loops) == ((100,), ())
