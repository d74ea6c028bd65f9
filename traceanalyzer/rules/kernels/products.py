"""Detects matrix products that are slower than their size explains, or that a narrower type would speed up.

The rules are matmul-dims-misaligned, gemm-degenerate, gemm-below-roof and fp8-eligible.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels import KernelsByShape, roofline
from traceanalyzer.knowledge.inputs import Inputs
from traceanalyzer.knowledge.op_shapes import sides
from traceanalyzer.rules.engine import processor, program
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import KernelFact, OperatorFact
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, Missing, page

_MISALIGNED = page("matmul-dims-misaligned")
_DEGENERATE = page("gemm-degenerate")
_BELOW_ROOF = page("gemm-below-roof")
_FP8 = page("fp8-eligible")

_UNIT = {"c10::Half": 8, "c10::BFloat16": 8, "signed char": 16}
_UNIT_FP8 = 16
"""Divisor of the sides of products in FP8 (documentation of torch's scaled products and of torchao)."""
_SAME_SIZE = 2.0
"""Own choice: products whose work and intensity differ by less than this factor reach the same pace."""
_WITHOUT_PEER = 0.3
"""Share of the time that padding saves without a peer to compare with (own choice: the cases of NVIDIA's guide)."""
_ALIGNMENT = re.compile(r"align(\d+)")

_REACHABLE = 0.6
"""Share of the dense peak that large products of tuned libraries reach: 59 to 75 % of an H100's 989 TFLOP/s for bf16
products with sides of 768 to 25,000 in traces of language and video models."""
_NARROW = ("Half", "BFloat16", "Float8")
"""Types that matrix units are made for."""
_TUNED = "os.environ['PYTORCH_TUNABLEOP_ENABLED'] = '1'  # before the first product"

_HALF = ("c10::Half", "c10::BFloat16")
_IN_FP8 = re.compile(r"e[45]m[23]|fp8|float8|(?<![0-9a-f])bf8(?![0-9a-f])|scaled_mm|(?-i:_(?:F8|B8))", re.IGNORECASE)
"""Names of operators, types and kernels in FP8; AMD's libraries write `Cijk_..._F8...` and `..._B8...`. Within a hash,
`bf8` means nothing."""
_INFERENCE = "torchao.quantization.quantize_(model, torchao.quantization.Float8DynamicActivationFloat8WeightConfig())"


class _Slow(msgspec.Struct, frozen=True):
    row: roofline.RooflineRow
    share: float
    """Share of the peak that the product reaches, divided by the share that aligned products reach."""
    least_ns: float
    most_ns: float
    """What alignment saves, in all calls."""
    has_peer: bool
    """Whether there are aligned products of its type to compare with; else it is compared with the roof itself."""


def _misaligned(facts: Facts, limits: Limits) -> Drafts:
    slow = _slow(facts, limits)
    work = _work(facts, (entry.row for entry in slow))
    if not slow or work.share <= limits["gpu_share"]:
        return
    saved = EventTimes.on_device(facts, ((entry.row.events, entry.most_ns) for entry in slow))
    least = fsum(entry.least_ns for entry in slow)
    worst = slow[0]
    params = {
        **work.figures(),
        "operator": worst.row.name,
        "shapes": worst.row.input_shapes,
        "pace": worst.share,
    }
    subject = _MISALIGNED.text("subject") if worst.has_peer else _MISALIGNED.text("subject-alone")
    yield Draft(
        (_MISALIGNED.evidence(limits, "pace", worst.share, work.places, subject=subject()),),
        saved.removed((least, saved.total_ns), _MISALIGNED.text("basis")(most=_WITHOUT_PEER)),
        params,
        ceiling="medium",
        summary=None if worst.has_peer else _MISALIGNED.text("summary-alone"),
    )


def _work(facts: Facts, rows: Iterable[roofline.RooflineRow]) -> EventTimes:
    """Products with all of their time."""
    return EventTimes.on_device(facts, ((row.events, row.device_ns) for row in rows))


def _slow(facts: Facts, limits: Limits) -> list[_Slow]:
    """Misaligned products that are slower than aligned ones.

    Raises:
        Missing: There are misaligned products, but the limits of the GPU are unknown.
    """
    measured = facts.need("roofline", roofline.Roofline)
    products = [row for row in measured.rows if _is_candidate(row, limits["call_ns"])]
    odd = [row for row in products if not _is_aligned(row)]
    if not odd:
        return []
    if measured.roof is None:
        raise Missing(_MISALIGNED.text("no-roof")())
    loads = _loaded_at_once(facts)
    aligned = [row for row in products if _is_aligned(row) and row.roofline_share is not None]
    return [entry for row in odd if (entry := _judge(row, aligned, loads, limits["pace"])) is not None]


def _is_candidate(row: roofline.RooflineRow, call_ns: float) -> bool:
    """Whether it is a product in 8 or 16 bits that is long enough, and not limited by its launch or by a tiny side."""
    unit = _multiple(row) if row.family == "gemm" else None
    product = None if unit is None else sides(row.name, row.input_shapes)
    if unit is None or product is None:
        return False
    return min(product.n, product.k) >= unit and row.device_ns >= call_ns * row.calls


def _is_aligned(row: roofline.RooflineRow) -> bool:
    """Whether the inner and the last side are multiples of what is loaded at once; the first one does not matter."""
    product, unit = sides(row.name, row.input_shapes), _multiple(row)
    return product is None or unit is None or (product.n % unit == 0 and product.k % unit == 0)


def _multiple(row: roofline.RooflineRow) -> int | None:
    """The number of which the sides must be multiples; None for types without such a number."""
    kind = _type(row)
    return _UNIT_FP8 if "Float8" in kind else _UNIT.get(kind)


def _type(row: roofline.RooflineRow) -> str:
    return Inputs(row.input_shapes, row.input_types).type(0)


def _loaded_at_once(facts: Facts) -> dict[tuple[str, str], int]:
    """Number of elements that the kernels of a product load at once, if their names show it."""
    kernels = facts.find("kernels_by_shape", KernelsByShape)
    loads: dict[tuple[str, str], int] = {}
    for row in kernels.rows if kernels else ():
        match = _ALIGNMENT.search(row.kernel)
        if match:
            loads.setdefault((row.operator, row.input_shapes), int(match[1]))
    return loads


def _judge(
    row: roofline.RooflineRow,
    aligned: Sequence[roofline.RooflineRow],
    loads: Mapping[tuple[str, str], int],
    pace: float,
) -> _Slow | None:
    """Slow against aligned products of its type, by as much as alignment can explain."""
    load = loads.get((row.name, row.input_shapes))
    if row.roofline_share is None or (load is not None and load >= (_multiple(row) or 0)):
        return None
    peers = [peer for peer in aligned if _type(peer) == _type(row)]
    alike = [peer for peer in peers if _is_alike(peer, row)]
    reference = _mean_share(alike or peers)
    if reference is None:
        reference = 1.0 if load is not None else None
    if reference is None or row.roofline_share / reference >= pace:
        return None
    share = row.roofline_share / reference
    most = (1 - share) * row.device_ns
    return _Slow(
        row,
        share=share,
        least_ns=0.0,
        most_ns=most if alike else min(most, _WITHOUT_PEER * row.device_ns),
        has_peer=bool(peers),
    )


def _is_alike(peer: roofline.RooflineRow, row: roofline.RooflineRow) -> bool:
    ratios = [peer.flops * row.calls / (row.flops * peer.calls)] if row.flops else []
    if peer.flops_per_byte and row.flops_per_byte:
        ratios.append(peer.flops_per_byte / row.flops_per_byte)
    return bool(ratios) and all(1 / _SAME_SIZE <= ratio <= _SAME_SIZE for ratio in ratios)


def _mean_share(rows: Sequence[roofline.RooflineRow]) -> float | None:
    """Mean share of the roof, weighted by time."""
    time = sum(row.device_ns for row in rows)
    return fsum((row.roofline_share or 0.0) * row.device_ns for row in rows) / time if time else None


def _degenerate(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.shaped if _has_side_of_one(row, limits)]
    if not rows or not facts.gpu_total_ns:
        return
    known = processor.bandwidths(facts)
    if known is None:
        raise Missing(_DEGENERATE.text("no-bandwidth")())
    slow, fast = known
    rows = [row for row in rows if row.device_self_ns > limits["excess"] * _floor(row, fast)]
    rows.sort(key=lambda row: (-row.device_self_ns, row.name, row.shapes or ""))
    work = EventTimes.on_device(facts, ((row.events, row.device_self_ns) for row in rows))
    if work.share <= limits["gpu_share"]:
        return
    excess = EventTimes.on_device(facts, ((row.events, row.device_self_ns - _floor(row, fast)) for row in rows))
    least = fsum(max(0.0, row.device_self_ns - _floor(row, slow)) for row in rows)
    change = excess.removed((least, excess.total_ns), _DEGENERATE.text("basis")(slow=slow, fast=fast))
    where = tuple(_place(facts, row) for row in rows)
    evidence = _DEGENERATE.evidence(limits, "gpu_share", work.share, where)
    yield Draft((evidence,), change, {**work.figures(), "operator": rows[0].name, "shapes": rows[0].shapes})


def _place(facts: Facts, row: OperatorFact) -> CodePlace:
    return CodePlace("operator", row.name, row.shapes, facts.at_place(row.device_self_ns), "ns")


def _has_side_of_one(row: OperatorFact, limits: Limits) -> bool:
    """Whether a side is 1; one row (m is 1) is decoding, which must read the weights and cannot be faster."""
    if not row.calls or row.device_self_ns < limits["call_ns"] * row.calls:
        return False
    product = sides(row.name, row.shapes)
    if product is None or product.m == 1:
        return False
    return 1 in (product.n, product.k) and max(product.m, product.n, product.k) >= limits["side"]


def _floor(row: OperatorFact, bandwidth: float) -> float:
    """Time to move the bytes of all calls once, in ns."""
    return (processor.moved(row) or 0) * row.calls / bandwidth


def _below_roof(facts: Facts, limits: Limits) -> Drafts:
    measured = facts.need("roofline", roofline.Roofline)
    rows = [row for row in measured.rows if _is_large(row, limits["call_ns"])]
    if rows and measured.roof is None:
        raise Missing(_BELOW_ROOF.text("no-roof")())
    work = _work(facts, rows)
    reached = fsum(_reached(row) * row.device_ns for row in rows) / work.total_ns if work.total_ns else 1.0
    if work.share <= limits["gpu_share"] or reached >= limits["pace"]:
        return
    params = {
        **work.figures(),
        "rate": sum(row.flops for row in rows) / work.total_ns / 1000,
        "peak": rows[0].peak_tflops_per_s,
        "reached": reached,
        "shapes": rows[0].input_shapes,
    }
    is_amd = _is_amd(facts)
    yield Draft(
        (_BELOW_ROOF.evidence(limits, "pace", reached, work.places),),
        _at_best_pace(facts, rows),
        params,
        ceiling="medium",
        advice=_BELOW_ROOF.text("advice-amd") if is_amd else None,
        code=_TUNED if is_amd else None,
    )


def _reached(row: roofline.RooflineRow) -> float:
    """Share of the peak that a product reaches; 0 if unknown."""
    return row.compute_share or 0.0


def _at_best_pace(facts: Facts, rows: Sequence[roofline.RooflineRow]) -> StepChange:
    """The change if all of these products reached the pace of the best, at most."""
    best = max(_REACHABLE, *map(_reached, rows))
    slower = ((row, row.device_ns * max(0.0, 1 - _reached(row) / best)) for row in rows)
    saved = EventTimes.on_device(facts, ((row.events, ns) for row, ns in slower))
    return saved.shorter((0.0, 1.0), _BELOW_ROOF.text("basis")(best=best))


def _is_amd(facts: Facts) -> bool:
    return facts.summary is not None and any(device.vendor == "AMD" for device in facts.summary.devices)


def _is_large(row: roofline.RooflineRow, least_ns: float) -> bool:
    """Whether arithmetic bounds a product, and its calls are long enough to fill the device."""
    narrow = any(name in row.input_types for name in _NARROW)
    known = row.compute_share is not None and row.bound == "compute"
    return row.family == "gemm" and narrow and known and row.device_ns >= least_ns * row.calls


def _fp8_eligible(facts: Facts, limits: Limits) -> Drafts:
    kernels, busy = facts.kernels, facts.busy_share
    measured = facts.need("roofline", roofline.Roofline).rows
    if facts.gpu is None:
        raise Missing(_FP8.text("unknown")())
    rows = [row for row in measured if _is_eligible(row)]
    if not rows or not facts.gpu.fp8 or _uses_fp8(measured, kernels):
        return
    work = _work(facts, rows)
    if work.share <= limits["gpu_share"] or busy <= limits["busy_share"]:
        return
    evidence = (
        _FP8.evidence(limits, "gpu_share", work.share, work.places),
        _FP8.evidence(limits, "busy_share", busy, subject=_FP8.text("busy")()),
    )
    params = {**work.figures(), "fp8": facts.gpu.fp8, "half": rows[0].peak_tflops_per_s}
    summary = advice = None
    if facts.gpu.fp4 and not program.may_train(facts):
        params["fp4"] = facts.gpu.fp4
        summary, advice = _FP8.text("summary-fp4"), _FP8.text("advice-fp4")
    yield Draft(evidence, params=params, severity="info", code=_code(facts), summary=summary, advice=advice)


def _uses_fp8(rows: Iterable[roofline.RooflineRow], kernels: Iterable[KernelFact]) -> bool:
    """Whether an operator, a type or a kernel is in FP8 already."""
    names = (name for row in rows for name in (row.name, row.input_types))
    return any(map(_IN_FP8.search, chain(names, (kernel.name for kernel in kernels))))


def _is_eligible(row: roofline.RooflineRow) -> bool:
    """Whether it is a product of two matrices in 16 bits that arithmetic bounds and whose sides FP8 kernels take."""
    product = sides(row.name, row.input_shapes)
    if product is None or row.bound != "compute" or not any(name in row.input_types for name in _HALF):
        return False
    is_batched = row.name.removeprefix("aten::") in ("bmm", "baddbmm")
    return not is_batched and not product.n % _UNIT_FP8 and not product.k % _UNIT_FP8


def _code(facts: Facts) -> str:
    """What converts the model; nothing for a server, which has a setting, nor where it may train or not."""
    if program.serves(facts):
        return ""
    return {"training": _FP8.code or "", "inference": _INFERENCE}.get(program.workload(facts) or "", "")


RULES = (
    _MISALIGNED.rule(trace=_misaligned),
    _DEGENERATE.rule(trace=_degenerate, table=_degenerate),
    _BELOW_ROOF.rule(trace=_below_roof),
    _FP8.rule(trace=_fp8_eligible),
)
