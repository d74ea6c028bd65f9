"""Lines of Python that made the nodes of CUDA graphs, as torch writes them beside a trace."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class StackFrame(msgspec.Struct, frozen=True):
    """A function that was active while a node was captured."""

    file: str
    """File as torch shortened it, relative to the working directory where it could be."""
    line: int
    function: str


class GraphStacks(msgspec.Struct, frozen=True):
    """Stacks of nodes of graphs."""

    name: str
    """Name of the file."""
    stacks: tuple[tuple[StackFrame, ...], ...] = ((),)
    """Distinct stacks, the outermost function first; the first one is empty."""
    of_node: Mapping[int, int] = {}
    """By id of a node, that of its graph above 32 bits, the position of its stack."""
