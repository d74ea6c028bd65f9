"""Lines of Python that made the nodes of CUDA graphs, as torch writes them beside a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class StackFrame:
    """A function that was active while a node was captured."""

    file: str
    """File as torch shortened it, relative to the working directory where it could be."""
    line: int
    function: str


@dataclass(frozen=True)
class GraphStacks:
    """Stacks of nodes of graphs."""

    name: str
    """Name of the file."""
    stacks: tuple[tuple[StackFrame, ...], ...] = ((),)
    """Distinct stacks, the outermost function first; the first one is empty."""
    of_node: Mapping[int, int] = field(default_factory=dict)
    """By id of a node, that of its graph above 32 bits, the position of its stack."""
