"""One truth per page: each figure outside of tables says what it is of, and equal concepts have equal values."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests import corpus_files
from tests.formats.html.pages import VOID
from tests.formats.samples import FIXTURES, SOUND, TRAINING, report_of
from traceanalyzer.formats import environment, html
from traceanalyzer.formats.html.figures import Figure, FigureLanguage, Marked, NameInText, cleaned, cleaned_code
from traceanalyzer.formats.language import CODES, ENGLISH, LOCALES, of, read_catalog
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import shorten

FULL = os.environ.get("TRACEANALYZER_FULL") == "1"
NUMBER = re.compile(r"(?<![\w.,])\d[\d.,\u202f\xa0]*(?![\w\d])")
NO_FIGURES = {"script", "style", "svg", "table", "title", "bdi", "code", "h1", "footer"}
"""Elements whose numbers are no figures of the report: names, code, tables, and pictures of what is said elsewhere."""
PARTS = {"definitions", "tree", "strips", "links"}
"""Classes of such elements."""
DOCUMENTS = sorted(
    [*(FIXTURES / "key_averages").glob("torch213_*.txt"), FIXTURES / "key_averages" / "article.md"],
    key=lambda path: path.name,
)


class Said(HTMLParser):
    """The figures of a page, and the numbers outside of tables that are none."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.figures: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self.loose: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self._open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if any(tag in NO_FIGURES or attrs.get("class") in PARTS for tag, attrs in self._open):
            return
        tag, attrs = self._open[-1] if self._open else ("", {})
        if tag == "data":
            self.figures[str(attrs["data-concept"]), str(attrs["data-base"])].add(str(attrs["value"]))
            return
        for match in NUMBER.finditer(data):
            first = max(0, match.start() - 6)
            before, around = (
                data[first:end].replace("\xa0", " ").strip(" .\n") for end in (match.end(), match.end() + 6)
            )
            if not any(around in words or words.endswith(before) for words in literals()):
                self.loose.append(data.strip()[:200])


@cache
def literals() -> tuple[str, ...]:
    """All texts of the catalogs without their figures, in which a number is a word, such as a version of torch."""
    catalogs = (read_catalog(folder.name) for folder in LOCALES.iterdir() if (folder / "LC_MESSAGES").is_dir())
    forms = (form for catalog in catalogs for entry in catalog.entries.values() for form in entry.forms)
    numbered = (form.replace("\xa0", " ") for form in forms if any(map(str.isdigit, form)))
    return tuple({words for form in numbered for words in re.split(r"\{[^}]*\}", form)})


def check(page: str) -> Said:
    """One value for each concept and population; that no number is loose is for the caller to assert."""
    said = Said(page)
    assert {key: values for key, values in said.figures.items() if len(values) > 1} == {}
    return said


@pytest.mark.parametrize("path", [*SOUND, *DOCUMENTS], ids=lambda path: path.name)
def test_every_fixture_has_one_truth(path: Path) -> None:
    assert check(corpus_files.page_of(path)).loose == []


@pytest.mark.parametrize("code", CODES)
def test_every_language_has_one_truth(code: str) -> None:
    said = check(html.render(report_of(TRAINING), language=of(code)))
    assert len(said.figures) > 50
    assert said.loose == []


@pytest.mark.corpus
@pytest.mark.some
def test_every_trace_of_the_corpus_has_one_truth(corpus: Path, corpus_name: str) -> None:
    page = corpus_files.page_of(corpus / "corpus" / f"{corpus_name}.json.gz")
    assert check(page).loose == []


@pytest.mark.corpus
@pytest.mark.parametrize("path", corpus_files.field()[:: 1 if FULL else 3], ids=lambda path: path.name)
def test_every_trace_of_the_field_has_one_truth(path: Path) -> None:
    assert check(corpus_files.page_of(path)).loose == []


def _with_other_step(report: Report) -> Report:
    headline = report.headlines[0]
    assert headline.resources is not None
    return replace(report, headlines=(replace(headline, resources=replace(headline.resources, step_ns=1.0)),))


def test_two_values_of_one_concept_are_found() -> None:
    said = Said(html.render(_with_other_step(report_of(TRAINING))))
    assert len(said.figures["step", "typical-step"]) == 2


def test_a_number_that_is_no_figure_is_found() -> None:
    assert Said("<p>It takes 12 ms.</p>").loose == ["It takes 12 ms."]
    assert (
        Said("<p>It takes <data value=1 data-concept=a data-base=b>12 ms</data>, on <bdi>GPU 3</bdi>.</p>").loose == []
    )


