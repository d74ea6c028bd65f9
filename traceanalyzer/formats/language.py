"""Texts, numbers and units in the reader's language.

English needs no catalog, because messages contain it. Other languages are in `traceanalyzer/locales`, which the build
compiles (`hatch_build.py`), and which are read on demand.

A text is defined beside the code that uses it, or on the page of its rule, with an id and a note for translators;
`scripts/locales.py` collects them into gettext catalogs and fails if one is missing. Ids are the keys, because one
English word may need two translations. A field names its unit (`{wait:ns}`), so each language formats number, decimal
sign and unit, and plural forms follow gettext's rules. The build compiles each catalog into one JSON file with its
texts, its plural rule and its number signs (from Unicode CLDR, through Babel), so that no language needs Babel at run
time. Rules of third parties have no catalog: their English text is shown.
"""

from __future__ import annotations

import copy
import gettext
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import msgspec

from traceanalyzer.errors import TraceAnalyzerError, UsageError
from traceanalyzer.report import units, whole_trace
from traceanalyzer.report.message import Message, Text, deciding_field, fill
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import UNKNOWN, clean

CODES = ("en", "ru", "zh")
AUTO = "auto"
"""Code for the language of the environment, or English if there is no catalog for it."""

FOLDERS = {"ru": "ru", "zh": "zh_Hans"}
"""Folders of the catalogs by language code; that of English has the texts themselves."""

_HTML_LANG = {"ru": "ru", "zh": "zh-Hans"}

_SIMPLIFIED = ("", "cn", "sg", "hans", "hans-cn", "hans-sg")
"""Region and script codes of simplified Chinese after `zh`; there is no catalog for traditional Chinese."""

_UNITS = {
    "s": Text("unit-s", "s", "seconds"),
    "ms": Text("unit-ms", "ms", "milliseconds"),
    "us": Text("unit-us", "us", "microseconds"),
    "ns": Text("unit-ns", "ns", "nanoseconds"),
    "B": Text("unit-b", "B", "bytes"),
    "KiB": Text("unit-kib", "KiB", "1024 bytes"),
    "MiB": Text("unit-mib", "MiB"),
    "GiB": Text("unit-gib", "GiB"),
    "TiB": Text("unit-tib", "TiB"),
}
_AMOUNT = Text("amount", "{number} {unit}", "a quantity such as 148.7 ms; the blank may be one that does not break")
_YES = Text("value-yes", "yes", "in a table cell")
_NO = Text("value-no", "no", "in a table cell")
ALL = Text("amount-time-all", "all {whole}", "a time that is nearly all of another one: all 152 ms")
PART = Text("amount-time-of", "{time} of the {whole}", "a time that is a part of another one: 35 of the 152 ms")
_BETWEEN = Text("amount-between", "{low}-{high}", "numbers of an interval, whose unit stands once beside them")
_UP_TO = Text("amount-up-to", "up to {most}", "a quantity with its unit")
_ESTIMATE = Text("amount-estimate", "{point} ({between})", "what is most likely, and the interval: 28 ms (25-31)")
_LABELLED = Text("labelled", "{label}: {value}", "a fact in a list, such as Rank: 3")

SENTENCE = Text("sentence", "{phrase}.", "a sentence with its full stop")
_ENDS = (".", "!", "?", "。", "！", "？")


