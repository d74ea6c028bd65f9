"""Detects occupancy-low: see pages/occupancy-low.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels import Kernel, Kernels
from traceanalyzer.knowledge.kernel_classes import KernelClass, is_generated, kernel_class
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("occupancy-low")
_LIVES_ON_OCCUPANCY = frozenset(
    {
        KernelClass.ELEMENTWISE,
        KernelClass.REDUCTION,
        KernelClass.NORMALIZATION,
        KernelClass.COPY,
        KernelClass.OPTIMIZER,
    }
)


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    rows = facts.need("kernels", Kernels).rows
    if not any(row.mean_est_achieved_occupancy for row in rows):
        raise Missing(_PAGE.text("no-figure")())
    total = facts.gpu_total_ns
    found = [row for row in rows if _counts(row, limits) and row.total_ns >= limits["gpu_share"] * total]
    if not found:
        return
    where = tuple(
        CodePlace("kernel", row.name, value=row.mean_est_achieved_occupancy, unit="share") for row in found[:5]
    )
    longest = found[0]
    time = sum(row.total_ns for row in found)
    yield Draft(
        (
            Evidence(
                _PAGE.text("subject")(), longest.mean_est_achieved_occupancy or 0.0, limits["occupancy"], "share", where
            ),
        ),
        params={
            "kernel": longest.name,
            "occupancy": longest.mean_est_achieved_occupancy,
            "time": facts.gpu_per_step(time),
            "share": time / total,
        },
        severity="info",
    )


def _counts(row: Kernel, limits: Mapping[str, float]) -> bool:
    """Whether a kernel has a known low occupancy, blocks for the whole device, and is not bound by its launch."""
    occupancy, blocks = row.mean_est_achieved_occupancy, row.mean_blocks_per_sm
    is_low = bool(occupancy) and (occupancy or 0.0) < limits["occupancy"]
    fills = blocks is None or blocks >= 1
    is_known = kernel_class(row.name) in _LIVES_ON_OCCUPANCY and not is_generated(row.name)
    return is_low and fills and row.mean_ns >= limits["kernel_ns"] and is_known


RULE = _PAGE.rule(trace=_trace)
