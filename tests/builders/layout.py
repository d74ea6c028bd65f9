"""How a trace is laid out as text: kineto's own writers, and tools that load and save it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import Literal

from .values import Event, Raw

Style = Literal["classic", "era_2021", "current", "minified", "spaced", "pretty"]


@dataclass(frozen=True)
class Layout:
    """One way to write a trace.

    `classic` is kineto until 2026, `era_2021` its first releases, `current` has one key per line;
    `minified`, `spaced` and `pretty` are what other JSON writers make of it.
    """

    style: Style = "classic"
    events: Literal["in place", "first", "last"] = "in place"
    distributed_last: bool = False
    reorder_keys: bool = False
    bare_array: bool = False


LAYOUTS: Mapping[str, Layout] = {
    "classic": Layout(),
    "era_2021": Layout("era_2021"),
    "current": Layout("current"),
    "minified": Layout("minified"),
    "spaced": Layout("spaced"),
    "pretty": Layout("pretty"),
    "keys_reordered": Layout("spaced", reorder_keys=True),
    "events_first": Layout("classic", events="first"),
    "events_last": Layout("minified", events="last"),
    "distributed_last": Layout("classic", distributed_last=True),
    "bare_array": Layout("classic", bare_array=True),
}

# Keys that kineto writes on one line, by phase; what a phase does not name follows on its last line.
_LINES: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "X": (("ph", "cat", "name", "pid", "tid"), ("ts", "dur")),
    "i": (("ph", "cat", "s", "name"), ("pid", "tid"), ("ts",)),
    "s": (("ph", "id", "pid", "tid", "ts"), ("cat", "name")),
    "f": (("ph", "id", "pid", "tid", "ts"), ("cat", "name", "bp")),
    "M": (("name", "ph", "ts", "pid", "tid"),),
}
_LINES_2021 = {**_LINES, "X": (("ph", "cat"), ("name", "pid", "tid"), ("ts", "dur"))}


def render(header: Mapping[str, object], events: list[Event], layout: Layout) -> bytes:
    """The whole file: `header` holds every top-level key in order, `traceEvents` marks the events' place."""
    if layout.reorder_keys:
        events = [dict(reversed(event.items())) for event in events]
    body = _events(events, layout.style)
    if layout.bare_array:
        return f"{body}\n".encode()
    parts = {key: body if key == "traceEvents" else _top_level(value, layout.style) for key, value in header.items()}
    return _object(_ordered(parts, layout), layout.style).encode()


def _ordered(parts: dict[str, str], layout: Layout) -> dict[str, str]:
    first = ["traceEvents"] if layout.events == "first" else []
    last = ["traceEvents"] if layout.events == "last" else []
    last += ["distributedInfo", "traceName"] if layout.distributed_last else []
    middle = [key for key in parts if key not in {*first, *last}]
    return {key: parts[key] for key in (*first, *middle, *last) if key in parts}


def _object(parts: Mapping[str, str], style: Style) -> str:
    colon, comma = (":", ",") if style == "minified" else (": ", ", ")
    members = [f'"{key}"{colon}{text}' for key, text in parts.items()]
    if style in {"minified", "spaced"}:
        return "{" + comma.join(members) + "}"
    indent = "    " if style == "current" else "  "
    return ("" if style == "pretty" else "\n") + "{\n" + indent + f",\n{indent}".join(members) + "\n}\n"


def _events(events: list[Event], style: Style) -> str:
    if style in {"minified", "spaced", "pretty"}:
        return _resaved(events, style)
    write = {"classic": _classic, "era_2021": _era_2021, "current": _current}[style]
    return "[\n  " + ",\n  ".join(map(write, events)) + "\n  ]"


def _top_level(value: object, style: Style) -> str:
    """A header value; kineto spreads the list of devices over several lines."""
    if style in {"classic", "era_2021", "current"} and isinstance(value, list) and value:
        return (
            "[\n    {\n      " + "\n    },\n    {\n      ".join(_members(item, item) for item in value) + "\n    }\n  ]"
        )
    return _resaved(value, style)


