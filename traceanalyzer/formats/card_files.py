"""Draws a report or a difference as a card of 1200 x 630 pixels, which links and chats show: SVG or PNG.

Both are drawn from the same rectangles and lines of text. What a text measures is estimated from the widths of DejaVu
Sans, which is wider than the fonts of most readers, so that it fits with theirs, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import fsum

from traceanalyzer import sections
from traceanalyzer._version import __version__
from traceanalyzer.errors import UsageError
from traceanalyzer.formats import before_after, cards, png, svg
from traceanalyzer.formats.before_after import StackPiece, UnitOfTimes
from traceanalyzer.formats.language import ENGLISH, Language
from traceanalyzer.formats.pictures import Label, Picture, Placed, Shape, box_path
from traceanalyzer.report.difference import PART_LABELS, Difference
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report
from traceanalyzer.report.names import clean, shorten, word
from traceanalyzer.report.section import SectionPart
from traceanalyzer.sections import several_runs, story

WIDTH, HEIGHT = 1200, 630
_LEFT, _ROOM = 60, WIDTH - 2 * 60
_FINDINGS = 3
_BOLD = 1.12
"""How much wider bold text is."""
_NARROW, _BROAD = (
    frozenset("ijlI.,:;'|!()[]/ "),
    frozenset("mwMWOQ%@\u2014\u0416\u0428\u0429\u042e\u0436\u0448\u0449\u044e\u043c\u0444"),
)
_MARK = "traceanalyzer"
_LINES = 3
"""Lines between the figure and the bars."""
_NAME = 34
"""Characters of the name of a side."""
_SUFFIXES = re.compile(r"(\.pt)?(\.trace)?(\.json)?(\.gz)?$", re.IGNORECASE)
_UNIT = re.compile(r"(?<=\d) (?=%|[num]?s\b)")
"""The blank between a number and its unit, at which no line ends."""
_END = re.compile(r"[.!?](?=\s|$)|[\u3002\uff01\uff1f]")

_SIDES = Text("card-sides", "{base} \u2192 {head}", "names of files; base is before, head is after")
_GOT = Text("card-predicted", "Predicted {predicted}, got {got}", "an interval of times, and a time")
_UNKNOWN = Text("card-one-step", "One recording of each; noise unknown")
_FASTER = Text("card-times-faster", "{factor:factor}x faster in one recording of each; noise unknown")
_SLOWER = Text("card-times-slower", "{factor:factor}x as long in one recording of each; noise unknown")
_STEP = Text("card-step", "A typical step: {step}", "step is a time")
_MORE = Text("card-more-findings", "{count:count} more findings", one="{count:count} more finding")


@dataclass
class Drawing:
    """All that is on a card."""

    title: str
    description: str
    areas: list[Shape] = field(default_factory=list)
    lines: list[Label] = field(default_factory=list)

    def paragraph(
        self, text: str, y: float, size: float, most: int, *, tone: str = "ink", is_bold: bool = False
    ) -> float:
        """Write a text in at most so many lines, the last one cut; returns the baseline of the next line."""
        for line in _wrapped(text, size * (_BOLD if is_bold else 1), most):
            self.lines.append(Label(_LEFT, y, line, tone, size=size, is_bold=is_bold))
            y += round(1.3 * size)
        return y

    def fitted(self, text: str, y: float, sizes: Sequence[float]) -> None:
        """Write a bold line in the largest of some sizes that fits, or cut in the last."""
        size = next((size for size in sizes if _measure(text) * size * _BOLD <= _ROOM), sizes[-1])
        self.lines.append(Label(_LEFT, y, _cut(text, size * _BOLD, _ROOM), "ink", size=size, is_bold=True))

    def bar(self, pieces: Sequence[StackPiece], y: float, height: float) -> None:
        """Draw a stacked bar."""
        for piece in pieces:
            begin = round(_LEFT + piece.begin * _ROOM, 1)
            width = max(1.0, round(piece.width * _ROOM, 1) - 1)
            self.areas.append(Shape(piece.tone, box_path(begin, begin + width, y, y + height)))

    def legend(self, entries: Sequence[tuple[str, str]], y: float, size: float, rows: int) -> None:
        """Write what colours mean, the first entries that fit into so many rows."""
        x = float(_LEFT)
        for tone, label in entries:
            width = _measure(label) * size + 2.4 * size
            if x > _LEFT and x + width > _LEFT + _ROOM:
                x = float(_LEFT)
                y = y + round(1.6 * size)
                rows = rows - 1
            if rows <= 0:
                return
            top = y - round(0.75 * size)
            side = round(0.8 * size)
            self.areas.append(Shape(tone, box_path(x, x + side, top, top + side)))
            self.lines.append(Label(round(x + 1.15 * size, 1), y, _cut(label, size, _ROOM), "ink", size=size))
            x = round(x + width, 1)


def _measure(text: str) -> float:
    """Width of a text in units of its size."""
    return fsum(map(_advance, text))


def _advance(character: str) -> float:
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.4
    if character in _BROAD:
        return 0.95
    if not character.isalnum():
        return 0.86
    return 0.72 if character.isupper() else 0.63


def _cut(text: str, size: float, room: float) -> str:
    """A text that fits, with dots for what is left out at its end."""
    if _measure(text) * size <= room:
        return text
    while text and _measure(f"{text}\u2026") * size > room:
        text = text[:-1]
    return f"{text.rstrip(' ,.:;')}\u2026"


def _wrapped(text: str, size: float, most: int) -> Iterator[str]:
    """Lines of a text; Chinese may break between any two characters, other text between words."""
    words = [part for word_ in _UNIT.sub("\u00a0", text).split(" ") for part in _breakable(word_)]
    line, count = "", 0
    for number, (part, glue) in enumerate(words):
        longer = f"{line}{glue}{part}" if line else part
        if line and _measure(longer) * size > _ROOM:
            count += 1
            if count == most:
                rest = line + "".join(glue + part for part, glue in words[number:])
                yield _cut(rest, size, _ROOM)
                return
            yield line
            line = part
        else:
            line = longer
    if line:
        yield _cut(line, size, _ROOM)


def _breakable(text: str) -> Iterator[tuple[str, str]]:
    """Pieces of a word, and what joins each with the piece before it."""
    glue, piece = " ", ""
    for character in text:
        if unicodedata.east_asian_width(character) in "WF" and unicodedata.category(character)[0] != "P":
            if piece:
                yield piece, glue
                glue, piece = "", ""
            piece = character
        else:
            piece += character
    if piece:
        yield piece, glue


def draw(content: Report | Difference, form: str, language: Language = ENGLISH) -> bytes:
    """Draw a card.

    Args:
        content: What it is about.
        form: `svg` or `png`.
        language: Language of the texts.

    Raises:
        UsageError: PNG is wanted, and no font of this machine has all characters.
    """
    drawing = _of_report(content, language) if isinstance(content, Report) else _of_difference(content, language)
    drawing.lines.append(Label(WIDTH - _LEFT, HEIGHT - 26, _MARK, "muted", "end", 20))
    picture = Picture(HEIGHT, areas=tuple(drawing.areas), labels=tuple(drawing.lines))
    pieces = (Placed(0, 0, picture),)
    if form == "svg":
        text = svg.document(drawing.title, drawing.description, (WIDTH, HEIGHT), pieces, is_always_light=True)
        return f"<!-- {_MARK} card {__version__} -->\n{text}".encode()
    data = png.paint((WIDTH, HEIGHT), pieces)
    if data is None:
        raise UsageError(
            "--card: no font of this machine has all characters of the card; name a file that ends in .svg"
        )
    return data


def _of_difference(difference: Difference, language: Language) -> Drawing:
    sides = (difference.base, difference.head)
    base, head = (shorten(_stem(f"{side.name}#{side.run}" if side.run else side.name), _NAME) for side in sides)
    names = language.text(_SIDES, base=base, head=head)
    short = before_after.in_short(difference, language)
    said = list(_said(difference, language))
    drawing = Drawing(short or said[0], "; ".join((names, *said)))
    drawing.paragraph(names, 72, 26, 1, tone="muted")
    if not short:
        drawing.paragraph(said[0], 190, 46, 4, is_bold=True)
        return drawing
    drawing.fitted(short, 160, (84, 72, 60, 48))
    y, left = 218.0, _LINES
    for sentence in said[:2]:
        after = drawing.paragraph(_whole_sentences(sentence, 32, left), y, 32, left)
        y, left = after, left - round((after - y) / 42)
    _draw_stacks(drawing, difference, language)
    return drawing


def _draw_stacks(drawing: Drawing, difference: Difference, language: Language) -> None:
    stacks = before_after.stacks(difference, language)
    y, height, space = (356, 62, 42) if len(stacks) == 2 else (344, 26, 38)
    for stack in stacks:
        drawing.lines.append(Label(_LEFT, y, stack.label, "muted", size=24))
        drawing.lines.append(Label(_LEFT + _ROOM, y, stack.total, "ink", "end", 24, is_bold=True))
        drawing.bar(stack.pieces, y + 9, height)
        y += height + space
    if len(stacks) == 2:  # else each bar is of one kind, which its label names
        parts = sorted(difference.parts, key=lambda part: -max(part.base_ns or 0.0, part.head_ns or 0.0))
        drawing.legend([(before_after.tone(p.id), language.text(word(PART_LABELS, p.id))) for p in parts], y + 4, 24, 1)


def _said(difference: Difference, language: Language) -> Iterator[str]:
    """The lines below the figure: what changed most, and the prediction, or how sure it is."""
    comparability = difference.comparability
    if comparability.is_unrelated:
        yield from (language.say(check.message) for check in comparability.checks if check.id == "work")
        return
    if comparability.obstacle is not None:
        yield language.say(comparability.obstacle.message)
        return
    changed = [part for part in difference.parts if part.change_ns]
    if changed:
        main = max(changed, key=lambda part: abs(part.change_ns or 0.0))
        label = language.text(word(PART_LABELS, main.id))
        yield language.joined(label, before_after.change(main.base_ns or 0.0, main.head_ns or 0.0, language))
    yield _certainty(difference, language)


def _certainty(difference: Difference, language: Language) -> str:
    """What was predicted; without a prediction how sure the change is."""
    prediction, times = difference.prediction, difference.step_time
    if prediction is not None:
        low, high = prediction.predicted_ns
        got = UnitOfTimes.of((prediction.measured_ns,), language).text(prediction.measured_ns)
        return language.text(_GOT, predicted=language.quantity((low, None, high), "estimate"), got=got)
    if times is None or not times.base.count == times.head.count == 1 or not times.head.mean_ns:
        return language.say(difference.verdict.reason)
    ratio = times.base.mean_ns / times.head.mean_ns
    if ratio == 1:
        return language.text(_UNKNOWN)
    return language.text(_FASTER if ratio > 1 else _SLOWER, factor=max(ratio, 1 / ratio))


def _stem(name: str) -> str:
    """A name without the suffixes of traces; of several files what their names begin with."""
    first, dots, last = clean(name).partition(" ... ")
    same = "".join(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    if dots and (common := same.rstrip("_-. 0123456789")):
        return common
    return _SUFFIXES.sub("", clean(name)) or clean(name)


def _whole_sentences(text: str, size: float, most: int) -> str:
    """As many sentences as fit into so many lines; the first one in any case."""
    ends = [match.end() for match in _END.finditer(text)] or [len(text)]
    fitting = (text[:end] for end in reversed(ends) if len(list(_wrapped(text[:end], size, most + 1))) <= most)
    return next(fitting, text[: ends[0]])


def _of_report(report: Report, language: Language) -> Drawing:
    language = language.of_report(report)
    name = shorten(_stem(report.source.name), 2 * _NAME)
    built = {section.id: section for section in sections.build(report, 1)}
    said = [story.plain(headline.message) for headline in several_runs.headlines(report)[-1:]]
    if "story-result" in built:  # of several runs first what came of it
        said.insert(0, built["story-result"].messages[0])
    parts = built["overview"].parts if "overview" in built else ()
    lines = 4 if parts else 7
    headline = _whole_sentences(" ".join(map(language.say, said)), 36 * _BOLD, lines) or name
    drawing = Drawing(name, headline)
    drawing.paragraph(name, 66, 26, 1, tone="muted")
    y = drawing.paragraph(headline, 122, 36, lines, is_bold=True)
    y = _draw_step(drawing, parts, y, language) if parts else y + 16
    _draw_findings(drawing, report, y, language)
    return drawing


def _draw_step(drawing: Drawing, parts: Sequence[SectionPart], y: float, language: Language) -> float:
    """Draw the parts of a typical step as a bar with its legend; returns the baseline of what follows."""
    step = fsum(part.value for part in parts)
    total = UnitOfTimes.of([step], language).text(step)
    drawing.lines.append(Label(_LEFT, y, language.text(_STEP, step=total), "muted", size=24))
    times = UnitOfTimes.of((part.value for part in parts), language)
    begin = 0.0
    pieces = []
    for part in parts:
        pieces.append(StackPiece(part.role, language.text(part.label), times.text(part.value), begin, part.share))
        begin += part.share
    drawing.bar(pieces, y + 12, 48)
    largest = sorted(pieces, key=lambda piece: -piece.width)
    drawing.legend([(piece.tone, f"{piece.label} {piece.value}") for piece in largest], y + 94, 22, 1)
    return y + 146


def _draw_findings(drawing: Drawing, report: Report, y: float, language: Language) -> None:
    important = [finding for finding in several_runs.findings(report).findings if finding.severity != "info"]
    for finding in important[:_FINDINGS]:
        card = cards.card(finding, language)
        saving = card.time or card.peak or ""
        room = _ROOM - (_measure(saving) * 25 * _BOLD + 40 if saving else 0)
        drawing.lines.append(Label(_LEFT, y, _cut(card.action, 25, room), "ink", size=25))
        if saving:
            drawing.lines.append(Label(_LEFT + _ROOM, y, saving, "ink", "end", 25, is_bold=True))
        y += 44
    if len(important) > _FINDINGS:
        drawing.paragraph(language.text(_MORE, count=len(important) - _FINDINGS), HEIGHT - 26, 20, 1, tone="muted")
