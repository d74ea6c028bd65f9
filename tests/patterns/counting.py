"""A regular expression engine that counts what it does, so that the cost of a pattern is a number and not a time.

It walks the pattern as Python's own parser reads it and backtracks as Python's own engine does, one character test
after another. It takes no short cut (Python's engine looks for a literal prefix first), so it never counts too little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from re import _constants as codes  # type: ignore[attr-defined]  # the only door to the parser
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

Then = Callable[[int], bool]
"""The rest of a pattern, which has to match after a position."""

SINGLE = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)
_ASCII, _DOTALL, _IGNORECASE, _MULTILINE = map(int, (re.ASCII, re.DOTALL, re.IGNORECASE, re.MULTILINE))
"""Numbers, because the flags of `re` take ten times as long to be compared."""
_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


class TooMuchError(Exception):
    """More steps than allowed."""


def parsed(pattern: re.Pattern[Any]) -> Any:
    """The pattern as the parser reads it; bytes are read as the text of the same numbers."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    return parser.parse(text, pattern.flags | (re.ASCII if isinstance(source, bytes) else 0))


class Counter:
    """One pattern on one text."""

    def __init__(self, pattern: re.Pattern[Any], text: str, limit: int) -> None:
        self.steps = 0
        self._tree = parsed(pattern)
        self._text, self._limit = text, limit
        self._flags = int(pattern.flags | (re.ASCII if isinstance(pattern.pattern, bytes) else 0))
        self._groups: dict[int, tuple[int, int]] = {}

    def run(self, method: str) -> list[tuple[int, int]]:
        """The spans that a method of a pattern finds: `match`, `fullmatch`, `search`, or a method that finds all."""
        end = len(self._text)
        if method in ("match", "fullmatch"):
            found = self._at(0, whole=method == "fullmatch")
            return [] if found is None else [(0, found)]
        spans, at = [], 0
        while at <= end:
            found = self._at(at)
            if found is None:
                at += 1
                continue
            spans.append((at, found))
            if method == "search":
                break
            at = max(found, at + 1)
        return spans

    def _at(self, start: int, *, whole: bool = False) -> int | None:
        """Where a match from this position ends."""
        ends: list[int] = []

        def finish(position: int) -> bool:
            if whole and position != len(self._text):
                return False
            ends.append(position)
            return True

        self._groups = {}
        return ends[-1] if self._nodes(self._tree.data, 0, start, finish, self._flags) else None

    def _step(self) -> None:
        self.steps += 1
        if self.steps > self._limit:
            raise TooMuchError

    def _nodes(self, nodes: list[Any], number: int, at: int, then: Then, flags: int) -> bool:
        self._step()
        if number == len(nodes):
            return then(at)
        op, value = nodes[number]

        def rest(position: int) -> bool:
            return self._nodes(nodes, number + 1, position, then, flags)

        if op in SINGLE:
            return self._fits(op, value, at, flags) and rest(at + 1)
        if op in REPEATS:
            return self._repeat(op, value, at, rest, flags)
        if op is codes.BRANCH:
            return any(self._nodes(branch.data, 0, at, rest, flags) for branch in value[1])
        if op is codes.SUBPATTERN:
            group, added, removed, body = value
            return self._group(group, body, at, rest, (flags | added) & ~removed)
        if op is codes.AT:
            return self._is_at(value, at, flags) and rest(at)
        if op in (codes.ASSERT, codes.ASSERT_NOT):
            return self._looks(value, at, flags) == (op is codes.ASSERT) and rest(at)
        if op is codes.ATOMIC_GROUP:
            ends: list[int] = []
            return self._nodes(value.data, 0, at, lambda p: not ends.append(p), flags) and rest(ends[-1])  # type: ignore[func-returns-value]
        if op is codes.GROUPREF:
            begin, end = self._groups[value]
            return self._text.startswith(self._text[begin:end], at) and rest(at + end - begin)
        raise NotImplementedError(op)

    def _group(self, group: int | None, body: Any, at: int, rest: Then, flags: int) -> bool:
        def leave(position: int) -> bool:
            before = self._groups.get(group or 0)
            self._groups[group or 0] = (at, position)
            if rest(position):
                return True
            if before is not None:
                self._groups[group or 0] = before
            return False

        return self._nodes(body.data, 0, at, leave, flags)

    def _repeat(self, op: Any, value: Any, at: int, rest: Then, flags: int) -> bool:
        least, most, body = value
        if len(body) == 1 and body[0][0] in SINGLE:
            return self._run(op, least, most, body[0], at, rest, flags)
        if op is codes.POSSESSIVE_REPEAT:
            ends: list[int] = []
            return self._again(codes.MAX_REPEAT, 0, value, at, lambda p: not ends.append(p), flags) and rest(ends[-1])  # type: ignore[func-returns-value]
        return self._again(op, 0, value, at, rest, flags)

    def _again(self, op: Any, done: int, value: Any, at: int, rest: Then, flags: int) -> bool:
        """The body once more, or what follows, in the order that the repeat prefers."""
        least, most, body = value

        def once(position: int) -> bool:
            is_idle = position == at and done >= least
            return not is_idle and self._again(op, done + 1, value, position, rest, flags)

        def more() -> bool:
            return done < most and self._nodes(body.data, 0, at, once, flags)

        if done < least:
            return more()
        if op is codes.MIN_REPEAT:
            return rest(at) or more()
        return more() or rest(at)

    def _run(self, op: Any, least: int, most: int, node: Any, at: int, rest: Then, flags: int) -> bool:
        """A repeat of single characters, as a loop."""
        end = at
        if op is codes.MIN_REPEAT:
            while end - at < most:
                if end - at >= least and rest(end):
                    return True
                if not self._fits(*node, end, flags):
                    return False
                end += 1
            return rest(end)
        while end - at < most and self._fits(*node, end, flags):
            end += 1
        if end - at < least:
            return False
        if op is codes.POSSESSIVE_REPEAT:
            return rest(end)
        return any(rest(position) for position in range(end, at + least - 1, -1))

    def _looks(self, value: Any, at: int, flags: int) -> bool:
        direction, body = value
        if direction >= 0:
            return self._nodes(body.data, 0, at, lambda _: True, flags)
        width = body.getwidth()[0]
        return at >= width and self._nodes(body.data, 0, at - width, lambda end: end == at, flags)

    def _fits(self, op: Any, value: Any, at: int, flags: int) -> bool:
        self._step()
        if at >= len(self._text):
            return False
        character = self._text[at]
        if op is codes.ANY:
            return bool(flags & _DOTALL) or character != "\n"
        cases = {character, character.lower(), character.upper()} if flags & _IGNORECASE else {character}
        if op is codes.IN:
            return _is_in(value, cases, flags)
        return any(ord(case) == value for case in cases if len(case) == 1) == (op is codes.LITERAL)

    def _is_at(self, where: Any, at: int, flags: int) -> bool:
        text = self._text
        if where in (codes.AT_BEGINNING, codes.AT_BEGINNING_STRING):
            return at == 0 or (bool(flags & _MULTILINE) and text[at - 1] == "\n")
        if where is codes.AT_END_STRING:
            return at == len(text)
        if where is codes.AT_END:
            return at == len(text) or text[at:] == "\n" or (bool(flags & _MULTILINE) and text[at] == "\n")
        before = at > 0 and _is_category(codes.CATEGORY_WORD, text[at - 1], flags)
        after = at < len(text) and _is_category(codes.CATEGORY_WORD, text[at], flags)
        return (before != after) == (where is codes.AT_BOUNDARY)


