"""The inputs of a call as torch.profiler records them: the one place that parses these texts.

With `record_shapes=True` each event of an operator has up to four arguments, each a JSON list with one entry for each
input of the operator, in the order of its schema. The trace keeps the distinct texts; a printed table has shapes alone.

| argument | since torch | an entry |
|---|---|---|
| Input Dims | 1.8, there as Input dims | sizes in elements; `[]` for a tensor without axes and whatever is no tensor |
| Input type | 1.8 | C++ name of the type of a tensor's elements; `Scalar`, `ScalarList`, `TensorList`; else empty |
| Concrete Inputs | 2.1 | value of what is no tensor, as a text: `"1"`, `"0.5"`, `"True"`, `"[1, 1]"`; else empty |
| Input Strides | 2.4 | elements from one entry of an axis to the next; `[]` like sizes |

Since 2.2 a list of tensors has the sizes of each, one level deeper: `[[[8, 4], [4]], []]`. Earlier versions leave the
list empty, and all versions that of more than 30 tensors (`TENSOR_LIST_DISPLAY_LENGTH_LIMIT` in
torch/csrc/profiler/util.h). Early versions write `Int`, `GenericList` and the like as types. None is an empty text, and
a value may be any text, as the equation of `einsum` is.

Sources: https://github.com/pytorch/pytorch/pull/109751 (lists), https://github.com/pytorch/pytorch/pull/125851
(strides), torch/csrc/profiler/collection.cpp (which inputs have which entries).

Nothing here raises an error because of a text: files may be damaged, and other programs write them, too. What is not of
the form above is unknown, sizes that do not fit into an int64 (torch's type of sizes) included.

A trace may have millions of calls, but most have few distinct texts. So a text is parsed only when somebody asks, and
kept for the next one who does.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from sys import intern
from typing import Annotated, Any

import msgspec

from traceanalyzer.trace.model import Trace

Shape = tuple[int, ...]
"""Sizes of the axes of a tensor; () without axes."""

_KEPT = 1 << 14
"""Texts of sizes, and of types and values, that are kept parsed, the last ones asked for (own choice: a few MB)."""
_MOST = 2**63 - 1
_SHAPES = msgspec.json.Decoder(tuple[tuple[Annotated[int, msgspec.Meta(ge=0, le=_MOST)], ...], ...])
"""Reads what most texts are, shapes alone, and validates at C speed."""
_ELSEWHERE = {
    "__int64": "long int",
    "long long": "long int",
    "unsigned __int64": "unsigned long int",
    "unsigned long long": "unsigned long int",
}
"""Types of the same size by their names on Windows and Macs, and the names that compilers on Linux give them."""
_KEYWORD = re.compile(r"\b(?:struct|class) ")
"""What MSVC writes in front of types that are classes: `struct c10::BFloat16`."""
_ERRORS = (msgspec.DecodeError, RecursionError, UnicodeError)


class TensorList(msgspec.Struct, frozen=True):
    """The shapes of an input that is a list of tensors."""

    shapes: tuple[Shape, ...]


Dims = Shape | TensorList | None
"""What is known of an input: its shape (() for what is no tensor), the shapes of a list, or nothing."""


class Inputs(msgspec.Struct, frozen=True):
    """The inputs of one call, by position: its texts, and what they say when it is asked for."""

    input_dims: str | None = None
    """The argument Input Dims, or the column Input Shapes of a table; empty or None if it was not recorded."""
    input_type: str | None = None
    """The argument Input type; empty or None as above."""
    input_strides: str | None = None
    """The argument Input Strides; empty or None as above."""
    concrete_inputs: str | None = None
    """The argument Concrete Inputs; empty or None as above."""

    @classmethod
    def of(cls, trace: Trace, row: int) -> Inputs:
        """The inputs of a row of a trace's host table."""
        host = trace.host
        return cls(
            trace.shapes[host.shapes[row]],
            trace.types[host.types[row]],
            trace.strides[host.strides[row]],
            trace.concrete[host.concrete[row]],
        )

    @property
    def shapes(self) -> tuple[Shape, ...] | None:
        """The shape of each input, () for what is no tensor; None if one of them is unknown, or a list of tensors."""
        return _shapes(self.input_dims) if self.input_dims else None

    @property
    def dims(self) -> tuple[Dims, ...] | None:
        """What is known of each input; None if the text is not recorded or no list."""
        return _dims(self.input_dims) if self.input_dims else None

    @property
    def types(self) -> tuple[str, ...] | None:
        """The type of each input as on Linux, empty where it has none; None as for `dims`."""
        return _types(self.input_type) if self.input_type else None

    @property
    def strides(self) -> tuple[Dims, ...] | None:
        """The strides of each input in elements, as `dims` has sizes."""
        return _dims(self.input_strides) if self.input_strides else None

    @property
    def values(self) -> tuple[str, ...] | None:
        """The value of each input as text, empty for tensors and for None; None as for `dims`."""
        return _texts(self.concrete_inputs) if self.concrete_inputs else None

    @property
    def tensors(self) -> tuple[Shape, ...]:
        """The shapes of the inputs that have axes; none if `shapes` is unknown."""
        return tuple([shape for shape in self.shapes or () if shape])

    @property
    def every_shape(self) -> tuple[Shape, ...]:
        """The shapes of all inputs that have axes, those in lists of tensors as well."""
        lists = (dims.shapes if isinstance(dims, TensorList) else (dims or (),) for dims in self.dims or ())
        return tuple([shape for shapes in lists for shape in shapes if shape])

    def shape(self, position: int) -> Shape | None:
        """The shape of one input, () for what is no tensor; None for a list of tensors and if it is unknown."""
        dims = self.dims
        found = dims[position] if dims is not None and position < len(dims) else None
        return found if isinstance(found, tuple) else None

    def type(self, position: int) -> str:
        """The type of one input; empty if it has none or it is unknown."""
        types = self.types or ()
        return types[position] if position < len(types) else ""

    @property
    def largest(self) -> int:
        """Number of elements of the largest input, a list of tensors as a whole; 0 without any that has axes."""
        return max(map(_elements, self.dims or ()), default=0)


