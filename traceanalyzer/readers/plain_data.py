"""Reads plain data, pickled or as JSON: dicts, lists, tuples, texts, numbers. Nothing is imported or called.

The opcodes are those of Python's `pickletools`. All that names a global or calls something is refused, so a file cannot
run code. Containers, texts and what is remembered are paid for out of a budget, and a text cannot be longer than what
is left of the file, so a file cannot take much more memory than a few times its size. Large files are made smaller
while they are read: a function takes each finished dict and says what stands in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Any, NamedTuple

import msgspec

PROTOCOLS = tuple(bytes((0x80, version)) for version in range(2, 6))
"""How pickles begin."""
LEAST_BUDGET = 256 << 20
"""Bytes of memory that the containers and texts of any file may take."""
_PER_BYTE = 4
"""Bytes of memory that they may take for each byte of a large file."""
_CONTAINER, _ITEM, _TEXT, _REMEMBERED = 88, 104, 160, 20
"""Bytes that an empty container, an item of a dict, an empty text, and what remembers a value take in CPython."""
_JSON_VALUE = 120
"""Bytes that a value of JSON takes at most besides its text."""
DEEPEST = 40
"""Containers within containers; what torch writes has at most eight."""
_MOST_ON_STACK = 1 << 20
"""Values that belong to no container yet."""
_LONGEST_NUMBER = 16
"""Bytes of a number."""

_GET, _BYTE, _STOP = ord("h"), ord("K"), ord(".")
_CALLS = {
    **dict.fromkeys(b"ci\x93", "names code"),
    **dict.fromkeys(b"Rbo\x81\x92\x82\x83\x84", "calls code"),
    **dict.fromkeys(b"PQ\x97\x98", "refers to objects outside of it"),
}
"""Opcodes that plain data never has, and what they do."""
_INT, _FLOAT, _INDEX = Struct("<i"), Struct(">d"), Struct("<I")
_TEXTS = {**dict.fromkeys(b"\x8cUC", 1), **dict.fromkeys(b"XTB", 4), **dict.fromkeys(b"\x8d\x8e", 8)}
"""Opcodes of texts and bytes, and the sizes of their lengths."""
_CONSTANTS = {ord("N"): None, 0x88: True, 0x89: False}

_SIGNED = ord("J")
_GET_LONG, _LONG, _LIST, _MEMOIZE = ord("j"), 0x8A, ord("]"), 0x94
_ONE_GET = re.compile(b"h.|j....", re.DOTALL)
_ONE_NUMBER = re.compile(rb"K.|M..|J....", re.DOTALL)
_ONE_LIST = re.compile(rb"\]\(((?:K.|M..|J....){1,8}+)e", re.DOTALL)
_SIZES = re.compile(rb"\((?:\]\((?:K.|M..|J....){1,8}+e){1,4}+e", re.DOTALL)
"""The opcodes of a list of lists of numbers after its first one, as torch writes sizes of tensors."""
_GET_ONE = rb"(?:h.|j....)"
_GETS = rb"\]\x94?\((?:h.|j....){1,999}+e"
"""A list of what is remembered, not so long that more is appended to it."""
_NUMBERS = rb"K.|M..|J....|\x8a(?:\x03.{3}|\x04.{4}|\x05.{5}|\x06.{6}|\x07.{7}|\x08.{8}|\x09.{9})"
_VALUE = rb"h.|j....|[N\x88\x89]|" + _NUMBERS + b"|" + _GETS
_FLAT = re.compile(rb"\x94\(((?:" + _GET_ONE + rb"(?:" + _VALUE + rb")){2,16}+)u", re.DOTALL)
"""The opcodes of a dict after its first one whose keys are remembered, with plain values, as Python writes it."""
_FLAT_ITEM = re.compile(b"(" + _GET_ONE + b")(" + _VALUE + b")", re.DOTALL)
_MOST_LAYOUTS = 4
"""Layouts of dicts that are tried."""
_MOST_KNOWN = 4096
_MEMORY = "would take many times its size in memory"


Shrink = Callable[[dict[str, Any]], Any]
"""Takes a finished dict, and returns what stands in its place; None keeps it."""
ShrinkRow = Callable[[tuple[str, ...]], Callable[[list[Any]], Any] | None]
"""Takes the keys of dicts of plain values, and returns what takes their values instead of a dict; None: nothing."""


class NotPlainError(Exception):
    """A file holds more than plain data, is damaged, or would take too much memory; the text says which."""


def loads(data: bytes, shrink: Shrink | None = None, shrink_row: ShrinkRow | None = None) -> Any:
    """The plain data of a pickle.

    Args:
        data: The whole pickle.
        shrink: Is given each dict of several items once it is finished.
        shrink_row: Says how to do the same without a dict, for those of which there are very many.

    Raises:
        NotPlainError: It names or calls code, is damaged or cut, or takes more memory than it may.
    """
    machine = _Machine(data, shrink, shrink_row)
    try:
        return machine.run()
    except (IndexError, KeyError, StructError):
        raise NotPlainError("is damaged or cut") from None
    except (TypeError, ValueError, AttributeError):
        raise NotPlainError("holds data that torch does not write") from None


def loads_json(data: bytes) -> Any:
    """The content of a text of JSON.

    Raises:
        NotPlainError: It is damaged or cut, or may take many times its size.
    """
    count = sum(data.count(mark) for mark in (b",", b"[", b"{"))
    if count * _JSON_VALUE > max(LEAST_BUDGET, 8 * len(data)):
        raise NotPlainError(_MEMORY)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotPlainError("is damaged or cut") from None


class _Layout(NamedTuple):
    """How dicts with certain keys are written."""

    written: re.Pattern[bytes]
    """Their opcodes, the values as groups."""
    names: tuple[str, ...]
    row: Callable[[list[Any]], Any] | None
    """Makes them smaller, given their values; None if nothing does."""


class _Machine:
    """The stack machine of pickle, without what runs code."""

    def __init__(self, data: bytes, shrink: Shrink | None, shrink_row: ShrinkRow | None) -> None:
        self.data, self.shrink, self.shrink_row = data, shrink, shrink_row
        self.stack: list[Any] = []
        self.outer: list[list[Any]] = []
        """The stacks before each mark."""
        self.memo: list[Any] = []
        """What is remembered; picklers number it in the order in which they write it."""
        self.last_dict = 0
        """What the last dict is remembered by, if it is."""
        self.left = max(LEAST_BUDGET, _PER_BYTE * len(data))
        """What is left of the budget, bytes."""
        self.lists: dict[bytes, list[Any]] = {}
        """Lists of sizes that were read, by their opcodes."""
        self.known: dict[bytes, Any] = {}
        """Some of what is remembered and some numbers, by their opcodes."""
        self.layouts: list[_Layout] = []
        """Those of dicts with certain keys; that of the last dict is first."""
        self.handlers = self._table()

    def run(self) -> Any:
        """Execute the opcodes up to the end of the pickle."""
        data, handlers, memo, stack, at = self.data, self.handlers, self.memo, self.stack, 0
        while True:
            opcode = data[at]
            if opcode == _GET:  # nearly half of all opcodes
                stack.append(memo[data[at + 1]])
                at += 2
            elif opcode == _BYTE:
                stack.append(data[at + 1])
                at += 2
            elif opcode == _STOP:
                return stack.pop()
            else:
                at = handlers[opcode](at + 1)
                stack = self.stack

    def _table(self) -> list[Callable[[int], int]]:
        table: list[Callable[[int], int]] = [self._refuse] * 256
        for opcode in _TEXTS:
            table[opcode] = self._text
        for opcode in _CONSTANTS:
            table[opcode] = self._constant
        others: dict[bytes, Callable[[int], int]] = {
            b"\x80": self._protocol, b"\x95": self._frame, b"(": self._mark,
            b"}": self._dict, b"]": self._list, b")": partial(self._last, 0),
            b"s": self._set_item, b"u": self._set_items, b"a": self._append, b"e": self._appends,
            b"t": self._tuple, b"\x85": partial(self._last, 1), b"\x86": partial(self._last, 2),
            b"\x87": partial(self._last, 3), b"q": self._put, b"r": self._put_long,
            b"\x94": self._memoize, b"j": self._get_long, b"M": self._short,
            b"J": self._int, b"G": self._float, b"\x8a": self._long,
        }  # fmt: skip
        for letter, handler in others.items():
            table[letter[0]] = handler
        return table

    def _pay(self, cost: int) -> None:
        self.left -= cost
        if self.left < 0:
            raise NotPlainError(_MEMORY)

    def _refuse(self, at: int) -> int:
        does = _CALLS.get(self.data[at - 1])
        if does is None:
            raise NotPlainError("is damaged, or no pickle that torch writes")
        raise NotPlainError(f"{does}, which plain data never does, and is not opened")

    def _protocol(self, at: int) -> int:
        return at + 1

    def _frame(self, at: int) -> int:
        return at + 8

    def _mark(self, at: int) -> int:
        if len(self.outer) >= DEEPEST:
            raise NotPlainError(f"nests data more than {DEEPEST} deep, which torch does not")
        self.outer.append(self.stack)
        self.stack = []
        return at

    def _marked(self) -> list[Any]:
        """The values since the last mark."""
        values, self.stack = self.stack, self.outer.pop()
        return values

    def _push(self, value: Any) -> None:
        if len(self.stack) >= _MOST_ON_STACK:
            raise NotPlainError(_MEMORY)
        self.stack.append(value)

    def _constant(self, at: int) -> int:
        if len(self.stack) >= _MOST_ON_STACK:
            raise NotPlainError(_MEMORY)
        self.stack.append(_CONSTANTS[self.data[at - 1]])
        return at

    def _short(self, at: int) -> int:
        self.stack.append(self.data[at] | self.data[at + 1] << 8)
        return at + 2

    def _int(self, at: int) -> int:
        self.stack.append(_INT.unpack_from(self.data, at)[0])
        return at + 4

    def _float(self, at: int) -> int:
        self.stack.append(_FLOAT.unpack_from(self.data, at)[0])
        return at + 8

    def _long(self, at: int) -> int:
        size = self.data[at]
        if size > _LONGEST_NUMBER or at + size >= len(self.data):
            raise NotPlainError("holds a number longer than torch writes")
        self.stack.append(int.from_bytes(self.data[at + 1 : at + 1 + size], "little", signed=True))
        return at + 1 + size

    def _text(self, at: int) -> int:
        size = _TEXTS[self.data[at - 1]]
        length, start = int.from_bytes(self.data[at : at + size], "little"), at + size
        if start + length > len(self.data):
            raise NotPlainError("is damaged or cut")
        self._pay(_TEXT + 4 * length)
        self.stack.append(str(self.data[start : start + length], "utf-8", "replace"))
        return start + length

    def _dict(self, at: int) -> int:
        if self.shrink is not None and (end := self._flat(at, self.shrink)):
            return end
        self._pay(_CONTAINER)
        self.last_dict = len(self.memo)
        self._push({})
        return at

    def _list(self, at: int) -> int:
        self.left -= _CONTAINER
        if self.left < 0 or len(self.stack) >= _MOST_ON_STACK:
            raise NotPlainError(_MEMORY)
        if found := _SIZES.match(self.data, at):
            return self._sizes(found[0], found.end())
        self.stack.append([])
        return at

    def _sizes(self, written: bytes, end: int) -> int:
        """A list of short lists of numbers; equal ones are the same object, because most of a dump are such lists."""
        if (known := self.lists.get(written)) is None:
            self._pay(_CONTAINER * len(written))
            known = self.lists[written] = [
                [
                    int.from_bytes(number[1:], "little", signed=number[0] == _SIGNED)
                    for number in _ONE_NUMBER.findall(sizes)
                ]
                for sizes in _ONE_LIST.findall(written)
            ]
        self.stack.append(known)
        return end

    def _put_items(self, keys: Iterable[Any], values: list[Any]) -> None:
        self._pay(_ITEM * len(values))
        if set(map(type, keys)) - {str}:
            keys = [key if type(key) is str else str(int(key)) for key in keys]
        known = self.stack[-1]
        if type(known) is not dict:
            raise NotPlainError("is damaged, or no pickle that torch writes")
        known.update(zip(keys, values, strict=True))

    def _set_items(self, at: int) -> int:
        values = self._marked()
        self._put_items(values[::2], values[1::2])
        if self.shrink is not None:
            self._make_smaller(self.stack[-1], self.shrink)
        return at

    def _flat(self, at: int, shrink: Shrink) -> int:
        """Read a dict of plain values at once, and return where it ends; 0 if it is something else."""
        for place, layout in enumerate(self.layouts):
            if found := layout.written.match(self.data, at):
                if place:
                    self.layouts.insert(0, self.layouts.pop(place))
                break
        else:
            if not (found := self._learn(at)):
                return 0
        self.left -= _REMEMBERED
        if self.left < 0:
            raise NotPlainError(_MEMORY)
        place = len(self.memo)
        self.memo.append(None)
        known, plain, number = self.known, self._plain, int.from_bytes
        values = [
            known[written]
            if written in known
            else number(written[2:], "little", signed=True)  # addresses and times: a third of all values
            if written[0] == _LONG
            else plain(written)
            for written in found.groups()
        ]
        layout = self.layouts[0]
        if layout.row is not None:
            self.memo[place] = smaller = layout.row(values)
            self._push(smaller)
            return found.end()
        made = dict(zip(layout.names, values, strict=True))
        smaller = shrink(made)
        if smaller is None:
            self._pay(_CONTAINER + _ITEM * len(made))
            smaller = made
        self.memo[place] = smaller
        self._push(smaller)
        return found.end()

    def _learn(self, at: int) -> re.Match[bytes] | None:
        """Learn the layout of a dict of plain values; None if it is none."""
        if not (found := _FLAT.match(self.data, at)):
            return None
        keys = [key for key, _ in _FLAT_ITEM.findall(found[1])]
        names = tuple(map(self._plain, keys))
        if set(map(type, names)) != {str} or len(set(names)) < len(names):
            return None
        written = b"".join(re.escape(key) + b"(" + _VALUE + b")" for key in keys)
        layout = re.compile(rb"\x94\(" + written + b"u", re.DOTALL)
        row = None if self.shrink_row is None else self.shrink_row(names)
        self.layouts = [_Layout(layout, names, row), *self.layouts[: _MOST_LAYOUTS - 1]]
        return layout.match(self.data, at)

    def _plain(self, written: bytes) -> Any:
        """The value that these opcodes push."""
        opcode = written[0]
        if opcode == _LONG:
            return int.from_bytes(written[2:], "little", signed=True)
        if opcode == _LIST:
            return self._gets(written)
        if opcode in _CONSTANTS:
            return _CONSTANTS[opcode]
        number = int.from_bytes(written[1:], "little", signed=opcode == _SIGNED)
        value = self.memo[number] if opcode in (_GET, _GET_LONG) else number
        if len(self.known) < _MOST_KNOWN:
            self.known[written] = value
        return value

    def _gets(self, written: bytes) -> list[Any]:
        """A list of what is remembered; equal ones are the same object."""
        known = self.lists.get(written)
        if known is None:
            self._pay(_CONTAINER + 10 * len(written))
            start = written.index(b"(") + 1
            known = self.lists[written] = list(map(self._plain, _ONE_GET.findall(written, start)))
        if written[1] == _MEMOIZE:
            self.left -= _REMEMBERED
            self.memo.append(known)
        return known

    def _make_smaller(self, known: dict[str, Any], shrink: Shrink) -> None:
        """Put something else in the place of a finished dict."""
        smaller = shrink(known)
        if smaller is None:
            return
        self.left += _ITEM * len(known)
        self.stack[-1] = smaller
        if self.last_dict < len(self.memo) and self.memo[self.last_dict] is known:
            self.memo[self.last_dict] = smaller
        known.clear()  # the memo may know it

    def _set_item(self, at: int) -> int:
        value, key = self.stack.pop(), self.stack.pop()
        self._put_items([key], [value])
        return at

    def _extend(self, values: list[Any]) -> None:
        known = self.stack[-1]
        if type(known) is not list:
            raise NotPlainError("is damaged, or no pickle that torch writes")
        known += values

    def _appends(self, at: int) -> int:
        values = self.stack
        self.stack = self.outer.pop()
        self._extend(values)
        return at

    def _append(self, at: int) -> int:
        value = self.stack.pop()
        self._extend([value])
        return at

    def _tuple(self, at: int) -> int:
        self._pay(_CONTAINER)
        values = self._marked()
        self._push(tuple(values))
        return at

    def _last(self, count: int, at: int) -> int:
        """Put the last values into a tuple."""
        self._pay(_CONTAINER)
        if count > len(self.stack):
            raise NotPlainError("is damaged or cut")
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        self._push(tuple(values))
        return at

    def _put(self, at: int) -> int:
        self._remember(self.data[at])
        return at + 1

    def _put_long(self, at: int) -> int:
        self._remember(_INDEX.unpack_from(self.data, at)[0])
        return at + 4

    def _memoize(self, at: int) -> int:
        self._remember(len(self.memo))
        return at

    def _remember(self, index: int) -> None:
        self.left -= _REMEMBERED
        if self.left < 0 or index > len(self.memo):
            raise NotPlainError(_MEMORY)
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        else:
            self.memo[index] = self.stack[-1]
            self.known.clear()

    def _get_long(self, at: int) -> int:
        self.stack.append(self.memo[_INDEX.unpack_from(self.data, at)[0]])
        return at + 4
