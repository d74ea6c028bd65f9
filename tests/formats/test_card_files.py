"""Cards: everything fits, in each language and with any names, and both formats say the same."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from tests.formats.samples import EVERY, FIXTURES, TRAINING, in_turn, report_of, spoken
from traceanalyzer.comparison import diff
from traceanalyzer.formats import card_files, language
from traceanalyzer.formats.card_files import HEIGHT, WIDTH
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report

FED = FIXTURES / "synthetic" / "gpu_training_fed.json.gz"
SVG = "{http://www.w3.org/2000/svg}"
LONG = "a_trace_of_a_model_with_a_very_long_name_" * 6


@cache
def fed() -> Difference:
    return diff(TRAINING, FED)


def named(name: str) -> Difference:
    side = msgspec.structs.replace(fed().base, name=name)
    return msgspec.structs.replace(fed(), base=side, head=side)


def drawn(content: Report | Difference, code: str = "en") -> ElementTree.Element:
    return ElementTree.fromstring(card_files.draw(content, "svg", language.of(code)))


def texts(card: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in card.iter(f"{SVG}text")]


def check_room(card: ElementTree.Element) -> None:
    """Measured with DejaVu Sans, every text lies within the card, and no two lines of it overlap."""
    textpath = pytest.importorskip("matplotlib.textpath")
    fonts = pytest.importorskip("matplotlib.font_manager")
    for node in card.iter(f"{SVG}text"):
        weight = "bold" if node.get("font-weight") else "normal"
        file = fonts.findfont(fonts.FontProperties(family="DejaVu Sans", weight=weight))
        size = float(node.get("font-size", "").removesuffix("px"))
        font = fonts.FontProperties(fname=file, size=size)
        wide = [character for character in node.text or "" if ord(character) > 0x2E80]
        plain = "".join(character for character in node.text or "" if ord(character) <= 0x2E80)
        width = textpath.TextPath((0, 0), plain if plain.strip() else "i", prop=font).get_extents().width
        width += len(wide) * size
        x = float(node.get("x", 0)) - (width if node.get("text-anchor") == "end" else 0)
        assert x >= 0, node.text
        assert x + width <= WIDTH, node.text
        assert float(node.get("y", 0)) <= HEIGHT - 10, node.text


@in_turn
@pytest.mark.parametrize("path", EVERY[::2], ids=lambda path: path.name)
def test_reports_fit(path: Path, turn: int) -> None:
    check_room(drawn(report_of(path), spoken(path.name, turn).code))


@pytest.mark.parametrize("code", language.CODES)
@pytest.mark.parametrize("name", ["x", LONG, "\u6a21" * 200, "<&>" * 50, "W" * 90])
def test_differences_fit(name: str, code: str) -> None:
    card = drawn(named(name), code)
    check_room(card)
    assert len(list(card.iter(f"{SVG}path"))) > 8


def test_a_card_has_the_change_its_cause_and_the_prediction() -> None:
    said = texts(drawn(fed()))
    assert said[0] == "gpu_training \u2192 gpu_training_fed"
    assert "\u2192" in said[1]
    assert "\u2212" in said[1]
    assert said[2].startswith("DataLoader: ")
    assert said[3].startswith("Predicted ")
    assert ", got " in said[3]
    assert {"Before", "After", "Kernels"} <= set(said)


def test_a_report_has_its_headline_parts_and_findings() -> None:
    said = texts(drawn(report_of(TRAINING)))
    assert said[0] == "gpu_training"
    assert any(text.startswith("Waiting for data") for text in said)
    assert any(text.startswith("A typical step: ") for text in said)
    assert any(text.startswith("DataLoader ") for text in said)


def test_a_sentence_is_not_cut_where_it_fits() -> None:
    said = " ".join(texts(drawn(report_of(TRAINING))))
    headline = said[said.index("Waiting for data") : said.index("A typical step")].strip()
    assert headline.endswith(".")


def test_no_line_ends_between_a_number_and_its_unit() -> None:
    lines = [line for path in EVERY for line in texts(drawn(report_of(path)))]
    assert len(lines) > len(EVERY)
    assert not [line for line in lines if line.startswith(("%", "ms ", "us "))]


def test_svg_does_not_need_matplotlib() -> None:
    code = (
        "import sys\nfrom traceanalyzer.formats import card_files\nfrom traceanalyzer import load, analyze\n"
        f"card_files.draw(analyze(load({str(TRAINING)!r})), 'svg')\nprint('matplotlib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("content", [fed, lambda: report_of(TRAINING)], ids=["difference", "report"])
def test_png_has_the_size_of_cards_and_is_the_same_again(content: object) -> None:
    image = pytest.importorskip("matplotlib.image")
    data = card_files.draw(content(), "png")  # type: ignore[operator]
    assert image.imread(io.BytesIO(data)).shape[:2] == (HEIGHT, WIDTH)
    assert data == card_files.draw(content(), "png")  # type: ignore[operator]
