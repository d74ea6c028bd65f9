"""Which kind of work takes most of the GPU's time: computing, moving data, or what no name tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable
from math import fsum
from typing import Any

from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.analyzers.kernels.sm_fill import SmFill
from traceanalyzer.knowledge.first_match import finds
from traceanalyzer.knowledge.inputs import Inputs, Shape
from traceanalyzer.knowledge.kernel_classes import (
    KernelClass,
    generated,
    is_product_of_a_row,
    kernel_class,
    operator_class,
    reads_a_matrix_once,
)
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts, if_known
from traceanalyzer.rules.engine.headlines.step_bound import StepBound
from traceanalyzer.structure.typical import rows_of

MOST = 0.5
"""Share from which on something is most of the whole."""
_COMPUTE = frozenset({"gemm", "moe", "convolution", "depthwise", "grouped", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset(
    {
        "normalization",
        "elementwise",
        "random",
        "dequantization",
        "reduction",
        "copy",
        "optimizer",
        "embedding",
        "pooling",
    }
)
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
UNNAMED = "gpu"
"""The result if the names of the kernels do not decide what bounds a busy device."""
_WORTH_SECOND = 0.1
"""Least share of the time of what computes from which on a second class is named (own choice)."""
GEMM = Text("headline-work-gemm", "matrix multiplications", note="after: mostly")
_WORK = {
    "gemm": GEMM,
    "convolution": Text("headline-work-convolution", "convolutions", note="after: mostly"),
    "depthwise": Text("headline-work-depthwise", "depthwise convolutions", note="after: mostly"),
    "grouped": Text("headline-work-grouped", "grouped convolutions", note="after: mostly"),
    "attention": Text("headline-work-attention", "attention", note="after: mostly"),
}
_SPLIT = (
    ("convolution", "depthwise", finds("depthwise")),
    ("convolution", "grouped", finds("grouped")),
    ("elementwise", "random", finds("distribution|dropout|philox|random")),
)
"""Classes of which some kernels, by their names, are a kind of work of their own: slower, or with another cure."""
_TWO = Text("headline-work-two", "{first} and {second}", note="such as: matrix multiplications and attention")
_OTHER_WORK = {
    "sorting": Text("headline-work-sorting", "sorting and selection", note="after: mostly"),
    "recurrent": Text("headline-work-recurrent", "recurrent layers", note="after: mostly"),
    "moe_routing": Text("headline-work-routing", "routing of tokens to experts", note="after: mostly"),
    "sampling": Text("headline-work-sampling", "sampling of tokens", note="after: mostly"),
    "linear_algebra": Text("headline-work-linear-algebra", "FFT or solvers", note="after: mostly"),
}
"""Classes that are bound neither by arithmetic nor by memory as a rule."""
_MOVING_WORK = {
    "elementwise": Text("headline-work-elementwise", "elementwise kernels", note="after: mostly"),
    "random": Text("headline-work-random", "random numbers", note="after: mostly; drawing them"),
    "dequantization": Text("headline-work-dequantization", "dequantizing weights", note="after: mostly"),
    "normalization": Text("headline-work-normalization", "normalization", note="after: mostly"),
    "reduction": Text("headline-work-reduction", "reductions", note="after: mostly"),
    "copy": Text("headline-work-copy-2", "copies and indexing", note="after: mostly; kernels of a GPU"),
    "optimizer": Text("headline-work-optimizer", "optimizer updates", note="after: mostly"),
    "embedding": Text("headline-work-embedding", "embeddings", note="after: mostly"),
    "pooling": Text("headline-work-pooling", "pooling", note="after: mostly"),
}
_WEIGHTS = Text("headline-work-weights", "reading weights in matrix multiplications", note="after: mostly")
_MOSTLY = Text(
    "headline-mostly", "mostly", note="before a kind of work: mostly convolutions, 35 of the 52 ms of each step"
)
_ABOVE_ALL = Text(
    "headline-above-all",
    "above all",
    note="before a kind of work that takes less than half of the time: above all convolutions, 20 of the 52 ms",
)
_KINDS = {
    **_WORK,
    **_OTHER_WORK,
    **_MOVING_WORK,
    "moe": Text("headline-kind-experts", "matrix multiplications of experts", note="part of a list: attention 54 %"),
    "triton": Text("headline-kind-generated", "generated kernels", note="part of a list: attention 54 %"),
}
_ELEMENTWISE = KernelClass.ELEMENTWISE.value
_OF_CPU = {
    **{kind: _KINDS[kind] for kind in ("gemm", "convolution", "attention", "recurrent")},
    _ELEMENTWISE: Text("headline-work-elementwise-cpu", "elementwise operations", note="after: mostly; on a CPU"),
    "random": _MOVING_WORK["random"],
    "gathering": Text("headline-work-gathering", "gathering rows by an index", note="after: mostly; of tensors"),
}
"""Kinds of arithmetic that a CPU may spend its time on in several operators."""
_SETTING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
"""Operators that go through a tensor like elementwise arithmetic, but compute nothing."""
_COPIES = {
    "aten::_to_copy": Text("headline-work-conversion", "type conversions", note="after: most of all; of numbers"),
    "aten::contiguous": Text("headline-work-layout", "copies into contiguous tensors", note="after: most of all"),
}
"""What copies are for, by the operator that calls for them: on a CPU alone, `to` copies only into another type."""
_MOSTLY_FOR = 0.75
"""Part of the time of copies that one such operator must have called for (own choice)."""
_GATHERING = frozenset({"aten::index", "aten::index_select", "aten::gather", "aten::take", "aten::take_along_dim"})
_draws = finds(
    r"::_?(rand|normal|uniform|bernoulli|exponential|multinomial|geometric|cauchy|log_normal|native_dropout)"
)
"""Whether an operator draws random numbers."""
_LAYERS = frozenset({"recurrent", "attention"})
"""Kinds that are one operator of PyTorch each, which may call others for all of its arithmetic."""
_ONE_OPERATOR = 0.75
"""Share of the time of elementwise operations from which on one operator says more than their kind (own choice)."""
_WORTH_KIND, _KINDS_SHOWN = 0.05, 4
"""Least share of the kernels' time of a kind that is told, and how many are (own choice)."""
_ALL_OF_IT = 0.95
"""Share from which on one kind is all of it, which the sentence has said."""
_MOVING_DATA = Text("headline-kind-moving", "moving data", note="part of a list: convolutions 42 %, moving data 58 %")
_OF_ROWS = (KernelClass.GEMM, KernelClass.ATTENTION)
_AXES = 4
"""Axes of a cache of keys or values: sequences, heads, tokens and sizes, in some order."""
_REORDER = frozenset({"aten::index_select", "aten::index"})
"""Operators that copy the caches of chosen beams."""
_ONE_BLOCK = "[1,1,1]"
"""The grid of a product that is small in each direction, whatever it reads."""
_SHARES = Text(
    "detail-kinds-of-kernels",
    "What its kernels do: {kinds}.",
    note="it is the GPU; kinds is a list with shares of time: matrix multiplications 54 %, attention 13 %",
)
_SHARE = Text("headline-kind-share", "{kind} {share:percent}", note="part of a list: matrix multiplications 54 %")


