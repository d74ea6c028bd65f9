"""The project's own texts, each with the expected content in one line."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from traceanalyzer.readers.key_averages import decode, read, sniff
from traceanalyzer.trace.document import ProfilerTable, TableDocument

FIXTURES = Path(__file__).parents[3] / "fixtures" / "key_averages"


@dataclass(frozen=True)
class Expected:
    """The content of a text; tuples have one element per table."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    devices: tuple[str | None, ...]
    titles: tuple[str | None, ...] = (None,)
    losses: dict[str, int] = field(default_factory=dict)


CUDA = ("CUDA",)
CPU = (None,)
EXPECTED = {
    "torch213_cpu.txt": Expected((12,), (7,), CPU),
    "torch213_header_top_level.txt": Expected((6,), (7,), CPU, ("Three steps of a small network",)),
    "torch213_names_20.txt": Expected((6,), (7,), CPU),
    "torch213_names_uncut.txt": Expected((6,), (7,), CPU),
    "torch213_overloads.txt": Expected((10,), (8,), CPU),
    "torch213_seconds.txt": Expected((6,), (7,), CPU),
    "torch213_shapes_flops.txt": Expected((10,), (9,), CPU),
    "torch213_shapes_memory.txt": Expected((12,), (10,), CPU),
    "torch213_stacks.txt": Expected((8,), (8,), CPU),
    "torch213_stacks_flops_swapped.txt": Expected((6,), (10,), CPU),
    "era_torch11_name_left.txt": Expected((3,), (10,), CUDA),
    "era_torch14_left_aligned.txt": Expected((3,), (11,), CUDA),
    "era_torch18_rate_of_flops.txt": Expected((2,), (9,), CPU),
    "devices.txt": Expected(
        (2,) * 7,
        (15, 11, 11, 15, 11, 11, 11),
        ("XPU", "HPU", "MTIA", "PRIVATEUSEONE", "NPU", "MUSA", "None"),
        ("XPU", "HPU", "MTIA", "PRIVATEUSEONE", "NPU", "MUSA", "None"),
    ),
    "rpc_node_ids.txt": Expected((2,), (8,), CPU),
    "async_and_nan.txt": Expected((2,), (11,), CUDA),
    "article.md": Expected(
        (6, 3, 6), (15, 7, 11), ("CUDA", None, "CUDA"), ("Log of the first run", "After", "Operators by name")
    ),
    "lightning.txt": Expected(
        (6, 3),
        (11, 7),
        ("CUDA", None),
        ("Profile stats for: records", "Profile stats for: validation_step rank: 0"),
    ),
    "log_with_colours.txt": Expected(
        (6,), (11,), CUDA, ("Top operators by GPU time",), {"read-table-row-unreadable": 1}
    ),
    "notebook.ipynb": Expected((6,), (11,), CUDA),
    "recipe_in_comments.py": Expected((3,), (5,), CPU, losses={"read-table-totals-missing": 1}),
    "header_and_top_level.txt": Expected((3,), (7,), CPU, ("Steps 10 to 20",)),
    "two_in_a_row.txt": Expected((6, 3), (11, 7), ("CUDA", None), (None, None)),
    "blanks_collapsed.txt": Expected((6,), (15,), CUDA),
    "blanks_to_tabs.txt": Expected((6,), (11,), CUDA),
    "no_leading_blanks.txt": Expected((6,), (11,), CUDA),
    "no_break_blanks.txt": Expected((6,), (11,), CUDA),
    "wrapped_at_100.txt": Expected((6,), (15,), CUDA),
    "cut_in_a_row.txt": Expected((4,), (11,), CUDA, losses={"read-table-cut": 1, "read-table-row-cut": 1}),
    "cut_before_the_end.txt": Expected((4,), (11,), CUDA, losses={"read-table-cut": 1}),
    "cut_before_the_next.txt": Expected((2, 3), (11, 7), ("CUDA", None), ("Before", "After"), {"read-table-cut": 1}),
    "cut_at_the_start.txt": Expected((6,), (11,), CUDA),
    "cut_on_the_right.txt": Expected((6,), (4,), CUDA, losses={"read-table-column-unknown": 1}),
    "elided_rows.txt": Expected((4,), (11,), CUDA, losses={"read-table-row-unreadable": 1}),
    "broken_values.txt": Expected((6,), (11,), CUDA, losses={"read-table-value-unreadable": 2}),
    "without_totals.txt": Expected((6,), (11,), CUDA, losses={"read-table-totals-missing": 1}),
    "look_alikes.md": Expected((), (), (), ()),
}

SAME_RUN = [name for name, expected in EXPECTED.items() if expected.rows == (6,) and expected.devices == CUDA]


def text_of(name: str) -> str:
    return decode((FIXTURES / name).read_bytes())


def document(name: str) -> TableDocument:
    return read(text_of(name), name, (FIXTURES / name).stat().st_size)


