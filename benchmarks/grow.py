"""Grow a trace to a given size: ``python -m benchmarks.grow TRACE OUT --mb N``.

The replica keeps the writer's layout byte for byte, because a reader's speed depends on it: the first copy
is the source's own text, and each further copy is the same text with the numbers in it replaced.

* Times move by the trace's span, rounded up to a whole microsecond, so the decimals stay as written.
* Ids are fresh in each copy and still link the same events: every key of a family moves by the same stride.
* ``ProfilerStep#N`` continues; addresses, durations, pids, tids and streams stay.
* Metadata events (``ph: M``), the header and whatever follows the events are written once.
"""

import argparse
import gzip
import json
import math
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

# Key of an event or of its args -> family. The keys of one family share one number space: a runtime event
# without an op carries its correlation as External id, and a launch's flow carries it as id.
FAMILIES = {
    "ts": "time",
    "external ts": "time",
    "External id": "link",
    "external id": "link",
    "correlation": "link",
    "wait_on_cuda_event_record_corr_id": "link",
    "id": "link",  # only in flow events; in other events "id" has another meaning
    "Python id": "python",
    "Python parent id": "python",
    "Record function id": "record function",
    "Ev Idx": "index",
    "Sequence number": "sequence",
    "Seq": "collective",
}
ZERO_IS_NONE = {"link", "python", "record function"}  # here 0 means "no such event" and stays 0
FLOW_PHASES = {"s", "t", "f"}
INT64_NS = 2**63

STEP = r'|"ProfilerStep#(?P<step>\d+)"'
VALUE = r'\s*:\s*"?(?P<number>\d+)'
FLOW_NUMBERS = re.compile(f'"(?P<key>{"|".join(FAMILIES)})"{VALUE}{STEP}')
PLAIN_NUMBERS = re.compile(f'"(?P<key>{"|".join(key for key in FAMILIES if key != "id")})"{VALUE}{STEP}')
EVENT_LIST = re.compile(r'"traceEvents"\s*:\s*\[')
UNSUPPORTED_TIME = re.compile(r'"ts"\s*:\s*"?(-|[\d.]+[eE])')
WHITE_SPACE = re.compile(r"[ \t\r\n]*")


class Number(NamedTuple):
    """One number that changes from copy to copy, and its place in the text."""

    start: int
    end: int
    family: str
    value: int


class Event(NamedTuple):
    """One event of the source: its place in the text, the separator before it, and facts for copying."""

    separator_start: int
    start: int
    end: int
    phase: str
    start_us: Decimal | None
    end_us: Decimal | None


@dataclass(frozen=True)
class Grown:
    """Facts about the grown trace."""

    copies: int
    """Number of copies of the source's events, including the source itself."""
    events: int
    """Events in the file, metadata events included."""
    size_bytes: int
    source_bytes: int
    """Size of the source, unzipped."""


@dataclass(frozen=True)
class Template:
    """A trace taken apart: the source's text, and the text of one copy as pieces around its numbers."""

    head: str
    """The source up to the end of its last event: header, first copy."""
    tail: str
    """The rest of the source."""
    pieces: list[str]
    """Text of a copy, alternating with its numbers: one piece more than there are numbers."""
    numbers: list[int]
    """The source's numbers."""
    strides: list[int]
    """Increment of each number from one copy to the next."""
    head_events: int
    copy_events: int
    last_us: int
    span_us: int

    def copies(self) -> Iterator[str]:
        """An endless iterator over the second, third, ... copy of the events, each with the separator before it."""
        parts = [""] * (2 * len(self.numbers) + 1)
        parts[::2] = self.pieces
        numbers = self.numbers
        while True:
            numbers = list(map(operator.add, numbers, self.strides))
            parts[1::2] = map(str, numbers)
            yield "".join(parts)


