"""The labels of owners: one label for all slices of a kind and name with the same role."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from traceanalyzer.knowledge import python_frames
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.mark_labels import MANY, pattern
from traceanalyzer.structure.owners.candidates import OwnerKind
from traceanalyzer.structure.owners.roles import ROLE_IDS
from traceanalyzer.structure.owners.tree import OwnerTree
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tree import NO_PARENT

_INSTANCE = re.compile(r"^nn\.Module: (.*?)(?:_\d+)?$", re.DOTALL)
EVALUATION = "autograd::engine::evaluate_function: "
_KINDS = {
    OwnerKind.MARK: "mark",
    OwnerKind.BROADCAST: "mark",
    OwnerKind.MODULE: "module",
    OwnerKind.FUNCTION: "function",
    OwnerKind.LIBRARY: "library",
    OwnerKind.BUILT_IN: "function",
    OwnerKind.BACKWARD: "backward",
    OwnerKind.AUTOGRAD: "autograd",
    OwnerKind.OPERATOR: "operator",
    OwnerKind.CALL: "call",
}
AUTOGRAD = "autograd"


class Owner(msgspec.Struct, frozen=True):
    """One owner of host time."""

    kind: str
    """`mark`, `module`, `function` (of the program), `library` (a function of one), `backward` (of a module),
    `autograd` (in no recorded function), `operator` or `call`."""
    name: str
    """Name of the mark, class of the module, name of the function, operator or call."""
    role: str | None
    """What the work is for, one of `host_roles.ROLES`, `loader` or `compilation`; None if no name shows it."""
    file: str | None = None
    """File of the function, of that of a module's forward pass; None if no stack shows it."""
    line: int | None = None


_LEAVES = frozenset({"operator", "call"})


def place(own: Owner) -> str | None:
    """An owner in one line, as `train.py(12): step` or the name of a mark or module; None for operators and calls."""
    if own.kind in _LEAVES:
        return None
    if own.file is not None and own.line is not None and own.kind in ("function", "library"):
        return f"{own.file}({own.line}): {own.name}"
    return own.name


def labels(context: Context, nested: OwnerTree) -> tuple[tuple[Owner, ...], I64]:
    """The owners, and the number of the owner of each slice."""
    role = entries(nested.role, nested.tree.nearest(nested.role > 0), 0)  # its own, else that of the owner around
    name, kind = _callers(nested)
    first, of_slice = group(kind, name, role)
    keys = np.column_stack((kind, name, role))[first].tolist()
    found = _shared([_owner(context, nested, *key) for key in keys])
    numbers = {own: number for number, own in enumerate(dict.fromkeys(found))}
    return tuple(numbers), np.array([numbers[own] for own in found], np.int64)[of_slice]


def _callers(nested: OwnerTree) -> tuple[I64, I64]:
    """Name and kind of each slice; for built-in functions, those of the caller."""
    built_in = nested.kind == OwnerKind.BUILT_IN
    name, kind = nested.name, nested.kind.astype(np.int64)
    if not built_in.any():
        return name, kind
    caller = nested.tree.nearest(~built_in)
    return np.where(caller == NO_PARENT, name, name[caller]), np.where(caller == NO_PARENT, kind, kind[caller])


def _owner(context: Context, nested: OwnerTree, kind: int, name: int, role: int) -> Owner:
    own, told = OwnerKind(kind), ROLE_IDS[role]
    text = AUTOGRAD if own == OwnerKind.AUTOGRAD else context.trace.names[name]
    if own in (OwnerKind.MODULE, OwnerKind.BACKWARD):
        instance = _INSTANCE.match(text)
        forward = python_frames.parse(context.trace.names[nested.forward.get(name, NO_PARENT)])
        place = (None, None) if name not in nested.forward or forward is None else (forward.path, forward.line)
        return Owner(_KINDS[own], instance[1] if instance else text, told, *place)
    frame = python_frames.parse(text) if own in (OwnerKind.FUNCTION, OwnerKind.LIBRARY) else None
    if frame is not None:
        return Owner(_KINDS[own], frame.function, told, frame.path, frame.line)
    return Owner(_KINDS[own], text.removeprefix(EVALUATION), told)


def _shared(found: list[Owner]) -> list[Owner]:
    """Owners; where too many names differ in numbers only, these share one name with `*` for the numbers."""
    if len(found) <= MANY:
        return found
    alike: dict[tuple[str, str, str | None], set[str]] = {}
    for own in found:
        alike.setdefault((own.kind, pattern(own.name), own.file), set()).add(own.name)
    many = {key for key, names in alike.items() if len(names) > MANY}
    return [
        Owner(own.kind, pattern(own.name), own.role, own.file, own.line)
        if (own.kind, pattern(own.name), own.file) in many
        else own
        for own in found
    ]
