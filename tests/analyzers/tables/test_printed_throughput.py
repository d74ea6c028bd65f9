"""Printed rates: of which run they are, and whether they fit the profile."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import SHAPED, document, row, table
from traceanalyzer import analyze
from traceanalyzer.analyzers.tables.throughput import PrintedThroughput
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import PrintedRate, ProfilerTable, TableDocument


def rate(value: float, unit: str = "samples", after: int | None = None, before: int | None = None) -> PrintedRate:
    printed = f"~{value} {unit}/s"
    return PrintedRate(
        line=7,
        words=f"speed {printed}",
        printed=printed,
        per_s=value,
        unit=unit,
        after_table=after,
        before_table=before,
    )


def report(rates: tuple[PrintedRate, ...], *tables: ProfilerTable) -> Report:
    made = document(*tables)
    return analyze(TableDocument(name=made.name, size_bytes=None, tables=made.tables, rates=rates))


def ten_steps(cpu: int, *shapes: str, name: str = "aten::add") -> ProfilerTable:
    """A table of ten steps with so many ms of host time."""
    rows = [row("ProfilerStep*", 1, calls=10), *(row(name, 1, 1, input_shapes=shape) for shape in shapes)]
    return table(*rows, cpu=cpu, columns=SHAPED)


def runs_of(found: Report) -> list[str | None]:
    return [printed.run for printed in found.result("printed_throughput", tuple[PrintedThroughput, ...]) or ()]


def warned(found: Report) -> dict[str, object]:
    """Parameters of the warning about a rate; empty without one."""
    (params,) = [warning.message.params for warning in found.warnings if warning.id.startswith("q-rate")] or [{}]
    return {name: value for name, value in params.items() if name != "count"}


def test_a_rate_is_of_the_run_beside_it() -> None:
    rates = (rate(1, before=0), rate(2, after=0, before=1), rate(3, after=1), rate(4))
    assert runs_of(report(rates, ten_steps(100), ten_steps(200))) == ["run-1", None, "run-2", None]


def test_between_two_tables_of_one_run_it_is_of_that_run() -> None:
    assert runs_of(report((rate(2, after=0, before=1),), ten_steps(100), ten_steps(100))) == ["run-1"]


def test_the_same_rate_of_a_run_is_listed_once() -> None:
    found = report((rate(4.9, before=0), rate(4.9, after=0)), ten_steps(100))
    assert found.analyses["printed_throughput"] == (
        PrintedThroughput("run-1", "speed ~4.9 samples/s", "~4.9 samples/s", 4.9, "samples", 7, 2),
    )


def test_a_step_that_was_for_the_most_part_not_profiled() -> None:
    # 10 ms a step are profiled; 8 samples at 200 a second take 40 ms
    found = report((rate(200, after=0),), ten_steps(100, "[[8, 16, 4], [8, 16, 4, 4]]"))
    assert warned(found) == {"run": "run-1", "printed": "~200 samples/s", "step": 40e6, "profiled": 10e6, "batch": 8}


@pytest.mark.parametrize(("per_s", "doubted"), [(51, False), (49, True)])
def test_half_of_the_step_must_be_profiled(per_s: float, doubted: bool) -> None:
    # without a batch size a step has one sample at least: 20 ms at 50 samples a second
    found = report((rate(per_s, after=0),), ten_steps(100))
    assert bool(warned(found)) == doubted


@pytest.mark.parametrize("unit", ["steps", "iterations", "batches"])
def test_steps_per_second_need_no_batch_size(unit: str) -> None:
    found = report((rate(10, unit, after=0),), ten_steps(100, "[[8, 16, 4]]"))
    assert (warned(found)["step"], "batch" in warned(found)) == (100e6, False)


def test_of_several_rates_the_fastest_decides() -> None:
    assert not warned(report((rate(10, after=0), rate(90, after=0)), ten_steps(100)))


@pytest.mark.parametrize("unit", ["tokens", "requests"])
def test_tokens_do_not_tell_the_length_of_a_step(unit: str) -> None:
    assert not warned(report((rate(0.1, unit, after=0),), ten_steps(100)))


def test_without_steps_in_the_table_nothing_is_compared() -> None:
    assert not warned(report((rate(0.1, after=0),), table(row("aten::add", 1, 1), cpu=100)))


@pytest.mark.parametrize(
    ("shapes", "name", "batch"),
    [
        (["[[8, 16, 4], [8, 3, 2, 2]]", "[[8, 5, 5], []]"], "aten::add", 8),
        (["[[8, 16, 4]]", "[[64, 16, 4]]"], "aten::add", None),
        (["[[8, 16, 4], [64, 3, 7, 7]]"], "aten::conv2d", None),
        (["[[64, 16, 4], [64, 4, 16]]"], "aten::bmm", None),
        (["[[8, 16], [16]]"], "aten::add", None),
    ],
    ids=["one", "two", "weights", "heads in the batch", "matrices"],
)
def test_the_first_axis_that_all_tensors_have_is_the_batch(shapes: list[str], name: str, batch: int | None) -> None:
    (run,) = report((), ten_steps(100, *shapes, name=name)).analyses["runs"]
    assert run.batch_size == batch