def gpu_bound(facts: Facts) -> str:
    """Kind of work of a trace with most of the GPU's time: `gpu-compute`, `gpu-memory`, or `UNNAMED`.

    It is the larger of the two known times, if half of the time is known. Copies and collectives do not count, which
    the sentence names by themselves, and generated kernels by their names.
    """
    times, total = _by_class(facts)
    compute, moving = work_times(times)
    if compute + moving < MOST * total or not total:
        return UNNAMED
    return "gpu-compute" if compute > moving or compute >= MOST * total else "gpu-memory"


Named = tuple[Message, int]
"""Kinds of work, and the sum of their times in ns over all steps."""


def computing(times: Counter[str]) -> Named:
    """What computes by times of classes: one of them, or two."""
    own = Counter({name: times[name] for name in _WORK})
    own["gemm"] += times["moe"]
    (first, most), (second, time), *_ = own.most_common()
    if time < _WORTH_SECOND * (most + time) or not time:
        return _WORK[first](), most
    return _TWO(first=_WORK[first](), second=_WORK[second]()), most + time


def computing_of(facts: Facts) -> Named:
    """What computes in the kernels of a trace."""
    return computing(_by_class(facts)[0])


def moving(times: Counter[str]) -> Named:
    """What moves data by times of classes: one of them, or two."""
    own = Counter({name: times[name] for name in _MOVING_WORK})
    (first, most), (second, time), *_ = own.most_common()
    if 2 * most >= own.total() or not time:
        return _MOVING_WORK[first](), most
    return _TWO(first=_MOVING_WORK[first](), second=_MOVING_WORK[second]()), most + time


