"""Frames of Python code that have a line, nested."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import numpy as np

from traceanalyzer.structure.context import Context
from traceanalyzer.trace.table import I32, I64, entries
from traceanalyzer.trace.tree import Tree

_LINE = re.compile(r"(?!<built-in |nn\.Module: ).*\(\d+\): .*", re.DOTALL)
_TORCH = re.compile(r"(.*[/\\]site-packages[/\\])?torch[/\\]")


class LineTree(msgspec.Struct, frozen=True):
    """Frames that have a line, nested."""

    tree: Tree
    name: I32
    """Code of the name of each frame, in the order of the tree."""
    row: I64
    """Row of each frame in the table of frames."""

    def names_at(self, thread: I32, times: I64) -> I32:
        """The code of the innermost line that runs on a thread at a time, -1 for none."""
        position = self.tree.innermost(thread, times)
        return entries(self.name, position, np.int32(-1))


def line_tree(context: Context) -> LineTree:
    """The frames of the trace that have a line."""
    return _nested(context, is_line)


def own_line_tree(context: Context) -> LineTree:
    """The frames that have a line outside of the package torch."""
    return _nested(context, lambda name: is_line(name) and not is_torch(name))


def is_line(name: str) -> bool:
    """Whether a frame is of Python code: `file.py(123): function`."""
    return _LINE.fullmatch(name) is not None


def is_torch(name: str) -> bool:
    """Whether a frame is of torch's own Python code; the profiler shortens paths to what follows `sys.path`."""
    return _TORCH.match(name) is not None


def _nested(context: Context, wanted: Callable[[str], bool]) -> LineTree:
    frames = context.trace.frames
    rows = np.flatnonzero(context.trace.names.where(wanted)[frames.name])
    tree, order = Tree.build(frames.thread[rows], frames.start_ns[rows], frames.dur_ns[rows])
    return LineTree(tree, frames.name[rows[order]], rows[order])
