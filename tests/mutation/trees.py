"""Damage to the structure of JSON: values, keys and elements, here and there or in every event at once."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.mutation.odd import TEXTS, odd_value

_MARK = "@@raw:{}@@"
_KEYS = (
    "ts",
    "dur",
    "name",
    "cat",
    "ph",
    "pid",
    "tid",
    "args",
    "id",
    "traceEvents",
    "deviceProperties",
    "",
    "schema_version",
)


class Document:
    """A JSON document with placeholders for tokens that are not JSON."""

    def __init__(self, data: bytes) -> None:
        self.root: Any = json.loads(data.decode("utf-8", "replace"), strict=False)
        self._raw: list[bytes] = []

    def raw(self, token: bytes) -> str:
        """Placeholder for a token until the document is written."""
        self._raw.append(token)
        return _MARK.format(len(self._raw) - 1)

    def to_bytes(self, rng: random.Random) -> bytes:
        """The document in some layout."""
        layout: dict[str, Any] = rng.choice(({}, {"indent": 1}, {"separators": (",", ":")}))
        data = json.dumps(self.root, **layout).encode()
        for number, token in enumerate(self._raw):
            data = data.replace(json.dumps(_MARK.format(number)).encode(), token)
        return data

    def some_place(self, rng: random.Random) -> tuple[Any, Any] | None:
        """A container and a key or index of it; all levels and branches have their chance."""
        box = self.root
        while True:
            if not isinstance(box, dict | list) or not box:
                return None
            key = rng.choice(list(box)) if isinstance(box, dict) else rng.randrange(len(box))
            if not isinstance(box[key], dict | list) or not box[key] or rng.random() < 0.1:
                return box, key
            box = box[key]

    def records(self, rng: random.Random) -> list[dict[str, Any]]:
        """The objects of some list: the events of a trace, the rows of an analysis; with their args or without."""
        lists = [found for found in _lists(self.root) if any(isinstance(entry, dict) for entry in found)]
        if not lists:
            return []
        chosen = [e for e in max(lists, key=len) if isinstance(e, dict)]
        if rng.random() < 0.3:
            chosen = [e for e in rng.choice(lists) if isinstance(e, dict)]
        inner = [e["args"] for e in chosen if isinstance(e.get("args"), dict)]
        return inner if inner and rng.random() < 0.5 else chosen


def _lists(value: Any) -> list[list[Any]]:
    if isinstance(value, list):
        return [value] + [found for entry in value if isinstance(entry, list) for found in _lists(entry)]
    return [found for entry in value.values() for found in _lists(entry)] if isinstance(value, dict) else []


Change = Callable[[random.Random, Document], None]


def odd_here(rng: random.Random, document: Document) -> None:
    """Some values are strange."""
    for _ in range(rng.choice((1, 2, 6))):
        if place := document.some_place(rng):
            box, key = place
            box[key] = document.raw(odd_value(rng))


def odd_everywhere(rng: random.Random, document: Document) -> None:
    """One key has a strange value in all records, or in some of them."""
    records = document.records(rng)
    if not records or not (first := rng.choice(records)):
        return
    key, share = rng.choice(list(first)), rng.choice((1, 1, 0.5, 0.05))
    token, many = document.raw(odd_value(rng)), rng.random() < 0.3
    others = [document.raw(odd_value(rng)) for _ in range(8)]
    for record in records:
        if key in record and rng.random() < share:
            record[key] = rng.choice(others) if many else token


def shift_numbers(rng: random.Random, document: Document) -> None:
    """One number is far off in some records: clocks that jump, counts that do not fit."""
    records = document.records(rng)
    keys = sorted({key for record in records[:300] for key, value in record.items() if _is_number(value)})
    if not keys:
        return
    key, share = rng.choice(keys), rng.choice((1, 0.5, 0.02))
    change = rng.choice(
        (
            lambda x: -x,
            lambda x: x * 1000,
            lambda x: x * 10**9,
            lambda x: x + 10**12,
            lambda x: 0,
            lambda x: 7,
            lambda x: x // 7,
            lambda x: x - 3e6,
            str,
            lambda x: x + rng.randrange(1000),
            lambda x: [x],
        )
    )
    for record in records:
        if _is_number(record.get(key)) and rng.random() < share:
            record[key] = change(record[key])


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def mix_keys(rng: random.Random, document: Document) -> None:
    """Keys are renamed, removed or there twice."""
    place = document.some_place(rng)
    records = document.records(rng) if rng.random() < 0.5 else []
    boxes = [b for b in (records if records else [place[0]] if place else []) if isinstance(b, dict) and b]
    if not boxes:
        return
    key, other = rng.choice(list(rng.choice(boxes))), rng.choice((*_KEYS, *TEXTS[:12]))
    action, share = rng.choice(("rename", "remove", "double", "copy")), rng.choice((1, 0.3))
    token = odd_value(rng)
    for box in boxes:
        if key in box and rng.random() < share:
            value = box[key] if action in ("double", "copy") else box.pop(key)
            if action in ("rename", "copy"):
                box[other] = value
            elif action == "double":
                box[
                    document.raw(json.dumps(key).encode() + b": " + (token or b"0") + b", " + json.dumps(key).encode())
                ] = box.pop(key)


def exchange(rng: random.Random, document: Document) -> None:
    """Exchange two values."""
    first, second = document.some_place(rng), document.some_place(rng)
    if first and second:
        (a, i), (b, j) = first, second
        a[i], b[j] = json.loads(json.dumps(b[j])), json.loads(json.dumps(a[i]))


def nest(rng: random.Random, document: Document) -> None:
    """A value is wrapped into lists or objects."""
    if place := document.some_place(rng):
        box, key = place
        for _ in range(rng.choice((1, 2, 50))):
            box[key] = rng.choice(([box[key]], {"args": box[key]}))


def disturb_list(rng: random.Random, document: Document) -> None:
    """Elements are reversed, repeated, removed, shuffled, or strangers among the others."""
    lists = [found for found in _lists(document.root) if found]
    if not lists:
        return
    chosen = max(lists, key=len) if rng.random() < 0.6 else rng.choice(lists)
    action = rng.randrange(6)
    if action == 0:
        chosen.reverse()
    elif action == 1:
        rng.shuffle(chosen)
    elif action == 2:
        chosen[:] = [entry for entry in chosen if rng.random() < 0.5]
    elif action == 3:
        chosen += chosen[: rng.randrange(len(chosen) + 1)]
    elif action == 4:
        chosen.clear()
    else:
        for _ in range(rng.choice((1, 20))):
            chosen.insert(rng.randrange(len(chosen) + 1), document.raw(odd_value(rng)))


def keep_one_kind(rng: random.Random, document: Document) -> None:
    """Remove events of one category, or all others."""
    records = document.records(rng)
    if not records or not isinstance(document.root, dict) or document.root.get("traceEvents") is None:
        return
    kinds = sorted({str(record.get("cat")) for record in records})
    kind, only = rng.choice(kinds), rng.random() < 0.3
    events = document.root["traceEvents"]
    document.root["traceEvents"] = [e for e in events if not isinstance(e, dict) or (str(e.get("cat")) == kind) == only]


def wrong_box(rng: random.Random, document: Document) -> None:
    """The whole is in the wrong container."""
    root = document.root
    events = root.get("traceEvents", []) if isinstance(root, dict) else root
    document.root = rng.choice(
        (
            [root],
            {"traceEvents": root},
            events,
            {"traceEvents": {"0": events}},
            {"a": root},
            {"traceEvents": [events]},
            {"traceEvents": events, "more": root},
            list(root.items()) if isinstance(root, dict) else dict(enumerate(root)),
        )
    )


_CHANGES: Sequence[Change] = (
    odd_here,
    odd_here,
    odd_everywhere,
    odd_everywhere,
    odd_everywhere,
    shift_numbers,
    shift_numbers,
    mix_keys,
    exchange,
    nest,
    disturb_list,
    keep_one_kind,
    wrong_box,
)


def _on_bytes(change: Change) -> Callable[[random.Random, bytes], bytes]:
    def damage(rng: random.Random, data: bytes) -> bytes:
        try:
            document = Document(data)
        except (ValueError, RecursionError):
            return data  # damaged before; blunter tools go on
        change(rng, document)
        return document.to_bytes(rng)

    damage.__name__ = change.__name__
    return damage


CHANGES = tuple(map(_on_bytes, _CHANGES))