def moving_of(facts: Facts) -> Named:
    """What moves data in the kernels of a trace."""
    return moving(_by_class(facts)[0])


def other_work(facts: Facts) -> Named | None:
    """The class with most of the GPU's time, if it is bound neither by arithmetic nor by memory as a rule."""
    times, total = _by_class(facts)
    return next(((text(), times[name]) for name, text in _OTHER_WORK.items() if times[name] >= MOST * total > 0), None)


def own_time(facts: Facts, named: Named, computes_ns: float) -> dict[str, Any]:
    """What a sentence says of kinds of work: their own time of a step, and whether that is most of the GPU's.

    Args:
        facts: Of a trace or of ranks.
        named: The kinds of work.
        computes_ns: Time of a step in ns in which the device computes.
    """
    work, total_ns = named
    time = min(facts.on_device(total_ns), computes_ns)
    most = _MOSTLY if time >= MOST * computes_ns else _ABOVE_ALL
    return {"work": work, "most": most(), "part": (time, facts.step_ns), "busy": (computes_ns, facts.step_ns)}


def longest_of_operators(
    own: Iterable[tuple[str, float]], long: Container[str], whole: Iterable[tuple[str, float]]
) -> tuple[Message, float] | None:
    """What the operators of a CPU compute longest, and for how long: a kind of arithmetic; None without any.

    Args:
        own: Names of operators, and the time in ns that each takes by itself.
        long: Those whose calls compute, rather than being called; others are no elementwise arithmetic.
        whole: Names of operators, and the time in ns that each takes with all that it calls.
    """
    times: defaultdict[str, list[float]] = defaultdict(list)
    for name, time in own:
        kind = _kind_of_operator(name)
        if kind != _ELEMENTWISE or (name in long and name not in _SETTING):
            times[kind].append(time)
    kinds = {kind: fsum(times[kind]) for kind in _OF_CPU if any(times.get(kind, ()))}
    if max(times[_ELEMENTWISE], default=0.0) >= _ONE_OPERATOR * kinds.get(_ELEMENTWISE, 0.0):
        kinds.pop(_ELEMENTWISE, None)
    for name, time in whole:
        kind = operator_class(name).value
        if kind in _LAYERS:
            kinds[kind] = max(kinds.get(kind, 0.0), time)
    if not kinds:
        return None
    first = max(kinds, key=lambda kind: kinds[kind])
    return _OF_CPU[first](), kinds[first]


def kind_of_copies(facts: Facts) -> Message | None:
    """What nearly all copies of a program on a CPU are for; None where that is several things, or unknown."""
    times = {row.name: row.host_total_ns for row in if_known(lambda: facts.operators)}
    least = _MOSTLY_FOR * times.get("aten::copy_", 0)
    return next((text() for name, text in _COPIES.items() if times.get(name, 0) >= least > 0), None)


def _kind_of_operator(name: str) -> str:
    """The class of what an operator of a CPU computes, or a kind of its own."""
    if name in _GATHERING:
        return "gathering"
    return "random" if _draws(name) else operator_class(name).value


def cache_ns(facts: Facts) -> int:
    """Time in ns, over all steps, of operators that copy a cache of keys or values that grows by one token at a time.

    A token is appended to tensors that are longer from call to call, and beams are reordered by their index.
    """
    rows = if_known(lambda: facts.shaped)
    grown = [(row, _grown(row.inputs.every_shape)) for row in rows if row.name == "aten::cat"]
    lengths: defaultdict[tuple[Shape, int], set[int]] = defaultdict(set)
    for _, one in grown:
        if one is not None:
            lengths[one[:2]].add(one[2])
    caches = {kind for kind, own in lengths.items() if len(own) > 1}
    copied = sum(row.host_self_ns for row, one in grown if one is not None and one[:2] in caches)
    return copied + sum(row.host_self_ns for row in rows if row.name in _REORDER and _is_of(row.inputs, caches))


