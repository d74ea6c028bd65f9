"""`-o table.txt`: the table that torch would print of a trace."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.running import FIXTURES, TRAINING, assert_one_line, call

DOCUMENT = FIXTURES / "key_averages" / "torch213_cpu.txt"


def rows(text: str) -> list[list[str]]:
    """The cells of a printed table, its header first."""
    _, header, *body = [line for line in text.splitlines() if line.strip()]
    lines = [line for line in body if not line.startswith("--") and not line.startswith("Self ")]
    return [re.split(r" {2,}", line.strip()) for line in (header, *lines)]


def table_of(*arguments: str) -> list[list[str]]:
    run = call("report", TRAINING, "--format", "table", *arguments)
    assert (run.code, run.err) == (0, "")
    return rows(run.out)


def test_the_suffix_txt_is_the_table(tmp_path: Path) -> None:
    for name in ("table.txt", "TABLE.TXT"):
        run = call("report", TRAINING, "-o", tmp_path / name)
        assert (run.code, run.out) == (0, "")
        header, *body = rows((tmp_path / name).read_text("utf-8"))
        assert header[0] == "Name"
        assert "aten::mm" in {row[0] for row in body}


def test_rows_are_limited() -> None:
    assert len(table_of("--row-limit", "3")) == 1 + 3
    assert len(table_of("--row-limit", "-1")) > 1 + 20


def test_rows_are_sorted() -> None:
    calls = [int(row[-1]) for row in table_of("--sort-by", "count")[1:]]
    assert calls == sorted(calls, reverse=True)
    assert len(set(calls)) > 1


def test_rows_are_divided_by_shape() -> None:
    header, *body = table_of("--group-by-input-shape", "--row-limit", "-1")
    assert header[-1] == "Input Shapes"
    names = [row[0] for row in body]
    assert len(names) > len(set(names))


def test_a_column_that_does_not_exist_is_one_line() -> None:
    assert "no_such_column" in assert_one_line(
        call("report", TRAINING, "--format", "table", "--sort-by", "no_such_column")
    )


@pytest.mark.parametrize("option", [("--sort-by", "count"), ("--row-limit", "100"), ("--group-by-input-shape",)])
def test_options_of_a_table_without_a_table_are_refused(option: tuple[str, ...]) -> None:
    assert "add -o table.txt" in assert_one_line(call("report", TRAINING, *option))


def test_chosen_steps_are_respected_or_refused() -> None:
    run = call("report", TRAINING, "--format", "table", "--steps", "6", "--row-limit", "-1")
    if run.code:
        assert_one_line(run)
    else:
        steps = [row for row in rows(run.out) if row[0].startswith("ProfilerStep")]
        assert sum(int(row[-1]) for row in steps) <= 2, "one step on the host and its projection on the device"


def test_a_table_of_tables_is_refused() -> None:
    assert_one_line(call("report", DOCUMENT, "--format", "table"))


@pytest.mark.parametrize("name", ["x.txt", "x"])
def test_a_table_overwrites_only_what_is_ours(name: str, tmp_path: Path) -> None:
    target = tmp_path / name
    target.write_text("My measurements\n")
    assert_one_line(call("report", TRAINING, "--format", "table", "-o", target))
    assert target.read_text() == "My measurements\n"
    assert call("report", TRAINING, "--format", "table", "-o", target, "--force").code == 0
    assert rows(target.read_text("utf-8"))[0][0] == "Name"


# Printed tables as input


def test_printed_tables_are_reported_on() -> None:
    run = call("report", DOCUMENT)
    assert run.code == 0
    assert run.out.startswith("Limited by the CPU for all 1.0 ms of each step")
    assert "\ntorch213_cpu.txt: " in run.out.partition("\n\n")[0]
    assert re.search(r"\nOperators  \d+ of \d+\n", run.out)


def test_steps_of_a_printed_table_cannot_be_chosen() -> None:
    assert_one_line(call("report", DOCUMENT, "--steps", "1"))
    assert_one_line(call("report", DOCUMENT, "--skip-warmup", "1"))


def test_standard_input_may_be_a_table() -> None:
    run = call("report", "-", "--format", "markdown", stdin=DOCUMENT.read_bytes())
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("<!-- traceanalyzer report")
