"""Both sides of a difference as a picture: what a step consists of, and one step of each, on one scale of time.

Positions are shares of the width, so that a page and a card draw the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import fsum

from traceanalyzer.formats.charts import PALETTE
from traceanalyzer.formats.language import Language, Scale, scale
from traceanalyzer.report.compared import StepStrip
from traceanalyzer.report.difference import PART_LABELS, ChangedPart, Difference
from traceanalyzer.report.message import Text
from traceanalyzer.report.names import clean, word
from traceanalyzer.sections.story import BASE, HEAD

_LANES = {
    "host": Text("before-after-host", "CPU", "a thread of the host"),
    "device": Text("before-after-device", "GPU {device}", "device is a number"),
}
_OF_RANK = Text("before-after-rank", "{side}, rank {rank}", "side is Before or After")
_ANOTHER = Text("before-after-thread", "Thread 2", "another thread of the host")
TONES = {
    "cpu_exec": Text("before-after-operators", "Operators", "what a colour means, in a picture of a step"),
    "communication": Text("before-after-communication", "Communication", "what a colour means"),
    "dataloader": Text("before-after-loader", "Waits for the DataLoader", "what a colour means"),
    "runtime": Text("before-after-waits", "Long runtime calls, such as waits", "what a colour means"),
    "kernel": Text("before-after-kernels", "Kernels", "what a colour means"),
    "memcpy": Text("before-after-copies", "Copies and fills", "what a colour means"),
}
"""Meanings of colours in a step, in the order in which they are drawn."""
_SAME_AS = {"host": "cpu_exec", "device": "kernel", "synchronization": "runtime"}
"""Colours of the parts of printed tables."""
_OVERLAP = ("host", "device")
"""Parts of printed tables that are drawn; they overlap, so each has a bar."""
_TICKS, _ROUND = 6, (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**4, 10**5, 10**6, 10**9)
GRID = 2000
"""Columns of the picture of a step."""
_WHOLE = 100
"""From so many of a unit on, times are written without decimals."""
MINUS = "\u2212"
_MUCH, _FAR, _NEGLIGIBLE = 3, 5, 200
"""From so many times as long on, a change is written as a factor, times have two units, and the shorter one is 0."""
_LEAST_BETTER, _LEAST_ALONE = 0.005, 0.05
"""Least share of the step that is coloured where a test says that it changed, and where none could (own choice)."""


@dataclass(frozen=True)
class StackPiece:
    """One part of a bar."""

    tone: str
    label: str
    value: str
    begin: float
    """Left end, as a share of the width."""
    width: float


@dataclass(frozen=True)
class Stack:
    """What a step of one side consists of, or one resource of a printed run."""

    label: str
    total: str
    pieces: tuple[StackPiece, ...]


@dataclass(frozen=True)
class SideStep:
    """One step of a side, as lanes."""

    label: str
    total: str
    lanes: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Label of each, and colours with their paths in columns of a grid."""


_SIDES = {"base": BASE, "head": HEAD}


def step_ns(difference: Difference) -> tuple[float | None, float | None]:
    """Mean time of a step on both sides in ns; of printed tables the profiled time."""
    times = difference.step_time
    if times is not None:
        return times.base.mean_ns, times.head.mean_ns
    known = [part for part in difference.parts if part.id in _OVERLAP]
    base, head = ([getattr(part, f"{side}_ns") for part in known] for side in ("base", "head"))
    return tuple(max((ns for ns in each if ns is not None), default=None) for each in (base, head))  # type: ignore[return-value]


def stacks(difference: Difference, language: Language) -> tuple[Stack, ...]:
    """A bar for each side, on one scale; of printed tables one for each resource of each side. Empty without parts."""
    if difference.step_time is not None:
        groups = [difference.parts]
    else:
        groups = [(part,) for part in difference.parts if part.id in _OVERLAP]
    sums = [_sum(group, side) for group in groups for side in _SIDES]
    longest = max(sums, default=0.0)
    if not longest:
        return ()
    times = UnitOfTimes.of(sums, language)
    return tuple(
        Stack(
            _stack_label(difference, group, side, language),
            alone(_sum(group, side), language),
            tuple(_pieces(group, side, longest, times, language)),
        )
        for group in groups
        for side in _SIDES
    )


def _sum(parts: Iterable[ChangedPart], side: str) -> float:
    """What some parts of a step take on a side, `base` or `head`, in ns."""
    return fsum(getattr(part, f"{side}_ns") or 0.0 for part in parts)


def _stack_label(difference: Difference, group: Sequence[ChangedPart], side: str, language: Language) -> str:
    label = language.text(_SIDES[side])
    if difference.step_time is not None:
        return label
    return f"{label}: {language.text(word(PART_LABELS, group[0].id))}"


def _pieces(
    parts: Sequence[ChangedPart], side: str, whole: float, times: UnitOfTimes, language: Language
) -> Iterator[StackPiece]:
    begin = 0.0
    for part in parts:
        time = getattr(part, f"{side}_ns") or 0.0
        if time > 0:
            label = language.text(word(PART_LABELS, part.id))
            yield StackPiece(tone(part.id), label, times.text(time), begin, time / whole)
            begin += time / whole


def tone(part: str) -> str:
    """The colour of a part of the step; that of the rest for a part of a later version."""
    return _SAME_AS.get(part, part if part in PALETTE else "other")


