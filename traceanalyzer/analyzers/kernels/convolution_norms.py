"""Which convolutions does a batch norm follow, do they have a bias, and what do both cost?

A batch norm subtracts the mean of each channel, so a bias right before it has no effect; and in inference it is a scale
and a shift, which can be folded into the convolution's weights. Calls are matched by their order on the host: the first
operator after a convolution decides (the update of the counter of batches in training is skipped).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import msgspec
import numpy as np

from traceanalyzer.knowledge.op_shapes import parse
from traceanalyzer.structure.analysis import NO_CONVOLUTIONS, Analysis, Need
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.host_tree import NodeKind
from traceanalyzer.structure.operator_times import node_times
from traceanalyzer.structure.sums import count_by, group, sum_by
from traceanalyzer.trace.distinct import distinct, ranked
from traceanalyzer.trace.table import I64, Bool, entries
from traceanalyzer.trace.tree import NO_PARENT

_ROWS = 50
"""Rows in the result (own choice: networks have a few dozen different convolutions)."""

_CONVOLUTION = re.compile(r"aten::(_?convolution|conv[123]d|(cudnn|miopen|mkldnn)_convolution)$")
_NORM = re.compile(r"aten::(batch_norm|_batch_norm_impl_index|native_batch_norm|(cudnn|miopen)_batch_norm)$")
_ADDITION = re.compile(r"aten::add_?$")
_SUM = re.compile(r"aten::sum$")
_BACKWARD = re.compile(r"Backward\d*$|_backward$|^autograd::engine")
_CONVOLUTION_BACKWARD = re.compile(r"Conv\w{0,32}Backward\d*$|convolution_backward$")
_TRAINS = re.compile(r"bn_fw_tr|collect_statistics|FwdTrain|welford", re.IGNORECASE)
_INFERS = re.compile(r"bn_fw_inf|FwdInfer", re.IGNORECASE)


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


def analyze(context: Context) -> ConvolutionNorms:
    """Match convolutions with the batch norms that follow them."""
    host, names = context.host, context.trace.names
    times = context.once(node_times)
    norm = _outermost(context, _NORM)
    convolution = _outermost(context, _CONVOLUTION) & context.in_scope(host.tree.start_ns)
    convolution &= times.device_total_ns > 0
    calls = np.flatnonzero(convolution)
    follower = _follower(context, calls)
    pairs = calls[entries(norm, follower, False)]
    norms = follower[entries(norm, follower, False)]
    added = np.where(_named(context, _ADDITION), times.device_self_ns, 0)
    bias = host.tree.sums(added)[pairs]
    biased = _has_bias(context, pairs) | (bias > 0)
    every = int((_has_bias(context, calls) | (host.tree.sums(added)[calls] > 0)).sum())
    gradient = _bias_gradients(context, times.device_self_ns) * int(biased.sum()) // max(every, 1)
    kernels = [names[code] for code in distinct(context.trace.device.name).tolist()]
    inferred = any(_INFERS.search(kernel) for kernel in kernels)
    return ConvolutionNorms(
        rows=_rows(context, pairs, bias, times.device_total_ns[norms]),
        convolutions=len(calls),
        with_norm=len(pairs),
        with_bias=int(biased.sum()),
        bias_ns=int(bias.sum()),
        bias_gradient_ns=gradient,
        norm_ns=int(times.device_total_ns[norms].sum()),
        trains=True if any(_TRAINS.search(kernel) for kernel in kernels) else False if inferred else None,
        has_backward=bool(_named(context, _BACKWARD).any()),
    )


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
    tree, found = context.host.tree, _named(context, pattern)
    opened: I64 = np.cumsum(found) - found  # number of matching nodes before each node; some of them have ended
    closed = np.cumsum(np.bincount(tree.after[found], minlength=len(tree) + 1))[: len(tree)]
    outermost: Bool = found & (opened == closed)
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
    counter = entries(_named(context, _ADDITION) & _is_scalar(context), found, False)
    found = np.where(counter, following[entries(tree.after, found, len(tree))], found)
    return np.where(thread[found] == thread[nodes], found, NO_PARENT)


def _is_scalar(context: Context) -> Bool:
    """Nodes whose first input has no axes, or whose inputs were not recorded."""
    trace, host = context.trace, context.host
    scalar = np.array([not text or text.startswith("[[]") for text in trace.shapes], np.bool_)
    rows = np.where(host.kind != NodeKind.MODULE, host.row, 0)
    found: Bool = scalar[trace.host.shapes[rows]]
    return found


def _has_bias(context: Context, nodes: I64) -> Bool:
    """Convolutions whose third input is a tensor; false where shapes were not recorded."""
    trace = context.trace
    codes, inverse = ranked(trace.host.shapes[context.host.row[nodes]])
    known = [parse(trace.shapes[code]) for code in codes.tolist()]
    return np.array([shapes is not None and len(shapes) > 2 and len(shapes[2]) == 1 for shapes in known], np.bool_)[
        inverse
    ]


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


_CONVOLUTIONS = Need(
    NO_CONVOLUTIONS,
    lambda context: (
        context.once(node_times).device_total_ns[context.trace.names.where(_is_convolution)[context.host.name]] > 0
    ).any(),
)
ANALYSES = (Analysis(400, "convolution_norms", ConvolutionNorms, analyze, needs=(_CONVOLUTIONS,)),)
