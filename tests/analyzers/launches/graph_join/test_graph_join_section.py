"""How people see graphs that were joined with their capture."""

from __future__ import annotations

from tests.builders.graph_capture import captured, model, replayed
from tests.reading import read_built
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.section import Section
from traceanalyzer.sections.launches import build_joined as build

US = 1000


def sections(top: int = 5) -> dict[str, Section]:
    nodes = model(2)
    report = analyze(read_built(replayed([nodes])), graph_captures=[read_built(captured([("", nodes)]))])
    return {section.id: section for section in build(report, top)}


def test_every_table_is_marked_as_joined() -> None:
    found = sections()
    assert [*found] == [
        "joined-operators",
        "joined-operators-by-shape",
        "joined-kernels-by-operator",
        "joined-modules-by-class",
        "joined-modules",
        "joined-modules-tree",
        "joined-python-lines",
        "joined-roofline",
    ]
    assert all("(joined)" in str(section.title) for section in found.values())
    assert [section.id for section in found.values() if not section.is_detail] == ["joined-operators"]


def test_operators_show_their_share_of_what_was_joined() -> None:
    found = sections(top=1)["joined-operators"]
    assert [str(message) for message in found.messages] == [
        "1 launch of a graph took 36 us on the device; 100 % of it is joined with the operators of trace.json."
    ]
    assert found.tables[0].rows == (("aten::mm", 3, 15 * US, 15 / 36, 15 * US),)
    assert found.tables[0].total_rows == 4


def test_the_tree_shows_what_modules_take_with_all_inside() -> None:
    (table,) = sections()["joined-modules-tree"].tables
    assert table.rows == (("Layer_0", 1, 9 * US, 9 / 36, 9 * US), ("Layer_1", 1, 18 * US, 18 / 36, 18 * US))


def test_without_a_capture_nothing_is_shown() -> None:
    assert list(build(analyze(read_built(replayed([model(2)]))), 5)) == []
