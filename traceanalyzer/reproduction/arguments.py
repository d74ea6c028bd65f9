"""Recorded inputs as arguments in Python: tensors with shapes, types and strides, and values as they were recorded."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from traceanalyzer.knowledge.inputs import Dims, Inputs, Shape, TensorList, integers

TYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
"""Types of tensors in torch, by what the profiler writes."""
_LISTS = ("TensorList", "GenericList")
_INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})
_SMALLEST = 127
"""Largest value of the shortest integers."""
_BY_INDEX = ("index", "_index", "_unsafe_index")
"""Operators whose list of tensors has indices."""
_CLASSES = ("nll_loss", "cross_entropy", "multi_margin")
"""Operators whose integers are classes, of which the second axis has so many."""
_MOVES = ("copy_", "_to_copy", "to", "clone")
"""Operators whose tensors may be on several devices."""
_BY_AXIS = ("gather", "scatter", "index_select", "index_add", "index_copy", "index_fill", "take_along_dim")
"""Operators whose integers are positions along the axis that the second argument names."""
UNKNOWN = "..."
"""What stands for a value that was not recorded; the program takes the default of the operator, else None."""


@dataclass(frozen=True)
class RecordedTensor:
    """A tensor of a call."""

    shape: Shape
    kind: str
    """Its type in torch."""
    strides: Shape | None
    """Its strides; None if they are as new tensors have them, or were not recorded."""

    @property
    def is_contiguous(self) -> bool:
        """Whether it is laid out as a new tensor, as far as recorded."""
        return self.strides is None


@dataclass(frozen=True)
class RecordedArguments:
    """The arguments of a call."""

    texts: tuple[str, ...]
    """Each as an expression in Python, where `T` makes a tensor."""
    tensors: tuple[RecordedTensor, ...]
    unknown: tuple[str, ...]
    """What was not recorded, in words."""


def of(short: str, inputs: Inputs) -> RecordedArguments:
    """The arguments of a call of an operator, whose name has no `aten::`."""
    tensors: list[RecordedTensor] = []
    texts: list[str] = []
    unknown: dict[str, None] = {}
    below = _limit(short, inputs)
    for position, entry in enumerate(inputs.dims or ()):
        if isinstance(entry, TensorList):
            kind = "int64" if short.startswith(_BY_INDEX) else _main(inputs)
            members = [RecordedTensor(shape, kind, None) for shape in entry.shapes]
            tensors += members
            texts.append(f"[{', '.join(_text(member, below) for member in members)}]")
            unknown["types and strides of tensors in lists"] = None
        elif _is_tensor(entry, inputs.type(position), inputs):
            tensors.append(_tensor(entry, inputs.type(position), _strides_at(inputs, position)))
            texts.append(_text(tensors[-1], below))
        else:
            texts.append(_value(_value_at(inputs, position)))
            if inputs.type(position) in _LISTS and texts[-1] == UNKNOWN:
                unknown["lists of tensors"] = None
            elif inputs.values is None:
                unknown["values of arguments that are no tensors"] = None
    return RecordedArguments(tuple(texts), tuple(tensors), (*_about(short, tensors, inputs), *unknown))


def _strides_at(inputs: Inputs, position: int) -> Dims:
    return inputs.strides[position] if inputs.strides is not None and position < len(inputs.strides) else None


def _about(short: str, tensors: list[RecordedTensor], inputs: Inputs) -> Iterator[str]:
    yield "values of tensors (random here)"
    if any(tensor.kind in _INTEGERS for tensor in tensors):
        yield "indices (random within the shapes)"
    if short in _MOVES:
        yield "devices of tensors (all on one here)"
    if inputs.strides is None:
        yield "strides (contiguous here)"
    if inputs.types is None:
        yield "types (float32 here)"


def _is_tensor(entry: Dims, kind: str, inputs: Inputs) -> bool:
    return isinstance(entry, tuple) and (kind in TYPES or (inputs.types is None and bool(entry)))


def _tensor(shape: Dims, kind: str, strides: Dims) -> RecordedTensor:
    sizes = shape if isinstance(shape, tuple) else ()
    usable = isinstance(strides, tuple) and len(strides) == len(sizes) and not _is_usual(sizes, strides)
    return RecordedTensor(sizes, TYPES.get(kind, "float32"), strides if usable and isinstance(strides, tuple) else None)


def _is_usual(shape: Shape, strides: Shape) -> bool:
    """Whether strides are those of a new tensor; axes of one element may have any."""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _text(tensor: RecordedTensor, below: int) -> str:
    words = [_sizes(tensor.shape), repr(tensor.kind)]
    if tensor.strides is not None:
        words.append(_sizes(tensor.strides))
    if tensor.kind in _INTEGERS:
        words.append(f"below={below}")
    return f"T({', '.join(words)})"


def _sizes(sizes: Shape) -> str:
    return repr(tuple(map(int, sizes))).replace(" ", "")


def _value(text: str | None) -> str:
    """A value as an expression; only numbers, truth values, lists of them, and quoted texts can come of it."""
    if not text:  # nothing, a text, or a kind of value that is not recorded
        return UNKNOWN
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        value = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(text, text)
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    return repr(value)


def _main(inputs: Inputs) -> str:
    """The type of the first tensor that is no integer, which tensors in lists most likely have, too."""
    kinds = [TYPES[kind] for kind in inputs.types or () if kind in TYPES]
    return next((kind for kind in kinds if kind not in _INTEGERS and kind != "bool"), "float32")


def _limit(short: str, inputs: Inputs) -> int:
    """What random integers stay below, so that they are valid as indices."""
    shapes = [entry for entry in inputs.dims or () if isinstance(entry, tuple)]
    first: Shape = shapes[0] if shapes else ()
    if short.startswith("embedding_dense_backward"):
        return max(*(integers(_value_at(inputs, 2)) or ()), 1, 1)
    if short.startswith("embedding") and first:
        return max(first[0], 1)
    return _along(short, first, inputs) or _least([*shapes], of_classes=short.startswith(_CLASSES))


def _along(short: str, first: Shape, inputs: Inputs) -> int:
    """The size of the axis that the second argument names; 0 for operators that have no such argument."""
    axis = integers(_value_at(inputs, 1)) if short.startswith(_BY_AXIS) else None
    return first[axis[0]] if axis and -len(first) <= axis[0] < len(first) else 0


def _least(shapes: list[Shape], *, of_classes: bool) -> int:
    """The least size of any axis, or the number of classes."""
    sizes = (
        [shape[1] for shape in shapes if len(shape) > 1][:1] if of_classes else [s for shape in shapes for s in shape]
    )
    return max(min([*sizes, *([] if of_classes and sizes else [_SMALLEST])]), 1)


def _value_at(inputs: Inputs, position: int) -> str | None:
    return inputs.values[position] if inputs.values is not None and position < len(inputs.values) else None
