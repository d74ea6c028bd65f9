"""Detects convolutions that take longer than they need, by their layout, a needless bias or norm, or their algorithm.

The rules are conv-layout-transposes, conv-bias-before-batchnorm, bn-not-folded-inference and cudnn-benchmark-off.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from traceanalyzer.analyzers.kernels import convolution_searches, convolutions
from traceanalyzer.knowledge.kernel_classes import KernelClass
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import if_known
from traceanalyzer.rules.engine.processor import Processor
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, EventSet, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.structure.events import ITS_OWN

_TRANSPOSES = page("conv-layout-transposes")
_BIAS = page("conv-bias-before-batchnorm")
_NOT_FOLDED = page("bn-not-folded-inference")
_ALGORITHMS = page("cudnn-benchmark-off")
_REMAINS = 0.5
"""Share of the layout conversions that is surely saved (own choice)."""
_TRANSPOSE = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|nhwcAddPadding|batched_transpose", re.IGNORECASE)
_IN_3D = (_TRANSPOSES.code or "").replace("channels_last", "channels_last_3d")
_CONVOLUTIONS = ("aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution", "aten::conv2d")
_NO_SEARCH = "torch.backends.cudnn.benchmark = False"
_BATCH_NORM = "aten::batch_norm"
_NORMS = (_BATCH_NORM, "aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::native_batch_norm")
_ON_CPU = frozenset({_BATCH_NORM, "aten::_batch_norm_impl_index", "aten::native_batch_norm"})
_FOLDED_ON_CPU = 0.9, 1.0
"""Least and most part of batch norms that goes away on a CPU, where oneDNN adds the bias within the convolution."""
_ADDITION = "aten::add_"
_BACKWARD = re.compile(r"Backward\d*$|_backward$|^autograd::engine")
_INFERS = re.compile(r"bn_fw_inf|FwdInfer", re.IGNORECASE)
_TRAINS = re.compile(r"bn_fw_tr|collect_statistics|FwdTrain", re.IGNORECASE)
_COUNTS = Text(
    "rule-norms-counts",
    "convolutions, batch norms and additions do not occur equally often, so a printed table does not show which "
    "belong together",
)


class _Norms(msgspec.Struct, frozen=True):
    """Convolutions that a batch norm follows, as sums over the whole recording."""

    calls: int
    """Number of these convolutions."""
    with_bias: int
    """Number of these that have a bias."""
    bias: EventTimes
    """What adds the biases and computes their gradients."""
    norm: EventTimes
    is_inference: bool
    """Nothing of a backward pass was recorded, and no batch norm computes statistics."""
    shown: EventTimes
    """Where both are: the convolutions, or the printed rows."""


def _transposes(facts: Facts, limits: Limits) -> Drafts:
    rows = [kernel for kernel in facts.kernels if _TRANSPOSE.search(kernel.name)]
    rows.sort(key=lambda kernel: (-kernel.total_ns, kernel.name))
    work = EventTimes.on_device(facts, ((kernel.events, kernel.total_ns) for kernel in rows))
    if work.share <= limits["gpu_share"] or not _convolves_on_tensor_cores(facts):
        return
    calls = facts.per_step(sum(kernel.calls for kernel in rows))
    change = work.shorter((_REMAINS, 1.0), _TRANSPOSES.text("basis")(remains=_REMAINS), host=ITS_OWN)
    evidence = _TRANSPOSES.evidence(limits, "gpu_share", work.share, facts.kernel_places(rows))
    params = {**work.figures(), "calls": round(calls)}
    yield Draft((evidence,), change, params, code=_IN_3D if _is_in_3d(facts) else None)


def _is_in_3d(facts: Facts) -> bool:
    """Whether convolutions are of volumes or videos, whose layout has a name of its own."""
    names = {row.name for row in if_known(lambda: facts.operators)}
    return "aten::conv3d" in names and "aten::conv2d" not in names


def _convolves_on_tensor_cores(facts: Facts) -> bool:
    """Whether most time of convolutions is in kernels that use Tensor Cores."""
    rows = [kernel for kernel in facts.kernels if kernel.kind is KernelClass.CONVOLUTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in rows if kernel.tensor_cores)
    return 2 * on_tensor_cores > sum(kernel.total_ns for kernel in rows)


def _bias(facts: Facts, limits: Limits) -> Drafts:
    norms = _norms(facts)
    if norms is None or not norms.with_bias or norms.bias.share <= limits["gpu_share"]:
        return
    evidence = _BIAS.evidence(limits, "gpu_share", norms.bias.share, norms.shown.places)
    change = norms.bias.shorter((1.0, 1.0), _BIAS.text("basis")(), host=ITS_OWN, at=convolutions.biases_at())
    yield Draft((evidence,), change, {**norms.bias.figures(), "calls": round(facts.per_step(norms.with_bias))})


def _not_folded(facts: Facts, limits: Limits) -> Drafts:
    if Processor.of(facts).is_cpu:
        yield from _not_folded_on_cpu(facts, limits)
        return
    norms = _norms(facts)
    if norms is None or not norms.is_inference or norms.norm.share <= limits["gpu_share"]:
        return
    # with the norm goes the addition of the bias, which becomes a part of the convolution
    folded = EventTimes.on_device(facts, (*norms.norm.ns.items(), *norms.bias.ns.items()))
    has_bias = norms.bias.total_ns > 0 and norms.with_bias == norms.calls
    least = norms.norm.total_ns if has_bias else 0.0
    basis = _NOT_FOLDED.text("basis") if has_bias else _NOT_FOLDED.text("basis-no-bias")
    change = folded.removed((least, folded.total_ns), basis(), host=ITS_OWN, at=convolutions.norms_at())
    evidence = _NOT_FOLDED.evidence(limits, "gpu_share", norms.norm.share, norms.shown.places)
    yield Draft((evidence,), change, {**norms.norm.figures(), "calls": round(facts.per_step(norms.calls))})


def _not_folded_on_cpu(facts: Facts, limits: Limits) -> Drafts:
    """Batch norms of an inference on the CPU, of which none computes statistics and no more run than convolutions."""
    processor = Processor.of(facts)
    rows = [row for row in facts.operators if row.name in _ON_CPU]
    calls = {row.name: row.calls for row in facts.operators}
    norms, pairs = calls.get(_BATCH_NORM, 0), max((calls.get(name, 0) for name in _CONVOLUTIONS), default=0)
    work = EventTimes.of(processor, ((row.events, processor.self_ns(row)) for row in rows)).longest_first
    trains = program.workload(facts) != "inference" or any(map(_BACKWARD.search, calls))
    counts_batches = calls.get(_ADDITION, 0) >= norms  # as each norm does in training mode
    if trains or counts_batches or not norms or norms > pairs or work.share <= limits["host_share"]:
        return
    subject = _NOT_FOLDED.text("subject-cpu")()
    yield Draft(
        (_NOT_FOLDED.evidence(limits, "host_share", work.share, work.places, subject=subject),),
        work.shorter(_FOLDED_ON_CPU, _NOT_FOLDED.text("basis-cpu")(least=_FOLDED_ON_CPU[0])),
        {**work.figures(), "calls": round(facts.per_step(norms))},
        summary=_NOT_FOLDED.text("summary-cpu"),
        advice=_NOT_FOLDED.text("advice-cpu"),
    )


def _norms(facts: Facts) -> _Norms | None:
    """Convolutions and batch norms: in a trace by their order, in a table by their counts; None without them.

    Raises:
        Missing: A trace has no convolutions, or the counts of a table do not decide it.
    """
    return _recorded_norms(facts) if facts.table is None else _printed_norms(facts)


def _recorded_norms(facts: Facts) -> _Norms:
    norms = facts.need("convolution_norms", convolutions.ConvolutionNorms)
    by_shape = EventTimes.on_device(facts, ((row.events, row.bias_ns + row.norm_ns) for row in norms.rows))
    return _Norms(
        calls=norms.with_norm,
        with_bias=norms.with_bias,
        bias=_named(facts, {_ADDITION: norms.bias_ns, "aten::sum": norms.bias_gradient_ns}),
        norm=_named(facts, {_BATCH_NORM: norms.norm_ns}),
        is_inference=not norms.has_backward and not norms.trains,
        shown=by_shape,
    )


def _printed_norms(facts: Facts) -> _Norms | None:
    """Sums of a table: as many convolutions as batch norms (and as additions in place, if they have a bias)."""
    calls = {row.name: row.calls for row in facts.operators}
    pairs = _first(calls, _CONVOLUTIONS)
    norms = _first(calls, _NORMS)
    if not pairs or not norms:
        return None
    has_bias = calls.get(_ADDITION) == pairs
    if pairs != norms or (not has_bias and calls.get(_ADDITION, 0) > pairs):
        raise Missing(_COUNTS())
    device = {row.name: row.device_self_ns for row in facts.operators}
    bias = {_ADDITION: device[_ADDITION]} if has_bias else {}
    by_name = {name: device[name] for name in _NORMS if device.get(name)}
    return _Norms(
        calls=norms,
        with_bias=pairs if has_bias else 0,
        bias=_named(facts, bias),
        norm=_named(facts, {_BATCH_NORM: sum(by_name.values())}),
        is_inference=_is_inference(facts, calls),
        shown=_named(facts, bias | by_name),
    )


def _named(facts: Facts, times: Mapping[str, int]) -> EventTimes:
    """Operators by name, those that take some time."""
    return EventTimes.on_device(facts, ((EventSet.operator(name), ns) for name, ns in times.items() if ns))


def _first(calls: Mapping[str, int], names: Iterable[str]) -> int:
    """Calls of the first of some operators that occurs; 0 if none does."""
    return next((calls[name] for name in names if calls.get(name)), 0)


def _is_inference(facts: Facts, operators: Iterable[str]) -> bool:
    """Whether there are kernels for inference, none for training, and no backward pass."""
    kernels = [kernel.name for kernel in facts.kernels]
    infers = any(map(_INFERS.search, kernels)) and not any(map(_TRAINS.search, kernels))
    return infers and not any(map(_BACKWARD.search, operators))


def _algorithms(facts: Facts, limits: Limits) -> Drafts:
    found = program.searches(facts)
    yield from _seen_ways(facts, limits) if found is None else _searched(facts, limits, found)


def _searched(facts: Facts, limits: Limits, found: convolution_searches.ConvolutionSearches) -> Drafts:
    """Algorithms that are tried out in most steps, because sizes keep changing."""
    tried = EventTimes.on_device(facts, ((found.events, found.device_ns),))
    if tried.share <= limits["search_share"]:
        return
    saved = float(found.device_ns - found.longest_ns), float(found.device_ns - found.mean_ns)
    said = {"calls": round(facts.per_step(found.calls)), "kernels": round(found.kernels / found.calls)}
    yield Draft(
        (_ALGORITHMS.evidence(limits, "search_share", tried.share, tried.places, subject=_ALGORITHMS.text("tried")()),),
        tried.removed(saved, _ALGORITHMS.text("basis-search")(), host=ITS_OWN),
        {**said, "time": OfEvents(facts.on_device(found.device_ns))},
        title=_ALGORITHMS.text("title-search"),
        summary=_ALGORITHMS.text("summary-search"),
        advice=_ALGORITHMS.text("advice-search"),
        code=_NO_SEARCH,
    )


def _seen_ways(facts: Facts, limits: Limits) -> Drafts:
    measured = facts.need("convolution_algorithms", convolutions.ConvolutionAlgorithms)
    rows = [row for row in measured.rows if row.saving_ns and row.algorithms[-1].calls >= limits["calls"]]
    saved = EventTimes.on_device(facts, ((row.events, row.saving_ns) for row in rows))
    if saved.share <= limits["gpu_share"] or program.wants_cudnn_choice(facts):
        return
    where = tuple(_saving(facts, row) for row in rows)
    best, *_, slow = rows[0].algorithms
    params = {
        "count": len(rows),
        "operator": rows[0].name,
        "shapes": rows[0].input_shapes,
        "slow": slow.device_ns / slow.calls,
        "best": best.device_ns / best.calls,
        "time": OfEvents(facts.on_device(sum(way.device_ns for row in rows for way in row.algorithms))),
    }
    evidence = _ALGORITHMS.evidence(limits, "gpu_share", saved.share, where)
    change = saved.shorter((0.0, 1.0), _ALGORITHMS.text("basis")())
    yield Draft((evidence,), change, params, ceiling="low")


def _saving(facts: Facts, row: convolutions.ConvolutionChoice) -> CodePlace:
    """A convolution with the time that its best algorithm saves."""
    return CodePlace("operator", row.name, row.input_shapes, facts.on_device(row.saving_ns), "ns")


RULES = (
    _TRANSPOSES.rule(trace=_transposes, table=_transposes),
    _BIAS.rule(trace=_bias, table=_bias),
    _NOT_FOLDED.rule(trace=_not_folded, table=_not_folded),
    _ALGORITHMS.rule(trace=_algorithms),
)