class Language:
    """English, and the interface of all languages."""

    code = "en"
    html_lang = "en"
    _has_steps = True

    def say(self, message: Message) -> str:
        """The text of a message in this language, or in English if no catalog contains it."""
        return self._worded(message).text

    def of_report(self, report: Report) -> Self:
        """The language of a report: of a trace without steps, what it says of a step is said of the trace."""
        if not whole_trace.is_of(report):
            return self
        own = copy.copy(self)
        own._has_steps = False
        return own

    def _worded(self, message: Message) -> Message:
        """The message with the words of the report."""
        return message if self._has_steps else whole_trace.message(message)

    def text(self, text: Text | Message, **params: Any) -> str:
        """Format a text with quantities; a message, such as a title with a name, already contains them."""
        return self.say(text(**params) if isinstance(text, Text) else text)

    def about(self, base: str, run: str | None = None) -> Self:
        """The language of a part of a document, for formats that say what their figures are of."""
        del base, run
        return self

    @property
    def unmarked(self) -> Self:
        """The same language for text that is only text, such as pictures."""
        return self

    def marked(self, text: str, value: Any, concept: str) -> str:
        """A text that is a figure, for formats that say what it is of."""
        del value, concept
        return text

    def quantity(self, value: Any, unit: str, concept: str = "") -> str:
        """Format a value with a unit of `units.render`; texts and messages have no unit.

        Args:
            value: The value.
            unit: Its unit.
            concept: What it is a figure of, for formats that say so.
        """
        del concept
        if unit == "" and (message := _message(value)) is not None:
            return self.say(message)
        if unit == "" and isinstance(value, list | tuple):
            return self.list(self.quantity(item, "") for item in value)
        if unit not in units.UNITS and value is not None:  # in a report of a later version
            return f"{self._amount(value, 'number' if isinstance(value, int | float) else '')} {clean(unit)}"
        return self._amount(value, unit)

    def labelled(self, label: Text | Message, value: str) -> str:
        """Write a label and its value in one line."""
        return self.joined(self.text(label), value)

    def joined(self, label: str, value: str) -> str:
        """Write a label that is already translated, or a name, and its value in one line."""
        return self.text(_LABELLED, label=label, value=value)

    @property
    def colon(self) -> str:
        """The separator after a label."""
        return self.text(_LABELLED, label="", value="").strip()

    def sentence(self, phrase: str) -> str:
        """Write a phrase as a sentence; a name or number at its beginning stays as it is."""
        if phrase.partition(" ")[0].isalpha():
            phrase = phrase[0].upper() + phrase[1:]
        return phrase if not phrase or phrase.endswith(_ENDS) else self.text(SENTENCE, phrase=phrase)

    def list(self, items: Iterable[str]) -> str:
        """Join names or values with commas, without a conjunction."""
        return ", ".join(items)

    def chain(self, separator: str, items: Iterable[str]) -> str:
        """Join texts with a separator that no language changes."""
        return separator.join(items)

    def interval(self, low: str, point: str | None, high: str, with_unit: Callable[[str], str]) -> str:
        """Write the numbers of an interval and the most likely one, if there is one, with the unit once."""
        between = self.text(_BETWEEN, low=low, high=high)
        if low == high:
            return with_unit(high)
        if point is not None:
            return self.text(_ESTIMATE, point=with_unit(point), between=between)
        return self.text(_UP_TO, most=with_unit(high)) if units.is_zero(low) else with_unit(between)

    def _amount(self, value: Any, unit: str) -> str:
        return units.render(value, unit)


ENGLISH = Language()


