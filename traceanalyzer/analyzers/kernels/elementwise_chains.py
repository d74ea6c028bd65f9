"""Where do kernels that only move data and do little with it follow each other on the same elements?

Such a chain reads and writes the same tensor again and again; one fused kernel would read and write it once. Links are
elementwise kernels, reductions and copies that directly follow each other on a stream, mostly without a pause, launched
by operators whose largest tensors have the same number of elements, in one call of a module, in one function of
autograd, or outside of both. Fewer elements follow a reduction (rows), or are a part of the tensor (halves); more
follow where an operator also takes the fewer ones (rows again on the whole). Optimizers and loops over parameters are
left out: they work on many tensors and have their own analyses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec
import numpy as np

from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.structure import typical
from traceanalyzer.structure.analysis import KERNELS, SHAPES, Analysis
from traceanalyzer.structure.autograd import ranges
from traceanalyzer.structure.context import Context, device_events_in_scope
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_activity import innermost
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import class_codes, class_name, owners
from traceanalyzer.structure.sums import group, rows_by, sum_by
from traceanalyzer.structure.tensor_loops import tensor_loops
from traceanalyzer.trace.distinct import ranked
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tables import Category
from traceanalyzer.trace.tree import NO_PARENT

_LINKS = frozenset({KernelClass.ELEMENTWISE, KernelClass.REDUCTION, KernelClass.COPY})
_PRODUCT = re.compile(r"conv|linear|addmm|\bb?mm\b|attention")
"""Operators whose small kernels are part of a matrix product."""
_INDEXED = re.compile(r"index|gather|scatter", re.IGNORECASE)
"""Kernels that take other elements than those before, as an index says."""
_MOST = 2**62
"""Upper bound of a number of elements, so that it fits into a column; no tensor is as large."""

_SHORTEST = 3
"""Least number of full-size kernels in a chain (own choice: two are often an operator with its activation, and fusing
them saves only one pass)."""
_LINKS_SHOWN = 16
_SHOWN = 50
"""Chains in the result (own choice: a model repeats few kinds of blocks)."""


class Link(msgspec.Struct, frozen=True):
    """An operator of a chain."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes of the operator as recorded, as JSON."""
    device_ns: int
    """Time of this kernel in ns, summed over all repetitions of the chain."""

    @property
    def events(self) -> EventSet:
        """The calls of the operator as a set of events."""
        return EventSet.operator(self.name, self.input_shapes)


class Chain(msgspec.Struct, frozen=True):
    """All repetitions of one sequence of operators with the same shapes in modules of one class."""

    caller: str | None
    """Class of the modules, or autograd function, that calls the operators; null outside of both."""
    links: tuple[Link, ...]
    """The operators of the chain in order, one per kernel; at most the first 16."""
    kernels: int
    """Number of kernels in one repetition."""
    elements: int
    """Number of elements of the largest tensor that the operators of the chain read."""
    repetitions: int
    """How often this sequence of operators with these shapes occurs."""
    device_ns: int
    """Time of all kernels of all repetitions, in ns."""
    least_pass_ns: int
    """For each repetition the shortest kernel on the full number of elements, summed, in ns: one pass over the elements
    takes at least as long."""
    greatest_pass_ns: int
    """For each repetition the longest kernel on the full number of elements, summed, in ns: one pass that reads all
    operands takes at most as long."""
    is_saved: bool
    """Whether autograd may keep the values between the operators for the backward pass."""
    start_ns: int
    """Start of the first kernel of one repetition, in ns since the first event of the trace."""


class Chains(msgspec.Struct, frozen=True):
    """Chains of three or more kernels, those with most device time first."""

    rows: tuple[Chain, ...]
    """The chains with the most device time, at most 50, the most first."""
    hidden_rows: int
    """Number of further chains that are not in `rows`."""
    device_ns: int
    """Time of the kernels of all chains in ns, including hidden ones."""


