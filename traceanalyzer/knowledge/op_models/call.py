"""One call of an operator as the profiler records it: shapes, types, strides, and values of other arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from itertools import chain, repeat

import msgspec

from traceanalyzer.knowledge import inputs
from traceanalyzer.knowledge.inputs import Dims, Inputs, Shape

_SIZES = {
    "double": 8,
    "float": 4,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "c10::Float8_e4m3fn": 1,
    "c10::Float8_e5m2": 1,
    "c10::Float8_e4m3fnuz": 1,
    "c10::Float8_e5m2fnuz": 1,
    "c10::Float8_e8m0fnu": 1,
    "c10::complex<double>": 16,
    "c10::complex<float>": 8,
    "c10::complex<c10::Half>": 4,
    "long int": 8,
    "long": 8,
    "unsigned long int": 8,
    "unsigned int": 4,
    "int": 4,
    "short int": 2,
    "short": 2,
    "signed char": 1,
    "unsigned char": 1,
    "char": 1,
    "bool": 1,
}
"""Bytes per element by the name that the profiler writes (C++ names of c10::ScalarType; MSVC says `long`)."""

_CODES = {
    5: "c10::Half",
    6: "float",
    7: "double",
    15: "c10::BFloat16",
    23: "c10::Float8_e5m2",
    24: "c10::Float8_e4m3fn",
}
"""Types by their number in c10/core/ScalarType.h, as in arguments such as `out_dtype`."""

_RANKS = ("bool", "char", "short", "int", "long", "Float8", "Half", "BFloat16", "float", "double", "complex")
"""Kinds of types in promotion order: the type of a result has the last kind among its operands."""


class Family(Enum):
    """Families of operators whose work is counted in the same way."""

    GEMM = "gemm"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    NORMALIZATION = "normalization"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"


class Work(msgspec.Struct, frozen=True):
    """Operations and bytes of a call, independent of the kernel."""

    family: Family
    flops: int
    """Floating-point operations; a multiplication and an addition are two."""
    bytes: int | None
    """Bytes of operands and results, each once; None if a type is not recorded."""
    dtype: str | None
    """Type of the main operands; None if it is not recorded."""


class Tensor(msgspec.Struct, frozen=True):
    """A tensor argument of a call."""

    shape: Shape
    dtype: str | None
    stored: int
    """Number of elements in memory: an expanded axis (stride 0) counts once."""

    @property
    def numel(self) -> int:
        """Number of elements by the shape."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int | None:
        """Bytes in memory; None if the type is unknown."""
        return size(self.stored, self.dtype)


class Call(msgspec.Struct, frozen=True):
    """The arguments of a call, by position."""

    name: str
    """Name of the operator without `aten::`."""
    arguments: tuple[Tensor | None, ...]
    """Tensors by position; None where the argument is not a tensor."""
    values: tuple[str, ...] | None
    """Values of other arguments as text, empty for tensors and for None; None if values were not recorded."""

    def tensor(self, position: int) -> Tensor | None:
        """The tensor at a position, or None."""
        return self.arguments[position] if position < len(self.arguments) else None

    @property
    def tensors(self) -> list[Tensor]:
        """All tensors of the call, in order."""
        return [argument for argument in self.arguments if argument is not None]

    def value(self, position: int) -> str | None:
        """The value at a position as text: empty for None and tensors; None if values were not recorded."""
        if self.values is None:
            return None
        return self.values[position] if position < len(self.values) else ""

    def integers(self, position: int) -> tuple[int, ...] | None:
        """The integers of a list, or of a single integer; None for anything else."""
        return inputs.integers(self.value(position))

    def flag(self, position: int) -> bool | None:
        """A boolean value, or None for anything else."""
        return inputs.flag(self.value(position))

    def flags(self, position: int) -> tuple[bool, ...] | None:
        """A list of booleans, or None for anything else."""
        return inputs.flags(self.value(position))

    def dtype(self, position: int) -> str | None:
        """The type that an argument names by its number, or None."""
        numbers = self.integers(position)
        return _CODES.get(numbers[0]) if numbers and len(numbers) == 1 else None


def call_of(name: str, given: Inputs) -> Call | None:
    """The call of an operator (with or without `aten::`) with some inputs; None if their shapes are unknown."""
    dims, types, strides = given.dims, given.types, given.strides or ()
    if dims is None:
        return None
    kinds = repeat(None) if types is None else chain(types, repeat(""))
    arguments = tuple(map(_argument, dims, kinds, chain(strides, repeat(None))))
    return Call(name.removeprefix("aten::"), arguments, given.values)


def size(elements: int, dtype: str | None) -> int | None:
    """Bytes of a number of elements of a type; None if the type is unknown."""
    width = _SIZES.get(dtype or "")
    return None if width is None else elements * width


def total(*sizes: int | None) -> int | None:
    """Sum of the numbers, or None if one of them is None."""
    known = [part for part in sizes if part is not None]
    return sum(known) if len(known) == len(sizes) else None


def read_bytes(tensors: Iterable[Tensor | None]) -> int | None:
    """Bytes of all tensors among the arguments."""
    return total(*(tensor.bytes for tensor in tensors if tensor is not None))


def promoted(tensors: Iterable[Tensor]) -> str | None:
    """The type of a result: that of the operand with the highest kind; tensors without axes are ignored."""
    operands = list(tensors)
    deciding = [t for t in operands if t.shape] or operands
    known = [t.dtype for t in deciding if t.dtype is not None]
    return max(known, key=_rank) if known and len(known) == len(deciding) else None


def is_complex(dtype: str | None) -> bool:
    """Whether a type is complex, so that a multiplication and addition take eight operations instead of two."""
    return dtype is not None and dtype.startswith("c10::complex")


def _rank(dtype: str) -> int:
    if dtype == "short int":
        return _RANKS.index("short")
    return max((rank for rank, part in enumerate(_RANKS) if part in dtype), default=0)


def _argument(shape: Dims, kind: str | None, strides: Dims) -> Tensor | None:
    """A tensor, or None: tensors have a type with a known size or, without recorded types, axes."""
    if not isinstance(shape, tuple):
        return None  # a list of tensors, or unknown
    if kind in _SIZES:
        return Tensor(shape, kind, _stored(shape, strides))
    return Tensor(shape, None, _stored(shape, strides)) if shape and kind != "" else None


def _stored(shape: Shape, strides: Dims) -> int:
    if not isinstance(strides, tuple) or len(strides) != len(shape):
        return math.prod(shape)
    return math.prod(n for n, step in zip(shape, strides, strict=True) if step != 0 or n == 0)
