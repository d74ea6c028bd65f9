"""The marks of a trace, nested; those on autograd's threads within the mark that waits for them.

A program calls `backward` within a mark, and autograd does the work on a separate thread. So a mark on such a thread
belongs to the mark that is open at its start on the thread that trains. In tables numbered marks, such as `layer_0` to
`layer_999`, share one name, except for the most expensive.
"""

from __future__ import annotations

import re
from collections import defaultdict

import msgspec
import numpy as np

from traceanalyzer.knowledge import marks
from traceanalyzer.structure.autograd import engines
from traceanalyzer.structure.context import Context, cached
from traceanalyzer.structure.host_tree import nest
from traceanalyzer.structure.sums import sum_by
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.strings import Strings
from traceanalyzer.trace.table import I32, I64, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT, Tree

MANY = 64
"""More names than this that differ in numbers only share a row (own choice: no model has so many layers by name)."""
SINGLE = 8
"""Of names that share a row, the number of those with the most host time that keep their own row (own choice)."""
_NUMBER = re.compile(r"\b(?=[a-z]*\d)[a-z0-9]{32,}\b|\d+")
"""A number, or a key such as torch.compile's of compiled graphs."""


class Forest(msgspec.Struct, frozen=True):
    """Marks, parents before their children and followed by them."""

    name: I64
    """Code of the name, or of the name that replaces it."""
    thread: I32
    start_ns: I64
    end_ns: I64
    """End of each mark, clipped to that of the mark around it on its thread."""
    dur_ns: I64
    """Duration of each mark as recorded."""
    depth: I64
    parent: I64
    after: I64
    """Position after the last mark inside: what lies within a mark is `position:after[position]`."""
    is_adopted: Bool
    """Marks on a thread of autograd that lie within a mark of another thread."""
    clipped: int
    """Number of marks that started inside another and ended after it."""
    tree: Tree
    """The same marks, nested by thread alone."""
    place: I64
    """Position here of each mark of the tree."""

    def __len__(self) -> int:
        return len(self.name)

    def sums(self, values: I64) -> I64:
        """For each mark the sum over it and everything inside."""
        total = np.concatenate(([0], np.cumsum(values)))
        return total[self.after] - total[: len(self)]

    def child_sums(self, values: I64) -> I64:
        """For each mark the sum over the marks directly inside."""
        nested = self.parent != NO_PARENT
        return sum_by(self.parent[nested], values[nested], len(self))

    def innermost(self, thread: I32, times: I64) -> I64:
        """For each point in time the innermost mark of its thread, -1 for none."""
        return take_or(self.place, self.tree.innermost(thread, times), NO_PARENT)


def forest(context: Context) -> Forest:
    """Nest the marks that start in the chosen steps, or all."""
    host = context.trace.host
    tree, rows = nest(host, mark_rows(context))
    around = _around(context, tree)
    # a mark on a thread of autograd is adopted, with all marks in it, by the mark around it on the thread that trains
    adopter = around[tree.nearest(tree.parent == NO_PARENT)]
    is_adopted: Bool = adopter != NO_PARENT
    parent = np.where(tree.parent == NO_PARENT, around, tree.parent)
    depth = tree.depth + np.where(is_adopted, take_or(tree.depth, adopter, 0) + 1, 0)
    position = np.arange(len(tree))
    order = np.lexsort((position, is_adopted, np.where(is_adopted, adopter, position)))
    place = np.empty(len(tree), np.int64)
    place[order] = position
    return Forest(
        name=host.name[rows][order].astype(np.int64),
        thread=tree.thread[order],
        start_ns=tree.start_ns[order],
        end_ns=tree.end_ns[order],
        dur_ns=host.dur_ns[rows][order],
        depth=depth[order].astype(np.int64),
        parent=take_or(place, parent, NO_PARENT)[order],
        after=position + tree.sums(1 + _adopted_marks(tree, around))[order],
        is_adopted=is_adopted[order],
        clipped=tree.clipped,
        tree=tree,
        place=place,
    )


def _adopted_marks(tree: Tree, around: I64) -> I64:
    """How many marks each mark adopts."""
    size = tree.after - np.arange(len(tree))
    is_held = around != NO_PARENT
    return sum_by(around[is_held], size[is_held], len(tree))


@cached
def is_mark(context: Context) -> Bool:
    """Which host rows are marks: annotations, whatever the writer's year called them, except steps."""
    host, names = context.trace.host, context.trace.names
    annotations: Bool = host.category == Category.ANNOTATION
    others = np.flatnonzero(host.category == Category.OPERATOR)
    annotations[others[names.where(marks.is_mark_among_operators)[host.name[others]]]] = True
    return annotations & ~names.where(marks.is_step)[host.name]


@cached
def mark_rows(context: Context) -> I64:
    """Rows of the host table that are marks in scope."""
    return np.flatnonzero(is_mark(context) & context.in_scope(context.trace.host.start_ns))


def _around(context: Context, tree: Tree) -> I64:
    """For each outermost mark on a thread of autograd, the mark around it on the thread that trains; -1 else."""
    around = np.full(len(tree), NO_PARENT, np.int64)
    waiting = context.cached(engines)
    thread = tree.thread
    roots = np.flatnonzero((tree.parent == NO_PARENT) & np.isin(thread, [*waiting]))
    if len(roots):
        other = np.array([waiting[number] for number in thread[roots].tolist()], np.int32)
        around[roots] = tree.innermost(other, tree.start_ns[roots])
    return around


class Labels(msgspec.Struct, frozen=True):
    """The names of the rows."""

    names: tuple[str, ...]
    of_mark: I64
    """For each mark, the position of its row's name."""
    counts: I64
    """How many different names each row stands for."""


def labels(found: Forest, names: Strings) -> Labels:
    """Give every mark the name of its row."""
    codes, of_code = ranked(found.name)
    texts = [names[code] for code in codes.tolist()]
    if len(texts) > MANY:
        texts = _shared(texts, sum_by(of_code, found.dur_ns, len(codes)))
    number = {text: position for position, text in enumerate(dict.fromkeys(texts))}
    of_text = np.array([number[text] for text in texts], np.int64)
    return Labels(tuple(number), of_text[of_code], np.bincount(of_text, minlength=len(number)).astype(np.int64))


def pattern(name: str) -> str:
    """The name with `*` for each number."""
    return _NUMBER.sub("*", name)


def _shared(names: list[str], time: I64) -> list[str]:
    """The names, each replaced with its pattern where too many others have the same."""
    alike: defaultdict[str, list[int]] = defaultdict(list)
    for position, name in enumerate(names):
        alike[pattern(name)].append(position)
    shown = list(names)
    for common, members in alike.items():
        if len(members) > MANY:
            for position in sorted(members, key=lambda member: (-int(time[member]), names[member]))[SINGLE:]:
                shown[position] = common
    return shown
