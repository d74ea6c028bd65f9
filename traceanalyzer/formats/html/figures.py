"""Figures of a page outside of its tables: `<data>` elements with their concept, population and exact value.

While texts are made, a figure stands between characters that no text contains, with its number in a list; when the
page is whole, these become elements, or vanish where a page must have plain text: in tags, tables and pictures. So
nobody has to remember to mark a figure of a sentence, and a test can compare all figures of a page.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from markupsafe import escape

from traceanalyzer.formats.language import PART, Language, Translated, read_catalog
from traceanalyzer.report.message import Message, fill

_BEGIN, _THEN, _END = "\ufdd0", "\ufdd1", "\ufdd2"
_NAME = "n"
_MARK = re.compile(f"{_BEGIN}({_NAME}|\\d{{1,9}}){_THEN}([^{_BEGIN}{_THEN}{_END}]*){_END}")
_STRAY = re.compile(f"{_BEGIN}(?:{_NAME}|\\d{{1,9}})?{_THEN}|[{_BEGIN}{_THEN}{_END}]")
_PIECE = re.compile(r"<(script|style|svg|table|title)\b.*?(?:</\1>|\Z)|<[^>]*>?|[^<]+", re.DOTALL)
_BLANK = re.compile(r"(?<=\d) (?=[^\W\d]|%)")
_VERSION = re.compile(r"-\d+$")

STEP, RECORDING = "typical-step", "recording"
"""Populations of figures."""
_SHARED = (
    ("step", STEP, r"overview-(mean|single|typical|by-mark|whole)\.mean|html-step-length\.step"),
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
    ("gpu-computes-share", STEP, r"headline-device-computes\.share"),
    ("gpu-computes", STEP, r"headline-typical-gpu-(compute|memory)\.part"),
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


class FigureLanguage(Translated):
    """A language that marks the figures in its texts, and joins each with its unit by a no-break space."""

    def __init__(self, inner: Language) -> None:
        if isinstance(inner, Translated):
            self.__dict__ |= inner.__dict__
        else:
            super().__init__(inner.code, inner.html_lang, read_catalog(inner.code))
        self.found: list[Figure] = []
        self._values: dict[tuple[str, str], str] = {}
        self._base, self._run = "page", ""
        self._is_marking = True
        self._quiet = copy.copy(self)
        self._quiet._is_marking, self._quiet._quiet = False, self._quiet

    def about(self, base: str, run: str | None = None) -> FigureLanguage:
        """The same language for a part of the page, which may be about one run of several."""
        part = copy.copy(self)
        part._base, part._run = base, f" of {run}" if run else ""
        return part

    @property
    def unmarked(self) -> FigureLanguage:
        """The same language without marks, for pictures and tables."""
        return self._quiet

    def say(self, message: Message) -> str:
        """The text of a message, with marks."""
        entry = self._entries.get(message.id)
        if entry is None:
            return message.text

        def amount(name: str, unit: str) -> str:
            return self._given(message, name, unit)

        try:
            text = fill(self._form(entry, message.params), {name: name for name in message.params}, amount)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
            return message.text
        is_other = self.code == "en" and plain(text).replace("\xa0", " ") != plain(message.text).replace("\xa0", " ")
        return message.text if is_other else text  # a saved report may have the words of another version

    def quantity(self, value: Any, unit: str, concept: str = "") -> str:
        """A quantity; a mark, if its concept is given."""
        text = super().quantity(value, unit)
        return self.marked(text, value, concept) if concept else text

    def marked(self, text: str, value: Any, concept: str) -> str:
        """A text that is a figure: of the typical step, if others say the same, else of this part of the page."""
        if not self._is_marking or not text:
            return text
        if isinstance(value, str):
            return f"{_BEGIN}{_NAME}{_THEN}{text}{_END}"
        if not any(map(str.isdigit, text)):
            return text
        known, base = shared(concept) or (concept, self._base)
        self.found.append(Figure(known, base + self._run, _exact(value)))
        return f"{_BEGIN}{len(self.found) - 1}{_THEN}{text}{_END}"

    def _given(self, message: Message, name: str, unit: str) -> str:
        """A field of a text: a figure, a name, or other texts."""
        value, concept = message.params[name], f"{_VERSION.sub('', message.id)}.{name}"
        if unit == "part":
            time, whole = self._quiet._part_texts(value)
            parts = {
                "time": self._own(time, value[0], concept),
                "whole": self._own(whole, value[1], f"{concept}-whole"),
            }
            return self.text(PART, **parts)
        text = super().quantity(value, unit)
        if unit == "" and isinstance(value, str):
            return text if _BEGIN in text else self.marked(text, value, concept)
        return text if unit == "" and not isinstance(value, int | float) else self._own(text, value, concept)

    def _own(self, text: str, value: Any, concept: str) -> str:
        """A figure of a sentence; the same sentence with other figures is another one."""
        part, number, key = self, 1, (concept, self._base + self._run)
        while not shared(concept) and self._values.setdefault(key, _exact(value)) != _exact(value):
            number += 1
            part = self.about(f"{self._base}-{number}", self._run.removeprefix(" of "))
            key = (concept, part._base + part._run)
        return part.marked(text, value, concept)

    def _amount(self, value: Any, unit: str) -> str:
        return super()._amount(value, unit) if not self._is_marking else self._quiet._amount(value, unit)


def no_break(text: str) -> str:
    """A quantity whose number and unit stay in one line."""
    return _BLANK.sub("\xa0", text)


def plain(text: str) -> str:
    """A text without marks."""
    return _STRAY.sub("", text)


def elements(page: str, found: list[Figure]) -> str:
    """A page whose marks are elements: `data` for figures, `bdi` for names."""

    def element(match: re.Match[str]) -> str:
        which, text = match.groups()
        if which == _NAME:
            return f"<bdi>{text}</bdi>"
        if int(which) >= len(found):
            return str(text)  # a name of the trace that looks like a mark
        figure = found[int(which)]
        concept, base, value = map(escape, (figure.concept, figure.base, figure.value))
        return f'<data value="{value}" data-concept="{concept}" data-base="{base}">{no_break(text)}</data>'

    def piece(match: re.Match[str]) -> str:
        text = match[0]
        return plain(text if text.startswith("<") else _MARK.sub(element, text))

    return _PIECE.sub(piece, page) if _BEGIN in page or _THEN in page or _END in page else page


def _exact(value: Any) -> str:
    """A value without rounding, of several separated by blanks; "" for what is unknown."""
    several = value if isinstance(value, list | tuple) else (value,)
    return " ".join(str(_whole(each)) for each in several if each is not None)


def _whole(value: Any) -> Any:
    """A whole number without decimals, so that equal values are equal texts."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
