"""What do the typical steps of a training do that is not training: evaluations, copies and checkpoints of the model?

A trace without stacks has no names of functions, so each kind is known by the operators that the program calls itself
on the thread that trains:

* an evaluation: operators in a row for which autograd is off, with layers of a network and a loss, or a comparison of
  results with targets, among them; passes that choose actions or make targets have neither;
* a deep copy: each parameter is cloned and detached in turn (`Parameter.__deepcopy__`), and buffers are copied;
* a checkpoint: a state dict detaches all tensors in a row, and then nothing is recorded for 0.3 ms or longer;
* linear algebra: decompositions that no backward pass differentiates;
* statistics: histograms and quantiles that none differentiates;
* an average of the parameters: behind the update, each tensor is multiplied and added in turn, on its own;
* frozen layers: layers before the first operator that autograd has a function for, although it records.

Where names of functions or marks show a checkpoint, a collection of garbage, or the writing of pictures, tables or
figures, that counts as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np

from traceanalyzer.knowledge.host_roles import WRITING
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import backward, graph, optimizer_starts, outermost
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.module_calls import owners
from traceanalyzer.structure.owners import OwnerIndex, owner_index
from traceanalyzer.structure.owners.slices import OwnerKind
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.distinct import ascending, distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, UNKNOWN, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

FEWEST = 4
"""Tensors of a state dict or a copied model at least (own choice: two layers have four)."""
_SILENT_NS = 300_000
"""Own choice: Python code between two operators takes some ten microseconds."""
_LAYERS = re.compile(
    r"^aten::(?:linear|conv\d?d?\w*|matmul|addmm|bmm|mm|embedding\w*|batch_norm|layer_norm|group_norm|lstm|gru"
    r"|scaled_dot_product_attention)$"
)
_JUDGES = re.compile(r"^aten::(?:\w*_loss(?:_nd|2d)?|binary_cross_entropy\w*|eq|kl_div)$")
"""Losses, and comparisons with targets."""
_COPYING = frozenset(
    {
        "aten::clone",
        "aten::detach",
        "aten::empty",
        "aten::set_",
        "aten::copy_",
        "aten::new_empty",
    }
)
_DRAWING = frozenset({"aten::bernoulli_", "aten::native_dropout", "aten::_fused_dropout"})
_MIXES = re.compile(r"^aten::(?:add|add_|lerp|lerp_)$")
_MIXING = _COPYING | {f"aten::{name}" for name in ("add", "add_", "mul", "mul_", "sub", "sub_", "lerp", "lerp_", "to")}
_MIXING |= {f"aten::{name}" for name in ("_to_copy", "zeros_like", "empty_like", "rsub", "item", "div", "div_")}
"""What an average of the parameters consists of, the second by the update that it needs for each."""
_DECOMPOSITIONS = re.compile(
    r"^aten::(?:linalg_(?:matrix_rank|svd|svdvals|eigh?|eigvalsh?|pinv|cond|qr|lstsq|cholesky|slogdet|det|inv|expm)"
    r"|svd|pinverse|matrix_rank|matrix_exp|logdet|slogdet|det|cholesky|inverse|qr)$"
)
_STATISTICS = re.compile(r"^aten::(?:histc|histogram|histogramdd|_histogramdd_\w+|quantile|nanquantile|unique_dim)$")


class BesideTraining(msgspec.Struct, frozen=True):
    """What typical steps do besides training; times in ns are sums over them."""

    steps: int
    """Number of typical steps."""
    rows: tuple[WorkBeside, ...]
    """Kinds of work, the one that takes longest first."""


class WorkBeside(msgspec.Struct, frozen=True):
    """Work of one kind."""

    kind: str
    """`evaluation`, `checkpoint`, `copy`, `linear-algebra`, `statistics`, `average`, `frozen`, `garbage-collection` or
    `writing`."""
    name: str
    """What shows it: the first layer of an evaluation, an operator, or the function (the program's own, if it is called
    in one) or mark."""
    steps: int
    """Number of typical steps with such work."""
    runs: int
    """How often it is done."""
    host_ns: int
    """Its time in ns, with code between its operators."""
    silent_ns: int
    """Part of that time in ns that recording hardly makes longer: in no operator, or in one of 0.3 ms or more."""
    operators: int
    """Number of operators that the program calls in it."""
    start_ns: int
    """Start of the first in ns since the first event."""
    drawing_ns: int = 0
    """Part of the time of frozen layers in ns in which numbers for dropout are drawn, as in training."""


class _Calls(NamedTuple):
    """Operators that the program calls itself on the thread that trains, in the order of their start."""

    node: I64
    start_ns: I64
    end_ns: I64
    segment: I64
    """A number that grows with each backward pass, optimizer and step between them."""
    records: Bool
    """Whether autograd records."""


class _Work(msgspec.Struct, frozen=True):
    """Occurrences of one kind of work, in the order of time."""

    name: str
    start_ns: I64
    end_ns: I64


def analyze(context: Context) -> BesideTraining:
    """Add up the work of each kind in the typical steps."""
    steps = program_steps(context).typical
    found = context.cached(_found)
    calls = context.cached(_calls)
    short = calls.end_ns - calls.start_ns < _SILENT_NS
    working = Intervals.union(calls.start_ns[short], calls.end_ns[short])
    rows = []
    for kind, work in found.items():
        inside = np.searchsorted(calls.start_ns, work.end_ns) - np.searchsorted(calls.start_ns, work.start_ns)
        length = work.end_ns - work.start_ns
        rows.append(
            WorkBeside(
                kind=kind,
                name=work.name,
                steps=len(distinct(steps.at(work.start_ns))),
                runs=len(work.start_ns),
                host_ns=int(length.sum()),
                silent_ns=int((length - working.within(work.start_ns, work.end_ns)).sum()),
                operators=int(inside.sum()),
                start_ns=int(work.start_ns[0]),
                drawing_ns=int(_drawing(context).within(work.start_ns, work.end_ns).sum()) if kind == "frozen" else 0,
            )
        )
    return BesideTraining(len(steps), tuple(sorted(rows, key=lambda row: (-row.host_ns, row.kind))))


def _drawing(context: Context) -> Intervals:
    """When numbers for dropout are drawn."""
    host, tree = context.host, context.host.tree
    nodes = np.flatnonzero(context.trace.names.where(_DRAWING.__contains__)[host.name])
    return Intervals.union(tree.start_ns[nodes], tree.end_ns[nodes])


@event_set
def beside_at(context: Context, kind: str) -> Iterator[Occurrences]:
    """When work of one kind is done."""
    work = context.cached(_found).get(kind)
    if work is not None:
        main = context.cached(owner_index).critical.main
        yield Occurrences("host", kind, np.full(len(work.start_ns), main), work.start_ns, work.end_ns)


def silent_times(context: Context) -> Intervals:
    """When a checkpoint or a result is written or garbage collected in most of the typical steps of a training."""
    steps = program_steps(context).typical
    found = Intervals.none()
    if not _TRAINS.is_met(context):
        return found
    for kind in ("checkpoint", "garbage-collection", "writing"):
        work = context.cached(_found).get(kind)
        if work is not None and 2 * len(distinct(steps.at(work.start_ns))) >= len(steps):
            found = found | Intervals.union(work.start_ns, work.end_ns)
    return found


def _found(context: Context) -> dict[str, _Work]:
    """The work of each kind in the typical steps."""
    calls = context.cached(_calls)
    named = {
        "checkpoint": "checkpointing",
        "garbage-collection": "garbage-collection",
        "writing": WRITING,
    }
    found = {
        "evaluation": _evaluations(context, calls),
        "checkpoint": _checkpoints(context, calls),
        "copy": _copies(context, calls),
        "linear-algebra": _unused_by_gradients(context, calls, _DECOMPOSITIONS),
        "statistics": _unused_by_gradients(context, calls, _STATISTICS),
        "average": _averages(context, calls),
        "frozen": _frozen(context, calls),
    }
    if found["average"] is not None:  # which the copy is a part of, if it is made for that
        found["copy"] = _outside(found["copy"], found["average"])
    for kind, role in named.items():
        found[kind] = _with_role(context, found.get(kind), role)
    steps = program_steps(context).typical
    kept = {}
    for kind, work in found.items():
        if work is not None:
            inside = steps.at(work.start_ns) >= 0
            if inside.any():
                kept[kind] = _Work(work.name, work.start_ns[inside], work.end_ns[inside])
    return kept


def _calls(context: Context) -> _Calls:
    """Operators outside of evaluations, optimizers, loaders and other operators."""
    host, table = context.host, context.trace.host
    nodes = outermost(context)
    thread = table.thread[host.row[nodes]]
    trains = thread[table.sequence[host.row[nodes]] != UNKNOWN]
    nodes = nodes[thread == np.bincount(trains).argmax()] if len(trains) else nodes[:0]
    nodes = nodes[np.argsort(host.tree.start_ns[nodes], kind="stable")]
    start = host.tree.start_ns[nodes]
    steps = program_steps(context).every
    bounds = np.concatenate(
        (
            context.cached(backward).start_ns,
            *context.cached(optimizer_starts),
            steps.start_ns,
        )
    )
    segment = np.searchsorted(ascending(bounds), start, side="right")
    return _Calls(
        nodes,
        start,
        host.tree.end_ns[nodes],
        segment,
        table.sequence[host.row[nodes]] != UNKNOWN,
    )


def _runs(calls: _Calls, belongs: Bool) -> list[tuple[int, int]]:
    """First and last call of each run of calls that belong to something, within one segment."""
    opens = belongs & ~np.append(False, belongs[:-1] & (calls.segment[1:] == calls.segment[:-1]))[: len(belongs)]
    closes = belongs & ~np.append(belongs[1:] & (calls.segment[1:] == calls.segment[:-1]), False)[: len(belongs)]
    return list(zip(np.flatnonzero(opens).tolist(), np.flatnonzero(closes).tolist(), strict=True))


def _named(context: Context, calls: _Calls, pattern: re.Pattern[str]) -> Bool:
    names: Bool = context.trace.names.where(lambda name: pattern.match(name) is not None)[context.host.name[calls.node]]
    return names


def _evaluations(context: Context, calls: _Calls) -> _Work | None:
    layers, judges = _named(context, calls, _LAYERS), _named(context, calls, _JUDGES)
    runs = [
        (first, last)
        for first, last in _runs(calls, ~calls.records)
        if layers[first : last + 1].any() and judges[first : last + 1].any()
    ]
    if not runs:
        return None
    first_layer = runs[0][0] + int(np.flatnonzero(layers[runs[0][0] : runs[0][1] + 1])[0])
    return _of_runs(context, calls, runs, first_layer)


def _copies(context: Context, calls: _Calls) -> _Work | None:
    names, name = context.trace.names, context.host.name[calls.node]
    shapes = context.trace.host.shapes[context.host.row[calls.node]]
    begins, ends = (name == names.code(each) for each in ("aten::clone", "aten::detach"))
    pairs = np.append(0, np.cumsum(begins[:-1] & ends[1:]))  # before each call
    runs = []
    for first, last in _runs(calls, names.where(_COPYING.__contains__)[name]):
        if ends[first] or pairs[last] - pairs[first] < FEWEST:
            continue
        own = [names[code] for code in name[first : last + 1].tolist()]
        if _in_pairs(context, own, shapes[first : last + 1].tolist()):
            runs.append((first, last))
    return _of_runs(context, calls, runs, runs[0][0]) if runs else None


def _averages(context: Context, calls: _Calls) -> _Work | None:
    """Tensors that are multiplied and added one after another behind an update, for no gradient."""
    mixing = context.trace.names.where(_MIXING.__contains__)[context.host.name[calls.node]]
    mixes = np.cumsum(_named(context, calls, _MIXES))
    used = np.searchsorted(_used_by_gradients(context), np.stack((calls.start_ns, calls.end_ns)))
    runs = [
        (first, last)
        for first, last in _runs(calls, mixing & _behind_updates(context, calls))
        if mixes[last] - mixes[first] >= FEWEST - 1 and used[0, first] == used[1, last]
    ]
    return _of_runs(context, calls, runs, runs[0][0]) if runs else None


def _behind_updates(context: Context, calls: _Calls) -> Bool:
    """Which calls come after an update, and before the next backward pass and the next marked step."""
    since = (
        context.cached(optimizer_starts)[0],
        context.cached(backward).start_ns,
        context.steps.start_ns,
    )
    update, *others = (take_or(each, np.searchsorted(each, calls.start_ns) - 1, -1) for each in since)
    behind: Bool = update > np.maximum(*others)
    return behind


def _frozen(context: Context, calls: _Calls) -> _Work | None:
    """Layers before the first function of the graph between two updates or backward passes, while autograd records."""
    created = context.cached(graph).start_ns
    layers = _named(context, calls, _LAYERS) & calls.records
    ends = (
        context.cached(backward).start_ns,
        context.cached(optimizer_starts)[0],
        program_steps(context).every.start_ns,
    )
    segment = np.searchsorted(ascending(np.concatenate(ends)), calls.start_ns, side="right")
    bounds = [*np.flatnonzero(np.diff(segment, prepend=-1)).tolist(), len(calls.node)]
    runs = []
    for first, until in pairwise(bounds):
        position = int(np.searchsorted(created, calls.start_ns[first]))
        if position == len(created) or created[position] > calls.end_ns[until - 1]:
            continue
        rows = first + np.flatnonzero(layers[first:until] & (calls.end_ns[first:until] <= created[position]))
        if len(rows) >= FEWEST:
            runs.append(
                (
                    int(rows[0]),
                    int(np.searchsorted(calls.end_ns[:until], created[position], "right")) - 1,
                )
            )
    return _of_runs(context, calls, runs, runs[0][0]) if runs else None


def _outside(found: _Work | None, other: _Work) -> _Work | None:
    """The work that starts in none of another kind."""
    if found is None:
        return None
    own = ~Intervals.union(other.start_ns, other.end_ns).contains(found.start_ns)
    return _Work(found.name, found.start_ns[own], found.end_ns[own]) if own.any() else None


def _in_pairs(context: Context, names: list[str], shapes: list[int]) -> bool:
    """Whether each clone is followed by a detach of the same shape."""
    texts = [Inputs(context.trace.shapes[shape]).shape(0) for shape in shapes]
    after = zip(names, texts, [*names[1:], ""], [*texts[1:], None], strict=True)
    return all(
        other == "aten::detach" and shape == other_shape
        for name, shape, other, other_shape in after
        if name == "aten::clone"
    )


def _of_runs(context: Context, calls: _Calls, runs: list[tuple[int, int]], shown: int) -> _Work:
    firsts, lasts = (np.array(ends, np.int64) for ends in zip(*runs, strict=True))
    name = context.trace.names[int(context.host.name[calls.node[shown]])]
    return _Work(name, calls.start_ns[firsts], calls.end_ns[lasts])


def _checkpoints(context: Context, calls: _Calls) -> _Work | None:
    """Tensors that are detached in a row, and the time after them in which nothing is recorded."""
    detaches = context.trace.names.where(lambda name: name == "aten::detach")[context.host.name[calls.node]]
    runs = [(first, last) for first, last in _runs(calls, detaches) if last - first + 1 >= FEWEST]
    if not runs:
        return None
    firsts, lasts = (np.array(ends, np.int64) for ends in zip(*runs, strict=True))
    until = _next_event(context, calls.end_ns[lasts])
    silent = until - calls.end_ns[lasts] >= _SILENT_NS
    if not silent.any():
        return None
    return _Work("aten::detach", calls.start_ns[firsts][silent], until[silent])


def _next_event(context: Context, times: I64) -> I64:
    """When the next event after each time begins, or its step ends."""
    host, tree, steps = context.host, context.host.tree, program_steps(context).every
    works = np.isin(
        host.kind,
        (NodeKind.OPERATOR, NodeKind.PYTHON, NodeKind.DATALOADER, NodeKind.OPTIMIZER),
    )
    moments = ascending(np.concatenate((tree.start_ns[works], steps.end_ns, *context.cached(optimizer_starts))))
    after = np.searchsorted(moments, times, side="left")
    return np.where(after < len(moments), np.append(moments, 0)[after], times)


def _unused_by_gradients(context: Context, calls: _Calls, names: re.Pattern[str]) -> _Work | None:
    """Operators within which no function of the graph is created that a backward pass evaluates."""
    rows = np.flatnonzero(_named(context, calls, names))
    if not len(rows):
        return None
    used = _used_by_gradients(context)
    is_used = np.searchsorted(used, calls.end_ns[rows]) > np.searchsorted(used, calls.start_ns[rows])
    rows = rows[~is_used]
    if not len(rows):
        return None
    longest = rows[int((calls.end_ns[rows] - calls.start_ns[rows]).argmax())]
    name = context.trace.names[int(context.host.name[calls.node[longest]])]
    return _Work(name, calls.start_ns[rows], calls.end_ns[rows])


def _used_by_gradients(context: Context) -> I64:
    """Starts of the operators that created a function of the graph which a backward pass evaluates, ascending."""
    created = context.cached(graph)
    numbers = context.trace.host.sequence[context.host.row[np.flatnonzero(context.cached(owners).is_evaluation)]]
    used: I64 = created.start_ns[np.isin(created.sequence, numbers)]
    return used


def _with_role(context: Context, found: _Work | None, role: str) -> _Work | None:
    """The work, with the time whose owner has a role by its name."""
    index = context.cached(owner_index)
    roles = np.array([own.role == role for own in index.owners] + [False], np.bool_)
    if not roles.any():
        return found
    parts = index.timeline
    rows = np.flatnonzero(roles[parts.owner] & (parts.owner != NO_PARENT))
    if not len(rows):
        return found
    times = Intervals.union(parts.start_ns[rows], parts.end_ns[rows])
    if found is not None:
        times = times | Intervals.union(found.start_ns, found.end_ns)
    return _Work(
        _place(index, int(parts.thread[rows[0]]), int(parts.start_ns[rows[0]])),
        times.start,
        times.end,
    )


def _place(index: OwnerIndex, thread: int, time: int) -> str:
    """The owner of a moment in one line: the function of the program in which it is, if there is one."""
    slices, nested = index.slice_at(np.array([thread]), np.array([time])), index.nested
    own = int(take_or(nested.tree.nearest(nested.kind == OwnerKind.FUNCTION), slices, NO_PARENT)[0])
    number = int(index.owner[own if own != NO_PARENT else int(slices[0])])
    return index.places[number] or index.owners[number].name


_TRAINS = Need(
    Text(
        "skip-beside-no-training",
        "the trace has no backward pass or no step of an optimizer: it does not train",
    ),
    lambda context: bool(len(context.cached(backward)) and len(context.cached(optimizer_starts)[0])),
)
_STEPS = Need(
    Text("skip-beside-no-steps", "the trace has no steps of a program"),
    lambda context: len(program_steps(context).typical) > 0,
)
ANALYSES = (Analysis(435, "beside_training", BesideTraining, analyze, needs=(_TRAINS, _STEPS)),)
