"""Repeated layers in every format."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.reading import read_built
from traceanalyzer import sections
from traceanalyzer.formats import render
from traceanalyzer.formats.language import ENGLISH, of
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.report.section import Section
from traceanalyzer.sections.kernels import _LABELS, _SHORT

NORM, PRODUCT, EXPERTS = "rms_norm_kernel", "ampere_bf16_s16816gemm_bf16_128x64", "fused_moe_kernel"


def replay() -> Report:
    trace = TraceBuilder()
    kernels = [(name, 100 + 2 * place, 2, {}) for place, name in enumerate((NORM, PRODUCT, EXPERTS, EXPERTS) * 36)]
    trace.graph_launch(0, 5, kernels)  # type: ignore[arg-type]
    return analyze(read_built(trace))


def section_of(report: Report, top: int = 20) -> Section:
    (found,) = [section for section in sections.build(report, top) if section.id == "repeated-layers"]
    return found


def test_the_layer_is_said_with_its_count() -> None:
    section = section_of(replay())
    assert [message.text for message in section.messages] == [
        "36 times: norm, matrix multiplication, experts ×2.",
        "The second table has the kernels of the first sequence in their order.",
    ]
    layers, kernels = section.tables
    assert layers.rows[0][:6] == (1, 36, 4, 8_000, 288_000, 1.0)
    assert ENGLISH.text(layers.rows[0][6]) == "norm, matrix multiplication, experts ×2"
    assert [(row[0], row[1], row[3], row[4]) for row in kernels.rows] == [
        (1, NORM, 2_000, 0.25),
        (2, PRODUCT, 2_000, 0.25),
        (3, EXPERTS, 2_000, 0.25),
        (4, EXPERTS, 2_000, 0.25),
    ]
    assert not section.is_detail  # no operator explains anything here


def test_long_layers_are_cut_in_words_only() -> None:
    trace = TraceBuilder()
    names = [name for number in range(20) for name in (f"mine_{number}", f"rms_norm_{number}")]
    for place, name in enumerate(names * 3):
        trace.kernel(name, place, 1)
    section = section_of(analyze(read_built(trace)), top=5)
    assert section.messages[0].text.endswith(", unknown, norm, 16 more.")
    assert (len(section.tables[1].rows), section.tables[1].total_rows) == (5, 40)


@pytest.mark.parametrize("format_", ["terminal", "markdown", "html"])
def test_formats_of_text_show_it(format_: str) -> None:
    text = render(replay(), format_, 20)
    assert isinstance(text, str)
    assert "Repeated layers" in text
    assert "experts ×2" in text.replace("&#39;", "'")


@pytest.mark.parametrize("language", ["ru", "zh-Hans"])
def test_other_languages_show_it(language: str) -> None:
    text = render(replay(), "markdown", language=of(language))
    assert isinstance(text, str)
    assert {"ru": "умножение экспертов ×2", "zh-Hans": "专家矩阵乘法 ×2"}[language] in text


def test_every_class_has_a_short_word() -> None:
    assert set(_SHORT) == set(_LABELS)
