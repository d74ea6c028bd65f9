"""Texts that make a pattern work: what it repeats, many times over, and an end that does not fit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.patterns.counting import REPEATS, codes, parsed, walk

_TAILS = ("", "\x00", "!", "\n\n")
_EXAMPLES = {
    codes.CATEGORY_DIGIT: "0",
    codes.CATEGORY_NOT_DIGIT: "a",
    codes.CATEGORY_SPACE: " ",
    codes.CATEGORY_NOT_SPACE: "a",
    codes.CATEGORY_WORD: "a",
    codes.CATEGORY_NOT_WORD: ":",
}
_SINGLE = {codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN}


def pumped(pattern: re.Pattern[Any], length: int) -> Iterator[str]:
    """Texts of about this length, each once."""
    tree = parsed(pattern)
    seen: set[str] = set()
    for prefix, unit in _units(tree):
        body = unit * max(1, length // len(unit))
        for tail in _TAILS:
            for text in (prefix + body + tail, body + tail):
                if text not in seen:
                    seen.add(text)
                    yield text


def _units(tree: Any) -> list[tuple[str, str]]:
    """What to repeat, and what has to stand before it so that the pattern gets that far."""
    found: dict[tuple[str, str], None] = {}
    alphabet: dict[str, None] = {}
    for before, node in walk(tree):
        prefix = _sample(before)
        if node[0] in _SINGLE:
            alphabet.update(dict.fromkeys(_characters(node)))
        if node[0] in REPEATS:
            for text in (_sample([node]), _sample(node[1][2])):
                found.setdefault((prefix, text))
            for character in _characters(node[1][2][0]) if len(node[1][2]) == 1 and node[1][2][0][0] in _SINGLE else ():
                found.setdefault((prefix, character))
        if prefix:
            found.setdefault(("", prefix))
    whole = _sample(tree)
    found.setdefault(("", whole))
    found.setdefault(("", whole + " "))
    for character in alphabet:
        found.setdefault(("", character))
    letters = list(alphabet)[:6]
    for pair in (a + b for a in letters for b in letters if a != b):
        found.setdefault(("", pair))
    return [(prefix, unit) for prefix, unit in found if unit]


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
