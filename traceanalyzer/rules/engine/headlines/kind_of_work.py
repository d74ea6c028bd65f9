"""Which kind of work takes most of the GPU's time (computing, moving data, or unknown), and in which unit."""

from __future__ import annotations

from collections import Counter

from traceanalyzer.analyzers.kernels.classes import KernelClasses
from traceanalyzer.report.message import Message, Text
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.recording import Recording

MOST = 0.5
"""Share from which on something is most of the whole."""
_COMPUTE = frozenset({"gemm", "moe", "convolution", "attention"})
"""Classes of kernels that are bound by arithmetic at the sizes used in training."""
_MOVING = frozenset({"normalization", "elementwise", "reduction", "copy", "optimizer", "embedding", "pooling"})
"""Classes that mostly move data. Generated kernels without a known class and unknown kernels may be either."""
UNNAMED = "gpu"
"""The result if the names of the kernels do not decide what bounds a busy device."""
_TYPICAL_STEP = Text("headline-unit-typical", "a typical step", note="in the genitive: 35 of the 152 ms of ...")
_ONE_STEP = Text("headline-unit-step", "the step", note="in the genitive: 35 of the 152 ms of ...")
_RECORDING = Text("headline-unit-recording", "the recording", note="in the genitive: 35 of the 152 ms of ...")
_RECORDED = Text(
    "headline-unit-work", "recorded work", note="in the genitive: 35 of the 152 ms of ...; a part of a trace"
)
_WORTH_SECOND = 0.1
"""Least share of the time of what computes from which on a second class is named (own choice)."""
_WORK = {
    "gemm": Text("headline-work-gemm", "matrix products", note="after: the GPU computes, mostly"),
    "convolution": Text("headline-work-convolution", "convolutions", note="after: the GPU computes, mostly"),
    "attention": Text("headline-work-attention", "attention", note="after: the GPU computes, mostly"),
}
_TWO = Text("headline-work-two", "{first} and {second}", note="such as: matrix products and attention")
_OTHER_WORK = {
    "sorting": Text("headline-work-sorting", "sorting and selection", note="after: the GPU computes, mostly"),
    "recurrent": Text("headline-work-recurrent", "recurrent layers", note="after: the GPU computes, mostly"),
    "moe_routing": Text("headline-work-routing", "routing of tokens to experts", note="after: computes, mostly"),
    "sampling": Text("headline-work-sampling", "sampling of tokens", note="after: the GPU computes, mostly"),
    "linear_algebra": Text("headline-work-linear-algebra", "FFT or solvers", note="after: the GPU computes, mostly"),
}
"""Classes that are bound neither by arithmetic nor by memory as a rule."""
_KINDS = {
    **_WORK,
    **_OTHER_WORK,
    "moe": Text("headline-kind-experts", "products of experts", note="part of a list: matrix products 54 %"),
    "normalization": Text("headline-kind-normalization", "normalization", note="part of a list: matrix products 54 %"),
    "elementwise": Text("headline-kind-elementwise", "elementwise operations", note="part of a list: products 54 %"),
    "reduction": Text("headline-kind-reduction", "softmax and other reductions", note="part of a list: products 54 %"),
    "copy": Text("headline-kind-copy", "copies and layouts", note="part of a list: matrix products 54 %"),
    "embedding": Text("headline-kind-embedding", "embeddings", note="part of a list: matrix products 54 %"),
    "pooling": Text("headline-kind-pooling", "pooling and resampling", note="part of a list: matrix products 54 %"),
    "optimizer": Text("headline-kind-optimizer", "the optimizer", note="part of a list: matrix products 54 %"),
    "triton": Text("headline-kind-generated", "generated kernels", note="part of a list: matrix products 54 %"),
}
_WORTH_KIND, _KINDS_SHOWN = 0.05, 4
"""Least share of the kernels' time of a kind that is told, and how many are (own choice)."""
_ALL_OF_IT = 0.95
"""Share from which on one kind is all of it, which the sentence before has said."""
_SHARES = Text(
    "headline-kinds-of-kernels",
    "{headline} Of the time of its kernels: {kinds}.",
    note="headline is a sentence; it is the GPU; kinds is a list: matrix products 54 %, the optimizer 13 %",
)
_SHARE = Text("headline-kind-share", "{kind} {share:percent}", note="part of a list: matrix products 54 %")


def unit(recording: Recording) -> Message:
    """The unit of the figures: a typical step, the only step, or what was recorded of no marked step."""
    if recording.steps_from == "whole-trace":
        return _RECORDED() if recording.has_more else _RECORDING()
    return _ONE_STEP() if len(recording.steps) == 1 else _TYPICAL_STEP()


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


def computing(times: Counter[str]) -> Message:
    """What computes by times of classes: one of them, or two."""
    own = Counter({name: times[name] for name in _WORK})
    own["gemm"] += times["moe"]
    (first, most), (second, time), *_ = own.most_common()
    if time < _WORTH_SECOND * (most + time) or not time:
        return _WORK[first]()
    return _TWO(first=_WORK[first](), second=_WORK[second]())


def computing_of(facts: Facts) -> Message:
    """What computes in the kernels of a trace."""
    return computing(_by_class(facts)[0])


def other_work(facts: Facts) -> Message | None:
    """The class with most of the GPU's time, if it is bound neither by arithmetic nor by memory as a rule."""
    times, total = _by_class(facts)
    return next((text() for name, text in _OTHER_WORK.items() if times[name] >= MOST * total > 0), None)


def with_shares(facts: Facts, headline: Message) -> Message:
    """The sentence on a busy device, with what its kernels do most, of those that do not communicate."""
    times, total = _by_class(facts)
    most = [(name, time) for name, time in times.most_common() if name in _KINDS and time >= _WORTH_KIND * total]
    told = tuple(_SHARE(kind=_KINDS[name](), share=time / total) for name, time in most[:_KINDS_SHOWN])
    is_one = most[:1] and most[0][1] >= _ALL_OF_IT * total
    return _SHARES(headline=headline, kinds=told) if told and not is_one else headline


def _by_class(facts: Facts) -> tuple[Counter[str], int]:
    """Time of kernels by class, and of all classes but collectives."""
    times: Counter[str] = Counter()
    found = facts.find("kernel_classes", KernelClasses)
    for row in found.rows if found else ():
        times[row.name] += row.total_ns
    return times, found.total_ns - times["communication"] if found else 0


def work_times(times: Counter[str]) -> tuple[int, int]:
    """What computing, and what moving data, takes of times by class of kernels."""
    return sum(times[name] for name in _COMPUTE), sum(times[name] for name in _MOVING)