class _Found(msgspec.Struct, frozen=True):
    """All chains one after another; each entry is a kernel, in the order of its chain."""

    event: I64
    """Row of each kernel in the device table."""
    node: I64
    """Position in the host tree of the operator that launched each kernel."""
    elements: I64
    """Elements of the largest tensor of each kernel's operator."""
    parent: I64
    """Call of a module, or function of autograd, around each kernel; -1 for none."""
    chain: I64
    """Number of the chain of each kernel, ascending from 0."""

    @property
    def first(self) -> I64:
        """Position of the first kernel of each chain."""
        return np.flatnonzero(np.append(True, self.chain[1:] != self.chain[:-1])[: len(self.chain)])

    def take(self, kept: Bool) -> _Found:
        """Some of the kernels, with the chains renumbered."""
        chain = ranked(self.chain[kept])[1]
        return _Found(self.event[kept], self.node[kept], self.elements[kept], self.parent[kept], chain)


def analyze(context: Context) -> Chains:
    """Chains of kernels that start in the chosen steps."""
    found = context.cached(_find)
    if not len(found.event):
        return Chains((), 0, 0)
    example, kind = _kinds(context, found)
    total, *extremes = _times(context, found)
    columns = (np.ones(len(total), np.int64), total, *extremes)
    sums = np.column_stack([sum_by(kind, column, len(example)) for column in columns])
    order = np.lexsort((np.arange(len(example)), -sums[:, 1]))
    chains_of = rows_by(kind)
    rows = [_row(context, found, chains_of(number), sums[number].tolist()) for number in order[:_SHOWN].tolist()]
    return Chains(tuple(rows), max(0, len(example) - _SHOWN), int(total.sum()))


def _times(context: Context, found: _Found) -> tuple[I64, I64, I64]:
    """Of each chain the time of all kernels, and the least and the greatest of those that pass over all elements."""
    dur = context.trace.device.dur_ns[found.event]
    first = found.first
    is_full = _is_full(found)
    total = np.add.reduceat(dur, first)
    least = np.minimum.reduceat(np.where(is_full, dur, np.iinfo(np.int64).max), first)
    greatest = np.maximum.reduceat(np.where(is_full, dur, 0), first)
    return total, least, greatest


def _is_full(found: _Found) -> Bool:
    """Whether each kernel passes over as many elements as the largest one of its chain."""
    largest = np.maximum.reduceat(found.elements, found.first)
    is_full: Bool = found.elements == largest[found.chain]
    return is_full


def _kinds(context: Context, found: _Found) -> tuple[I64, I64]:
    """The first chain of each kind, and the kind of each chain: equal operators and shapes below one caller."""
    class_of = context.cached(class_codes)[context.host.name]
    callers = take_or(class_of, found.parent[found.first], NO_PARENT)
    return group(_signatures(context, found), callers)


@event_set
def chains_at(context: Context, rows: tuple[Chain, ...]) -> Iterator[Occurrences]:
    """When the kernels of some chains run."""
    steady = typical.part(context)
    found = steady.cached(_find)
    if not len(found.event):
        return
    _, kind = _kinds(steady, found)
    begins = context.trace.device.start_ns[found.event[found.first]]
    wanted = kind[np.isin(begins, [row.start_ns for row in rows])]
    yield Occurrences.on_device(context, rows[0].links[0].name, found.event[np.isin(kind, wanted)[found.chain]])


def _find(context: Context) -> _Found:
    """Kernels of chains that are long enough."""
    device = context.trace.device
    events = np.flatnonzero(device_events_in_scope(context))
    events = events[np.lexsort((device.start_ns[events], device.stream[events], device.device[events]))]
    node = context.links.device_node()[events]
    elements = _elements(context, events, node)
    parent = take_or(context.cached(owners).owner, node, NO_PARENT)
    continues = _continues(context, events, node, elements)
    for place in (parent, device.stream[events], device.device[events]):
        continues &= place[1:] == place[:-1]
    begins = np.append(True, ~continues)[: len(events)]
    chain = np.cumsum(begins) - 1
    found = _Found(events, node, elements, parent, chain).take(elements > 0)
    if not len(found.event):
        return found
    passes = np.add.reduceat(_is_full(found).astype(np.int64), found.first)
    kept = (passes >= _SHORTEST) & _are_close(context, found)
    return found.take(kept[found.chain])


