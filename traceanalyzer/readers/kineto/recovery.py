"""Reads damaged text one event at a time, so that one broken event loses only one event.

The fast path decodes a window of text as one JSON array; when that fails, the window comes here. Each
event is tried as it is, then with the repairs below, and is otherwise given up and counted; reading goes
on at the next place that looks like the border between two events.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from traceanalyzer.readers.kineto.events import ARGS_FIELDS, EVENT_FIELDS, NO_ARGS, NOT_JSON, Args, Event

_SURROGATES = re.compile("[\ud800-\udfff]")
_KEYS = "ph|cat|name|pid|tid|ts|dur|args|id|bp|s"
BORDER = re.compile(rb'\}\s*(,)\s*(?=\{\s*"(?:' + _KEYS.encode() + rb')"\s*:)')
"""Pattern of the border between two events, whatever the layout; group 1 is the comma."""

_START = re.compile(r'\{\s*"(?:' + _KEYS + r')"\s*:')
_TEXT_BORDER = re.compile(BORDER.pattern.decode())
_LAST_CLOSE = re.compile(r"\}(?=\s*+(?:,\s*+)?\])")
_END_OF_ARRAY = re.compile(r"\}\s*\](?=\s*[,}]|\s*$)")
_SEPARATOR = re.compile(r"[\s,]*")
_EVENT_KEY = re.compile(r'"ph"\s*:')

_BARE_WORD = re.compile(r"([:\[,]\s*)(?:-?[Ii]nf(?:inity)?|-?[Nn]a[Nn]|N/A|None|undefined)(?=\s*[,\]}])")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_TEXT_BEGINS = re.compile(r'"(?:name|cat)"\s*:\s*"')
_TEXT_ENDS = re.compile(r'"\s*(?:,\s*"(?:' + _KEYS + r')"\s*:|\})')
_UNESCAPED_QUOTE = re.compile(r'(?<!\\)((?:\\\\)*)"')

_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=lambda _: None, strict=False)
_LONGEST_LITERAL = len(r"\u0000")
"""A text that is cut within a literal or an escape fails at its beginning."""

_PIECE = 1 << 12
"""Characters that hold most events."""

_REPAIR_LIMIT = 1 << 20
"""Most characters of an event that is repaired."""


class Recovered(msgspec.Struct):
    """Events that could be read from a damaged window, and the losses."""

    events: list[Any] = []
    consumed: int = 0
    """Number of bytes that are done with; the rest waits for more text."""
    ended: bool = False
    """Whether the end of the array was seen, at `consumed`."""
    losses: Counter[str] = msgspec.field(default_factory=Counter)
    first_at: dict[str, int] = {}
    """Offset in bytes of the first occurrence of each loss, from the start of the window."""

    def lose(self, loss: str, at: int, count: int = 1) -> None:
        """Count events or bytes that were lost, and keep where this happened first."""
        self.losses[loss] += count
        self.first_at.setdefault(loss, at)


def recover(data: bytes, *, final: bool, make: Callable[[dict[str, Any]], Any] | None = None) -> Recovered:
    """Read the elements of an event array from text that does not decode as a whole.

    Args:
        data: Text that starts within the array, between two elements.
        final: No more text follows; an incomplete element at the end is then left unconsumed.
        make: From an object to what stands for it in `events`; `event_from` if None.
    """
    out = Recovered()
    text = data.decode("utf-8", "surrogateescape")
    at = 0
    while True:
        at = _SEPARATOR.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches nothing, too
        if at >= len(text):
            break
        if text[at] == "]":
            out.ended = True
            break
        following = _step(text, at, final, out, make or event_from)
        if following is None:
            break
        at = following
    out.consumed = _bytes(text, at)
    out.first_at = {loss: _bytes(text, first) for loss, first in out.first_at.items()}
    return out


def _step(text: str, at: int, final: bool, out: Recovered, make: Callable[[dict[str, Any]], Any]) -> int | None:
    """Read or lose the element at `at`. Returns where to go on, or None when it is incomplete."""
    value, end, repaired = _element(text, at)
    if end is None:
        if not final and len(text) - at < _REPAIR_LIMIT and _is_incomplete(text, at):
            return None
        border = _TEXT_BORDER.search(text, at)
        if border is None:
            return _end_of_array(text, at, final, out)
        lost = text[at : border.start(1)]
        out.lose("read-lost-event", at, _events_in(lost))
        return border.start(1)
    if not isinstance(value, dict):
        out.lose("read-not-an-event", at)
        return end
    if "ph" not in value and not _START.match(text, at):
        out.lose("read-not-an-event", at)
        return end
    if repaired:
        out.lose("read-repaired-event", at)
    out.events.append(make(value))
    return end


def _end_of_array(text: str, at: int, final: bool, out: Recovered) -> int | None:
    """The last element is broken: an end of array after it tells a damaged event from a cut file."""
    end = _END_OF_ARRAY.search(text, at) if final else None
    if end is None:
        return None
    out.lose("read-lost-event", at, _events_in(text[at : end.end()]))
    return end.end() - 1


def _events_in(lost: str) -> int:
    """Number of events in a damaged text; two that share a damaged border are two."""
    return max(1, len(_EVENT_KEY.findall(lost)))


def _element(text: str, at: int) -> tuple[Any, int | None, bool]:
    """Decode the JSON value at `at`, with repairs if it needs them: value, its end, was it repaired."""
    try:
        value, decoded_to = _decode(text, at)
    except (ValueError, RecursionError):
        pass
    else:
        return value, decoded_to, not _is_strict(text[at:decoded_to])
    border = _TEXT_BORDER.search(text, at)
    end = border.start(1) if border else _closing(text, at)
    if end is None or end - at > _REPAIR_LIMIT:
        return None, None, False
    repaired = repair(text[at:end])
    try:
        value, used = _DECODER.raw_decode(repaired)
    except (ValueError, RecursionError):
        return None, None, False
    # The rest would be lost without a warning.
    return (value, end, True) if not repaired[used:].strip() else (None, None, False)


def _is_incomplete(text: str, at: int) -> bool:
    """Whether the text ends before the element does: the cut may lie in a list of objects, or in a string."""
    try:
        _decode(text, at)
    except json.JSONDecodeError as error:
        return _is_cut(error)
    except (ValueError, RecursionError):
        return False
    return False


def _decode(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at `at`, and its end.

    The decoder gets a piece of the text, and a longer one while that ends within the value: its errors count the
    lines of what it got, which takes as long as all the text for each of many broken events.

    Raises:
        ValueError: It is not a JSON; a `JSONDecodeError` that `_is_cut` if the text ends before the value does.
        RecursionError: It is nested too deep.
    """
    size = _PIECE
    while size < min(_REPAIR_LIMIT, len(text) - at):
        piece = text[at : at + size]
        try:
            value, end = _DECODER.raw_decode(piece)
        except json.JSONDecodeError as error:
            if not _is_cut(error):
                raise
        else:
            if end < len(piece):
                return value, at + end
        size *= 8
    return _DECODER.raw_decode(text, at)


