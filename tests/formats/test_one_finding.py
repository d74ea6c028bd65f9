"""One finding whole: evidence, places, saving, what would refute it; in three languages."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import msgspec
import pytest
from markdown_it import MarkdownIt

from tests.cli.running import FIXTURES, ROOT, TRAINING, assert_one_line, call
from tests.formats.samples import HOSTILE, SOUND, marked, report_of
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import language
from traceanalyzer.formats.one_finding import FORMATS, answer
from traceanalyzer.report.brief import WholeFinding, finding_ids

pytest.importorskip("babel", reason="babel is not installed")

SCHEMA = json.loads((ROOT / "docs" / "finding.schema.json").read_text("utf-8"))


@pytest.mark.parametrize("path", SOUND, ids=lambda path: path.name)
def test_every_finding_is_whole_in_every_format(path: Path) -> None:
    report = report_of(path)
    ids = finding_ids(report)
    assert len(ids) == len(report.findings)
    for asked, finding in zip(ids, report.findings, strict=True):
        texts = {form: answer(report, asked).render(form) for form in FORMATS}
        document = json.loads(texts["json"])
        jsonschema.Draft202012Validator(SCHEMA).validate(document)
        assert msgspec.convert(document, WholeFinding).finding == finding
        assert document["id"] == asked
        for form in ("terminal", "markdown"):
            assert "What would refute it" in texts[form]
            assert f"--finding {asked.rpartition('/')[2]}" in " ".join(texts[form].split())


def test_what_a_finding_says() -> None:
    text = answer(report_of(TRAINING), "mixed-precision-unused").render("terminal")
    lines = text.splitlines()
    assert lines[0] == "mixed-precision-unused in gpu_training.json.gz"
    for title in ("What to do", "When it does not apply", "Evidence", "What it is about", "What to call next"):
        assert title in lines
    assert "  Line: train.py:17 forward" in lines
    assert "the time on the GPU: 39.00 %, threshold 5.00 %" in " ".join(text.split())
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(("code", "words"), [("ru", "Что это опровергнет"), ("zh", "什么会推翻它")])
def test_people_read_it_in_their_language(code: str, words: str) -> None:
    texts = [
        answer(report_of(TRAINING), "h2d-pageable", language.of(code)).render(form) for form in ("terminal", "markdown")
    ]
    assert all(words in text for text in texts)
    assert all("What to do" not in text for text in texts)
    same = {answer(report_of(TRAINING), "h2d-pageable", language.of(c)).render("json") for c in ("en", code)}
    assert len(same) == 1


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_hostile_names_are_only_shown(name: str) -> None:
    report = marked(name)
    ids = finding_ids(report)
    assert ids
    for asked in ids:
        text = answer(report, asked).render("terminal")
        assert "\x1b" not in text
        assert "\x9b" not in text
        blocks = MarkdownIt("commonmark").enable("table").parse(answer(report, asked).render("markdown"))
        tags = [token.content for block in blocks for token in (block, *(block.children or ())) if "html" in token.type]
        assert tags == ["<!-- traceanalyzer finding " + report.generator.version + " -->\n"]


def test_of_a_saved_report_and_of_its_trace_it_is_the_same(tmp_path: Path) -> None:
    saved = tmp_path / "report.json"
    assert call("report", TRAINING, "-o", saved, "-q").code == 0
    one, two = (call("finding", given, "h2d-pageable", "--format", "json", "-q") for given in (TRAINING, saved))
    assert (one.code, one.err) == (0, "")
    assert one.out == two.out
    assert call("finding", saved, "h2d-pageable", "-o", tmp_path / "finding.md", "-q").code == 0
    assert (tmp_path / "finding.md").read_text("utf-8").startswith("<!-- traceanalyzer finding ")


def test_an_id_that_no_finding_has_is_one_line_with_those_that_there_are() -> None:
    line = assert_one_line(call("finding", TRAINING, "host-sync", "-q"))
    assert "has no finding host-sync; it has: h2d-pageable, " in line
    empty = FIXTURES / "key_averages" / "article.md"
    with pytest.raises(UsageError, match="run-1/h2d-pageable"):
        answer(report_of(empty), "h2d-pageable")
    assert call("finding", empty, "run-1/h2d-pageable", "-q").code == 0