def read_text(path: Path) -> str:
    """The text of a trace, unzipped if need be; undecodable bytes survive the round trip."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return data.decode("utf-8", "surrogateescape")


def split_events(text: str) -> list[Event]:
    """Where each event of the trace stands. Raises ValueError when the event list is not valid JSON."""
    found = EVENT_LIST.search(text)
    position = found.end() if found else _skip_space(text, 0) + 1
    if not found and text[position - 1 : position] != "[":
        raise ValueError("no traceEvents in this file")
    decode = json.JSONDecoder(strict=False, parse_float=Decimal).raw_decode
    events: list[Event] = []
    separator_start = position
    start = _skip_space(text, position)
    while text[start : start + 1] != "]":
        fields, end = decode(text, start)
        events.append(_event(separator_start, start, end, fields))
        separator_start = end
        comma = _skip_space(text, end)
        start = _skip_space(text, comma + 1) if text[comma : comma + 1] == "," else comma
        if start == comma and text[start : start + 1] != "]":
            raise ValueError(f"the event list is broken at character {start}")
    return events


def _event(separator_start: int, start: int, end: int, fields: dict[str, Any]) -> Event:
    """The event at this place with this content."""
    start_us = Decimal(fields["ts"]) if "ts" in fields else None
    duration = fields.get("dur")
    end_us = start_us + duration if start_us is not None and isinstance(duration, int | Decimal) else start_us
    return Event(separator_start, start, end, fields.get("ph", ""), start_us, end_us)


def _skip_space(text: str, position: int) -> int:
    """The first position at or after this one that holds no white space."""
    found = WHITE_SPACE.match(text, position)
    return found.end() if found else position


def find_numbers(text: str, event: Event) -> Iterator[Number]:
    """The numbers of an event that change from copy to copy, in the order of the text."""
    pattern = FLOW_NUMBERS if event.phase in FLOW_PHASES else PLAIN_NUMBERS
    for match in pattern.finditer(text, event.start, event.end):
        group = "step" if match["step"] else "number"
        family = "step" if match["step"] else FAMILIES[match["key"]]
        value = int(match[group])
        if value or family not in ZERO_IS_NONE:
            yield Number(match.start(group), match.end(group), family, value)


def bounds_us(events: list[Event]) -> tuple[int, int]:
    """First start and last end, rounded outwards to whole microseconds."""
    starts = [event.start_us for event in events if event.start_us is not None]
    ends = [event.end_us for event in events if event.end_us is not None]
    return math.floor(min(starts, default=Decimal(0))), math.ceil(max(ends, default=Decimal(0)))


def take_apart(text: str) -> Template:
    """Prepare a trace for copying. Raises ValueError for a trace that cannot be grown."""
    if UNSUPPORTED_TIME.search(text):
        raise ValueError("timestamps that are negative or have an exponent cannot be shifted in place")
    events = split_events(text)
    repeated = [event for event in events if event.phase != "M"]
    if not repeated:
        raise ValueError("the trace has no events to repeat")
    numbers: list[Number] = []
    pieces: list[str] = []
    literal = text[events[1].separator_start : events[1].start] if len(events) > 1 else ","
    for index, event in enumerate(repeated):
        position = event.separator_start if index else event.start
        for number in find_numbers(text, event):
            pieces.append(literal + text[position : number.start])
            literal, position = "", number.end
            numbers.append(number)
        literal += text[position : event.end]
    pieces.append(literal)

    first_us, last_us = bounds_us(repeated)
    strides = _strides(numbers) | {"time": last_us - first_us}
    return Template(
        head=text[: events[-1].end],
        tail=text[events[-1].end :],
        pieces=pieces,
        numbers=[number.value for number in numbers],
        strides=[strides[number.family] for number in numbers],
        head_events=len(events),
        copy_events=len(repeated),
        last_us=last_us,
        span_us=last_us - first_us,
    )


def _strides(numbers: list[Number]) -> dict[str, int]:
    """For each family the smallest stride that keeps the numbers of two copies apart."""
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    for number in numbers:
        lowest[number.family] = min(number.value, lowest.get(number.family, number.value))
        highest[number.family] = max(number.value, highest.get(number.family, number.value))
    return {family: highest[family] - lowest[family] + 1 for family in lowest}


def grow(source: Path, target: Path, megabytes: float) -> Grown:
    """Write a replica of at least this many MB (1e6 bytes), and never less than the source itself."""
    template = take_apart(read_text(source))
    head = template.head.encode("utf-8", "surrogateescape")
    tail = template.tail.encode("utf-8", "surrogateescape")
    source_bytes = size = len(head) + len(tail)
    copies = 1
    with target.open("wb") as file:
        file.write(head)
        for text in template.copies():
            if size >= megabytes * 1e6:
                break
            if (template.last_us + copies * template.span_us) * 1000 >= INT64_NS:
                raise ValueError("the trace's times are too far apart to be repeated this often")
            size += file.write(text.encode("utf-8", "surrogateescape"))
            copies += 1
        file.write(tail)
    return Grown(copies, template.head_events + (copies - 1) * template.copy_events, size, source_bytes)


def main() -> None:
    """Grow a trace as the command line asks; returns the exit code."""
    parser = argparse.ArgumentParser(description="Grow a trace to a given size, in its own layout.")
    parser.add_argument("source", type=Path, metavar="TRACE", help="a trace, .json or .json.gz")
    parser.add_argument("target", type=Path, metavar="OUT", help="the replica, plain JSON")
    parser.add_argument("--mb", type=float, required=True, help="size to reach, in MB of 1,000,000 bytes")
    options = parser.parse_args()
    if options.target.exists() and options.target.samefile(options.source):
        parser.error("OUT is TRACE itself")
    try:
        grown = grow(options.source, options.target, options.mb)
    except ValueError as error:
        parser.exit(1, f"{options.source} cannot be grown: {error}\n")
    print(f"Wrote {options.target}: {grown.size_bytes} bytes, {grown.events} events, {grown.copies} copies.")


if __name__ == "__main__":
    main()
