"""A saved report of a later version renders in every format, or is refused in one line; it never falls over."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.formats.later import UNHEARD, changed, differences, mutants, reports
from traceanalyzer.errors import UnusableInputError
from traceanalyzer.formats import FORMATS, language, render, spreadsheet, workbook
from traceanalyzer.formats import difference as difference_formats
from traceanalyzer.formats.language import Language
from traceanalyzer.inputs import saved_reports
from traceanalyzer.report.difference import Difference
from traceanalyzer.report.model import Report

pytest.importorskip("babel", reason="babel is not installed")

KINDS = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
LANGUAGES = ("en", "ru", "zh")
WAYS: dict[str, Callable[[Report, Language], str]] = {
    **{name: lambda report, spoken, name=name: render(report, name, language=spoken) for name in FORMATS},  # type: ignore[misc]
    "csv": lambda report, spoken: "".join(spreadsheet.csv_files(report, spoken).values()),
    "xlsx": lambda report, spoken: str(len(workbook.workbook(report, spoken))),
}
every_way = pytest.mark.parametrize("way", WAYS)
every_language = pytest.mark.parametrize("lang", LANGUAGES)


class Saved:
    """Bytes of a file, and its name."""

    name = "saved.json"

    def __init__(self, document: Any) -> None:
        self._data = msgspec.json.encode(document)

    def peek(self, size: int) -> bytes:
        return self._data[:size]


def read(document: Any) -> Report | Difference:
    return saved_reports.read(Saved(document))


def report(document: Any) -> Report:
    found = read(document)
    assert isinstance(found, Report)
    return found


def controls(text: str) -> set[str]:
    return {character for character in text if unicodedata.category(character) in KINDS}


def all_of(document: Any, key: str, value: Any) -> Any:
    """Every value of a key, wherever it is."""
    if isinstance(document, list):
        return [all_of(item, key, value) for item in document]
    if not isinstance(document, dict):
        return document
    return {name: value if name == key else all_of(child, key, value) for name, child in document.items()}


def renamed(document: Any) -> Any:
    """All messages have ids that no catalog has."""
    if isinstance(document, list):
        return list(map(renamed, document))
    if not isinstance(document, dict):
        return document
    children = {name: renamed(child) for name, child in document.items()}
    return children | {"id": UNHEARD} if document.keys() == {"id", "params", "text"} else children


def within(key: str, *fields: str) -> Callable[[Any], Any]:
    """All of these fields below a part of the report are words of a later version."""

    def change(document: Any) -> Any:
        for field in fields:
            document = _below(document, key, field)
        return document

    return change


def _below(document: Any, key: str, field: str) -> Any:
    part = document["analyses"] if key in document["analyses"] else document
    whole = dict(part, **{key: all_of(part[key], field, UNHEARD)})
    return dict(document, analyses=whole) if part is document["analyses"] else whole


def without_findings(document: Any) -> Any:
    """The fixes of the combined bound name findings that are not there."""
    assert any(headline["combined"]["fixes"] for headline in document["headlines"])
    return dict(document, findings=[])


PLANTED, PRINTED, RANKS = 0, 4, 5
CHANGES: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "causes": (PLANTED, within("idle", "cause")),
    "classes": (PLANTED, within("kernel_classes", "name")),
    "limits": (PLANTED, within("roofline", "bound")),
    "severities": (PLANTED, within("findings", "severity")),
    "confidences": (PLANTED, within("findings", "confidence", "resource", "blocked_by")),
    "units": (PLANTED, within("findings", "unit")),
    "places": (PLANTED, within("findings", "kind")),
    "bounds": (PLANTED, within("headlines", "bound", "next_bottleneck")),
    "messages": (PLANTED, renamed),
    "parameters": (PLANTED, lambda document: all_of(document, "params", {})),
    "steps": (PLANTED, within("trace", "steps_from")),
    "format": (PLANTED, within("source", "format")),
    "lanes": (PLANTED, within("timeline", "kind")),
    "no findings": (PLANTED, without_findings),
    "no trace": (PLANTED, lambda document: dict(document, trace=None)),
    "no analyses": (PLANTED, lambda document: dict(document, analyses={})),
    "null analyses": (PLANTED, lambda d: dict(d, analyses=dict.fromkeys(d["analyses"]))),
    "no headlines": (PLANTED, lambda document: dict(document, headlines=[])),
    "more analyses": (PLANTED, lambda d: dict(d, more=[1], analyses=d["analyses"] | {"more": 3})),
    "no tables": (PRINTED, lambda document: dict(document, analyses={})),
    "reasons of late ranks": (RANKS, within("ranks", "part", "operation")),
}


@every_way
@pytest.mark.parametrize("what", CHANGES)
def test_what_a_later_version_may_say_renders(what: str, way: str) -> None:
    number, change = CHANGES[what]
    before = reports()[number]
    after = change(before)
    assert after != before
    lang = LANGUAGES[(list(CHANGES).index(what) + list(WAYS).index(way)) % len(LANGUAGES)]
    assert WAYS[way](report(after), language.of(lang))


@every_language
@pytest.mark.parametrize("what", ["causes", "classes", "limits", "severities", "units", "places"])
def test_a_word_of_a_later_version_is_shown_as_it_is(what: str, lang: str) -> None:
    number, change = CHANGES[what]
    assert UNHEARD in render(report(change(reports()[number])), "html", language=language.of(lang))


@every_language
def test_an_empty_word_is_unknown(lang: str) -> None:
    document = all_of(reports()[PLANTED], "cause", "")
    unknown = language.of(lang).quantity(None, "ns")
    cells = spreadsheet.csv_files(report(document), language.of(lang))["idle_causes.csv"]
    assert cells.splitlines()[1].split(",")[1] == unknown


def test_nothing_is_counted_where_nothing_is_known() -> None:
    found = report(dict(reports()[PLANTED], trace=None))
    assert render(found, "terminal").partition("\n\n")[0].splitlines()[-1] == "planted_faults.json.gz"
    assert "profiler tables" not in render(found, "html")


@given(mutants(reports), st.sampled_from(sorted(WAYS)), st.sampled_from(LANGUAGES))
def test_no_report_falls_over(document: dict[str, Any], way: str, lang: str) -> None:
    text = refused = ""
    try:
        text = WAYS[way](report(document), language.of(lang))
    except UnusableInputError as error:
        refused = str(error)
    assert bool(text) != bool(refused)
    assert "\n" not in refused
    if way in ("terminal", "markdown", "html"):
        assert controls(text) <= {"\n", "\u200b"}
    assert "</script><b>" not in text or way in ("json", "sarif", "csv", "terminal")


@given(mutants(differences), st.sampled_from(difference_formats.FORMATS), st.sampled_from(LANGUAGES))
def test_no_difference_falls_over(document: dict[str, Any], form: str, lang: str) -> None:
    text = refused = ""
    try:
        found = read(document)
        assert isinstance(found, Difference)
        text = difference_formats.answer(found, language.of(lang)).render(form)
    except UnusableInputError as error:
        refused = str(error)
    assert bool(text) != bool(refused)
    assert "\n" not in refused
    if form != "json":
        assert controls(text) <= {"\n", "\u200b"}


DIFFERENCE_WORDS = (
    "outcome",
    "status",
    "key",
    "agreement",
    "method",
    "severity",
    "resource",
    "statistic",
    "unit",
    "id",
)


@pytest.mark.parametrize("form", ["terminal", "markdown"])
@pytest.mark.parametrize("word", DIFFERENCE_WORDS)
def test_what_a_later_version_may_say_of_a_difference_renders(word: str, form: str) -> None:
    found = read(all_of(differences()[0], word, UNHEARD))
    assert isinstance(found, Difference)
    text = difference_formats.answer(found, language.of(LANGUAGES[len(word) % 3])).render(form)
    assert word not in ("outcome", "status") or UNHEARD in text


def test_a_change_is_a_change() -> None:
    """The mutations of these properties change what they are meant to."""
    before = reports()[PLANTED]
    assert changed(before, ("trace",), None)["trace"] is None
    assert "trace" not in changed(before, ("trace",), ...)
    assert before["trace"] is not None
