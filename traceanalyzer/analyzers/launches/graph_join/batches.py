"""Which batch does a launch of a graph compute, and could a graph of another size have computed it?

Servers pad a batch to the smallest captured size that is large enough, run the graph of that size, and continue with
its output. So the size is at least the batch in the mark of the step, and if it is larger, an operator after the launch
has an input of that size.
"""

from __future__ import annotations

import msgspec
import numpy as np

from traceanalyzer.knowledge.framework_marks import StepMark
from traceanalyzer.knowledge.frameworks import step_mark
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I64, entries
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree

_NO_MARK = -1


class Batch(msgspec.Struct, frozen=True):
    """Evidence in a recording about the batch of one launch."""

    mark: StepMark
    """The mark of its step."""
    sizes: frozenset[int]
    """First dimensions of the inputs of two dimensions and more, of operators between the launch and the end of the
    step."""

    def is_held_by(self, size: int, needed: int) -> bool:
        """Whether a graph that was captured for a batch of one size may have computed a batch of another."""
        if size <= needed:
            return size == needed
        return size in self.sizes or needed not in self.sizes


class StepMarks:
    """The marks of a framework's steps around launches."""

    def __init__(self, context: Context) -> None:
        self._trace = context.trace
        host = context.trace.host
        rows = np.flatnonzero(host.category == Category.ANNOTATION)
        rows = rows[context.trace.names.where(_is_step)[host.name[rows]]]
        self._tree, order = Tree.build(host.thread[rows], host.start_ns[rows], host.dur_ns[rows])
        self._name = host.name[rows[order]]

    def codes(self, launches: I64) -> list[int]:
        """For each launch the code of the name of the innermost mark around it, or -1."""
        at = self._at(launches)
        codes: list[int] = entries(self._name, at, np.int32(_NO_MARK)).tolist()
        return codes

    def batch(self, launch: int) -> Batch | None:
        """The evidence about the batch of a launch; None without a mark."""
        position = int(self._at(np.array([launch]))[0])
        if position == NO_PARENT:
            return None
        mark = step_mark(self._trace.names[self._name[position]])
        return None if mark is None else Batch(mark, self._sizes(launch, int(self._tree.end_ns[position])))

    def _at(self, launches: I64) -> I64:
        calls = self._trace.launches
        return self._tree.innermost(calls.thread[launches], calls.start_ns[launches])

    def _sizes(self, launch: int, end: int) -> frozenset[int]:
        host, calls = self._trace.host, self._trace.launches
        first, last = np.searchsorted(host.start_ns, (calls.start_ns[launch], end))
        after = host.thread[first:last] == calls.thread[launch]
        codes = np.unique(host.shapes[first:last][after])
        return frozenset(size for code in codes.tolist() for size in _first_dimensions(self._trace.shapes[code]))


def _first_dimensions(shapes: str) -> list[int]:
    """The first dimension of each input that has two dimensions or more."""
    inputs = msgspec.json.decode(shapes) if shapes else []
    return [
        dims[0]
        for dims in (inputs if isinstance(inputs, list) else [])
        if isinstance(dims, list) and len(dims) > 1 and isinstance(dims[0], int)
    ]


def _is_step(name: str) -> bool:
    mark = step_mark(name)
    return mark is not None and mark.phase != "capture"