def _resaved(value: object, style: Style) -> str:
    """A value as another program writes it after loading a trace; kineto's own styles keep one line."""
    if style == "pretty":
        return _pretty(value, 2)
    return encode(value, compact=style == "minified", ascii_only=style in {"minified", "spaced"})


def _classic(event: Event, lines: Mapping[str, tuple[tuple[str, ...], ...]] = _LINES) -> str:
    groups = lines.get(str(event.get("ph")), _LINES["X"])
    rows = [_members(event, group) for group in _rows(groups, tuple(event))]
    text = ",\n    ".join(row for row in rows if row)
    if "args" in event:
        text += ",\n    " + _args(event["args"])
    return "{\n    " + text + "\n  }"


@cache
def _rows(groups: tuple[tuple[str, ...], ...], keys: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The keys of each line; those that no line names follow on the last one."""
    named = {key for group in groups for key in group}
    rest = tuple(key for key in keys if key not in named and key != "args")
    return (*groups[:-1], groups[-1] + rest)


def _era_2021(event: Event) -> str:
    return _classic(event, _LINES_2021)


def _current(event: Event) -> str:
    lines = [_members(event, (key,)) for key in event if key != "args"]
    text = ",\n    ".join(lines)
    if "args" in event:
        text += "\n    ,\n    " + _args(event["args"])
    return "{\n    " + text + "\n  }"


def _args(args: object) -> str:
    if isinstance(args, dict):
        return '"args": {\n      ' + _members(args, args) + "\n    }"
    return f'"args": {encode(args)}'


def _members(mapping: Mapping[str, object], keys: Iterable[str]) -> str:
    return ", ".join([_key(key) + encode(mapping[key]) for key in keys if key in mapping])


@lru_cache(10_000)
def _key(text: str) -> str:
    """Keys that occur in every event."""
    return _UNICODE(text) + ": "


def encode(value: object, *, compact: bool = False, ascii_only: bool = False) -> str:
    """JSON text of a value; a `Decimal` keeps its digits, except where Python's `json` would drop zeros."""
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is str:
        return _ASCII(value) if ascii_only else _UNICODE(value)
    if isinstance(value, dict):
        colon, comma = (":", ",") if compact else (": ", ", ")
        inner = [
            _string(key, ascii_only) + colon + encode(item, compact=compact, ascii_only=ascii_only)
            for key, item in value.items()
        ]
        return "{" + comma.join(inner) + "}"
    if isinstance(value, list | tuple):
        inner = [encode(item, compact=compact, ascii_only=ascii_only) for item in value]
        return "[" + ("," if compact else ", ").join(inner) + "]"
    return _scalar(value, ascii_only)


def _scalar(value: object, ascii_only: bool) -> str:
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Decimal):
        return _trimmed(value) if ascii_only else f"{value:f}"
    if isinstance(value, str):
        return _string(value, ascii_only)
    return json.dumps(value)


# `json.dumps` makes an encoder for each call that asks for other than its defaults.
_ASCII = json.JSONEncoder().encode
_UNICODE = json.JSONEncoder(ensure_ascii=False).encode


def _string(text: str, ascii_only: bool = False) -> str:
    return _ASCII(text) if ascii_only else _UNICODE(text)


def _trimmed(value: Decimal) -> str:
    """The number as Python prints it as a float: no zeros at the end, but one decimal at least."""
    text = f"{value:f}"
    if "." not in text:
        return text
    text = text.rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def _pretty(value: object, depth: int) -> str:
    if not isinstance(value, dict | list | tuple) or not value:
        return encode(value, ascii_only=True)
    margin, close = "  " * depth, "  " * (depth - 1)
    if isinstance(value, dict):
        rows = [f"{margin}{_string(key, True)}: {_pretty(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(rows) + f"\n{close}}}"
    rows = [margin + _pretty(item, depth + 1) for item in value]
    return "[\n" + ",\n".join(rows) + f"\n{close}]"
