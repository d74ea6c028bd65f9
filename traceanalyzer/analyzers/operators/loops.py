"""Where does the program do the same few operators over and over, each time on another piece of a tensor?

A repeat is a short sequence of operators that starts by taking a piece (`aten::select`, `aten::slice`, ...) or with a
recurrent cell, and comes ten times or more without anything between, called by the program itself: directly in a step,
in a module or in a range of the program's own. What operators of PyTorch, its wrappers and autograd repeat inside is
theirs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from traceanalyzer.report.message import Text
from traceanalyzer.structure import gaps, host_activity, repeated_calls
from traceanalyzer.structure.analysis import Analysis, Need
from traceanalyzer.structure.autograd import engines
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.idle_times import IdleTime, ended_earlier, summed
from traceanalyzer.structure.module_calls import forward_nodes
from traceanalyzer.structure.repeated_calls import LEAST, Siblings, periodic
from traceanalyzer.structure.steps import step_names
from traceanalyzer.trace.distinct import distinct
from traceanalyzer.trace.intervals import Intervals
from traceanalyzer.trace.table import I64, Bool
from traceanalyzer.trace.tree import NO_PARENT, Tree

LONGEST = 16
"""Operators of a sequence at most (own choice: the body of a loop over images and their channels; more is a model
called per sample)."""
_LONGEST_OF_BOXES = 48
"""The same of a turn that compares boxes coordinate by coordinate (own choice: it takes up to forty)."""
_OF_TORCH = "aten::"
_AS_LONG = 0.9
"""Share of the time of the longest loop from which on one with shorter turns is the same (own choice)."""
_LONGEST_OF_ANY = 128
"""The same of loops that are only named, not priced (own choice)."""
_TAKING = frozenset(
    {"aten::select", "aten::slice", "aten::index", "aten::unbind", "aten::narrow", "aten::index_select"}
    | {"aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell"}
)
_CARRYING = re.compile(
    r"^aten::(\w*(mm|matmul|bmm|linear|conv\w*|einsum|lstm\w*|gru\w*|rnn\w*)|cat|argmax|multinomial|topk|item|is_nonzero|equal|\w*_cell)$"
)
"""Operators of loops whose next turn needs the last one's result: recurrent layers, decoding, decisions in Python."""
_CHOOSING = re.compile(r"^aten::(max|min|argmin|aminmax|sort|argsort|kthvalue|median|mode|searchsorted|nonzero)$")
_BY_INDEX = frozenset({"aten::index", "aten::index_select", "aten::gather", "aten::take", "aten::take_along_dim"})
"""Where a turn chooses an element and takes others by an index, the choice most likely is what the next one takes:
farthest points, greedy matching, suppression of boxes, backtracking."""
_LARGER, _SMALLER = frozenset({"aten::max", "aten::maximum"}), frozenset({"aten::min", "aten::minimum"})
_CLAMPS = frozenset({"aten::clamp", "aten::clamp_", "aten::clamp_min", "aten::clamp_min_", "aten::relu"})
_COMPARES = frozenset({"aten::le", "aten::lt", "aten::ge", "aten::gt", "aten::nonzero", "aten::where"})
_MODEL = re.compile(r"^aten::(\w*(mm|matmul|bmm|linear|conv\w*|norm|embedding))$")
"""Operators of models, one of which runs in each turn of a loop over images."""
_STAYS = re.compile(
    r"^aten::(\w*(mm|matmul|linear)|_?(rand|normal|uniform|bernoulli|exponential|multinomial|dropout|geometric|cauchy"
    r"|native_dropout|log_normal)\w*)$"
)
"""Operators that compute as many products or draw as many numbers for the whole tensor as for all of its pieces."""
_TRANSFORM = re.compile(r"^aten::(fft_r?fft|stft|_fft_r2c)$")
_INVERSE = re.compile(r"^aten::(fft_ih?r?fft\w*|istft|_fft_c2r)$")
_VIEWS = "select|slice|narrow|unbind|view|reshape|transpose|permute|unsqueeze|squeeze|t|expand|as_strided|alias|detach"
_COPIES = "index|index_select|gather|take|copy_|clone|to|contiguous|stack|repeat|flip|roll|index_(copy|put)_|scatter_"
is_moving = re.compile(rf"aten::({_VIEWS}|{_COPIES})").fullmatch
"""Matches operators that take views of tensors or copy them, and compute nothing."""
_SLICES = frozenset({"aten::slice", "aten::select", "aten::narrow", "aten::index", "aten::unbind"})
SMALL_NS = 10_000
"""Own choice: a call of an operator with next to no work takes 2 to 5 us with a profiler."""
_SHOWN = 20