def _is_of(inputs: Inputs, caches: Iterable[tuple[Shape, int]]) -> bool:
    """Whether the first tensor is a cache of some length."""
    return any(_without(inputs.tensors[0], axis) == rest for rest, axis in caches if inputs.tensors)


def _grown(shapes: tuple[Shape, ...]) -> tuple[Shape, int, int] | None:
    """The other axes, the axis and the length of a tensor of four axes to which one entry is appended; else None."""
    if [len(shape) for shape in shapes] != [_AXES, _AXES]:
        return None
    before, added = shapes
    axes = [axis for axis, (own, other) in enumerate(zip(before, added, strict=True)) if own != other == 1]
    is_one = len(axes) == 1 and _without(before, axes[0]) == _without(added, axes[0])
    return (_without(before, axes[0]), axes[0], before[axes[0]]) if is_one else None


def _without(shape: Shape, axis: int) -> Shape:
    """The sizes of all other axes."""
    return (*shape[:axis], *shape[axis + 1 :])


def is_mixed(facts: Facts) -> bool:
    """Whether most of what a device does moves data, but no class of that takes as long as one that computes."""
    times, _ = _by_class(facts)
    compute, moves = (max(times[name] for name in names) for names in (_COMPUTE, _MOVING))
    return compute > moves


def computing_and_moving(facts: Facts) -> tuple[Message, Message]:
    """The class that computes longest and all that move data, with their shares of kernels that do not communicate."""
    times, total = _by_class(facts)
    first = max(sorted(_COMPUTE), key=lambda name: times[name])
    moves = work_times(times)[1]
    return _SHARE(kind=_KINDS[first](), share=times[first] / total), _SHARE(kind=_MOVING_DATA(), share=moves / total)


def has_few_rows(facts: Facts) -> bool:
    """Whether most products of an inference have fewer blocks than the device has multiprocessors.

    So have those of a few rows, as of one token of each sequence, whose time is that of reading the weights.
    """
    fill = facts.find("sm_fill", SmFill)
    if fill is None or program.may_train(facts):
        return False
    times, _ = _by_class(facts)
    rows = [row for row in fill.rows if row.grid != _ONE_BLOCK and kernel_class(row.kernel) in _OF_ROWS]
    few = sum(row.total_ns for row in rows)
    made = ((generated(row.name), row.total_ns) for row in if_known(lambda: facts.kernels))
    few += sum(ns for kernel, ns in made if kernel is not None and is_product_of_a_row(kernel))
    return few > MOST * work_times(times)[0]


def reading_weights(facts: Facts) -> Named | None:
    """Products of matrices and single vectors, by the names of the kernels, if they are most of what computes."""
    own = sum(row.total_ns for row in if_known(lambda: facts.kernels) if reads_a_matrix_once(row.name))
    return (_WEIGHTS(), own) if own > MOST * work_times(_by_class(facts)[0])[0] else None


def with_shares(facts: Facts, found: StepBound) -> StepBound:
    """Add what the kernels of a busy device do most, of those that do not communicate."""
    times, total = _by_class(facts)
    most = [(name, time) for name, time in times.most_common() if name in _KINDS and time >= _WORTH_KIND * total]
    told = tuple(_SHARE(kind=_KINDS[name](), share=time / total) for name, time in most[:_KINDS_SHOWN])
    is_one = most[:1] and most[0][1] >= _ALL_OF_IT * total
    return found.and_says(_SHARES, kinds=told) if told and not is_one else found


def _by_class(facts: Facts) -> tuple[Counter[str], int]:
    """Time of kernels of the typical steps by class, and of all classes but collectives."""
    times: Counter[str] = Counter()
    found = facts.find("kernel_classes", KernelClasses)
    for row in rows_of(found) if found else ():
        times[row.name] += row.total_ns
    for row in if_known(lambda: facts.kernels):
        of = kernel_class(row.name).value
        for whole, part, is_part in _SPLIT:
            if of == whole and is_part(row.name.lower()):
                moved = min(row.total_ns, times[whole])
                times[whole] -= moved
                times[part] += moved
    return times, times.total() - times["communication"]


def work_times(times: Counter[str]) -> tuple[int, int]:
    """What computing, and what moving data, takes of times by class of kernels."""
    return sum(times[name] for name in _COMPUTE), sum(times[name] for name in _MOVING)
