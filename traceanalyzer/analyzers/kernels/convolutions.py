"""Does the same convolution run in different ways?

Calls of one operator of a convolution with equal inputs (shapes, types, strides, and the values of padding, stride
and the like) are sorted by the kernels that they launch: each set of kernels is one algorithm. Where there are
several, the library chose differently for the same work, and their times show which choice is best.

And what do convolutions and the batch norms that follow them cost? A batch norm subtracts the mean of each channel, so
a bias right before it has no effect; and in inference it is a scale and a shift, which can be folded into the
convolution's weights. Calls are matched by their order on the host: the first operator after a convolution decides (the
update of the counter of batches in training is skipped).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from math import fsum

import msgspec
import numpy as np

from traceanalyzer.analyzers.kernels import counted
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.report.message import Text
from traceanalyzer.structure.analysis import NO_CONVOLUTIONS, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.events import EventSet, Occurrences, event_set
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.operator_times import launched_by, node_times
from traceanalyzer.structure.sums import count_by, group, rows_by, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I64, Bool, take_or
from traceanalyzer.trace.tree import NO_PARENT

_ROWS = 50
"""Rows in the result (own choice: networks have a few dozen different convolutions)."""

_ANY_CONVOLUTION = re.compile(r"aten::\w*conv\w*$")
_CONVOLUTION = re.compile(r"aten::(_?convolution|conv[123]d|(cudnn|miopen|mkldnn)_convolution)$")
_NORM = re.compile(r"aten::(batch_norm|_batch_norm_impl_index|native_batch_norm|(cudnn|miopen)_batch_norm)$")
_ADDITION = re.compile(r"aten::add_?$")
_SUM = re.compile(r"aten::sum$")
_BACKWARD = re.compile(r"Backward\d*$|_backward$|^autograd::engine")
_CONVOLUTION_BACKWARD = re.compile(r"Conv\w{0,32}Backward\d*$|convolution_backward$")
_TRAINS = re.compile(r"bn_fw_tr|collect_statistics|FwdTrain|welford", re.IGNORECASE)
_INFERS = re.compile(r"bn_fw_inf|FwdInfer", re.IGNORECASE)


class Algorithm(msgspec.Struct, frozen=True):
    """Calls that launched the same kernels."""

    kernel: str
    """Name of the kernel that takes the most time in these calls."""
    calls: int
    """Number of calls of the convolution that launched these kernels."""
    device_ns: int
    """Time of all kernels of these calls, in ns."""


class ConvolutionChoice(msgspec.Struct, frozen=True):
    """Calls of a convolution with equal inputs that ran in different ways."""

    name: str
    """Name of the operator as recorded."""
    input_shapes: str
    """Input shapes of the operator as recorded, as JSON."""
    algorithms: tuple[Algorithm, ...]
    """The sets of kernels that were launched for these inputs, at least two, the cheapest per call first."""
    saving_ns: float
    """Device time in ns that all calls together would save with the cheapest algorithm that was seen at least twice; 0
    if there is none."""

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return EventSet.operator(self.name, self.input_shapes)


class ConvolutionAlgorithms(msgspec.Struct, frozen=True):
    """Convolutions that ran in different ways, those that could save most first."""

    rows: tuple[ConvolutionChoice, ...]
    """Convolutions that ran in different ways, the greatest possible saving first."""
    convolutions: int
    """Number of different convolutions, by operator and inputs, whose stride and padding are recorded."""


def algorithms(context: Context) -> ConvolutionAlgorithms:
    """Group the calls of convolutions by their inputs and by their kernels."""
    calls, call = ranked(context.cached(_kernels)[0])
    inputs, has_values = _inputs(context, calls)
    by_inputs: defaultdict[int, list[tuple[int, Algorithm]]] = defaultdict(list)
    for position, algorithm in _seen_algorithms(context, call, inputs):
        if has_values[position]:  # without them, stride and padding may differ
            by_inputs[int(inputs[position])].append((position, algorithm))
    rows = []
    for choices in by_inputs.values():
        if len(choices) > 1:
            node = int(calls[choices[0][0]])
            rows.append(_choice(context, node, [algorithm for _, algorithm in choices]))
    rows.sort(key=lambda choice: (-choice.saving_ns, choice.name, choice.input_shapes))
    return ConvolutionAlgorithms(tuple(rows[:_ROWS]), len(by_inputs))


def _inputs(context: Context, calls: I64) -> tuple[I64, Bool]:
    """For each call a number of its operator and inputs, and whether the values of inputs are recorded."""
    host = context.trace.host
    row = context.host.row[calls]
    _, inputs = group(
        context.host.name[calls], host.shapes[row], host.types[row], host.strides[row], host.concrete[row]
    )
    return inputs, host.concrete[row] > 0


def _seen_algorithms(context: Context, call: I64, inputs: I64) -> Iterator[tuple[int, Algorithm]]:
    """Each set of kernels that ran for the same inputs, with the position of the first call that had it.

    Args:
        context: The recording.
        call: The position of the call of each kernel of a convolution.
        inputs: For each call, the number of its inputs.
    """
    trace, device = context.trace, context.trace.device
    _, kernels = context.cached(_kernels)
    time = sum_by(call, device.dur_ns[kernels], len(inputs))
    first, groups = group(inputs, _signature(call, device.name[kernels].astype(np.int64), len(inputs)))
    columns = (first, count_by(groups, len(first)), sum_by(groups, time, len(first)))
    rows_of = rows_by(call)
    for position, *figures in zip(*(column.tolist() for column in columns), strict=True):
        of_call = kernels[rows_of(position)]
        longest = of_call[np.argmax(device.dur_ns[of_call])]
        yield position, Algorithm(trace.names[int(device.name[longest])], *figures)


def _kernels(context: Context) -> tuple[I64, I64]:
    """Kernels of convolutions: the operator's node, and the row of the kernel."""
    host = context.host
    kernels, node = launched_by(context, counted(context))
    named = context.trace.names.where(lambda name: _ANY_CONVOLUTION.match(name) is not None)[host.name[node]]
    return node[named], kernels[named]