class Repeat(msgspec.Struct, frozen=True):
    """All runs of one sequence at one place of the program."""

    operators: tuple[str, ...]
    """Names of the operators of one turn, in order."""
    parent: str | None
    """The module or range in which the sequence runs; null where it runs directly in a step or a thread."""
    python_line: str | None
    """The Python line that runs the sequence; null where stacks were not recorded."""
    runs: int
    """How often the program came to the sequence."""
    turns: int
    """Number of turns in all runs."""
    most_turns: int
    """Number of turns in the longest run."""
    steps: int
    """Number of steps in which it runs."""
    host_ns: int
    """Time in ns from the start of the first to the end of the last operator of each run, summed."""
    backward_ns: int
    """Time in ns of autograd's evaluations for the runs."""
    idle_ns: int | None
    """Part of both times in ns in which no device worked; null where no device activity was recorded."""
    is_carrying: bool
    """Whether it has operators that are typical of loops that carry a state from turn to turn."""
    longest_start_ns: int
    """Start of the longest run in ns since the first event."""
    exposed: tuple[IdleTime, ...] = ()
    """How much earlier the device could have gone on if the runs took no time, by cause."""
    kind: str | None = None
    """What it computes, if one call of a library does all of it: `boxes`, of which each turn keeps one and drops those
    that overlap it, or `frames` of a signal, of each of which it takes the spectrum; else null."""

    kept_ns: int = 0
    """Part of both times in ns that one call on the whole tensor takes as well: drawing random numbers, and products of
    matrices, beyond what calling them costs."""

    @property
    def only_moves(self) -> bool:
        """Whether the operators of a turn compute nothing: they take views of tensors, or copy them."""
        return all(map(is_moving, self.operators))

    @property
    def removable_ns(self) -> int:
        """Time in ns of the calls of all turns, without what remains whoever calls it."""
        return self.host_ns + self.backward_ns - self.kept_ns

    @property
    def removable_on_cpu_ns(self) -> int:
        """Time in ns that need not be on a CPU: one call moves as much memory as all turns, and saves only calls."""
        taken = self.removable_ns
        calls = self.turns * len(self.operators) * (2 if self.backward_ns else 1)
        return min(taken, SMALL_NS * calls) if self.only_moves else taken


class Repeats(msgspec.Struct, frozen=True):
    """Sequences, those that take the host longest first."""

    rows: tuple[Repeat, ...]
    """Sequences by place in the program, the most host time first."""
    longest: Repeat | None = None
    """The loop that takes the host longest, whatever its operators do if they are no model's; null if there is none."""


class _Run(msgspec.Struct, frozen=True):
    """A sequence that repeats: positions in the tree, of one turn and of the last operator."""

    turn: tuple[int, ...]
    last: int
    turns: int


_Place = tuple[tuple[str, ...], str | None, str | None]
"""The operators of a turn, the module or range, and the line in which a sequence runs."""


def analyze(context: Context) -> Repeats:
    """Runs that start in the chosen steps, or all."""
    busy = gaps.any_busy(context)
    backward = _Backward(context)
    rows = [_row(context, key, runs, busy, backward) for key, runs in _loops(context).items()]
    shown = tuple(sorted(rows, key=lambda row: (-row.host_ns, row.longest_start_ns))[:_SHOWN])
    return Repeats(shown, _longest(context, busy, backward))


def _longest(context: Context, busy: Intervals, backward: _Backward) -> Repeat | None:
    """The loop that takes the host longest, of any operators but a model's."""
    loops = _of_any(context)
    found = [_row(context, key, runs, busy, backward) for key, runs in loops.items()]
    most = max((row.host_ns for row in found), default=0)
    long = (row for row in found if row.host_ns >= _AS_LONG * most)  # several turns together repeat as well
    chosen = min(long, key=lambda row: (len(row.operators), -row.host_ns), default=None)
    return None if chosen is None else _in_order(context, chosen, loops[chosen.operators, None, None])


