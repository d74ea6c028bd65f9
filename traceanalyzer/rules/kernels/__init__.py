"""Detects kernels that take longer than they need: by their types, shapes or algorithms, or by what they leave empty.

The rules here are sm-underfilled and occupancy-low (multiprocessors or warps of the GPU are empty), and
kernel-dominates: one kernel of the program's own has most of the time. The other modules are about a kernel's work.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import fsum

from traceanalyzer.analyzers import kernels as analysis
from traceanalyzer.analyzers.kernels import sm_fill
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.rules.engine import processor, program
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import if_known
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, page
from traceanalyzer.rules.kernels import (
    attention,
    bandwidth,
    clocks,
    convolutions,
    double_precision,
    experts,
    indexing,
    layers,
    precision,
    products,
    widths,
)

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
_MOST_SORTED = 0.9
"""Greatest part of sorting that taking the largest saves (own choice, not measured)."""
_SORTS = frozenset({"aten::sort", "aten::argsort", "aten::msort"})
"""Operators that sort all values."""
_LIVES_ON_OCCUPANCY = frozenset(
    kind.value
    for kind in (
        KernelClass.ELEMENTWISE,
        KernelClass.DEQUANTIZATION,
        KernelClass.REDUCTION,
        KernelClass.NORMALIZATION,
        KernelClass.COPY,
        KernelClass.OPTIMIZER,
    )
)


def _underfilled(facts: Facts, limits: Limits) -> Drafts:
    rows = [
        row for row in facts.need("sm_fill", sm_fill.SmFill).rows if row.total_ns >= limits["kernel_ns"] * row.calls
    ]
    rows.sort(key=lambda row: (-_lost(row), row.kernel, row.operator or "", row.grid))
    lost = EventTimes.on_device(facts, ((row.events, _lost(row)) for row in rows))
    if lost.share <= limits["lost_share"]:
        return
    where = tuple(CodePlace("kernel", row.kernel, None, row.blocks_per_sm, "number") for row in rows)
    evidence = _UNDERFILLED.evidence(limits, "lost_share", lost.share, where)
    gaining = _gaining(facts, rows)
    change = _spread(facts, gaining) if gaining else None
    said = gaining or rows  # one set of kernels for the time, its share and how much of the GPU they fill
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in said))
    fill = fsum(row.fill * row.total_ns for row in said) / work.total_ns
    advice = None if change else _UNDERFILLED.text("advice-throughput")
    if program.serves(facts):
        advice = _UNDERFILLED.text("advice-serving")
    severity = None if change else "info"
    yield Draft((evidence,), change, {**work.figures(), "fill": fill}, severity, ceiling="high", advice=advice)


def _gaining(facts: Facts, rows: Iterable[sm_fill.UnfilledKernel]) -> tuple[sm_fill.UnfilledKernel, ...]:
    """The kernels that memory does not bound."""
    of_memory = _operators_of_memory(facts)
    return tuple(row for row in rows if row.operator not in of_memory and not _waits_for_memory(row.kernel))


def _spread(facts: Facts, gaining: tuple[sm_fill.UnfilledKernel, ...]) -> StepChange:
    """The change if these kernels were spread over all multiprocessors."""
    saved = EventTimes.on_device(facts, ((row.events, _lost(row)) for row in gaining))
    return saved.shorter((0.0, 1.0), _UNDERFILLED.text("basis")(), at=sm_fill.unfilled_at(rows=gaining))


def _waits_for_memory(kernel: str) -> bool:
    """Whether the memory bounds what such a kernel does, by its name."""
    return kernel_class(kernel).value in _LIVES_ON_OCCUPANCY


def _operators_of_memory(facts: Facts) -> set[str]:
    """Operators whose calls are mostly bound by memory, by operations and bytes of their shapes."""
    rows = [row for row in processor.roofline_rows(facts).values() if row.bound is not None]
    signed = dict.fromkeys((row.name for row in rows), 0)
    for row in rows:
        signed[row.name] += row.device_ns if row.bound == "memory" else -row.device_ns
    return {name for name, ns in signed.items() if ns > 0}


def _lost(row: sm_fill.UnfilledKernel) -> float:
    """Time lost in multiprocessors without a block, converted to time of the whole GPU, in ns."""
    return row.total_ns * (1 - row.fill)


def _low(facts: Facts, limits: Limits) -> Drafts:
    kernels = facts.need("kernels", analysis.Kernels).rows
    if not any(row.mean_est_achieved_occupancy for row in kernels):
        raise Missing(_LOW.text("no-figure")())
    rows = [row for row in kernels if row.total_ns >= limits["gpu_share"] * facts.gpu_total_ns and _counts(row, limits)]
    if not rows:
        return
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in rows))
    where = tuple(CodePlace("kernel", row.name, None, row.mean_est_achieved_occupancy, "share") for row in rows)
    longest = rows[0]
    evidence = _LOW.evidence(limits, "occupancy", longest.mean_est_achieved_occupancy or 0.0, where)
    named = {"kernel": longest.name, "occupancy": longest.mean_est_achieved_occupancy}
    yield Draft((evidence,), params={**named, **work.figures()}, severity="info")


def _counts(row: analysis.Kernel, limits: Limits) -> bool:
    """Whether a kernel has a known low occupancy, blocks for the whole device, and is not bound by its launch."""
    occupancy, blocks = row.mean_est_achieved_occupancy, row.mean_blocks_per_sm
    is_low = bool(occupancy) and (occupancy or 0.0) < limits["occupancy"]
    fills = blocks is None or blocks >= 1
    is_known = row.kernel_class in _LIVES_ON_OCCUPANCY
    return is_low and fills and row.mean_ns >= limits["kernel_ns"] and is_known and not is_generated(row.name)


def _dominates(facts: Facts, limits: Limits) -> Drafts:
    yield from _sorts(facts, limits)
    row = min(facts.kernels, key=lambda kernel: (-kernel.total_ns, kernel.name))
    busy = facts.busy_share
    if _OF_LIBRARY.search(row.name):
        return
    work = EventTimes.on_device(facts, [(row.events, row.total_ns)])
    mean = row.total_ns / row.calls
    is_short = busy <= limits["busy_share"] or mean < limits["kernel_ns"]
    if work.share <= limits["gpu_share"] or is_short or row.kind is KernelClass.COMMUNICATION:
        return
    evidence = (
        _DOMINATES.evidence(limits, "gpu_share", work.share, work.places),
        _DOMINATES.evidence(limits, "busy_share", busy, subject=_DOMINATES.text("busy")()),
    )
    configuration = _configuration(facts, row.name)
    params = {
        "kernel": row.name,
        **work.figures(),
        "mean": mean,
        "calls": max(1, round(facts.per_step(row.calls))),
        "call": _CALLS.get(row.kind, ""),
        **configuration,
    }
    summary = None if configuration else _DOMINATES.text("summary-unknown")
    advice = _DOMINATES.text("advice-library") if row.kind in _CALLS else None
    yield Draft(evidence, None, params, "low", summary=summary, advice=advice)


def _sorts(facts: Facts, limits: Limits) -> Drafts:
    """Sorting, of which a program often uses only the largest values."""
    rows = [row for row in if_known(lambda: facts.operators) if row.name in _SORTS]
    work = EventTimes.on_device(facts, ((row.events, row.device_self_ns) for row in rows))
    if work.share <= limits["gpu_share"] or facts.busy_share <= limits["busy_share"]:
        return
    evidence = _DOMINATES.evidence(limits, "gpu_share", work.share, work.places, subject=_DOMINATES.text("sorting")())
    change = work.shorter((0.0, _MOST_SORTED), _DOMINATES.text("basis-sort")(most=_MOST_SORTED))
    yield Draft(
        (evidence,),
        change,
        work.figures(),
        confidence="C",
        title=_DOMINATES.text("title-sort"),
        summary=_DOMINATES.text("summary-sort"),
        advice=_DOMINATES.text("advice-sort"),
    )


def _configuration(facts: Facts, kernel: str) -> dict[str, str]:
    """Grid and block of most of a kernel's time, where they were recorded."""
    launched = facts.find("kernels_by_operator", analysis.KernelsByOperator)
    ways = [way for way in (launched.rows if launched else ()) if way.name == kernel and way.grid and way.block]
    longest = max(ways, key=lambda way: (way.total_ns, way.grid), default=None)
    return {"grid": longest.grid, "block": longest.block} if longest else {}


RULES = (
    _UNDERFILLED.rule(trace=_underfilled),
    _LOW.rule(trace=_low),
    _DOMINATES.rule(trace=_dominates),
    *convolutions.RULES,
    *precision.RULES,
    *widths.RULES,
    *double_precision.RULES,
    *products.RULES,
    *experts.RULES,
    *layers.RULES,
    *bandwidth.RULES,
    *clocks.RULES,
    *attention.RULES,
    *indexing.RULES,
)
