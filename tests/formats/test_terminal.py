"""The first screen: 80 columns, no control characters, and bars that every console can show."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.formats.samples import DAMAGED, EVERY, SOUND, TRAINING, report_of
from tests.reading import plain
from traceanalyzer import sections
from traceanalyzer.formats import render, terminal
from traceanalyzer.formats.terminal import elements
from traceanalyzer.report import units
from traceanalyzer.sections.overview import PART_LABELS

each_fixture = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
FIGURE = re.compile(r"\d[\d,.]* (?:[mun]?s|%)|\bunknown\b")


def screen_of(path: Path, **options: int) -> str:
    return terminal.render(report_of(path), **options)


def shown(path: Path, encoding: str) -> bytes:
    """What a console of this encoding gets, with sections that the first screen has no room for."""
    console = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
    terminal.show(report_of(path), console, top=5)
    console.flush()
    return console.buffer.getvalue()  # type: ignore[attr-defined]


@each_fixture
def test_no_line_is_wider_than_80_columns(path: Path) -> None:
    screen = screen_of(path)
    assert max(map(cell_len, screen.splitlines())) <= 80
    assert screen.replace("\n", "").isprintable()
    assert len(screen.splitlines()) <= elements.LINES, "it is one screen"


@each_fixture
def test_it_names_the_file_and_the_step(path: Path) -> None:
    report = report_of(path)
    assert report.trace is not None
    opening = screen_of(path).partition("\n\n")[0]
    assert f"\n{path.name}: a trace of " in f"\n{opening}"
    assert "\nStep time" in screen_of(path)


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_numbers_are_whole(path: Path) -> None:
    """Names give way when the line is full, never numbers: every figure of the tables that are asked for is there."""
    screen = screen_of(path, top=5)
    tables = tables_of(path)
    assert tables
    for table in tables:
        expected = [
            units.render(value, column.unit)
            for row in table.rows
            for value, column in zip(row, table.columns, strict=True)
            if column.title.id in kept(table.id)
        ]
        assert set(expected) <= set(FIGURE.findall(screen))


def tables_of(path: Path) -> Iterable[sections.Section]:
    return [t for s in sections.build(report_of(path), 5) if not s.is_detail for t in s.tables]


def kept(table: str) -> set[str]:
    """Columns with a unit that the screen keeps."""
    return {
        "operators": {"column-device-self", "column-share", "column-host-self"},
        "kernels": {"column-total", "column-share", "column-mean"},
        "phases": {f"phases-{figure}-per-step" for figure in ("host", "device", "idle")},
        "phases_kinds": {"phases-host-per-step", "phases-device-per-step"},
        "host_owners": {"owners-self", "column-share"},
        "kernel_classes": {"column-total", "column-share"},
        "repeated_layers": {"column-total", "column-share"},
        **{key: set[str]() for key in ("repeated_layers_first", "kernel_classes_unexplained")},  # may be left out
        "gpu": {"gpu-utilization", "gpu-busy", "gpu-sm-efficiency", "column-tensor-cores"},
        **{key: set[str]() for key in ("graph_breaks", "compilations", "compiled_regions")},  # may be left out
        "accelerators": {
            "accelerators-busy",
            "accelerators-share",
            "accelerators-work",
            "accelerators-transfer",
            "accelerators-only-waiting",
        },
        "accelerator_tasks": {"column-total", "column-maximum"},
    }[table]


@pytest.mark.parametrize("width", [50, 60, 100, 160])
def test_other_widths_are_kept(width: int) -> None:
    screen = screen_of(TRAINING, width=width, top=5)
    assert max(map(cell_len, screen.splitlines())) <= width
    assert "1.181 ms" in screen


def test_a_wider_screen_shows_more_of_a_name() -> None:
    name = plain(report_of(TRAINING))["kernels"]["rows"][0]["name"]
    assert name not in screen_of(TRAINING, top=5)
    assert name in screen_of(TRAINING, width=250, top=5)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "cp437", "latin-1"])
def test_poor_consoles_get_ascii_bars(encoding: str) -> None:
    text = shown(TRAINING, encoding)
    assert text.isascii()
    assert b"?" not in text
    assert b"###" in text


def test_other_consoles_get_blocks() -> None:
    text = shown(TRAINING, "utf-8").decode("utf-8")
    assert "███" in text
    assert "###" not in text


def test_bars_are_as_long_as_the_shares() -> None:
    lines = screen_of(TRAINING, top=5).splitlines()
    found = {}
    for line in lines:
        if (match := re.fullmatch(r"  (\S.*?) {2,}\S+ \S+ +(\d+) % +([█▏]+) *", line)) is not None:
            found[match[1]] = (int(match[2]), match[3].count("█"))
    assert set(found) <= {*(label.english for label in PART_LABELS.values()), "CPU between operators"}
    (parts,) = (s.parts for s in sections.build(report_of(TRAINING), 5) if s.id == "overview")
    shares = {str(part.label): part.share for part in parts if part.share >= 0.005}
    assert found.keys() == shares.keys()
    assert len(found) == 6
    for label, (percents, length) in found.items():
        assert length == round(shares[label] * 35)
        assert abs(percents - 100 * shares[label]) < 1
    assert sum(percents for percents, _ in found.values()) == 100


def test_plain_text_has_no_codes_and_ends_in_one_newline() -> None:
    text = render(report_of(TRAINING), "terminal")
    assert "\x1b" not in text
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_no_line_ends_in_blanks() -> None:
    lines = screen_of(TRAINING).split("\n")
    assert not [line for line in lines if line != line.rstrip()]


def test_a_repaired_file_is_said_on_the_first_screen() -> None:
    for path in DAMAGED:
        warnings = [" ".join(w.message.text.split()) for w in report_of(path).warnings]
        assert said_in(screen_of(path, top=5)) == " ".join(warnings), path.name
        first = said_in(screen_of(path).partition("\n\nMore in the other formats: ")[0])
        rest = re.search(r"\nWarnings  (\d+) more in the other formats\n", screen_of(path))
        shown = warnings[: len(warnings) - int(rest[1])] if rest else warnings
        for warning in shown:  # at least its first sentence
            assert warning.partition(". ")[0] in first, path.name
        assert shown or not warnings


def said_in(screen: str) -> str:
    return " ".join(re.split(r"\nWarnings(?:  .*)?\n", screen)[-1].split())


def test_details_stay_out() -> None:
    for path in SOUND:
        screen = screen_of(path)
        for title in ("Kernels by operator", "Operators by input shapes", "Steps", "Trace", "Skipped"):
            assert not re.search(rf"\n{title}(  |\n)", screen)


def test_a_shortened_paragraph_ends_with_a_sentence() -> None:
    text = "Use pinned memory, e.g. with pin_memory=True. Then copy without a wait. This needs more memory and time."
    assert str(elements.paragraph(text, 40, lines=2)).endswith("pin_memory=True.")
    assert " ".join(str(elements.paragraph(text, 50, 2, lines=2)).split()).endswith("without a wait.")
    assert str(elements.paragraph(text, 20, lines=1)).endswith("pin_memory=True.")  # the first one is never cut
    assert str(elements.paragraph("a name of many words, " * 5, 20, lines=1)).endswith("...")
    assert str(elements.paragraph("用固定内存。然后不等待地复制。" * 3, 36, lines=1)).endswith("。")


def test_kernels_with_the_same_ends_are_told_apart() -> None:
    kernel = "at::native::vectorized_elementwise_kernel<4, at::native::{}<float>, std::array<char*, 3ul> >(int)"
    add, multiply = kernel.format("AddFunctor"), kernel.format("MulFunctor")
    first, second, third, again = elements.told_apart([add, multiply, "gemm", add], 40)
    assert (third, again) == ("gemm", first)
    assert "AddFunctor" in first
    assert "MulFunctor" in second
    assert {len(name) for name in (first, second)} <= set(range(20, 41))
    assert elements.told_apart([add, "gemm"], 40) == [elements.fit(add, 40), "gemm"]