def integers(value: str | None) -> tuple[int, ...] | None:
    """The integers of a list such as `[1, 1]`, or of a single integer; None for any other value."""
    parsed = _parsed(value) if value else None
    numbers: list[Any] = parsed if isinstance(parsed, list) else [parsed]
    return tuple(numbers) if all(type(number) is int for number in numbers) else None


def flag(value: str | None) -> bool | None:
    """A boolean, None for any other value."""
    return {"True": True, "False": False}.get(value or "")


def flags(value: str | None) -> tuple[bool, ...] | None:
    """The booleans of a list such as `[True, False]`; None for any other value."""
    parsed = _parsed(value.lower()) if value else None
    return tuple(parsed) if isinstance(parsed, list) and all(isinstance(one, bool) for one in parsed) else None


@lru_cache(_KEPT)
def _shapes(text: str) -> tuple[Shape, ...] | None:
    try:
        return _SHAPES.decode(text)
    except _ERRORS:
        return None


def _dims(text: str) -> tuple[Dims, ...] | None:
    shapes = _shapes(text)
    return _lists(text) if shapes is None else shapes


@lru_cache(_KEPT)
def _lists(text: str) -> tuple[Dims, ...] | None:
    """What is known of each input where not all are shapes: there is a list of tensors, or the text is damaged."""
    entries = _parsed(text)
    return tuple(map(_shape_or_list, entries)) if isinstance(entries, list) else None


def _shape_or_list(entry: Any) -> Dims:
    shape = _shape(entry)
    if shape is not None or not isinstance(entry, list):
        return shape
    shapes = tuple([tensor for tensor in map(_shape, entry) if tensor is not None])
    return TensorList(shapes) if len(shapes) == len(entry) else None


def _shape(entry: Any) -> Shape | None:
    if not isinstance(entry, list) or not all(type(size) is int and 0 <= size <= _MOST for size in entry):
        return None
    return tuple(entry)


def _elements(dims: Dims) -> int:
    if isinstance(dims, TensorList):
        return sum(map(_elements, dims.shapes))
    return math.prod(dims) if dims else 0  # () stands for numbers and other values, too


@lru_cache(_KEPT)
def _texts(text: str) -> tuple[str, ...] | None:
    entries = _parsed(text)
    if not isinstance(entries, list):
        return None
    return tuple([intern(one) if isinstance(one, str) else "" for one in entries])  # a few occur in most texts


@lru_cache(_KEPT)
def _types(text: str) -> tuple[str, ...] | None:
    types = _texts(text)
    return None if types is None else tuple([_ELSEWHERE.get(one) or intern(_KEYWORD.sub("", one)) for one in types])


def _parsed(text: str) -> Any:
    """What a JSON text says; None for any other text."""
    try:
        return msgspec.json.decode(text)
    except _ERRORS:
        return None
