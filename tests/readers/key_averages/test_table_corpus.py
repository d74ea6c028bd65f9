"""The real documents: every table, row and column, and the numbers that people took from them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from table_writer import Style, write_table

from traceanalyzer.readers.key_averages import decode, read, sniff
from traceanalyzer.trace.document import ProfilerTable, TableDocument, TableRow

CORPUS = os.environ.get("TRACEANALYZER_CORPUS")
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS, reason="TRACEANALYZER_CORPUS is not set"),
]

ROWS = {"000": [30, 30], "001": [], "002": [40] * 6, "003": [], "004": [63]}
TITLES = {
    "000": ["СТАТИСТИКА ПО CPU", "СТАТИСТИКА ПО CUDA"],
    "002": [
        "TOP CUDA ops (self_cuda_time_total)",
        "TOP CPU ops (self_cpu_time_total)",
        "TOP CUDA ops (group_by_input_shape)",
    ]
    * 2,
    "004": [None],
}


def text_of(number: str) -> str:
    (path,) = Path(CORPUS or "", "documents").glob(f"{number}_*.txt")
    return decode(path.read_bytes())


def document(number: str) -> TableDocument:
    return read(text_of(number), number, None)


def row(table: ProfilerTable, name: str, shapes: str | None = None) -> TableRow:
    (found,) = (r for r in table.rows if r.name == name and (shapes is None or r.input_shapes == shapes))
    return found


@pytest.mark.parametrize("number", sorted(ROWS))
def test_every_row_of_every_table_is_read(number: str) -> None:
    found = document(number)
    assert [len(table.rows) for table in found.tables] == ROWS[number]
    assert sniff(text_of(number)) == bool(ROWS[number])
    assert not found.losses
    assert all(table.complete for table in found.tables)


@pytest.mark.parametrize("number", sorted(TITLES))
def test_titles(number: str) -> None:
    assert [table.title for table in document(number).tables] == TITLES[number]


@pytest.mark.parametrize("number", sorted(TITLES))
def test_tables_print_as_they_were_printed(number: str) -> None:
    """Nothing was lost or changed if printing the rows in torch's own layout gives the original text."""
    lines = text_of(number).split("\n")
    for table in document(number).tables:
        dashes = lines[table.line - 2].split()
        style = Style(
            name_width=len(dashes[0]),
            shapes_width=len(dashes[-1]) if "input_shapes" in table.columns else None,
            unit_of_size="b" if number == "002" else "B",
        )
        printed = write_table(table, style).splitlines()
        assert printed == lines[table.line - 2 : table.line - 2 + len(printed)]


def test_sections_of_002_tell_the_two_runs_apart() -> None:
    sections = [table.section for table in document("002").tables]
    assert sections[:3] == ["Результаты профайлинга"] * 3
    assert sections[3:] == ["Результат после изменений внутри модели"] * 3


def test_totals_of_002() -> None:
    totals = [table.totals for table in document("002").tables]
    assert [t.self_cpu_ns for t in totals] == [29_238_000_000] * 3 + [2_541_000_000] * 3
    assert [t.self_device_ns for t in totals] == [28_157_000_000] * 3 + [506_149_000] * 3
    assert totals[0].resolution == {"self_cpu_ns": 10**6, "self_device_ns": 10**6}
    assert totals[3].resolution == {"self_cpu_ns": 10**6, "self_device_ns": 10**3}


def test_costly_multiplication_of_002() -> None:
    by_shape = document("002").tables[2]
    assert by_shape.device == "CUDA"
    costly = row(by_shape, "aten::mul", "[[8, 128, 984, 1], [8, 128, 984, 128]]")
    assert (costly.calls, costly.self_device_ns, costly.device_avg_ns) == (300, 15_454_000_000, 51_512_000)
    peer = row(by_shape, "aten::mul", "[[8, 128, 984, 128], [8, 128, 984, 1]]")
    assert peer.calls == 300
    assert peer.device_avg_ns == 2_211_000


def test_annotation_of_002_exceeds_the_whole() -> None:
    shares = [r.self_device_share for r in document("002").tables[3].rows if r.name == "forward"]
    assert 1.0425 in shares


def test_loader_and_memory_of_000() -> None:
    first, second = document("000").tables
    loader = row(first, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter...")
    assert loader.name_truncated
    assert (loader.self_cpu_ns, loader.cpu_avg_ns, loader.calls) == (16_516_000_000, 165_226_000, 100)
    assert loader.resolution["self_cpu_ns"] == 10**6
    assert loader.resolution["cpu_avg_ns"] == 10**3
    forward = next(r for r in first.rows if r.name == "forward")
    assert forward.self_device_mem_bytes == round(-21790 * 2**30 / 100)
    assert [r.cpu_total_ns for r in second.rows if r.name == "forward"] == [0, 567_981_000]


def test_selects_of_004() -> None:
    (table,) = document("004").tables
    assert table.device is None
    assert len(table.columns) == 7
    assert row(table, "aten::select").calls == 126_000
    assert row(table, "aten::select").self_device_ns is None
    assert table.totals.self_device_ns is None
