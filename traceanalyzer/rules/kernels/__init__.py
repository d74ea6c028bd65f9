"""Detects kernels that take longer than they need: by their types, shapes or algorithms, or by what they leave empty.

The rules here are sm-underfilled and occupancy-low (multiprocessors or warps of the GPU are empty), and those about
convolutions: conv-layout-transposes, conv-bias-before-batchnorm, bn-not-folded-inference and cudnn-benchmark-off. One
kernel of the program's own with most of the time is kernel-dominates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import Kernel, Kernels, KernelsByOperator, SmFill, UnfilledKernel, unfilled_at
from traceanalyzer.analyzers.kernels.convolutions import ConvolutionAlgorithms, ConvolutionNorms, biases_at, norms_at
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import DeviceWork, summed
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, OfEvents, page
from traceanalyzer.rules.kernels import double_precision, layers, precision, products
from traceanalyzer.structure.events import ITS_OWN, EventSet

_UNDERFILLED = page("sm-underfilled")
_LOW = page("occupancy-low")
_DOMINATES = page("kernel-dominates")
_OF_LIBRARY = re.compile(
    r"at::|c10::|cub::|thrust::|cutlass|cublas|cudnn|cask|xmma|nvjet|magma|hipblas|rocblas|miopen|ck::|ck_tile|aiter|"
    r"flash|fmha|\bnccl|^(?:ampere|volta|turing|maxwell|pascal|hopper|sm\d\d|gemv|gemm)[A-Za-z0-9]*_|^Cijk_|^triton_",
    re.IGNORECASE,
)
"""Names of kernels of libraries, and of Inductor."""
_CALLS = {
    KernelClass.GEMM: "torch.matmul",
    KernelClass.MOE: "torch._grouped_mm",
    KernelClass.CONVOLUTION: "torch.nn.functional.conv2d",
    KernelClass.ATTENTION: "torch.nn.functional.scaled_dot_product_attention",
    KernelClass.NORMALIZATION: "torch.nn.functional.layer_norm",
    KernelClass.REDUCTION: "torch.softmax, torch.sum",
    KernelClass.SORTING: "torch.sort, torch.cumsum",
}
"""Calls of torch that do the work of a class of kernels."""
_LIVES_ON_OCCUPANCY = frozenset(
    {
        KernelClass.ELEMENTWISE,
        KernelClass.REDUCTION,
        KernelClass.NORMALIZATION,
        KernelClass.COPY,
        KernelClass.OPTIMIZER,
    }
)
_TRANSPOSES = page("conv-layout-transposes")
_BIAS = page("conv-bias-before-batchnorm")
_NOT_FOLDED = page("bn-not-folded-inference")
_ALGORITHMS = page("cudnn-benchmark-off")
_REMAINS = 0.5
"""Share of the layout conversions that is surely saved (own choice)."""
_TRANSPOSE = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|nhwcAddPadding|batched_transpose", re.IGNORECASE)
_CONVOLUTIONS = ("aten::cudnn_convolution", "aten::miopen_convolution", "aten::convolution", "aten::conv2d")
_NORMS = ("aten::batch_norm", "aten::cudnn_batch_norm", "aten::miopen_batch_norm", "aten::native_batch_norm")
_ADDITION = "aten::add_"
_BACKWARD = re.compile(r"Backward\d*$|_backward$|^autograd::engine")
_INFERS = re.compile(r"bn_fw_inf|FwdInfer", re.IGNORECASE)
_TRAINS = re.compile(r"bn_fw_tr|collect_statistics|FwdTrain", re.IGNORECASE)
_COUNTS = Text(
    "rule-norms-counts",
    "convolutions, batch norms and additions do not occur equally often, so a printed table does not show which "
    "belong together",
)


def _underfilled(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.need("sm_fill", SmFill).rows if row.total_ns >= limits["kernel_ns"] * row.calls]
    lost = fsum(_lost(row) for row in rows)
    share = facts.gpu_share(lost)
    if share <= limits["lost_share"]:
        return
    rows.sort(key=lambda row: (-_lost(row), row.kernel, row.operator or "", row.grid))
    time = sum(row.total_ns for row in rows)
    claims = summed((row.events, facts.on_device(_lost(row))) for row in rows)
    where = tuple(CodePlace("kernel", row.kernel, None, row.blocks_per_sm, "number") for row in rows)
    params = {
        "time": OfEvents(facts.on_device(time)),
        "share": facts.gpu_share(time),
        "fill": fsum(row.fill * row.total_ns for row in rows) / time,
    }
    yield Draft(
        (Evidence(_UNDERFILLED.text("subject")(), share, limits["lost_share"], "share", where),),
        DeviceWork(
            (0.0, facts.on_device(lost)),
            _UNDERFILLED.text("basis")(),
            claims=claims,
            at=unfilled_at(rows=tuple(rows)),
        ),
        params,
        ceiling="high",
        advice=_UNDERFILLED.text("advice-serving") if program.serves(facts) else None,
    )


def _lost(row: UnfilledKernel) -> float:
    """Time lost in multiprocessors without a block, converted to time of the whole GPU, in ns."""
    return row.total_ns * (1 - row.fill)


def _low(facts: Facts, limits: Limits) -> Drafts:
    kernels = facts.need("kernels", Kernels).rows
    if not any(row.mean_est_achieved_occupancy for row in kernels):
        raise Missing(_LOW.text("no-figure")())
    rows = [row for row in kernels if _counts(row, limits) and row.total_ns >= limits["gpu_share"] * facts.gpu_total_ns]
    if not rows:
        return
    longest, time = rows[0], sum(row.total_ns for row in rows)
    where = tuple(CodePlace("kernel", row.name, None, row.mean_est_achieved_occupancy, "share") for row in rows)
    occupancy = longest.mean_est_achieved_occupancy or 0.0
    evidence = Evidence(_LOW.text("subject")(), occupancy, limits["occupancy"], "share", where)
    params = {
        "kernel": longest.name,
        "occupancy": longest.mean_est_achieved_occupancy,
        "time": OfEvents(facts.on_device(time)),
        "share": facts.gpu_share(time),
    }
    yield Draft((evidence,), params=params, severity="info")


def _dominates(facts: Facts, limits: Limits) -> Drafts:
    rows = sorted(facts.kernels, key=lambda row: (-row.total_ns, row.name))
    own = facts.need_step_resources()
    if not rows or not own.step_ns or _OF_LIBRARY.search(rows[0].name):
        return
    row, kind = rows[0], kernel_class(rows[0].name)
    share, busy, mean = facts.gpu_share(row.total_ns), (own.gpu_ns or 0.0) / own.step_ns, row.total_ns / row.calls
    is_short = busy <= limits["busy_share"] or mean < limits["kernel_ns"]
    if share <= limits["gpu_share"] or is_short or kind is KernelClass.COMMUNICATION:
        return
    launched = facts.find("kernels_by_operator", KernelsByOperator)
    ways = [way for way in (launched.rows if launched else ()) if way.name == row.name and way.grid and way.block]
    evidence = (
        Evidence(_DOMINATES.text("subject")(), share, limits["gpu_share"], "share", facts.kernel_places(rows[:1])),
        Evidence(_DOMINATES.text("busy")(), busy, limits["busy_share"], "share", ()),
    )
    params = {"kernel": row.name, "time": facts.on_device(row.total_ns), "share": share, "mean": mean}
    params |= {"calls": max(1, round(facts.per_step(row.calls))), "call": _CALLS.get(kind, "")}
    if ways:
        longest = max(ways, key=lambda way: (way.total_ns, way.grid))
        params |= {"grid": longest.grid, "block": longest.block}
    summary = None if ways else _DOMINATES.text("summary-unknown")
    advice = _DOMINATES.text("advice-library") if kind in _CALLS else None
    yield Draft(evidence, None, params, "low", summary=summary, advice=advice)


def _counts(row: Kernel, limits: Limits) -> bool:
    """Whether a kernel has a known low occupancy, blocks for the whole device, and is not bound by its launch."""
    occupancy, blocks = row.mean_est_achieved_occupancy, row.mean_blocks_per_sm
    is_low = bool(occupancy) and (occupancy or 0.0) < limits["occupancy"]
    fills = blocks is None or blocks >= 1
    is_known = kernel_class(row.name) in _LIVES_ON_OCCUPANCY and not is_generated(row.name)
    return is_low and fills and row.mean_ns >= limits["kernel_ns"] and is_known


class _Norms(msgspec.Struct, frozen=True):
    """Convolutions that a batch norm follows, as sums over the whole recording."""

    calls: int
    """Number of these convolutions."""
    with_bias: int
    """Number of these that have a bias."""
    bias_ns: int
    bias_gradient_ns: int
    norm_ns: int
    is_inference: bool
    """Nothing of a backward pass was recorded, and no batch norm computes statistics."""
    bias_claims: Mapping[EventSet, int]
    """Keys of a change's claims to ns of the recording."""
    norm_claims: Mapping[EventSet, int]
    places: tuple[CodePlace, ...]