def _signature(call: I64, kernel: I64, count: int) -> I64:
    """For each call, a number that is equal for calls with the same kernels, in any order.

    The sum of a pseudo-random number of 64 bits per kernel (Vigna's SplitMix64): different sets are equal only by
    chance.
    """
    mixed = kernel.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    total = np.zeros(count, np.uint64)
    np.add.at(total, call, mixed ^ (mixed >> np.uint64(31)))
    return total.view(np.int64)


def _choice(context: Context, node: int, algorithms: list[Algorithm]) -> ConvolutionChoice:
    trace, host = context.trace, context.host
    algorithms.sort(key=lambda a: (a.device_ns / a.calls, a.kernel))
    proven = [a.device_ns / a.calls for a in algorithms if a.calls > 1]
    saving = fsum(max(0.0, a.device_ns - min(proven) * a.calls) for a in algorithms) if proven else 0.0
    shapes = trace.shapes[int(trace.host.shapes[host.row[node]])]
    return ConvolutionChoice(trace.names[int(host.name[node])], shapes, tuple(algorithms), saving)


class NormedConvolution(msgspec.Struct, frozen=True):
    """All calls of a convolution with one list of input shapes that a batch norm follows."""

    name: str
    """Name of the convolution operator as recorded."""
    input_shapes: str
    """Input shapes of the convolution as recorded, as JSON; empty where they were not recorded."""
    calls: int
    """Number of calls of the convolution that a batch norm follows."""
    bias_ns: int
    """Device time in ns of adding the bias in separate kernels."""
    norm_ns: int
    """Device time in ns of the batch norms that follow."""

    @property
    def events(self) -> EventSet:
        """The calls as a set of events."""
        return EventSet.operator(self.name, self.input_shapes)


class ConvolutionNorms(msgspec.Struct, frozen=True):
    """Convolutions of the forward pass, those with the most time in bias and norm first."""

    rows: tuple[NormedConvolution, ...]
    """Convolutions that a batch norm follows, by operator and input shapes, the most time in bias and norm first."""
    convolutions: int
    """Number of calls of convolutions that ran on a device; nested operators count as one call."""
    with_norm: int
    """Number of these calls that a batch norm follows directly."""
    with_bias: int
    """Number of calls that a batch norm follows and that have a bias, by the recorded shapes or by a kernel that adds
    it."""
    bias_ns: int
    """Device time in ns of adding the biases of convolutions that a batch norm follows, in separate kernels."""
    bias_gradient_ns: int
    """Device time in ns of computing the gradients of these biases, estimated as their share of all such sums."""
    norm_ns: int
    """Device time in ns of the batch norms that follow a convolution."""
    trains: bool | None
    """Whether batch norms compute statistics as in training, by their kernels; null if no kernel shows it."""
    has_backward: bool
    """Whether any operator of a backward pass was recorded."""


