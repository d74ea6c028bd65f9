"""Detects kernels that take longer than they need: by their types, shapes or algorithms, or by what they leave empty.

The rules here are sm-underfilled and occupancy-low: multiprocessors or warps of the GPU are empty.
"""

from __future__ import annotations

from traceanalyzer.analyzers.kernels import Kernel, Kernels, SmFill, UnfilledKernel
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.rules.engine import program
from traceanalyzer.rules.engine.change import summed
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Evidence, Facts, Limits, Missing, TimeSaved, page
from traceanalyzer.rules.kernels import convolutions, layers, precision, products

_UNDERFILLED = page("sm-underfilled")
_LOW = page("occupancy-low")
_LIVES_ON_OCCUPANCY = frozenset(
    {
        KernelClass.ELEMENTWISE,
        KernelClass.REDUCTION,
        KernelClass.NORMALIZATION,
        KernelClass.COPY,
        KernelClass.OPTIMIZER,
    }
)


def _underfilled(facts: Facts, limits: Limits) -> Drafts:
    rows = [row for row in facts.need("sm_fill", SmFill).rows if row.total_ns >= limits["kernel_ns"] * row.calls]
    lost = sum(_lost(row) for row in rows)
    share = facts.gpu_share(lost)
    if share <= limits["lost_share"]:
        return
    rows.sort(key=lambda row: (-_lost(row), row.kernel, row.operator or "", row.grid))
    time = sum(row.total_ns for row in rows)
    claims = summed((f"kernel:{row.kernel}", facts.gpu_per_step(_lost(row))) for row in rows)
    where = tuple(CodePlace("kernel", row.kernel, None, row.blocks_per_sm, "number") for row in rows)
    params = {
        "time": facts.gpu_per_step(time),
        "share": facts.gpu_share(time),
        "fill": sum(row.fill * row.total_ns for row in rows) / time,
    }
    yield Draft(
        (Evidence(_UNDERFILLED.text("subject")(), share, limits["lost_share"], "share", where),),
        TimeSaved("gpu", (0.0, facts.gpu_per_step(lost)), _UNDERFILLED.text("basis")(), claims=claims),
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
        "time": facts.gpu_per_step(time),
        "share": facts.gpu_share(time),
    }
    yield Draft((evidence,), params=params, severity="info")


def _counts(row: Kernel, limits: Limits) -> bool:
    """Whether a kernel has a known low occupancy, blocks for the whole device, and is not bound by its launch."""
    occupancy, blocks = row.mean_est_achieved_occupancy, row.mean_blocks_per_sm
    is_low = bool(occupancy) and (occupancy or 0.0) < limits["occupancy"]
    fills = blocks is None or blocks >= 1
    is_known = kernel_class(row.name) in _LIVES_ON_OCCUPANCY and not is_generated(row.name)
    return is_low and fills and row.mean_ns >= limits["kernel_ns"] and is_known


RULES = (
    _UNDERFILLED.rule(trace=_underfilled),
    _LOW.rule(trace=_low),
    *precision.RULES,
    *products.RULES,
    *convolutions.RULES,
    *layers.RULES,
)
