"""How many steps a table sums up: by its rows, else by the loop of the program above it."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import row
from traceanalyzer.analyzers.tables import printed_times
from traceanalyzer.analyzers.tables.kinds import classify
from traceanalyzer.trace.document import TableRow

OPERATORS = [row(f"aten::op{number}", calls=100 * (number + 1)) for number in range(10)]


def count(rows: list[TableRow], *loops: int) -> tuple[int, str | None]:
    return printed_times.count_steps(list(zip(rows, classify(rows), strict=True)), loops)


def test_a_loop_that_calls_every_operator_each_time_counts() -> None:
    assert count(OPERATORS, 100) == (100, "range(100)")


def test_an_operator_that_only_the_first_time_calls_more_often_does_not_matter() -> None:
    assert count([*OPERATORS, row("aten::add_", calls=1063)], 100) == (100, "range(100)")


@pytest.mark.parametrize("loop", [1, 0, 7, 200])
def test_a_loop_that_does_not_fit_the_calls_is_none_of_the_profile(loop: int) -> None:
    assert count(OPERATORS, loop) == (1, None)


def test_the_nearest_loop_that_fits_counts() -> None:
    assert count(OPERATORS, 3, 50, 100) == (50, "range(50)")


def test_few_operators_are_multiples_by_chance() -> None:
    assert count(OPERATORS[:4], 100) == (1, None)


def test_rows_of_steps_count_before_loops() -> None:
    assert count([*OPERATORS, row("Optimizer.step#SGD.step", calls=20)], 100) == (20, "Optimizer.step#SGD.step")


def trained(steps: int, marks: int, *, updates: int | None = None) -> list[TableRow]:
    """Rows of a training with so many complete steps, marks and updates."""
    names = [row(f"aten::op{number}", calls=steps * (number + 1)) for number in range(10)]
    update = row("Optimizer.step#SGD.step", calls=steps if updates is None else updates)
    return [row("ProfilerStep*", calls=marks), update, *names]


def test_a_mark_after_the_last_complete_step_is_no_step() -> None:
    """A loop that marks the end of each step leaves one more mark than steps if the profile goes on after it."""
    assert count(trained(3, 4)) == (3, "ProfilerStep*")
    assert count(trained(4, 4)) == (4, "ProfilerStep*")
    assert count(trained(4, 4, updates=3)) == (4, "ProfilerStep*"), "one update was skipped, as with scaled gradients"
    assert count(trained(1, 2)) == (2, "ProfilerStep*"), "too few to tell"
