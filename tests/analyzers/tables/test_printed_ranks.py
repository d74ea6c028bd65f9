"""What sums of several ranks show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.analyzers.tables.making import MS, document, row, table
from traceanalyzer.analyzers.tables import run
from traceanalyzer.analyzers.tables.grouping import group
from traceanalyzer.analyzers.tables.ranks import PrintedRanks
from traceanalyzer.report.model import Report
from traceanalyzer.trace.document import ProfilerTable, TableDocument

REDUCE, GATHER = "ncclDevKernel_AllReduce_Sum_f32", "ncclDevKernel_AllGather"


def rank(number: int, reduce: int, gather: int, title: str | None = "Rank {}") -> ProfilerTable:
    """The table of a rank that computes for 50 ms, with its time in two collectives."""
    rows = (row("gemm_kernel", 0, 50), row(REDUCE, 0, reduce, 8), row(GATHER, 0, gather, 4))
    return table(*rows, cpu=20, device=50 + reduce + gather, title=title.format(number) if title else None)


def compared(read: TableDocument) -> tuple[PrintedRanks, ...]:
    """The groups of ranks of a document."""
    found: tuple[PrintedRanks, ...] = run(read, group(read))[0]["printed_ranks"]
    return found


def test_waiting_is_what_each_collective_takes_beyond_the_least() -> None:
    (found,) = compared(document(rank(0, 30, 9), rank(1, 10, 12), rank(2, 31, 9)))
    assert found.is_named
    assert [(one.run, one.communication_ns / MS, one.waits_ns / MS) for one in found.ranks] == [
        ("rank-0", 39, 20),
        ("rank-1", 22, 3),
        ("rank-2", 40, 21),
    ]
    assert (found.last, found.collectives) == ("rank-1", (REDUCE, GATHER))


def test_tables_without_names_may_be_of_one_rank() -> None:
    tables = [rank(number, 30 + number, 9, title=None) for number in range(5)]
    (found,) = compared(document(*tables))
    assert not found.is_named
    assert [one.run for one in found.ranks] == [f"table-{number}" for number in range(1, 6)]


def test_a_few_tables_without_names_are_runs_before_and_after_a_change() -> None:
    assert compared(document(rank(0, 30, 9, title=None), rank(1, 10, 9, title=None))) == ()


def test_tables_without_collectives_in_common_are_not_compared() -> None:
    alone = table(row("gemm_kernel", 0, 40), row(REDUCE, 0, 10, 7), device=50, title="Rank 1")
    assert compared(document(rank(0, 30, 9), alone)) == ()


@pytest.fixture(scope="module")
def server(corpus: Path) -> Report:
    """The tables of eight ranks, two of each: prefill and decode."""
    return corpus_files.report_of(corpus / "field" / "serving" / "lightllm_h200_key_averages.txt")


def test_the_ranks_of_a_server(server: Report) -> None:
    """Figures as read from the text."""
    prefill, decode = server.result("printed_ranks", tuple[PrintedRanks, ...]) or ()
    assert [len(prefill.ranks), len(decode.ranks), prefill.is_named] == [8, 8, False]
    assert [one.communication_ns for one in prefill.ranks[:2]] == [619_128_000, 647_457_000]
    assert prefill.last == "table-15"


def test_what_bounds_a_server_by_its_tables(server: Report) -> None:
    """Traces of the same decode steps show that the host waits for 202 of 207 ms."""
    said = server.headlines[0].text
    assert "Communication takes at least 619 ms (38 %) of the GPU's time per step; 22 % of it" in said
    assert all(line.message.id == "headline-table-unseen-2" for line in server.headlines[1::2])


@pytest.mark.parametrize(("number", "shown"), [(0, 1_263_412_000), (1, 93_315_000)])
def test_hidden_time_is_the_total_without_the_printed_rows(server: Report, number: int, shown: int) -> None:
    one = server.analyses["runs"][number]
    assert "_per_token_group_quant_fp8" in {kernel.name for kernel in one.kernels}
    assert (one.device_hidden_ns, one.cpu_hidden_ns) == (one.device_ns - shown, one.cpu_ns)