def _of_any(context: Context) -> dict[_Place, list[_Run]]:
    """Runs of any operators by those of a turn, wherever in it a run begins; layers of a model repeat, but are none."""
    siblings, loops = repeated_calls.siblings(context, lambda _: True), defaultdict[_Place, list[_Run]](list)
    for period in repeated_calls.periods(siblings, _LONGEST_OF_ANY):
        for run in _runs(siblings, period, np.zeros(len(siblings.node), np.bool_)):
            operators = sorted(context.trace.names[context.host.name[node]] for node in run.turn)
            if period > 1 and not any(_MODEL.match(name) or not name.startswith(_OF_TORCH) for name in operators):
                loops[tuple(operators), None, None].append(run)
    return loops


def _in_order(context: Context, row: Repeat, runs: list[_Run]) -> Repeat:
    """The row with the operators of the first run as they are called, and the line that does."""
    first = runs[0].turn
    (line,) = host_activity.lines_of_nodes(context, np.array(first[:1], np.int64))
    names = tuple(context.trace.names[context.host.name[node]] for node in first)
    return replace(row, operators=names, python_line=line)


@event_set
def loop_at(context: Context, row: Repeat) -> Iterator[Occurrences]:
    """When a sequence runs, and the evaluations of autograd for it."""
    tree = context.host.tree
    backward = _Backward(context)
    for runs in _loops(context).values():
        thread, start, end = (np.array(column) for column in zip(*(_span(tree, run) for run in runs), strict=True))
        if row.longest_start_ns in start:
            yield Occurrences("host", "loop", thread, start, end)
            yield Occurrences.of_nodes(context, "loop", distinct(backward.of_all(runs, start, end)))


def _span(tree: Tree, run: _Run) -> tuple[int, int, int]:
    """Thread, start and end of a run."""
    first = run.turn[0]
    return int(tree.thread[first]), int(tree.start_ns[first]), int(tree.end_ns[run.last])


def _loops(context: Context) -> dict[_Place, list[_Run]]:
    """All runs, by their place in the program."""
    siblings = repeated_calls.siblings(context, _TAKING.__contains__)
    covered = np.zeros(len(siblings.node), np.bool_)
    runs = [run for period in range(1, LONGEST + 1) for run in _runs(siblings, period, covered)]
    runs += [
        run
        for period in range(LONGEST + 1, _LONGEST_OF_BOXES + 1)
        for run in _runs(siblings, period, covered)
        if _kind([context.trace.names[context.host.name[node]] for node in run.turn]) == "boxes"
        if not (context.host.kind[run.turn[0] : run.last] == NodeKind.MODULE).any()  # which would be a model per image
    ]
    first = np.array([run.turn[0] for run in runs], np.int64)
    loops: dict[_Place, list[_Run]] = {}
    own_threads = context.cached(engines)
    for run, line in zip(runs, host_activity.lines_of_nodes(context, first), strict=True):
        operators = tuple(context.trace.names[context.host.name[node]] for node in run.turn)
        node = run.turn[0]
        parent = _parent_name(context, int(context.host.tree.parent[node]))
        if parent is None and int(context.host.tree.thread[node]) in own_threads:
            continue  # the program's own functions run within evaluations there: this is what hooks of PyTorch do
        loops.setdefault((operators, parent, line), []).append(run)
    return loops


def _runs(siblings: Siblings, period: int, covered: Bool) -> list[_Run]:
    """Find runs: siblings that have the name of the one a period before; those taken are marked as covered."""
    node = siblings.node
    if len(node) < LEAST * period:
        return []
    runs = []
    for first, turns in periodic(siblings, period, covered):
        last = first + turns * period - 1
        covered[first : last + 1] = True
        turn = tuple(node[first : first + period].tolist())
        runs.append(_Run(turn, int(node[last]), turns))
    return runs


def _parent_name(context: Context, parent: int) -> str | None:
    if parent == NO_PARENT or context.host.kind[parent] == NodeKind.STEP:
        return None
    name: str = context.trace.names[context.host.name[parent]]
    return name