def _is_cut(error: json.JSONDecodeError) -> bool:
    """Whether it was the end of the text that the decoder stumbled over."""
    return error.pos >= len(error.doc) - _LONGEST_LITERAL or error.msg.startswith("Unterminated string")


def _closing(text: str, at: int) -> int | None:
    """Where the last element of the array ends, if the array ends in this text."""
    end = _LAST_CLOSE.search(text, at)
    return end.end() if end else None


def _is_strict(chunk: str) -> bool:
    """Whether the text is JSON as it stands: the lenient decoder also takes NaN, control characters, any bytes."""
    try:
        msgspec.json.decode(chunk.encode(), type=Raw)
    except (*NOT_JSON, UnicodeEncodeError):
        return False
    return True


def repair(chunk: str) -> str:
    """Repair what is known to go wrong in one event.

    Bare words where a number belongs (Infinity, N/A), lone backslashes, unescaped quotes in names (dynamo's
    code names until 2026), trailing commas.
    """
    chunk = _BARE_WORD.sub(r"\1null", chunk)
    chunk = _BARE_WORD.sub(r"\1null", chunk)  # neighbours share a comma, which one pass uses up
    chunk = _BAD_ESCAPE.sub(r"\\\\", chunk)
    return _TRAILING_COMMA.sub(r"\1", "".join(_quoted(chunk)))


def _quoted(chunk: str) -> Iterator[str]:
    """The chunk in pieces, with a backslash before the quotes within names; each place is examined once."""
    at = 0
    while (begin := _TEXT_BEGINS.search(chunk, at)) and (end := _TEXT_ENDS.search(chunk, begin.end())):
        yield chunk[at : begin.end()]
        yield _UNESCAPED_QUOTE.sub(r'\1\\"', chunk[begin.end() : end.start()])
        at = end.start()
    yield chunk[at:]


def event_from(value: dict[str, Any]) -> Event:
    """An event from an untyped object: odd values become text or are left out, nothing raises."""
    fields = {
        spec.name: _as_field(value[key], spec.type)
        for key, spec in EVENT_FIELDS.items()
        if key != "args" and value.get(key) is not None
    }
    args = value.get("args")
    return Event(**fields, args=_args_from(args) if isinstance(args, dict) else NO_ARGS)


def _args_from(value: dict[str, Any]) -> Args:
    return Args(
        **{
            spec.name: _as_field(value[key], spec.type)
            for key, spec in ARGS_FIELDS.items()
            if value.get(key) is not None
        }
    )


def _as_field(value: Any, kind: Any) -> Any:
    if kind is Raw:
        text = str(value) if isinstance(value, Decimal | int) else json.dumps(value, default=str)
        return Raw(_clean(text).encode())
    if kind is str:
        return _clean(value if isinstance(value, str) else str(value))
    if isinstance(value, Decimal):
        return float(value)
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    """Replace bytes that are not UTF-8, and halves of characters, by the replacement character."""
    return _SURROGATES.sub("\ufffd", text)


def _bytes(text: str, at: int) -> int:
    return len(text[:at].encode("utf-8", "surrogateescape"))
