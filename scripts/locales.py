"""Texts and their translations: collects every text of the package, and keeps the gettext catalogs up to date.

python scripts/locales.py update            write the catalogs; new texts are untranslated
python scripts/locales.py missing LANG      print what is not translated as JSON: {id: {english, one, note}}
python scripts/locales.py fill LANG FILE    add translations: {id: "text"}, with plural forms {id: ["1", "2", "5"]}
python scripts/locales.py --check           fail if a text is not collected or not translated

LANG is a folder of traceanalyzer/locales. docs/translating.md has the terms.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from babel import Locale
from babel.messages.catalog import Catalog, Message
from babel.messages.plurals import get_plural
from babel.messages.pofile import read_po, write_po

sys.path.insert(0, str(Path(__file__).parents[1]))

from hatch_build import compile_one
from scripts.texts import PACKAGE, BadTextError, Found, collect
from traceanalyzer.report.message import fields

LOCALES = PACKAGE / "locales"
DOMAIN = "traceanalyzer"
LANGUAGES = ("ru", "zh_Hans")
_HEAD = "# Texts of traceanalyzer: written by scripts/locales.py, see docs/translating.md."


class _Catalog(Catalog):
    """A catalog whose header has no date and no program: equal texts give equal bytes."""

    @property
    def mime_headers(self) -> list[tuple[str, str]]:
        return [
            ("Project-Id-Version", DOMAIN),
            ("Language", str(self.locale)),
            ("Plural-Forms", str(get_plural(self.locale))),
            ("MIME-Version", "1.0"),
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Transfer-Encoding", "8bit\n"),
        ]


# Catalogs


def merged(texts: Iterable[Found], language: str, old: Iterable[Message]) -> Catalog:
    """All texts with their existing translations, by id; a text whose English has changed is fuzzy."""
    by_id = {message.context: message for message in old if message.context}
    catalog = _Catalog(locale=Locale.parse(language), domain=DOMAIN, header_comment=_HEAD, charset="utf-8", fuzzy=False)
    for text in texts:
        before = by_id.get(text.id)
        string = _fitted(before, text) if before and any(_several(before.string or "")) else None
        message = catalog.add(
            text.msgid,
            string,
            locations=[(file, 1) for file in text.files],
            auto_comments=[text.note] if text.note else [],
            context=text.id,
        )
        changed = before is not None and _several(before.id) != _several(text.msgid)
        message.flags = {"fuzzy"} if before is not None and string and (before.fuzzy or changed) else set()
    return catalog


def _fitted(before: Message, text: Found) -> str | tuple[str, ...]:
    """The old translation, as one form or several; new plural forms stay empty in the file."""
    forms = _several(before.string or "")
    return forms if text.one else forms[-1]


def _several(text: str | Iterable[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def source(language: str) -> Path:
    """The path of the catalog that people edit."""
    return LOCALES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def _read(file: Path, language: str) -> Catalog:
    if not file.exists():
        return Catalog(locale=language)
    with file.open("rb") as stream:
        return read_po(stream, locale=language)


def as_po(catalog: Catalog) -> bytes:
    """One line per text, so that a changed word is a changed line."""
    stream = io.BytesIO()
    write_po(stream, catalog, width=0, include_lineno=False)
    return stream.getvalue()


def _save(language: str, catalog: Catalog) -> None:
    source(language).parent.mkdir(parents=True, exist_ok=True)
    source(language).write_bytes(as_po(catalog))
    compile_one(source(language), source(language).with_suffix(".json"))


# Commands


def update() -> None:
    """Write the catalogs of all languages."""
    texts = collect()
    for language in LANGUAGES:
        _save(language, merged(texts, language, _read(source(language), language)))


def missing(language: str) -> dict[str, dict[str, object]]:
    """Texts whose translation is missing, or belongs to an older English text."""
    catalog = merged(collect(), language, _read(source(language), language))
    return {m.context: _asked(m) for m in catalog if m.context and (m.fuzzy or not all(_several(m.string or "")))}


def _asked(message: Message) -> dict[str, object]:
    *one, english = _several(message.id)
    old = {"old": message.string} if message.fuzzy else {}
    return {"english": english, "one": "".join(one), "note": " ".join(message.auto_comments), **old}


def fill(language: str, translations: dict[str, str | list[str]]) -> None:
    """Put translations into the catalog of a language.

    Raises:
        BadTextError: There is no such text, or a translation does not fit it. Nothing is written in this case.
    """
    catalog = merged(collect(), language, _read(source(language), language))
    by_id = {message.context: message for message in catalog if message.context}
    wrong = [f"{text}: there is no such text" for text in translations if text not in by_id]
    for text in translations.keys() & by_id.keys():
        message = by_id[text]
        forms = _several(translations[text])
        message.string = forms if message.pluralizable else forms[0]
        message.flags = set()
        wrong += _misfits(message, catalog.num_plurals if message.pluralizable else 1, forms)
    if wrong:
        raise BadTextError("\n".join(sorted(wrong)))
    _save(language, catalog)


def check() -> list[str]:
    """The problems of the catalogs, one line each."""
    texts = collect()
    wrong = []
    for language in LANGUAGES:
        catalog = _read(source(language), language)
        expected = merged(texts, language, catalog)
        found = list(_faults(catalog, {text.id for text in texts}))
        found += [f"{text}: is missing" for text in missing(language)]
        if not found and _content(catalog) != _content(expected):
            found = ["is not up to date"]
        wrong += [f"{language}: {line}" for line in found]
    return wrong


def _faults(catalog: Catalog, ids: set[str]) -> Iterator[str]:
    for message in (*catalog, *catalog.obsolete.values()):
        if message.context and message.context not in ids:
            yield f"{message.context}: is obsolete"
        elif message.context and message.string and not message.fuzzy:
            forms = _several(message.string)
            if any(forms):
                yield from _misfits(message, catalog.num_plurals if message.pluralizable else 1, forms)


def _misfits(message: Message, number: int, forms: tuple[str, ...]) -> Iterator[str]:
    """Why a translation does not fit its text."""
    english = _several(message.id)[-1]
    if len(forms) != number:
        yield f"{message.context}: has {len(forms)} forms, the language needs {number}"
    for form in forms:
        if not form or form != form.strip():
            yield f"{message.context}: is empty, or begins or ends with a blank"
        if not _fits(form, english):
            yield f"{message.context}: the fields differ from those of the English text: {form!r}"


def _fits(form: str, english: str) -> bool:
    try:
        return set(fields(form)) == set(fields(english))
    except ValueError:
        return False  # a brace that is not closed or not opened


def _content(catalog: Catalog) -> list[tuple[object, ...]]:
    """The messages of a catalog in a form that does not depend on the version of Babel that wrote it."""
    return [
        (m.context, _several(m.id), _several(m.string or ""), m.fuzzy, " ".join(m.auto_comments), _files(m))
        for m in catalog
        if m.context
    ]


def _files(message: Message) -> list[str]:
    return sorted({file for file, _ in message.locations})


def main(arguments: list[str]) -> int:
    """Run the command that the arguments name; returns the exit code."""
    try:
        match arguments:
            case ["update"]:
                update()
            case ["missing", language] if language in LANGUAGES:
                print(json.dumps(missing(language), ensure_ascii=False, indent=1))
            case ["fill", language, file] if language in LANGUAGES:
                fill(language, json.loads(Path(file).read_text("utf-8")))
            case ["--check"]:
                wrong = check()
                print("".join(f"{line}\n" for line in wrong), end="")
                return 1 if wrong else 0
            case _:
                print(__doc__)
                return 2
    except BadTextError as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
