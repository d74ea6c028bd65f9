"""Catalogs are complete and up to date, and the script that keeps them so finds what is wrong."""

from __future__ import annotations

import json
from gettext import c2py  # type: ignore[attr-defined] # not in typeshed, because it is not documented
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog, Message
from babel.messages.pofile import read_po

from scripts import locales
from scripts.texts import PACKAGE, BadTextError, collect
from traceanalyzer.formats import language
from traceanalyzer.rules.engine.rule import pages

IMPORT = "from traceanalyzer.report.message import Text\n"


def compiled_file(language: str) -> Path:
    return locales.source(language).with_suffix(".json")


def compiled(language: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(compiled_file(language).read_text("utf-8"))
    return content


def test_every_text_is_translated_into_every_language() -> None:
    assert locales.check() == [], "run: python scripts/locales.py update, then missing and fill (docs/translating.md)"


def test_every_language_has_a_catalog() -> None:
    assert set(language.FOLDERS.values()) == set(locales.LANGUAGES)
    assert set(language.CODES) == {"en", *language.FOLDERS}


def test_every_text_of_the_program_is_collected() -> None:
    """Texts that modules define on import, and texts that functions create."""
    found = {text.id: text for text in collect()}
    assert {"overview-mean", "q-no-steps", "skip-no-steps", "unit-ms", "communication-step-calls"} <= set(found)
    assert found["overview-mean"].files == ("traceanalyzer/sections/overview.py",)
    page = "traceanalyzer/rules/pages/copies-materialized.md"
    assert (found["copies-materialized-advice"].files, found["copies-materialized-summary-cpu"].files) == ((page,),) * 2
    of_pages = {text.id for entry in pages().values() for text in entry.texts.values()}
    sources = "".join(file.read_text("utf-8") for file in PACKAGE.rglob("*.py"))
    assert all(id_ in of_pages or f'"{id_}"' in sources for id_ in found)
    assert of_pages <= found.keys()


# Texts in a source


def texts_of(tmp_path: Path, *sources: str) -> list[tuple[str, str, str, str]]:
    package = tmp_path / "package"
    package.mkdir()
    for number, source in enumerate(sources):
        (package / f"m{number}.py").write_text(IMPORT + source, "utf-8")
    return [(text.id, text.english, text.note, text.one) for text in collect(package)]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('Text("a", "A {x:ns}")', ("a", "A {x:ns}", "", "")),
        ('Text("a", "A " "B", "note")', ("a", "A B", "note", "")),
        ('Text(id="a", english="A", note="n")', ("a", "A", "n", "")),
        ('Text("a", "{n:count} As", one="{n:count} A")', ("a", "{n:count} As", "", "{n:count} A")),
        ('Text("a", "{n:count} As of {x}", one="The A of {x}")', ("a", "{n:count} As of {x}", "", "The A of {x}")),
        ('def f():\n    return [Text("a", "A")]', ("a", "A", "", "")),
        ('from traceanalyzer.report.message import Text as T\nT("a", "A")', ("a", "A", "", "")),
    ],
)
def test_texts_are_found(source: str, text: tuple[str, ...], tmp_path: Path) -> None:
    assert texts_of(tmp_path, source) == [text]


def test_texts_of_pages_are_found(tmp_path: Path) -> None:
    pages = tmp_path / "package" / "rules" / "pages"
    pages.mkdir(parents=True)
    page = (PACKAGE / "rules" / "pages" / "dataloader-bound.md").read_text("utf-8")
    (pages / "slow.md").write_text(
        page.replace("# dataloader-bound", "# slow").replace("\ntitle:", "\ntitle: T\nx:"), "utf-8"
    )
    texts = {text.id: text for text in collect(tmp_path / "package")}
    assert (texts["slow-title"].english, texts["slow-title"].files) == ("T", ("package/rules/pages/slow.md",))
    (pages / "slow.md").write_text(page.replace("# dataloader-bound", "# slow").replace(":share}", ":miles}"), "utf-8")
    with pytest.raises(BadTextError, match=r"slow\.md: slow-.* has a field of no known unit: miles"):
        collect(tmp_path / "package")
    (pages / "slow.md").write_text(page, "utf-8")
    with pytest.raises(BadTextError, match=r"slow\.md:\d+: the page does not begin with # slow"):
        collect(tmp_path / "package")


