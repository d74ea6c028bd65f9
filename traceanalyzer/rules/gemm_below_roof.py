"""Detects gemm-below-roof: see pages/gemm-below-roof.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.roofline import Roofline, RooflineRow
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("gemm-below-roof")
_REACHABLE = 0.6
"""Share of the dense peak that large products of tuned libraries reach: 59 to 75 % of an H100's 989 TFLOP/s for bf16
products with sides of 768 to 25,000 in traces of language and video models."""
_NARROW = ("Half", "BFloat16", "Float8")
"""Types that matrix units are made for."""


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("roofline", Roofline)
    rows = [row for row in found.rows if _is_large(row, limits["call_ns"])]
    if rows and found.roof is None:
        raise Missing(_PAGE.text("no-roof")())
    time = sum(row.device_ns for row in rows)
    share = time / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    reached = sum((row.compute_share or 0.0) * row.device_ns for row in rows) / time if time else 1.0
    if share <= limits["gpu_share"] or reached >= limits["pace"]:
        return
    best = max(_REACHABLE, *(row.compute_share or 0.0 for row in rows))
    excess = {row: row.device_ns * max(0.0, 1 - (row.compute_share or 0.0) / best) for row in rows}
    saved = facts.gpu_per_step(sum(excess.values()))
    claims = {f"operator:{row.name}|{row.input_shapes}": facts.gpu_per_step(ns) for row, ns in excess.items() if ns}
    where = tuple(
        CodePlace("operator", row.name, shapes=row.input_shapes, value=row.device_ns, unit="ns") for row in rows[:5]
    )
    params = {
        "time": facts.gpu_per_step(time),
        "share": share,
        "rate": sum(row.flops for row in rows) / time / 1000,
        "peak": rows[0].peak_tflops_per_s,
        "reached": reached,
        "shapes": rows[0].input_shapes,
    }
    is_amd = any(device.vendor == "AMD" for device in facts.summary.devices) if facts.summary else False
    yield Draft(
        (Evidence(_PAGE.text("subject")(), reached, limits["pace"], "share", where),),
        TimeSaved("gpu", (0.0, saved), _PAGE.text("basis")(best=best), claims=claims),
        params,
        ceiling="medium",
        advice=_PAGE.text("advice-amd") if is_amd else None,
        code="os.environ['PYTORCH_TUNABLEOP_ENABLED'] = '1'  # before the first product" if is_amd else None,
    )


def _is_large(row: RooflineRow, least_ns: float) -> bool:
    """Whether arithmetic bounds a product, and its calls are long enough to fill the device."""
    narrow = any(name in row.input_types for name in _NARROW)
    known = row.compute_share is not None and row.bound == "compute"
    return row.family == "gemm" and narrow and known and row.device_ns >= least_ns * row.calls


RULE = _PAGE.rule(trace=_trace)
