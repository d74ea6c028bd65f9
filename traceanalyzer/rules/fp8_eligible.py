"""Detects fp8-eligible: see pages/fp8-eligible.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules import _products
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("fp8-eligible")
_UNIT = 16
"""Divisor of the sides of products in FP8 (documentation of torch's scaled products and of torchao)."""
_HALF = ("c10::Half", "c10::BFloat16")
_FP8 = re.compile(r"e[45]m[23]|fp8|float8|(?<![0-9a-f])bf8(?![0-9a-f])|scaled_mm|(?-i:_(?:F8|B8))", re.IGNORECASE)
"""Names of operators, types and kernels in FP8; AMD's libraries write `Cijk_..._F8...` and `..._B8...`. Within a hash,
`bf8` means nothing."""
_INFERENCE = "torchao.quantization.quantize_(model, torchao.quantization.Float8DynamicActivationFloat8WeightConfig())"


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    kernels, resources = facts.kernels, facts.need_step_resources()
    found = facts.need("roofline", Roofline)
    if facts.gpu is None:
        raise Missing(_PAGE.text("unknown")())
    rows = [row for row in found.rows if _is_eligible(row)]
    used = any(_FP8.search(name) for row in found.rows for name in (row.name, row.input_types))
    if not rows or not facts.gpu.fp8 or used or any(_FP8.search(kernel.name) for kernel in kernels):
        return
    time, busy = sum(row.device_ns for row in rows), (resources.gpu_ns or 0) / resources.step_ns
    share = time / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or busy <= limits["busy_share"]:
        return
    where = tuple(
        CodePlace("operator", row.name, shapes=row.input_shapes, value=row.device_ns, unit="ns") for row in rows[:5]
    )
    evidence = (
        Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),
        Evidence(_PAGE.text("busy")(), busy, limits["busy_share"], "share", ()),
    )
    params = {
        "time": facts.gpu_per_step(time),
        "share": share,
        "fp8": facts.gpu.fp8,
        "half": rows[0].peak_tflops_per_s,
    }
    summary = advice = None
    if facts.gpu.fp4 and not program.may_train(facts):
        params["fp4"] = facts.gpu.fp4
        summary, advice = _PAGE.text("summary-fp4"), _PAGE.text("advice-fp4")
    yield Draft(evidence, params=params, severity="info", code=_code(facts), summary=summary, advice=advice)


def _is_eligible(row: RooflineRow) -> bool:
    """Whether it is a product of two matrices in 16 bits that arithmetic bounds and whose sides FP8 kernels take."""
    sides = _products.sides(row.name, row.input_shapes)
    if sides is None or row.bound != "compute" or not any(name in row.input_types for name in _HALF):
        return False
    return row.name.removeprefix("aten::") not in ("bmm", "baddbmm") and not sides.n % _UNIT and not sides.k % _UNIT


def _code(facts: Facts) -> str:
    """What converts the model; nothing for a server, which has a setting, nor where it may train or not."""
    if program.serves(facts):
        return ""
    return {"training": _PAGE.code or "", "inference": _INFERENCE}.get(program.workload(facts) or "", "")


RULE = _PAGE.rule(trace=_trace)