class Translated(Language):
    """A language with a catalog."""

    def __init__(
        self,
        code: str,
        html_lang: str,
        catalog: TextCatalog,
    ) -> None:
        symbols = catalog.symbols
        self.code = code
        self.html_lang = html_lang
        self._entries = catalog.entries
        self._plural = catalog.plural_rule()
        self._symbols = symbols
        self._digits = str.maketrans(
            {",": symbols.group, ".": symbols.decimal, "-": symbols.minus, units.MINUS: symbols.minus}
        )

    def say(self, message: Message) -> str:
        """The translated message; its English text if the catalog lacks it or the quantities do not fit."""
        message = self._worded(message)
        entry = self._entries.get(whole_trace.known(message.id))
        if entry is None:
            return message.text
        try:
            return fill(self._template(entry, message), message.params, self.quantity)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
            return message.text  # a saved report may have another version, or be edited

    def list(self, items: Iterable[str]) -> str:
        """Join items with the comma of the language."""
        return self._symbols.separator.join(items)

    def _template(self, entry: CatalogEntry, message: Message) -> str:
        """The text of a message before its quantities are filled in."""
        words = self._entries.get(whole_trace.WORDS.id)
        return whole_trace.template(self._form(entry, message.params), message, words.forms[0] if words else "")

    def _form(self, entry: CatalogEntry, params: Mapping[str, Any]) -> str:
        """The plural form for the deciding number; the last, most general one for numbers that are not integers."""
        if len(entry.forms) == 1:
            return entry.forms[0]
        number = params[deciding_field(entry.english)]
        is_whole = isinstance(number, int) or (isinstance(number, float) and number.is_integer())
        return entry.forms[self._plural(abs(int(number))) if is_whole else -1]

    def _amount(self, value: Any, unit: str) -> str:
        if not units.is_known(value):
            return self.text(UNKNOWN)
        if unit in ("", "probability"):
            return units.render(value, unit).translate(self._digits) if unit else str(value)
        if unit == "bool":
            return self.text(_YES if value else _NO)
        if unit == "part":
            return self._part(value)
        if unit in units.ESTIMATES:
            return self._estimate(*units.estimate_numbers(value, unit))
        return self._in_unit(*units.amount(value, unit))

    def _in_unit(self, number: str, symbol: str) -> str:
        """A number with its unit, both as the language writes them."""
        number = number.translate(self._digits)
        if symbol == units.PERCENT:
            return number + self._symbols.percent
        return self.text(_AMOUNT, number=number, unit=_UNITS[symbol]()) if symbol else number

    def _part(self, value: Any) -> str:
        """Format a time and the time that it is a part of, with the unit once."""
        time, whole = self._part_texts(value)
        return self.text(ALL, whole=whole) if time is None else self.text(PART, time=time, whole=whole)

    def _part_texts(self, value: Any) -> tuple[str | None, str]:
        """The number of a part, None if it is that of the whole, and the whole time with the unit of both."""
        time, whole, symbol = (each.translate(self._digits) for each in self._part_amounts(value))
        return None if time == whole != "0" else time, self.text(_AMOUNT, number=whole, unit=_UNITS[symbol]())

    def _part_amounts(self, value: Any) -> tuple[str, str, str]:
        return units.part_amounts(value)

    def _estimate(self, low: str, point: str | None, high: str, symbol: str) -> str:
        """Format an interval and its most likely value, with the unit once."""

        def with_unit(number: str) -> str:
            if symbol == units.PERCENT:
                return number + self._symbols.percent
            return self.text(_AMOUNT, number=number, unit=_UNITS[symbol]())

        likely = None if point is None else point.translate(self._digits)
        return self.interval(low.translate(self._digits), likely, high.translate(self._digits), with_unit)


_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=(?:%|[mun]?s|B|[KMGT]iB)(?![A-Za-z]))")