def sense(part: ChangedPart, difference: Difference) -> str:
    """Whether a change is `better` or `worse`; empty where it is small, or no more than noise for all that is known."""
    change_ns = part.change_ns or 0.0
    whole = step_ns(difference)[0] or 0.0
    is_open = part.clear is None and difference.verdict.outcome == "inconclusive"
    least = _LEAST_BETTER if part.clear else _LEAST_ALONE
    if part.clear is False or is_open or abs(change_ns) < least * whole:
        return ""
    return "better" if change_ns < 0 else "worse"


def strips(difference: Difference) -> tuple[StepStrip, ...]:
    """One step of each side; empty unless both have one."""
    views = (difference.base_view, difference.head_view)
    known = tuple(view.strip for view in views if view is not None and view.strip is not None)
    return known if len(known) == len(views) else ()


def steps(difference: Difference, language: Language) -> tuple[SideStep, ...]:
    """One step of each side with its lanes, on one scale; empty unless both sides have one."""
    shown = strips(difference)
    longest = max((strip.duration_ns for strip in shown), default=0)
    return tuple(
        SideStep(
            language.text(text) if strip.rank is None else language.text(_OF_RANK, side=text(), rank=strip.rank),
            alone(strip.duration_ns, language),
            tuple(_lane(strip, number, longest, language) for number in range(len(strip.lanes))),
        )
        for strip, text in zip(shown, (BASE, HEAD), strict=False)
    )


def _lane(strip: StepStrip, number: int, longest: int, language: Language) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A label, and a path for each colour; each piece is at least one column of the grid wide."""
    lane = strip.lanes[number]
    label = _ANOTHER if number and lane.kind == "host" else word(_LANES, lane.kind)
    if lane.kind == "device":
        label = _LANES["device"](device=lane.label)
    paths = []
    for band in lane.bands:
        ends = [(start * GRID // longest, -(-(start + ns) * GRID // longest)) for start, ns in band.spans]
        paths.append((css(band.tone), "".join(f"M{a} 0H{max(a + 1, b)}V1H{a}Z" for a, b in ends)))
    return clean(language.text(label)), tuple(paths)


def css(tone: str) -> str:
    """The name of a colour in the style of pages."""
    return tone.replace("_", "-")


def ticks(whole_ns: float, language: Language) -> tuple[tuple[float, str], ...]:
    """Round times below a picture: their places as shares of the width, and their texts."""
    in_unit = scale(language, whole_ns, "ns")
    whole = whole_ns / in_unit.factor
    size = next(size for size in _ROUND if whole / size <= _TICKS)
    digits = 0 if size >= 1 else 1
    places = (number * size for number in range(int(whole / size) + 1))
    return tuple((place / whole, in_unit.text(place * in_unit.factor, digits) if place else "0") for place in places)


@dataclass(frozen=True)
class UnitOfTimes:
    """Writes several times in one unit, with as many decimals as the largest needs for three digits."""

    scale: Scale
    digits: int

    @classmethod
    def of(cls, values: Iterable[float | None], language: Language) -> UnitOfTimes:
        """The unit of the largest of these times in ns."""
        in_unit = scale(language, largest := max((abs(v) for v in values if v is not None), default=0.0), "ns")
        count = largest / in_unit.factor
        return cls(in_unit, 0 if count >= _WHOLE or in_unit.factor == 1 else 1 if count >= _WHOLE / 10 else 2)

    def text(self, value: float) -> str:
        """A time with its unit."""
        return f"{self.number(value)}\u00a0{self.scale.label}"

    def number(self, value: float) -> str:
        """A time without its unit."""
        shown = self.scale.number(value, self.digits)
        return shown if shown.strip("-0.,") else "0"

    def signed(self, value: float) -> str:
        """A change with its sign and unit."""
        shown = self.text(abs(value))
        return shown if self.number(value) == "0" else f"{'+' if value > 0 else MINUS}{shown}"


def alone(ns: float, language: Language) -> str:
    """A time in the unit that fits it."""
    return UnitOfTimes.of((ns,), language).text(ns)


def share(value: float) -> str:
    """A change in whole percent with its sign, such as -23 %."""
    return f"{'+' if value > 0 else MINUS if value < 0 else ''}{abs(100 * value):.0f}\u00a0%"


def in_short(difference: Difference, language: Language) -> str:
    """The times of a step, such as 152 to 117 ms (-23 %); empty without them, and for different programs.

    Sides that cannot be compared have no share.
    """
    base, head = step_ns(difference)
    if difference.comparability.is_unrelated or not base or head is None:
        return ""
    shown = change(base, head, language)
    if difference.comparability.obstacle is not None:
        return shown
    ratio = head / base
    much = f"\u00d7{language.quantity(ratio, 'factor')}" if ratio > _MUCH else share(ratio - 1)
    return f"{shown} ({much})"


def change(base: float, head: float, language: Language) -> str:
    """Two times in ns, such as 152 to 117 ms, each with its own unit where they are far apart."""
    times = UnitOfTimes.of((base, head), language)
    small, large = sorted((base, head))
    if small * _FAR < large <= small * _NEGLIGIBLE and small < times.scale.factor:
        return f"{alone(base, language)} \u2192 {alone(head, language)}"
    return f"{times.number(base)} \u2192 {times.text(head)}"