def _are_close(context: Context, found: _Found) -> Bool:
    """Which chains wait for their launches for less time than their kernels run: else passes are not what takes it."""
    device, first = context.trace.device, found.first
    last = np.append(first[1:], len(found.chain)) - 1
    span = device.end_ns[found.event[last]] - device.start_ns[found.event[first]]
    works: Bool = 2 * np.add.reduceat(device.dur_ns[found.event], first) >= span
    return works


def _continues(context: Context, events: I64, node: I64, elements: I64) -> Bool:
    """Whether each event but the first passes over the elements of the one before, or of what that makes of them."""
    kind, calls = _calls(context, events, node)
    is_known = (elements[1:] > 0) & (elements[:-1] > 0)
    continues: Bool = is_known & (elements[1:] == elements[:-1])
    asked = np.flatnonzero(is_known & ~continues)
    pairs, which = np.unique(np.column_stack((kind[asked], kind[asked + 1])), axis=0, return_inverse=True)
    fits = np.array([calls[one].leads_to(calls[other]) for one, other in pairs.tolist()], np.bool_)
    continues[asked] = fits[which.reshape(-1)]
    return continues


def _calls(context: Context, events: I64, node: I64) -> tuple[I64, list[_Call]]:
    """The kind of each event's operator by name, shapes and kernel, and what is known of each kind."""
    host, trace = context.host, context.trace
    codes, own = ranked(trace.device.name[events])
    reduces = np.array(
        [kernel_class(trace.names[code]) is KernelClass.REDUCTION for code in codes.tolist()],
        np.bool_,
    )
    shapes = trace.host.shapes[take_or(host.row, node, 0)].astype(np.int64)
    first, kind = group(take_or(host.name, node, 0).astype(np.int64), shapes, reduces[own].astype(np.int64))
    return kind, [_Call.of(context, int(node[at]), reduces=bool(reduces[own[at]])) for at in first.tolist()]


class _Call(msgspec.Struct, frozen=True):
    """An operator that launches a link, as far as its inputs tell."""

    shapes: tuple[tuple[int, ...], ...]
    """Shapes of the tensors that it takes, the largest first."""
    reduces: bool
    """Whether its kernel is a reduction."""
    in_place: bool
    """Whether it works on its first tensor in place."""

    @classmethod
    def of(cls, context: Context, node: int, *, reduces: bool) -> _Call:
        """The operator of a node of the host tree; without shapes where there is none."""
        if node == NO_PARENT:
            return cls((), reduces, False)
        text = context.trace.shapes[context.trace.host.shapes[context.host.row[node]]]
        shapes = sorted(Inputs(text).every_shape, key=math.prod, reverse=True)
        return cls(
            tuple(shapes),
            reduces,
            str(context.trace.names[context.host.name[node]]).endswith("_"),
        )

    def leads_to(self, later: _Call) -> bool:
        """Whether another operator on more or fewer elements goes on with what this one makes."""
        if not self.shapes or not later.shapes:
            return False
        own, other = math.prod(self.shapes[0]), math.prod(later.shapes[0])
        if max(own, other) % min(own, other):
            return False
        if other > own:  # such as rows again on the whole
            return any(math.prod(shape) == own for shape in later.shapes)
        return self.reduces or (not later.in_place and _is_part(later.shapes[0], self.shapes[0]))


def _is_part(part: tuple[int, ...], whole: tuple[int, ...]) -> bool:
    """Whether a shape is that of a half of a tensor, or of another part along one axis."""
    if len(part) != len(whole):
        return False
    return sum(one != other for one, other in zip(part, whole, strict=True)) == 1


