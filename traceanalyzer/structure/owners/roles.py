"""Roles of slices of host threads, as far as their names show them."""

from __future__ import annotations

import numpy as np

from traceanalyzer.knowledge import host_roles
from traceanalyzer.structure import host_activity
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.owners.candidates import OwnerKind, Slices
from traceanalyzer.structure.sums import group
from traceanalyzer.trace.table import I64

ROLE_IDS = (None, *(role.id for role in host_roles.ROLES), host_roles.LOADER, host_roles.COMPILATION)
"""Ids by code; code 0 is none."""
_BY_FRAME = (OwnerKind.MODULE, OwnerKind.FUNCTION, OwnerKind.LIBRARY, OwnerKind.BUILT_IN)


def own_roles(context: Context, slices: Slices) -> I64:
    """For each slice the code of the role that its own name shows, 0 for none."""
    names = context.trace.names
    first, of_slice = group(slices.kind, slices.name)
    kinds = zip(slices.kind[first].tolist(), slices.name[first].tolist(), strict=True)
    told = [ROLE_IDS.index(_role(kind, names[name])) for kind, name in kinds]
    return np.array(told, np.int64)[of_slice]


def _role(kind: int, name: str) -> str | None:
    if kind == OwnerKind.BROADCAST:
        return host_roles.BUFFERS
    if kind == OwnerKind.MARK:
        return host_roles.COMPILATION if host_activity.is_compiling(name) else host_roles.of_mark(name)
    if kind in _BY_FRAME:
        return host_roles.COMPILATION if host_activity.is_compiling(name) else host_roles.of_frame(name)
    return None