class _Backward:
    """Evaluations of autograd by the time of the operators that made them necessary."""

    def __init__(self, context: Context) -> None:
        tree = context.host.tree
        evaluations, source = forward_nodes(context)
        known = source != NO_PARENT
        order = np.argsort(tree.start_ns[source[known]], kind="stable")
        self._source = source[known][order]
        self._evaluation = evaluations[known][order]
        self._thread = tree.thread
        self._called = tree.start_ns[self._source]

    def of(self, run: _Run, start: int, end: int) -> I64:
        """The evaluations that go back to a run, as nodes."""
        low, high = np.searchsorted(self._called, (start, end))
        is_on_thread = self._thread[self._source[low:high]] == self._thread[run.turn[0]]
        evaluations: I64 = self._evaluation[low:high][is_on_thread]
        return evaluations

    def of_all(self, runs: list[_Run], start: I64, end: I64) -> I64:
        """The evaluations that go back to some runs, as nodes."""
        times = zip(runs, start.tolist(), end.tolist(), strict=True)
        return np.concatenate([self.of(run, begin, until) for run, begin, until in times])


def _row(
    context: Context,
    key: _Place,
    runs: list[_Run],
    busy: Intervals,
    backward: _Backward,
) -> Repeat:
    tree = context.host.tree
    operators, parent, line = key
    start = tree.start_ns[[run.turn[0] for run in runs]]
    end = tree.end_ns[[run.last for run in runs]]
    length = end - start
    kind = _kind(operators)
    later = backward.of_all(runs, start, end)
    later_length = tree.dur_ns[later]
    working = busy.within(start, end).sum() + busy.within(tree.start_ns[later], tree.end_ns[later]).sum()
    idle = int(length.sum() + later_length.sum() - working)
    kept = context.cached(_kept_until)
    within = sum(int(kept[tree.after[run.last]] - kept[run.turn[0]]) for run in runs)
    return Repeat(
        operators=operators,
        parent=parent,
        python_line=line,
        runs=len(runs),
        turns=sum(run.turns for run in runs),
        most_turns=max(run.turns for run in runs),
        steps=len(set(step_names(context.steps, start)) - {None}),
        host_ns=int(length.sum()),
        backward_ns=int(later_length.sum()),
        idle_ns=idle if len(context.trace.device) else None,
        is_carrying=kind is None and _carries(operators),
        kind=kind,
        longest_start_ns=int(start[length.argmax()]),
        exposed=summed(ended_earlier(context, start, end, length)) if len(context.trace.device) else (),
        kept_ns=within + int((kept[tree.after[later]] - kept[later]).sum()),
    )


def _kept_until(context: Context) -> I64:
    """For each node and the end, the time in ns of operators before it that compute as long on the whole tensor."""
    tree = context.host.tree
    stays = context.trace.names.where(lambda name: _STAYS.match(name) is not None)[context.host.name]
    is_inner = np.append(tree.nearest(stays), NO_PARENT)[tree.parent] != NO_PARENT
    own = np.where(stays & ~is_inner, np.maximum(0, tree.dur_ns - SMALL_NS), 0)
    return np.concatenate(([0], np.cumsum(own)))


def _kind(operators: Sequence[str]) -> str | None:
    """What a turn computes, if a library has one call for all turns.

    Boxes overlap from the larger of their left to the smaller of their right sides, if that is not negative, and those
    that overlap too much are left out by an index. A spectrum of each slice of a signal is a short-time one.
    """
    named = set(operators)
    overlaps = all(not named.isdisjoint(names) for names in (_LARGER, _SMALLER, _CLAMPS, _COMPARES, _BY_INDEX))
    if overlaps and not any(map(_MODEL.match, operators)):
        return "boxes"
    if any(map(_INVERSE.match, operators)):  # of a simulation, whose turns follow from one another
        return None
    return "frames" if any(map(_TRANSFORM.match, operators)) and not named.isdisjoint(_SLICES) else None


def _carries(operators: Sequence[str]) -> bool:
    """Whether a turn most likely needs the result of the one before."""
    chooses = any(map(_CHOOSING.match, operators)) and not _BY_INDEX.isdisjoint(operators)
    return chooses or any(map(_CARRYING.match, operators))


_OPERATORS = Need(
    Text("skip-repeats-no-operators", "the trace has no operators"),
    lambda context: (context.host.kind == NodeKind.OPERATOR).any(),
)
ANALYSES = (Analysis(250, "repeats", Repeats, analyze, needs=(_OPERATORS,), is_of_steps=True),)