def _is_in(items: Any, cases: set[str], flags: int) -> bool:
    is_negated = items[0][0] is codes.NEGATE
    return any(_is_item(item, case, flags) for item in items for case in cases if len(case) == 1) != is_negated


def _is_item(item: Any, character: str, flags: int) -> bool:
    op, value = item
    if op is codes.LITERAL:
        return ord(character) == value
    if op is codes.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    return op is codes.CATEGORY and _is_category(value, character, flags)


def _is_category(category: Any, character: str, flags: int) -> bool:
    return re.fullmatch(_CATEGORIES[category], character, flags & _ASCII) is not None


def walk(nodes: Any) -> Iterator[tuple[list[Any], Any]]:
    """Every node below, each with the nodes before it on the way from the beginning."""
    before: list[Any] = []
    for node in nodes:
        yield before.copy(), node
        for body in bodies(node):
            for inner_before, inner in walk(body):
                yield [*before, *inner_before], inner
        before.append(node)


def bodies(node: Any) -> list[Any]:
    """The parts of a node that are sequences of nodes."""
    op, value = node
    if op in REPEATS:
        return [value[2]]
    if op is codes.BRANCH:
        return list(value[1])
    if op is codes.SUBPATTERN:
        return [value[3]]
    if op in (codes.ASSERT, codes.ASSERT_NOT):
        return [value[1]]
    return [value] if op is codes.ATOMIC_GROUP else []