def _elements(context: Context, events: I64, node: I64) -> I64:
    """For each device event, the elements of its operator's largest tensor; 0 if it is not a link of a chain."""
    trace, host = context.trace, context.host
    codes, own = ranked(trace.device.name[events])
    is_link = np.array([_is_link(trace.names[code]) for code in codes.tolist()], np.bool_)
    usable = (trace.device.category[events] == Category.KERNEL) & is_link[own]
    product = trace.names.where(lambda name: _PRODUCT.search(name) is not None)
    usable &= take_or((host.kind == NodeKind.OPERATOR) & ~product[host.name], node, False)
    row = take_or(host.row, node, 0)
    call = innermost(trace.host, context.cached(ranges), trace.host.thread[row], trace.host.start_ns[row])
    usable &= (call == NO_PARENT) & ~_in_loops(context, node)
    codes, inverse = ranked(np.where(usable, trace.host.shapes[row], 0))
    sizes = np.array([min(Inputs(trace.shapes[code]).largest, _MOST) for code in codes.tolist()], np.int64)
    return np.where(usable, sizes[inverse], 0)


def _in_loops(context: Context, node: I64) -> Bool:
    """Which nodes are operators of a loop over tensors, or lie in one."""
    chosen = np.zeros(len(context.host.tree), np.bool_)
    chosen[context.cached(tensor_loops).nodes] = True
    inside: Bool = take_or(context.host.tree.nearest(chosen), node, NO_PARENT) != NO_PARENT
    return inside


def _is_link(kernel: str) -> bool:
    """Whether a kernel may be part of a chain; to fuse a fill saves no pass, because it reads nothing."""
    is_link = kernel_class(kernel) in _LINKS and not is_generated(kernel)
    return is_link and "FillFunctor" not in kernel and _INDEXED.search(kernel) is None


def _signatures(context: Context, found: _Found) -> I64:
    """For each chain a number that identifies its sequence of operators and shapes."""
    host = context.host
    operators = group(host.name[found.node], context.trace.host.shapes[host.row[found.node]])[1]
    place = np.arange(len(found.chain)) - found.first[found.chain]
    with np.errstate(over="ignore"):  # a hash: overflow of the products is intended
        mixed = (operators + 1) * np.int64(-7046029254386353131) ^ (place + 1) * np.int64(-4417276706812531889)
        mixed = (mixed ^ (mixed >> 29)) * np.int64(-4658895280553007687)
    return np.unique(np.add.reduceat(mixed, found.first), return_inverse=True)[1].astype(np.int64)


def _row(context: Context, found: _Found, repeated: I64, sums: list[int]) -> Chain:
    """A chain and its repetitions."""
    trace, host, first = context.trace, context.host, found.first
    begin = int(first[repeated[0]])
    end = int(take_or(first, repeated[0] + 1, len(found.chain)))
    parent = int(found.parent[begin])
    repetitions, total, least, greatest = sums
    is_evaluation = context.cached(owners).is_evaluation
    in_backward = parent != NO_PARENT and bool(is_evaluation[parent])
    return Chain(
        caller=class_name(trace.names[host.name[parent]]) if parent != NO_PARENT else None,
        links=tuple(_links(context, found, first[repeated], min(end - begin, _LINKS_SHOWN))),
        kernels=end - begin,
        elements=int(found.elements[begin:end].max()),
        repetitions=repetitions,
        device_ns=total,
        least_pass_ns=least,
        greatest_pass_ns=greatest,
        is_saved=not in_backward and bool(is_evaluation.any()),
        start_ns=int(trace.device.start_ns[found.event[begin]]),
    )


def _links(context: Context, found: _Found, begins: I64, count: int) -> Iterator[Link]:
    """The first kernels of a chain, each with the time in all its repetitions."""
    trace, host = context.trace, context.host
    for place in range(count):
        node = found.node[begins[0] + place]
        time = trace.device.dur_ns[found.event[begins + place]].sum()
        shapes = trace.host.shapes[host.row[node]]
        yield Link(trace.names[host.name[node]], trace.shapes[shapes], int(time))


ANALYSES = (Analysis(510, "chains", Chains, analyze, needs=(KERNELS, SHAPES), is_of_steps=True),)