def table(name: str) -> ProfilerTable:
    return document(name).tables[0]


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_read(name: str) -> None:
    found, expected = document(name), EXPECTED[name]
    assert tuple(len(t.rows) for t in found.tables) == expected.rows
    assert tuple(len(t.columns) for t in found.tables) == expected.columns
    assert tuple(t.device for t in found.tables) == expected.devices
    assert tuple(t.title for t in found.tables) == expected.titles
    assert {loss.id: loss.count for loss in found.losses} == expected.losses
    assert sniff(text_of(name)) == sniff((FIXTURES / name).read_bytes()) == bool(expected.rows)


def test_every_file_is_expected_and_described() -> None:
    files = {path.name for path in FIXTURES.iterdir()} - {"README.md"}
    described = {line.split("|")[1].strip() for line in text_of("README.md").splitlines() if line.startswith("| ")}
    assert files == set(EXPECTED)
    assert files == described - {"file"}


@pytest.mark.parametrize("name", SAME_RUN)
def test_damage_leaves_the_numbers(name: str) -> None:
    """These texts are one table in many states; whatever is read from one of them is the same."""
    whole = table("no_leading_blanks.txt")
    shared = set(table(name).columns) & set(whole.columns)
    assert shared
    assert whole.rows
    for row, truth in zip(table(name).rows, whole.rows, strict=True):
        assert row.name == truth.name
        for column in shared:
            assert getattr(row, column) in {getattr(truth, column), None}


def test_lines_are_those_of_the_file() -> None:
    for name in ("article.md", "wrapped_at_100.txt", "log_with_colours.txt", "torch213_stacks.txt"):
        lines = text_of(name).split("\n")
        for found in document(name).tables:
            assert "Name" in lines[found.line - 1]
            for row in found.rows:
                assert row.name in html.unescape(lines[row.line - 1])


def test_stacks_belong_to_their_events() -> None:
    rows = {row.name: row for row in table("torch213_stacks.txt").rows}
    assert rows["train.py(14): step"].source_location == ("train.py(24): run", "train.py(46): <module>")
    assert rows["train.py(46): <module>"].source_location == ()


def test_swapped_columns_are_told_apart() -> None:
    convolution, *_, outermost, run = table("torch213_stacks_flops_swapped.txt").rows
    assert (convolution.name, convolution.flops, convolution.resolution["flops"]) == ("aten::conv2d", 15552, 1)
    assert convolution.source_location[1].startswith("torch/nn/modules/conv.py(546): ")
    assert (outermost.flops, outermost.source_location) == (None, ())
    assert (run.flops, run.source_location) == (None, ("train.py(48): <module>",))


def test_cut_shapes_are_marked() -> None:
    cut = [row.shapes_truncated for row in table("torch213_shapes_memory.txt").rows]
    assert True in cut
    assert False in cut


def test_rounding_is_known() -> None:
    rows = table("torch213_seconds.txt").rows
    assert {step for row in rows for step in row.resolution.values()} == {10**6}
    assert rows[-1].cpu_avg_ns == 0


def test_top_level_note() -> None:
    assert table("torch213_header_top_level.txt").top_level_only
    assert not table("torch213_cpu.txt").top_level_only


def test_overloads() -> None:
    rows = {row.name: row.overload_name for row in table("torch213_overloads.txt").rows}
    assert (rows["aten::empty"], rows["aten::detach"]) == ("memory_format", "")
    assert table("torch213_cpu.txt").rows[0].overload_name is None


def test_old_trailer_is_no_self_time() -> None:
    """Before 1.7 nested operators count more than once in it."""
    for name in ("era_torch11_name_left.txt", "era_torch14_left_aligned.txt"):
        totals = table(name).totals
        assert (totals.device_total_ns, totals.self_device_ns) == (42_626_000, None)
        first = table(name).rows[0]
        assert (first.name, first.calls, first.device_total_share) == ("addmm", 40, 0.5812)
        assert first.self_device_ns is None


def test_rate_of_flops() -> None:
    rated, unrated = table("era_torch18_rate_of_flops.txt").rows
    assert (rated.flops_per_second, rated.flops, unrated.flops_per_second) == (1_284_000_000, None, None)


def test_unknown_shares_are_not_zero() -> None:
    collective, empty = table("async_and_nan.txt").rows
    assert (collective.is_async, collective.cpu_total_share, collective.cpu_total_ns) == (True, None, 1_688_000_000)
    assert (empty.is_async, empty.self_cpu_share, empty.self_cpu_ns) == (False, None, 0)


def test_a_cut_share_is_unknown() -> None:
    last = table("cut_in_a_row.txt").rows[-1]
    assert (last.self_device_ns, last.self_device_share, last.calls) == (6_004_000, None, None)
    assert not table("cut_in_a_row.txt").complete


def test_the_same_name_twice_stays_two_rows() -> None:
    names = [row.name for row in table("torch213_names_20.txt").rows]
    assert names.count("aten::convolution...") == 2
    assert table("torch213_names_20.txt").rows[0].name_truncated


def test_values_of_memory_are_signed() -> None:
    forward = table("article.md").rows[-1]
    assert (forward.device_mem_bytes, forward.self_cpu_mem_bytes) == (-2684354560, -1536)
    assert forward.resolution["self_cpu_mem_bytes"] == 11