def _is_convolution(name: str) -> bool:
    return _CONVOLUTION.match(name) is not None


def norms(context: Context) -> ConvolutionNorms:
    """Match convolutions with the batch norms that follow them."""
    tree = context.host.tree
    times = context.cached(node_times)
    convolution = _outermost(context, _CONVOLUTION) & context.in_scope(tree.start_ns)
    convolution &= times.device_total_ns > 0
    calls = np.flatnonzero(convolution)
    follower = _follower(context, calls)
    is_norm = take_or(_outermost(context, _NORM), follower, False)
    norm_ns = times.device_total_ns[follower[is_norm]]
    added_ns = tree.sums(np.where(_named(context, _ADDITION), times.device_self_ns, 0))[calls]
    bias_ns = added_ns[is_norm]
    has_bias = _has_bias(context, calls) | (added_ns > 0)
    with_bias = int(has_bias[is_norm].sum())
    gradients = _bias_gradients(context, times.device_self_ns)
    return ConvolutionNorms(
        rows=_rows(context, calls[is_norm], bias_ns, norm_ns),
        convolutions=len(calls),
        with_norm=int(is_norm.sum()),
        with_bias=with_bias,
        bias_ns=int(bias_ns.sum()),
        bias_gradient_ns=gradients * with_bias // max(int(has_bias.sum()), 1),
        norm_ns=int(norm_ns.sum()),
        trains=_trains(context),
        has_backward=bool(_named(context, _BACKWARD).any()),
    )


def _trains(context: Context) -> bool | None:
    """Whether kernels of batch norms compute statistics as in training; None if no kernel shows it."""
    kernels = [context.trace.names[code] for code in distinct(context.trace.device.name).tolist()]
    if any(_TRAINS.search(kernel) for kernel in kernels):
        return True
    return False if any(_INFERS.search(kernel) for kernel in kernels) else None


@event_set
def norms_at(context: Context) -> Iterator[Occurrences]:
    """When the batch norms after convolutions run, and when the biases of these convolutions are added."""
    calls = np.flatnonzero(_outermost(context, _CONVOLUTION) & (context.cached(node_times).device_total_ns > 0))
    follower = _follower(context, calls)
    norms = follower[take_or(_outermost(context, _NORM), follower, False)]
    yield Occurrences.launched_in(context, "batch_norm", norms)
    yield from biases_at().found(context)


@event_set
def biases_at(context: Context) -> Iterator[Occurrences]:
    """When biases of convolutions that a batch norm follows are added, and their gradients are summed."""
    calls = np.flatnonzero(_outermost(context, _CONVOLUTION) & (context.cached(node_times).device_total_ns > 0))
    pairs = calls[take_or(_outermost(context, _NORM), _follower(context, calls), False)]
    backward = np.flatnonzero(_outermost(context, _CONVOLUTION_BACKWARD))
    tree = context.host.tree
    found = []
    for around, pattern in ((pairs, _ADDITION), (backward, _SUM)):
        marked = np.zeros(len(tree), np.bool_)
        marked[around] = True
        found.append(np.flatnonzero(_named(context, pattern) & (tree.nearest(marked) != NO_PARENT)))
    yield Occurrences.launched_in(context, "bias", np.concatenate(found))


def _named(context: Context, pattern: re.Pattern[str]) -> Bool:
    """Nodes whose names match, modules left out."""
    found: Bool = context.trace.names.where(_found_by(pattern))[context.host.name]
    found &= context.host.kind != NodeKind.MODULE
    return found


