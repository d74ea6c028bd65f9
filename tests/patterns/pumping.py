"""Texts that make a pattern work: what it repeats, many times over, and an end that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.patterns.counting import REPEATS, codes, parsed, walk

_TAILS = ("", "\x00")
_REPEATS, _LENGTH = 9, 24
"""At the scale of 1: at least so often, and at least so many characters."""
_MANY = 2 * _LENGTH + 1
"""Repetitions from which on a bound is as good as none: not even the text of twice the scale reaches it."""
_EXAMPLES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: ":",
}
_SINGLE = {codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN}


def pumped(pattern: re.Pattern[Any], scale: int) -> Iterator[str]:
    """Texts in which something is repeated; with twice the scale the same ones, and twice as often."""
    tree = parsed(pattern)
    for prefix, unit in _units(tree):
        for tail in _TAILS:
            for head in dict.fromkeys((prefix, "")):
                yield head + unit * (scale * max(_REPEATS, _LENGTH // len(unit))) + tail


def _units(tree: Any) -> list[tuple[str, str]]:
    """Text to repeat, and text before it that the pattern needs to get that far."""
    found: dict[tuple[str, str], None] = {}
    for before, node in walk(tree):
        if not is_unbounded(node):
            continue
        body = node[1][2]
        prefix, inside = _sample(before), _characters(body[0]) if _is_single(body) else [_sample(body)]
        for unit in (*inside, prefix, prefix + inside[0]):
            found.setdefault((prefix, unit))
    found.setdefault(("", _sample(tree)))
    return [(prefix, unit) for prefix, unit in found if unit]


def is_unbounded(node: Any) -> bool:
    """Whether a node repeats something as often as it likes."""
    return node[0] in REPEATS and node[1][1] >= _MANY


def _is_single(body: Any) -> bool:
    return len(body) == 1 and body[0][0] in _SINGLE


def _sample(nodes: Any) -> str:
    """A text that the nodes match, as long as they look at nothing else."""
    text = ""
    for op, value in nodes:
        if op in _SINGLE:
            text += _characters((op, value))[0]
        elif op in REPEATS:
            least, most, body = value
            text += _sample(body) * max(least, min(1, most))
        elif op is codes.BRANCH:
            text += max((_sample(branch) for branch in value[1]), key=len)
        elif op is codes.SUBPATTERN:
            text += _sample(value[3])
        elif op is codes.ATOMIC_GROUP:
            text += _sample(value)
    return text


def _characters(node: Any) -> list[str]:
    """Some characters that a node takes, each kind once."""
    op, value = node
    if op is codes.LITERAL:
        return [chr(value)]
    if op is codes.NOT_LITERAL:
        return [c for c in "a 0:" if ord(c) != value]
    if op is codes.ANY:
        return ["a", " "]
    if value[0][0] is codes.NEGATE:
        taken = {chr(v) for o, v in value[1:] if o is codes.LITERAL}
        return [c for c in "a0 :" if c not in taken] or ["~"]
    found = []
    for kind, item in value:
        if kind is codes.LITERAL:
            found.append(chr(item))
        elif kind is codes.RANGE:
            found.append(chr(item[0]))
        else:
            found.append(_EXAMPLES[item])
    return list(dict.fromkeys(found))[:8]
