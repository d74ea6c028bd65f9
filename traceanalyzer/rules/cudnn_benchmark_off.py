"""Detects cudnn-benchmark-off: see pages/cudnn-benchmark-off.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from traceanalyzer.analyzers.kernels.convolutions import ConvolutionAlgorithms
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules.engine import settings
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("cudnn-benchmark-off")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    found = facts.need("convolution_algorithms", ConvolutionAlgorithms)
    rows = [row for row in found.rows if row.saving_ns and row.algorithms[-1].calls >= limits["calls"]]
    saved = sum(row.saving_ns for row in rows)
    share = saved / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if share <= limits["gpu_share"] or settings.wants_cudnn_choice(facts):
        return
    high = facts.gpu_per_step(saved)
    where = tuple(CodePlace("operator", r.name, shapes=r.input_shapes, value=r.saving_ns, unit="ns") for r in rows[:5])
    claims = {f"operator:{row.name}|{row.input_shapes}": facts.gpu_per_step(row.saving_ns) for row in rows}
    slow, best = rows[0].algorithms[-1], rows[0].algorithms[0]
    yield Draft(
        (Evidence(_PAGE.text("subject")(), share, limits["gpu_share"], "share", where),),
        TimeSaved("gpu", (0.0, high), _PAGE.text("basis")(), claims=claims),
        {
            "count": len(rows),
            "operator": rows[0].name,
            "shapes": rows[0].input_shapes,
            "slow": slow.device_ns / slow.calls,
            "best": best.device_ns / best.calls,
        },
        ceiling="low",
    )


RULE = _PAGE.rule(trace=_trace)