def _transposes(facts: Facts, limits: Limits) -> Drafts:
    rows = [kernel for kernel in facts.kernels if _TRANSPOSE.search(kernel.name)]
    rows.sort(key=lambda kernel: (-kernel.total_ns, kernel.name))
    work = EventTimes.on_device(facts, ((kernel.events, kernel.total_ns) for kernel in rows))
    if work.share <= limits["gpu_share"] or not _convolves_on_tensor_cores(facts):
        return
    calls = facts.per_step(sum(kernel.calls for kernel in rows))
    change = work.shorter((_REMAINS, 1.0), _TRANSPOSES.text("basis")(remains=_REMAINS), host=ITS_OWN)
    evidence = _TRANSPOSES.evidence(limits, "gpu_share", work.share, facts.kernel_places(rows))
    yield Draft((evidence,), change, {**work.figures(), "calls": round(calls)})


def _convolves_on_tensor_cores(facts: Facts) -> bool:
    """Whether most time of convolutions is in kernels that use Tensor Cores."""
    convolutions = [kernel for kernel in facts.kernels if kernel_class(kernel.name) is KernelClass.CONVOLUTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in convolutions if kernel.tensor_cores)
    return 2 * on_tensor_cores > sum(kernel.total_ns for kernel in convolutions)


def _bias(facts: Facts, limits: Limits) -> Drafts:
    norms = _norms(facts)
    if norms is None or not norms.with_bias:
        return
    total = norms.bias_ns + norms.bias_gradient_ns
    share = facts.gpu_share(total)
    if share <= limits["gpu_share"]:
        return
    time = facts.on_device(total)
    claims = {key: facts.on_device(ns) for key, ns in norms.bias_claims.items() if ns}
    yield Draft(
        (Evidence(_BIAS.text("subject")(), share, limits["gpu_share"], "share", norms.places),),
        DeviceWork((time, time), _BIAS.text("basis")(), claims=claims, host=ITS_OWN, at=biases_at()),
        {"time": OfEvents(time), "share": share, "calls": round(facts.per_step(norms.with_bias))},
    )


