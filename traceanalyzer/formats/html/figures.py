"""Figures of a page outside of its tables: `<data>` elements with their concept, population and exact value.

While texts are made, those with figures are `Marked`: texts that know which of their pieces are figures or names. A
template that prints one writes the elements; everything else sees a plain text. So nobody has to remember to mark a
figure of a sentence, and a test can compare all figures of a page.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, SupportsIndex

from markupsafe import Markup

from traceanalyzer.formats.language import ALL, PART, SENTENCE, Language, Translated, read_catalog
from traceanalyzer.report import units, whole_trace
from traceanalyzer.report.message import Message, fill
from traceanalyzer.report.names import clean, clean_code

_BLANK = re.compile(r"(?<=\d) (?=[^\W\d]|%)")
_VERSION = re.compile(r"-\d+$")
_DATA = Markup('<data value="{}" data-concept="{}" data-base="{}">{}</data>')
_NAME = Markup("<bdi>{}</bdi>")
"""Templates that escape their values."""

_ONE = 0.95
"""Least number of units of a time that has the unit of the step."""
STEP, RECORDING = "typical-step", "recording"
"""Populations of figures."""
_SHARED = (
    ("step", STEP, r"overview-(mean|single|typical|by-mark|whole|unlike-mean)\.mean|html-step-length\.step"),
    ("step", STEP, r"(headline-.+|(?:(?!-summary).)++-summary.*)\.step"),
    (
        "step",
        STEP,
        r"step-time-outliers-summary.*\.typical|q-steps-left-out\.typical|(recording-typical|path-recorded)\.value",
    ),
    ("step", STEP, r"headline-(typical|input|host|gpu|communication|cpu)(-[a-z-]+)?\.part-whole"),
    ("waits-loader", STEP, r"part-dataloader|dataloader-bound-summary\.wait|headline-typical-input\.part"),
    (
        "waits-loader-share",
        STEP,
        r"part-dataloader-share|overview-loader-exclusive\.value|dataloader-bound-summary\.share",
    ),
    ("loader-in-full", STEP, r"resource-loader|owners-loader\.value"),
    ("loader-in-full-share", STEP, r"resource-loader-share|overview-loader-full\.value"),
    ("gpu-computes-share", STEP, r"headline-share-computes\.share"),
    ("gpu-busy", STEP, r"resource-gpu"),
    ("gpu-busy-share", STEP, r"resource-gpu-share|html-utilization-(typical|earlier-work)\.share|headline-none\.busy"),
    ("events", RECORDING, r"html-events\.events|trace-events\.value"),
    ("span", RECORDING, r"html-events\.span|trace-span\.value"),
)
_CONCEPTS = re.compile("|".join(f"(?P<n{number}>{pattern})" for number, (_, _, pattern) in enumerate(_SHARED)))
"""What several texts say: concept and population, by the id of the text without its version and the field.
Other figures have a concept of their own.
"""


@cache
def shared(concept: str) -> tuple[str, str] | None:
    """Concept and population of a figure that other texts say, too; else None."""
    found = _CONCEPTS.fullmatch(concept)
    return _SHARED[int(found.lastgroup[1:])][:2] if found and found.lastgroup else None


@dataclass(frozen=True)
class Figure:
    """One figure of a page."""

    concept: str
    base: str
    """What it is of: the typical step, or a part of the page."""
    value: str
    """The exact value, of an interval least, most likely and most; times in ns, sizes in bytes, shares from 0 to 1."""


@dataclass(frozen=True)
class NameInText:
    """A name in a sentence, which may have letters of another direction."""


Piece = tuple[str, Figure | NameInText | None]
"""A part of a text, and what it is; None for words."""


class Marked(str):
    """A text that knows which of its pieces are figures or names; elsewhere it is a text like any other."""

    __slots__ = ("pieces",)
    pieces: tuple[Piece, ...]

    def __new__(cls, pieces: Iterable[Piece]) -> Marked:
        """A text of these pieces, without empty ones."""
        whole = tuple(piece for piece in pieces if piece[0])
        text = super().__new__(cls, "".join(text for text, _ in whole))
        text.pieces = whole
        return text

    def __add__(self, other: str) -> Marked:
        return Marked((*self.pieces, *_pieces(other)))

    def __radd__(self, other: str) -> Marked:
        return Marked((*_pieces(other), *self.pieces))

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        """A part of the text, in which a figure or name that is cut is only words."""
        if not isinstance(key, slice):
            return super().__getitem__(key)
        first, last, _ = key.indices(len(self))
        found: list[Piece] = []
        at = 0
        for text, what in self.pieces:
            cut = text[max(0, first - at) : max(0, last - at)]
            found.append((cut, what if cut == text else None))
            at += len(text)
        return Marked(found)

    def removesuffix(self, suffix: str, /) -> str:
        """The text without its unit; a figure stays one."""
        *rest, (text, what) = self.pieces
        return Marked((*rest, (text.removesuffix(suffix), what)))

    def changed(self, change: Callable[[str], str]) -> Marked:
        """The text with each of its pieces changed."""
        return Marked((change(text), what) for text, what in self.pieces)

    def __html__(self) -> str:
        return Markup().join(_element(text, what) for text, what in self.pieces)


def _chain(separator: str, items: Iterable[str]) -> Marked:
    pieces = [piece for item in items for piece in ((separator, None), *_pieces(item))]
    return Marked(pieces[1:])


def _pieces(text: str) -> tuple[Piece, ...]:
    return text.pieces if isinstance(text, Marked) else ((text, None),)


def _element(text: str, what: Figure | NameInText | None) -> Markup:
    if isinstance(what, NameInText):
        return _NAME.format(text)
    if what is None:
        return Markup.escape(text)
    return _DATA.format(what.value, what.concept, what.base, no_break(text))


class FigureLanguage(Translated):
    """A language that marks the figures in its texts, and joins each with its unit by a no-break space."""

    def __init__(self, inner: Language) -> None:
        if isinstance(inner, Translated):
            self.__dict__ |= inner.__dict__
        else:
            super().__init__(inner.code, inner.html_lang, read_catalog(inner.code))
            self._has_steps = inner._has_steps
        self._values: dict[tuple[str, str], str] = {}
        self._base, self._run = "page", ""
        self._is_marking = True
        self._unrounded: FigureLanguage | None = None
        self._unit_ns: int | None = None
        self._quiet = copy.copy(self)
        self._quiet._is_marking, self._quiet._quiet = False, self._quiet

    def about(self, base: str, run: str | None = None) -> FigureLanguage:
        """The same language for a part of the page, which may be about one run of several."""
        part = copy.copy(self)
        part._base = base
        part._run = f" of {run}" if run else ""
        return part

    @property
    def unmarked(self) -> FigureLanguage:
        """The same language without marks, for pictures and tables."""
        return self._quiet

    def whole(self, step_ns: float | None = None) -> FigureLanguage:
        """The same language without decimals, for first screens; times have the unit of the step from one on."""
        rounded, rounded._quiet = copy.copy(self), copy.copy(self._quiet)
        rounded._quiet._unit_ns = units.whole_unit(step_ns) if step_ns else None
        rounded._unrounded = rounded._quiet._unrounded = self._quiet
        rounded._quiet._quiet = rounded._quiet
        return rounded

    def say(self, message: Message) -> str:
        """The text of a message, with marks."""
        message = self._worded(message)
        text = self._filled(message)
        if text is None:
            return message.text
        own = text if self._unrounded is None else self._unrounded._filled(message) or ""
        is_other = self.code == "en" and own.replace("\xa0", " ") != message.text.replace("\xa0", " ")
        return message.text if is_other else text  # a saved report may have the words of another version

    def _filled(self, message: Message) -> str | None:
        """The text of a message from the catalog; None if it is not there, or its quantities do not fit."""
        entry = self._entries.get(whole_trace.known(message.id))
        if entry is None:
            return None

        def amount(name: str, unit: str) -> str:
            return self._given(message, name, unit)

        try:
            return fill(self._template(entry, message), {name: name for name in message.params}, amount)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
            return None

    def quantity(self, value: Any, unit: str, concept: str = "") -> str:
        """A quantity; a mark, if its concept is given."""
        text = super().quantity(value, unit)
        return self.marked(text, value, concept) if concept else text

    def marked(self, text: str, value: Any, concept: str) -> str:
        """A text that is a figure: of the typical step, if others say the same, else of this part of the page."""
        if not self._is_marking or not text or isinstance(text, Marked):
            return text
        if isinstance(value, str):
            return Marked([(text, NameInText())])
        if not any(map(str.isdigit, text)):
            return text
        known, base = shared(concept) or (concept, self._base)
        return Marked([(text, Figure(known, base + self._run, _exact(value)))])

    def list(self, items: Iterable[str]) -> str:
        """Join items with the comma of the language."""
        return self.chain(self._symbols.separator, items)

    def chain(self, separator: str, items: Iterable[str]) -> str:
        """Join texts, whose figures stay figures."""
        return _chain(separator, items)

    def sentence(self, phrase: str) -> str:
        """Write a phrase as a sentence; a figure or name at its beginning stays as it is."""
        is_words = not isinstance(phrase, Marked) or phrase.pieces[0][1] is None
        return super().sentence(phrase) if is_words else self.text(SENTENCE, phrase=phrase)

    def _given(self, message: Message, name: str, unit: str) -> str:
        """A field of a text: a figure, a name, or other texts."""
        value = message.params[name]
        concept = f"{_VERSION.sub('', whole_trace.known(message.id))}.{name}"
        if isinstance(value, Marked):
            return value
        if unit == "part":
            time, whole = self._quiet._part_texts(value)
            if time is None:
                return self.text(ALL, whole=self._own(whole, value[0], concept))
            parts = {
                "time": self._own(time, value[0], concept),
                "whole": self._own(whole, value[1], f"{concept}-whole"),
            }
            return self.text(PART, **parts)
        text = super().quantity(value, unit)
        if unit == "" and isinstance(value, str):
            return self.marked(text, value, concept)
        return text if unit == "" and not isinstance(value, int | float) else self._own(text, value, concept)

    def _own(self, text: str, value: Any, concept: str) -> str:
        """A figure of a sentence; the same sentence with other figures is another one."""
        part = self
        number = 1
        key = (concept, self._base + self._run)
        while not shared(concept) and self._values.setdefault(key, _exact(value)) != _exact(value):
            number += 1
            part = self.about(f"{self._base}-{number}", self._run.removeprefix(" of "))
            key = (concept, part._base + part._run)
        return part.marked(text, value, concept)

    def _amount(self, value: Any, unit: str) -> str:
        if self._is_marking:
            return self._quiet._amount(value, unit)
        if self._unrounded is not None:
            unit = units.WHOLE.get(unit, unit)
            if unit == "whole_ns" and self._unit_ns and value and value >= _ONE * self._unit_ns:
                same = units.whole_in(value, self._unit_ns)
                if same is not None:
                    return self._in_unit(*same)
        return super()._amount(value, unit)

    def _part_amounts(self, value: Any) -> tuple[str, str, str]:
        return super()._part_amounts(value) if self._unrounded is None else units.whole_part_amounts(value)


def rounded(language: Language, step_ns: float | None) -> Language:
    """A language without decimals and marks, for first screens that are text; times have the unit of the step."""
    return FigureLanguage(language).whole(step_ns).unmarked


def changed(text: str, change: Callable[[str], str]) -> str:
    """A text, or each piece of one with figures, changed."""
    return text.changed(change) if isinstance(text, Marked) else change(text)


def cleaned(text: str) -> str:
    """A text in one line without control characters, whose figures stay figures."""
    whole = clean(text)
    if whole == text or not isinstance(text, Marked):
        return text if whole == text else whole
    inside = text.changed(lambda part: clean(f"|{part}|")[1:-1])  # blanks beside figures stay
    return inside[len(inside) - len(inside.lstrip()) : len(inside.rstrip())]


def cleaned_code(code: str) -> str:
    """Code whose lines are clean."""
    if not isinstance(code, Marked):
        return clean_code(code)
    lines: list[str] = []
    at = 0
    for line in str(code).split("\n"):
        indent = len(line) - len(line.lstrip(" "))
        lines.append(code[at : at + indent] + cleaned(code[at + indent : at + len(line)]))
        at += len(line) + 1
    return _chain("\n", lines)


def no_break(text: str) -> str:
    """A quantity whose number and unit stay in one line."""
    return _BLANK.sub("\xa0", text)


def _exact(value: Any) -> str:
    """A value without rounding, of several separated by blanks; "" for what is unknown."""
    several = value if isinstance(value, list | tuple) else (value,)
    return " ".join(str(_whole(each)) for each in several if each is not None)


def _whole(value: Any) -> Any:
    """A whole number without decimals, so that equal values are equal texts."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
