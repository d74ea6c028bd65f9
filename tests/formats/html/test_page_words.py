"""What people read on the page: repeated modules, columns without values, code before and after, the title."""

from __future__ import annotations

import msgspec

from tests.formats.html.advised import advised
from tests.formats.html.pages import Page
from tests.formats.samples import TRAINING, report_of
from traceanalyzer.analyzers.modules import Place
from traceanalyzer.formats import html
from traceanalyzer.formats.html import cells
from traceanalyzer.formats.html.repeats import folded
from traceanalyzer.formats.language import ENGLISH
from traceanalyzer.report.message import Text
from traceanalyzer.report.section import SectionColumn, SectionTable
from traceanalyzer.report.selection import CallingLine, Selection


def place(name: str, depth: int, time: int) -> Place:
    fields = {field.name: 0 for field in msgspec.structs.fields(Place)}
    return Place(**{**fields, "name": name, "depth": depth, "parent": None, "calls": 1, "device_total_ns": time})


def test_repeated_modules_are_one_row_with_their_sums() -> None:
    layers = [one for n in range(3) for one in (place(f"Layer_{n}", 1, 10), place(f"Linear_{n}", 2, 4))]
    rows = folded([place("Model_0", 0, 40), place("Embedding_0", 1, 5), *layers, place("Norm_0", 1, 5)])
    told = [(row.name, row.depth, row.calls, row.device_total_ns) for row in rows]
    assert told == [
        ("Model_0", 0, 1, 40),
        ("Embedding_0", 1, 1, 5),
        ("Layer x3", 1, 3, 30),
        ("Linear_0", 2, 3, 12),
        ("Norm_0", 1, 1, 5),
    ]


def test_modules_that_contain_others_are_no_repetition() -> None:
    rows = folded([place("Layer_0", 0, 1), place("Layer_1", 0, 1), place("Linear_0", 1, 1), place("Layer_2", 0, 1)])
    assert [row.name for row in rows] == ["Layer_0", "Layer_1", "Linear_0", "Layer_2"]


def test_a_column_of_which_nothing_is_known_is_none() -> None:
    columns = tuple(
        SectionColumn(Text(f"x-{name}", name), unit) for name, unit in (("a", ""), ("b", "ns"), ("c", "ns"))
    )
    grid = cells.grid(
        SectionTable("x", columns, (("n", None, 5), ("m", None, None)), 2), "x", ENGLISH, cells.stages(None)[0]
    )
    assert [head.title for head in grid.heads] == ["a", "c"]
    assert [len(row) for row in grid.rows] == [2, 2]


def test_a_card_has_the_line_of_the_program_and_the_code_before_and_after() -> None:
    report = advised(report_of(TRAINING))
    line = CallingLine("/home/me/train.py(12): step", 5, 1)
    where = (Selection("host", "x", None, None, "1/1", 1.0, 1, (), 0, 0, lines=(line,)),)
    first = msgspec.structs.replace(report.findings[0], where=where, code="new()", code_before="old()")
    page = html.render(msgspec.structs.replace(report, findings=(first, *report.findings[1:])))
    assert "me/train.py:12 step" in Page(page).text
    assert "<del><code>old()</code></del><ins><code>new()</code></ins>" in page


def test_title_and_description_have_the_verdict() -> None:
    page = Page(html.render(advised(report_of(TRAINING), "the loader")))
    described = {meta.get("name"): meta.get("content") for meta in page.all("meta")}
    assert described["description"] == "Waiting for data: the loader"
    assert page.texts[0].strip() == "" or "Waiting for data" in " ".join(page.texts[:4])