def _not_folded(facts: Facts, limits: Limits) -> Drafts:
    norms = _norms(facts)
    if norms is None or not norms.is_inference or not norms.norm_ns:
        return
    share = facts.gpu_share(norms.norm_ns)
    if share <= limits["gpu_share"]:
        return
    norm, bias = facts.on_device(norms.norm_ns), facts.on_device(norms.bias_ns)
    has_bias = norms.bias_ns > 0 and norms.with_bias == norms.calls
    direct = (norm, norm + bias) if has_bias else (0.0, norm + bias)
    claims = {key: facts.on_device(ns) for key, ns in (*norms.norm_claims.items(), *norms.bias_claims.items()) if ns}
    basis = _NOT_FOLDED.text("basis") if has_bias else _NOT_FOLDED.text("basis-no-bias")
    yield Draft(
        (Evidence(_NOT_FOLDED.text("subject")(), share, limits["gpu_share"], "share", norms.places),),
        DeviceWork(direct, basis(), claims=claims, host=ITS_OWN, at=norms_at()),
        {"time": OfEvents(norm), "share": share, "calls": round(facts.per_step(norms.calls))},
    )


def _norms(facts: Facts) -> _Norms | None:
    """Convolutions and batch norms: in a trace by their order, in a table by their counts; None without them.

    Raises:
        Missing: A trace has no convolutions, or the counts of a table do not decide it.
    """
    return _recorded_norms(facts) if facts.table is None else _printed_norms(facts)


