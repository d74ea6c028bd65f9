"""Every query of docs/query.md, on a fixture that has what it asks for."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from markdown_it import MarkdownIt

import traceanalyzer as ta
from tests.builders.ranks import Meeting, run
from tests.cli.running import FIXTURES, ROOT
from tests.reading import read
from traceanalyzer.querying import QueryRows
from traceanalyzer.querying.tables import described
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.model import Trace
from traceanalyzer.trace.tables import Category

pytest.importorskip("duckdb", reason="duckdb is not installed")

PAGE = (ROOT / "docs" / "query.md").read_text("utf-8")


def questions() -> dict[str, str]:
    """The query below each heading."""
    tokens = MarkdownIt("commonmark").parse(PAGE)
    found: dict[str, str] = {}
    heading = ""
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            heading = token.content
        elif token.type == "fence" and token.info == "sql":
            found[heading] = token.content
    return found


QUESTIONS = questions()
TRACES = {
    "How much communication do kernels hide?": "ddp_nccl",
    "Which rank works longest?": "ranks",
    "Which kernels leave most of the GPU empty?": "planted_faults",
    "Which calls does the host wait in?": "planted_faults",
    "Which line of Python launched the slowest kernels?": "planted_faults",
    "When is the most memory allocated?": "gpu_training",
}
"""The fixture of each question; the others are asked of `gpu_training`."""

RANKS = tuple(read(rank.to_bytes()) for rank in run(3, [Meeting(lambda rank, step: 1000 + 300 * (rank == 2))]))


@cache
def traces(name: str) -> tuple[Trace, ...]:
    if name == "ranks":
        return RANKS
    return (ta.load(FIXTURES / "synthetic" / f"{name}.json.gz"),)


def ask(question: str) -> QueryRows:
    return ta.sql(traces(TRACES.get(question, "gpu_training")), QUESTIONS[question])


def only(question: str, column: str) -> list[Any]:
    return [row[column] for row in ask(question).records()]


def test_there_are_twenty() -> None:
    assert len(QUESTIONS) == 20
    assert TRACES.keys() <= QUESTIONS.keys()


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_has_an_answer(question: str) -> None:
    answer = ask(question)
    assert len(answer) > 0
    assert any(value is not None for row in answer.rows for value in row)


def test_kernels_by_time() -> None:
    kernels = traces("gpu_training")[0].device
    total = int(kernels.dur_ns[kernels.category == Category.KERNEL].sum())
    every = ta.sql(traces("gpu_training"), QUESTIONS["Which kernels take most time?"].replace("limit 10", ""))
    assert sum(row["ns"] for row in every.records()) == total
    times = only("Which kernels take most time?", "ns")
    assert times == sorted(times, reverse=True)


def test_a_module_has_its_backward_pass() -> None:
    assert {*only("Which kernels run inside one module in one step?", "is_backward")} == {False, True}


def test_modules_contain_what_is_inside() -> None:
    of_model = sum(only("Which kernels does a call of a module launch, with all that is inside it?", "ns"))
    of_a_layer = sum(only("Which kernels run inside one module in one step?", "ns"))
    assert of_model > of_a_layer > 0


def test_what_ran_meanwhile_is_on_another_stream() -> None:
    assert 20 not in only("What ran on the device while one stream waited?", "stream")


def test_idle_time_is_what_is_not_busy() -> None:
    device = traces("gpu_training")[0].device
    busy = Intervals.union(device.start_ns, device.end_ns)
    steps = ta.sql(traces("gpu_training"), "select start_ns, end_ns from steps order by step").rows
    idle = only("How long is each step, and how much of it is idle?", "idle_ns")
    assert idle == [
        end - start - (busy & Intervals.union(np.array([start]), np.array([end]))).length for start, end in steps
    ]


def test_the_gap_is_the_longest() -> None:
    assert only("What is the longest gap, and which kernel ended it?", "ns")[0] == 12_717_499


def test_hidden_communication_is_at_most_all() -> None:
    (row,) = ask("How much communication do kernels hide?").records()
    assert 0 < row["hidden_ns"] <= row["ns"]


def test_the_line_is_of_the_program() -> None:
    assert {*only("Which line of Python launched the slowest kernels?", "line")} == {
        "examples/planted_faults.py(66): train"
    }


def test_every_rank_has_a_row() -> None:
    assert sorted(only("Which rank works longest?", "rank")) == [0, 1, 2]


@pytest.mark.parametrize("table", [table.name for table in described()])
def test_columns_are_as_documented(table: str) -> None:
    (documented,) = [one for one in described() if one.name == table]
    answer = ta.sql(traces("gpu_training"), f"select * from {table} limit 5")
    assert answer.columns == tuple(column.name for column in documented.columns)
    assert answer.types == tuple(column.type for column in documented.columns)
    assert f"### {table}\n" in PAGE
