"""Detects conv-layout-transposes: see pages/conv-layout-transposes.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from traceanalyzer.knowledge.kernel_classes import KernelClass, kernel_class
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("conv-layout-transposes")
_REMAINS = 0.5
"""Share of the layout conversions that is surely saved (own choice)."""
_TRANSPOSE = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw|nhwcAddPadding|batched_transpose", re.IGNORECASE)


def _find(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    kernels = facts.kernels
    rows = [kernel for kernel in kernels if _TRANSPOSE.search(kernel.name)]
    convolutions = [kernel for kernel in kernels if kernel_class(kernel.name) is KernelClass.CONVOLUTION]
    on_tensor_cores = sum(kernel.total_ns for kernel in convolutions if kernel.tensor_cores)
    share = sum(kernel.total_ns for kernel in rows) / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or 2 * on_tensor_cores <= sum(kernel.total_ns for kernel in convolutions):
        return
    rows.sort(key=lambda kernel: (-kernel.total_ns, kernel.name))
    time = facts.gpu_per_step(sum(kernel.total_ns for kernel in rows))
    kind = "row" if facts.table is not None else "kernel"
    where = tuple(CodePlace(kind, kernel.name, value=kernel.total_ns, unit="ns") for kernel in rows[:5])
    claims = {f"kernel:{kernel.name}": facts.gpu_per_step(kernel.total_ns) for kernel in rows}
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),),
        TimeSaved(
            "gpu", (_REMAINS * time, time), _PAGE.text("basis")(remains=_REMAINS), claims=claims, is_removed=True
        ),
        {"time": time, "share": share, "calls": round(sum(kernel.calls for kernel in rows) / facts.steps)},
    )


RULE = _PAGE.rule(trace=_find, table=_find)