def _recorded_norms(facts: Facts) -> _Norms:
    norms = facts.need("convolution_norms", ConvolutionNorms)
    times = ((row, facts.at_place(row.bias_ns + row.norm_ns)) for row in norms.rows)
    where = tuple(CodePlace("operator", row.name, row.input_shapes or None, time, "ns") for row, time in times)
    return _Norms(
        norms.with_norm,
        norms.with_bias,
        norms.bias_ns,
        norms.bias_gradient_ns,
        norms.norm_ns,
        not norms.has_backward and not norms.trains,
        {EventSet.operator("aten::add_"): norms.bias_ns, EventSet.operator("aten::sum"): norms.bias_gradient_ns},
        {EventSet.operator("aten::batch_norm"): norms.norm_ns},
        where,
    )


def _printed_norms(facts: Facts) -> _Norms | None:
    """Sums of a table: as many convolutions as batch norms (and as additions in place, if they have a bias)."""
    calls = {row.name: row.calls for row in facts.operators}
    device = {row.name: row.device_self_ns for row in facts.operators}
    convolutions, norms = (_first(calls, names) for names in (_CONVOLUTIONS, _NORMS))
    if not convolutions or not norms:
        return None
    has_bias = calls.get(_ADDITION) == convolutions
    if convolutions != norms or (not has_bias and calls.get(_ADDITION, 0) > convolutions):
        raise Missing(_COUNTS())
    bias = device[_ADDITION] if has_bias else 0
    norm = sum(device.get(name, 0) for name in _NORMS)
    names = (*((_ADDITION,) if has_bias else ()), *(name for name in _NORMS if device.get(name)))
    return _Norms(
        norms,
        convolutions if has_bias else 0,
        bias,
        0,
        norm,
        _is_inference(facts, calls),
        {EventSet.operator(_ADDITION): bias},
        {EventSet.operator("aten::batch_norm"): norm},
        tuple(CodePlace("row", name, None, device[name], "ns") for name in names),
    )


def _first(calls: Mapping[str, int], names: Iterable[str]) -> int:
    """Calls of the first of some operators that occurs; 0 if none does."""
    return next((calls[name] for name in names if calls.get(name)), 0)


def _is_inference(facts: Facts, operators: Iterable[str]) -> bool:
    """Whether there are kernels for inference, none for training, and no backward pass."""
    kernels = [kernel.name for kernel in facts.kernels]
    infers = any(map(_INFERS.search, kernels)) and not any(map(_TRAINS.search, kernels))
    return infers and not any(map(_BACKWARD.search, operators))


def _algorithms(facts: Facts, limits: Limits) -> Drafts:
    measured = facts.need("convolution_algorithms", ConvolutionAlgorithms)
    rows = [row for row in measured.rows if row.saving_ns and row.algorithms[-1].calls >= limits["calls"]]
    saved = fsum(row.saving_ns for row in rows)
    share = facts.gpu_share(saved)
    if share <= limits["gpu_share"] or program.wants_cudnn_choice(facts):
        return
    savings = [facts.on_device(row.saving_ns) for row in rows]
    pairs = list(zip(rows, savings, strict=True))
    where = tuple(CodePlace("operator", row.name, row.input_shapes, saving, "ns") for row, saving in pairs)
    claims = {row.events: saving for row, saving in pairs}
    slow, best = rows[0].algorithms[-1], rows[0].algorithms[0]
    params = {
        "count": len(rows),
        "operator": rows[0].name,
        "shapes": rows[0].input_shapes,
        "slow": slow.device_ns / slow.calls,
        "best": best.device_ns / best.calls,
        "time": OfEvents(facts.on_device(sum(way.device_ns for row in rows for way in row.algorithms))),
    }
    evidence = Evidence(_ALGORITHMS.text("subject")(), share, limits["gpu_share"], "share", where)
    change = DeviceWork((0.0, facts.on_device(saved)), _ALGORITHMS.text("basis")(), claims=claims)
    yield Draft((evidence,), change, params, ceiling="low")


RULES = (
    _UNDERFILLED.rule(trace=_underfilled),
    _LOW.rule(trace=_low),
    _DOMINATES.rule(trace=_dominates),
    _TRANSPOSES.rule(trace=_transposes, table=_transposes),
    _BIAS.rule(trace=_bias, table=_bias),
    _NOT_FOLDED.rule(trace=_not_folded, table=_not_folded),
    _ALGORITHMS.rule(trace=_algorithms),
    *precision.RULES,
    *double_precision.RULES,
    *products.RULES,
    *layers.RULES,
)