@cache
def _found_by(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """A function that searches a name with an expression; one function per expression, so that results are cached."""
    return lambda name: pattern.search(name) is not None


def _outermost(context: Context, pattern: re.Pattern[str]) -> Bool:
    """Nodes whose names match and that are not inside another such node."""
    tree = context.host.tree
    found = _named(context, pattern)
    outermost: Bool = found & (tree.around(found) == 0)
    return outermost


def _follower(context: Context, nodes: I64) -> I64:
    """The next node on the thread after each node and its descendants, -1 for none; modules themselves are skipped."""
    host, tree = context.host, context.host.tree
    plain = np.append(np.where(host.kind != NodeKind.MODULE, np.arange(len(tree)), len(tree)), len(tree))
    following = np.minimum.accumulate(plain[::-1])[::-1]
    thread = np.zeros(len(tree) + 1, np.int64) - 1
    for number, part in tree.threads.items():
        thread[part] = number
    found = following[tree.after[nodes]]
    counter = take_or(_named(context, _ADDITION) & _is_scalar(context), found, False)
    found = np.where(counter, following[take_or(tree.after, found, len(tree))], found)
    return np.where(thread[found] == thread[nodes], found, NO_PARENT)


def _is_scalar(context: Context) -> Bool:
    """Nodes whose first input has no axes, or whose inputs were not recorded."""
    trace, host = context.trace, context.host
    scalar = trace.shapes.where(_may_be_scalar)
    rows = np.where(host.kind != NodeKind.MODULE, host.row, 0)
    return scalar[trace.host.shapes[rows]]


def _may_be_scalar(shapes: str) -> bool:
    return not shapes or Inputs(shapes).shape(0) == ()


def _has_bias(context: Context, nodes: I64) -> Bool:
    """Convolutions whose third input is a tensor; false where shapes were not recorded."""
    trace = context.trace
    codes, inverse = ranked(trace.host.shapes[context.host.row[nodes]])
    third = [Inputs(trace.shapes[code]).shape(2) for code in codes.tolist()]
    return np.array([shape is not None and len(shape) == 1 for shape in third], np.bool_)[inverse]


def _bias_gradients(context: Context, device_self_ns: I64) -> int:
    """Device time of sums within backward passes of convolutions."""
    backward = np.flatnonzero(_outermost(context, _CONVOLUTION_BACKWARD))
    sums = np.where(_named(context, _SUM), device_self_ns, 0)
    return int(context.host.tree.sums(sums)[backward].sum())


def _rows(context: Context, pairs: I64, bias: I64, norm: I64) -> tuple[NormedConvolution, ...]:
    trace, host = context.trace, context.host
    keys = (host.name[pairs], trace.host.shapes[host.row[pairs]])
    first, groups = group(*keys)
    count = len(first)
    columns = (
        [trace.names[code] for code in keys[0][first].tolist()],
        [trace.shapes[code] for code in keys[1][first].tolist()],
        count_by(groups, count).tolist(),
        sum_by(groups, bias, count).tolist(),
        sum_by(groups, norm, count).tolist(),
    )
    rows = [NormedConvolution(*values) for values in zip(*columns, strict=True)]
    rows.sort(key=lambda row: (-row.bias_ns - row.norm_ns, row.name, row.input_shapes))
    return tuple(rows[:_ROWS])


_HAS_KERNELS = Need(
    NO_CONVOLUTIONS,
    lambda context: len(context.cached(_kernels)[0]) > 0,
)
_VALUES = Need(
    Text(
        "skip-no-convolution-values",
        "the trace has no stride and padding of convolutions: record them with record_shapes=True and torch 2.1 "
        "or newer",
        note="record_shapes=True is code",
    ),
    lambda context: (context.trace.host.concrete[context.host.row[context.cached(_kernels)[0]]] > 0).any(),
)
_HAS_CONVOLUTIONS = Need(
    NO_CONVOLUTIONS,
    lambda context: (
        context.cached(node_times).device_total_ns[context.trace.names.where(_is_convolution)[context.host.name]] > 0
    ).any(),
)
_CONVOLUTION_NORMS_QUESTION = "Which convolutions does a batch norm follow, do they have a bias, and what do both cost?"
ANALYSES = (
    Analysis(
        410,
        "convolution_algorithms",
        ConvolutionAlgorithms,
        algorithms,
        needs=(_HAS_KERNELS, _VALUES),
        is_of_steps=True,
    ),
    Analysis(
        400,
        "convolution_norms",
        ConvolutionNorms,
        norms,
        needs=(_HAS_CONVOLUTIONS,),
        is_of_steps=True,
        question=_CONVOLUTION_NORMS_QUESTION,
    ),
)