def unbroken(text: str) -> str:
    """The text with no-break spaces between numbers and units, where a language has plain ones."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def _message(value: Any) -> Message | None:
    """The message in a value, or None; in a saved report, a message inside a message is plain data."""
    if isinstance(value, Text):
        return value()
    if isinstance(value, dict) and value.keys() == {"id", "params", "text"}:
        try:
            return msgspec.convert(value, Message)
        except msgspec.ValidationError:
            return None
    return value if isinstance(value, Message) else None


def of(code: str) -> Language:
    """The language for a code: `en`, `ru`, `zh`, one of their regions (`zh-CN`, `ru_RU`, `zh_Hans`), or `auto`.

    Raises:
        UsageError: There is no catalog for it.
    """
    known = _environment() if code == AUTO else _known(code)
    if known is None:
        raise UsageError(f"{code}: no such language; use one of {', '.join((*CODES, AUTO))}")
    return _opened(known)


def _known(code: str) -> str | None:
    """The language code of an alias, or None."""
    language, _, region = code.replace("_", "-").lower().partition("-")
    if language == "zh":
        return "zh" if region in _SIMPLIFIED else None
    is_plain = not region or (region.isalpha() and len(region) == 2)
    return language if language in CODES and is_plain else None


def _environment() -> str:
    """Language of the environment as in gettext: the first variable that is set; `ru_RU.UTF-8@x` is ru_RU."""
    set_ = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    value = next(filter(None, set_), "")
    return _known(value.partition(".")[0].partition("@")[0]) or "en"


@cache
def _opened(code: str) -> Language:
    return ENGLISH if code == "en" else Translated(code, _HTML_LANG[code], read_catalog(FOLDERS[code]))


LOCALES = Path(__file__).resolve().parent.parent / "locales"


class CatalogEntry(msgspec.Struct, frozen=True):
    """One text of a catalog."""

    forms: tuple[str, ...]
    """The translation, or its plural forms."""
    english: str = ""
    """The English text of a plural, whose first count selects the form; empty for other texts."""


class Symbols(msgspec.Struct, frozen=True):
    """Symbols of a language in numbers and lists."""

    decimal: str
    """The decimal separator."""
    group: str
    """Separator between groups of three digits."""
    minus: str
    """Minus sign before negative numbers."""
    percent: str
    """Percent sign after a number, including the blank."""
    separator: str
    """Text between the items of a list."""


class TextCatalog(msgspec.Struct, frozen=True):
    """All texts of one language."""

    plural: str
    """C expression for the index of the plural form of a number `n`, as in gettext."""
    symbols: Symbols
    """Symbols in numbers and lists."""
    entries: dict[str, CatalogEntry]
    """Texts by id."""

    def plural_rule(self) -> Callable[[int], int]:
        """The plural expression as a Python function."""
        return gettext.c2py(self.plural)


def read_catalog(folder: str) -> TextCatalog:
    """Read the compiled catalog of a folder of `traceanalyzer/locales`.

    Raises:
        TraceAnalyzerError: The catalog is not compiled: the program runs from a checkout that was never installed.
    """
    file = LOCALES / folder / "LC_MESSAGES" / "traceanalyzer.json"
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise TraceAnalyzerError(
            f"{file}: the texts of this language are not compiled; install the package (pip install .) "
            "or run python hatch_build.py in its checkout"
        ) from None
    return msgspec.json.decode(data, type=TextCatalog)


_FACTORS = {"ns": (10**9, 10**6, 10**3, 1), "bytes": (2**40, 2**30, 2**20, 2**10, 1), "number": (1,)}
_NUMERIC = re.compile(r"[\d.,\s\u00a0\u202f]+")


class Scale(msgspec.Struct, frozen=True):
    """A unit for several quantities."""

    factor: int
    label: str
    """The unit's name in the reader's language."""
    decimal: str
    """The decimal separator."""

    def number(self, value: float, digits: int) -> str:
        """The value in this unit, without its name."""
        return f"{value / self.factor:.{digits}f}".replace(".", self.decimal)

    def text(self, value: float, digits: int) -> str:
        """The value with the name of this unit, such as `174.76 ms`."""
        return f"{self.number(value, digits)} {self.label}".rstrip()


def scale(language: Language, largest: float, unit: str) -> Scale:
    """Choose the unit in which the largest quantity is at least one.

    Args:
        language: The reader's language.
        largest: The largest quantity by absolute value.
        unit: `ns`, `bytes`, or `number`, which has no name.
    """
    factor = next((f for f in _FACTORS[unit] if abs(largest) >= f), _FACTORS[unit][-1])
    label = _NUMERIC.sub("", language.quantity(factor, unit))
    return Scale(factor, label, language.quantity(1.5, "number")[1])


def unit_names(language: Language, unit: str) -> list[tuple[int, str]]:
    """Factor and name of each unit, largest first."""
    return [(factor, scale(language, factor, unit).label) for factor in _FACTORS[unit]]