def printed(template: str, **values: object) -> str:
    return environment(autoescape=True).from_string(template).render(**values)


def test_a_figure_is_exact_and_stays_in_its_line() -> None:
    page = printed("<p>{{ text }}</p>", text=FigureLanguage(ENGLISH).quantity(1234567.0, "ns", "x"))
    assert page == '<p><data value="1234567" data-concept="x" data-base="page">1.235\xa0ms</data></p>'


@pytest.mark.parametrize("code", ["en", "ru"])
def test_the_first_of_two_times_has_no_unit_and_both_are_figures(code: str) -> None:
    text = "1.0 of 3.7 ms of kernels, copies and fills are off the critical path: each could take twice as long, one "
    text += "at a time, and the step would not get longer."
    message = Message("path-slack", {"slack": 1_000_000, "all": 3_700_000}, text)
    said = FigureLanguage(of(code)).say(message)
    assert said == of(code).say(message)
    assert isinstance(said, Marked)
    assert [what.value for _, what in said.pieces if isinstance(what, Figure)] == ["1000000", "3700000"]


@pytest.mark.parametrize("code", ["en", "ru"])
def test_texts_with_figures_in_texts_have_their_marks(code: str) -> None:
    language = FigureLanguage(of(code))
    time = language.quantity(3_700_000, "ns", "x")
    message = Message("strip-idle", {"cause": time, "time": 1}, f"1 ns: {time}")
    assert printed("{{ text }}", text=language.say(message)).count("<data") == 2


@pytest.mark.parametrize("code", CODES)
def test_text_without_marks_has_the_words_of_its_language(code: str) -> None:
    said = next(iter(report_of(TRAINING).headlines)).message
    assert FigureLanguage(of(code)).unmarked.say(said) == of(code).say(said)


def test_a_text_with_figures_is_plain_wherever_only_text_can_be() -> None:
    text = FigureLanguage(ENGLISH).quantity(5, "count", "x")
    assert printed("<title>{{ text | plain }}</title>", text=text) == "<title>5</title>"
    assert html.as_json([text]) == '["5"]'
    assert f"{text}" == "5"


FIGURE, WORDS = Figure("x", "page", "1200000"), "It takes "
TEXT = Marked([(WORDS, None), ("1.2 ms", FIGURE), (" on ", None), ("<a>", NameInText())])


def test_parts_of_a_text_keep_whole_figures() -> None:
    assert TEXT == "It takes 1.2 ms on <a>"
    assert isinstance(TEXT[:15], Marked)
    assert TEXT[:15].pieces == ((WORDS, None), ("1.2 ms", FIGURE))
    assert TEXT[:12].pieces == ((WORDS, None), ("1.2", None))
    assert TEXT[:15].removesuffix(" ms").pieces == ((WORDS, None), ("1.2", FIGURE))
    assert TEXT[0] == "I"
    assert ("a" + TEXT + "b").pieces == (("a", None), *TEXT.pieces, ("b", None))
    assert shorten(TEXT[9:], 9).pieces[0] == ("1.2 ms"[:4], None)


def test_texts_are_cleaned_and_their_figures_stay() -> None:
    given = Marked([(" It\n takes ", None), ("1.2 ms", FIGURE), (" \u202e", None)])
    found = cleaned(given)
    assert found == "It takes 1.2 ms \ufffd"
    assert isinstance(found, Marked)
    assert ("1.2 ms", FIGURE) in found.pieces
    assert cleaned(TEXT) is TEXT
    code = cleaned_code(Marked([("if x:\n    f(  ", None), ("y", NameInText()), (")", None)]))
    assert code == "if x:\n    f( y)"
    assert isinstance(code, Marked)
    assert ("y", NameInText()) in code.pieces


def test_figures_and_names_are_escaped() -> None:
    found = Marked([("<", None), ("<a>", NameInText()), ("1", Figure('"', "&", "<"))])
    assert printed("{{ text }}", text=found) == (
        '&lt;<bdi>&lt;a&gt;</bdi><data value="&lt;" data-concept="&#34;" data-base="&amp;">1</data>'
    )


def test_words_of_another_version_stay_as_they_were() -> None:
    old = Message("overview-single", {"mean": 5e6}, "The only step: 5.000 ms.")
    assert FigureLanguage(ENGLISH).say(old) == old.text