def test_other_classes_of_the_name_are_no_texts(tmp_path: Path) -> None:
    assert texts_of(tmp_path, 'from rich.text import Text as RichText\nRichText("a", "b")') == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ('Text("a", f"A")', "the english of a Text is no literal"),
        ('Text("a", "A" + x)', "the english of a Text is no literal"),
        ('Text(NAME, "A")', "the id of a Text is no literal"),
        ('Text("a", **more)', "is no literal"),
        ('Text("a", "{x:miles}")', "a has a field of no known unit: miles"),
        ('Text("a", "As", one="A")', "the fields of singular and plural differ, or none counts"),
        ('Text("a", "{n:count} {x}", one="{n:count}")', "the fields of singular and plural differ"),
        ('Text("a", "A")\nText("a", "B")', "a is another text in"),
    ],
)
def test_what_cannot_be_collected_is_an_error(source: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BadTextError, match=message):
        texts_of(tmp_path, source)


def test_the_same_text_may_be_in_two_files(tmp_path: Path) -> None:
    assert texts_of(tmp_path, 'Text("a", "A")', 'Text("a", "A")') == [("a", "A", "", "")]


# Catalogs

TEXTS = 'A = Text("a", "A {x:ns}")\nB = Text("b", "{n:count} Bs", one="{n:count} B", note="bees")\n'


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package with two texts, and catalogs of it."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "m.py").write_text(IMPORT + TEXTS, "utf-8")
    monkeypatch.setattr(locales, "collect", lambda: collect(package))
    monkeypatch.setattr(locales, "LOCALES", package / "locales")
    assert locales.main(["update"]) == 0
    return package


def fill(project: Path, **translations: str | list[str]) -> int:
    file = project / "translations.json"
    file.write_text(json.dumps(translations), "utf-8")
    return locales.main(["fill", "ru", str(file)])


def completed(project: Path) -> Path:
    assert fill(project, a="А {x:ns}", b=["{n:count} Б", "{n:count} Бы", "{n:count} Бэ"]) == 0
    zh = project / "zh.json"
    zh.write_text(json.dumps({"a": "甲 {x:ns}", "b": "{n:count} 乙"}), "utf-8")
    assert locales.main(["fill", "zh_Hans", str(zh)]) == 0
    assert locales.check() == []
    return project


def change(project: Path, old: str, new: str) -> None:
    source = project / "m.py"
    assert old in source.read_text("utf-8")
    source.write_text(source.read_text("utf-8").replace(old, new), "utf-8")


def edit(project: Path, old: str, new: str) -> None:
    source = locales.source("ru")
    assert project in source.parents
    assert old in source.read_text("utf-8")
    source.write_text(source.read_text("utf-8").replace(old, new), "utf-8")


def test_new_texts_are_missing_until_they_are_translated(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert locales.main(["missing", "ru"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "a": {"english": "A {x:ns}", "one": "", "note": ""},
        "b": {"english": "{n:count} Bs", "one": "{n:count} B", "note": "bees"},
    }
    assert locales.main(["--check"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{code}: {id_}: is missing" for code in locales.LANGUAGES for id_ in "ab"
    ]
    completed(project)
    assert locales.missing("ru") == {}


def test_what_is_not_translated_is_not_compiled(project: Path) -> None:
    assert compiled("ru")["entries"] == {}
    assert fill(project, a="А {x:ns}") == 0
    assert compiled("ru")["entries"] == {"a": {"forms": ["А {x:ns}"]}}


def test_a_plural_is_compiled_with_its_forms_and_the_english_text_that_decides(project: Path) -> None:
    completed(project)
    forms = ["{n:count} Б", "{n:count} Бы", "{n:count} Бэ"]
    assert compiled("ru")["entries"]["b"] == {"english": "{n:count} Bs", "forms": forms}
    form = c2py(compiled("ru")["plural"])
    assert [form(number) for number in (1, 2, 5, 11, 21, 112)] == [0, 1, 2, 2, 0, 2]
    assert compiled("ru")["symbols"]["decimal"] == ","


def test_a_changed_text_is_fuzzy_until_it_is_translated_again(project: Path) -> None:
    change(completed(project), '"A {x:ns}"', '"AA {x:ns}"')
    assert "ru: a: is missing" in locales.check()
    assert locales.main(["update"]) == 0
    assert locales.missing("ru") == {"a": {"english": "AA {x:ns}", "one": "", "note": "", "old": "А {x:ns}"}}
    assert fill(project, a="АА {x:ns}") == 0
    assert not [line for line in locales.check() if line.startswith("ru")]


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ('"A {x:ns}"', '"A {x:ns}", note="new"', "ru: is not up to date"),
        ('A = Text("a", "A {x:ns}")', "", "ru: a: is obsolete"),
        ('A = Text("a", "A {x:ns}")', 'A = Text("c", "A {x:ns}")', "ru: c: is missing"),
        ('one="{n:count} B"', 'one="{n:count} bee"', "ru: b: is missing"),
    ],
)
def test_stale_catalogs_are_found(old: str, new: str, wrong: str, project: Path) -> None:
    change(completed(project), old, new)
    assert wrong in locales.check()


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("А {x:ns}", "А {x:bytes}", "ru: a: the fields differ"),
        ("А {x:ns}", "А", "ru: a: the fields differ"),
        ("А {x:ns}", "А {x:ns", "ru: a: the fields differ"),
        ("А {x:ns}", "А {y:ns}", "ru: a: the fields differ"),
        ("А {x:ns}", "А {x:ns} ", "ru: a: is empty, or begins or ends with a blank"),
        ("{n:count} Бы", "", "ru: b: is missing"),
        ('msgctxt "a"', '#, fuzzy\nmsgctxt "a"', "ru: a: is missing"),
    ],
)
def test_wrong_translations_are_found(old: str, new: str, wrong: str, project: Path) -> None:
    edit(completed(project), old, new)
    assert any(line.startswith(wrong) for line in locales.check())


@pytest.mark.parametrize(
    ("translation", "wrong"),
    [
        ({"c": "В"}, "c: there is no such text"),
        ({"a": "А"}, "a: the fields differ"),
        ({"b": "{n:count} Б"}, "b: has 1 forms, the language needs 3"),
        ({"b": ["{n:count} Б", "{n:count} Бы", ""]}, "b: is empty"),
    ],
)
def test_wrong_translations_are_not_filled_in(
    translation: dict[str, str | list[str]], wrong: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = locales.source("ru").read_bytes()
    assert fill(project, **translation) == 1
    assert wrong in capsys.readouterr().out
    assert locales.source("ru").read_bytes() == before


def test_the_same_texts_give_the_same_bytes(project: Path) -> None:
    completed(project)
    files = [f(code) for code in locales.LANGUAGES for f in (locales.source, compiled_file)]
    before = [file.read_bytes() for file in files]
    assert locales.main(["update"]) == 0
    assert [file.read_bytes() for file in files] == before
    assert not any(b"Babel" in data or b"Date" in data for data in before)


def test_a_catalog_is_what_gettext_reads(project: Path) -> None:
    completed(project)
    with locales.source("ru").open("rb") as file:
        catalog = read_po(file)
    bees = next(message for message in catalog if message.context == "b")
    assert (bees.id, bees.string) == (("{n:count} B", "{n:count} Bs"), ("{n:count} Б", "{n:count} Бы", "{n:count} Бэ"))
    assert catalog.num_plurals == 3
    assert bees.auto_comments == ["bees"]


def test_a_text_that_gets_a_singular_keeps_its_old_translation_in_sight(project: Path) -> None:
    old = Message("{n:count} Bs", "{n:count} Бэ", context="b")
    catalog: Catalog = locales.merged(collect(project), "ru", [old])
    message = next(m for m in catalog if m.context == "b")
    assert message.fuzzy
    assert locales._asked(message)["old"] == ("{n:count} Бэ",)


def test_a_text_that_was_never_translated_is_missing_and_not_fuzzy(project: Path) -> None:
    change(project, '"{n:count} Bs"', '"{n:count} bees"')
    assert locales.main(["update"]) == 0
    assert "old" not in locales.missing("ru")["b"]
    assert "fuzzy" not in locales.source("ru").read_text("utf-8")


@pytest.mark.parametrize("arguments", [[], ["missing"], ["missing", "tlh"], ["fill", "ru"], ["check"]])
def test_other_arguments_are_explained(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert locales.main(arguments) == 2
    assert "scripts/locales.py update" in capsys.readouterr().out
