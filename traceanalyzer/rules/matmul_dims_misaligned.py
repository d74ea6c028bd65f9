"""Detects matmul-dims-misaligned: see pages/matmul-dims-misaligned.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from traceanalyzer.analyzers.kernels.roofline import Roofline
from traceanalyzer.report.model import CodePlace, Evidence
from traceanalyzer.rules._alignment import WITHOUT_PEER, Slow, is_aligned, is_candidate, judge, loaded_at_once
from traceanalyzer.rules.engine.change import TimeSaved
from traceanalyzer.rules.engine.facts import Facts, Missing
from traceanalyzer.rules.engine.page import page
from traceanalyzer.rules.engine.rule import Draft

_PAGE = page("matmul-dims-misaligned")


def _trace(facts: Facts, limits: Mapping[str, float]) -> Iterator[Draft]:
    slow = _slow(facts, limits)
    share = sum(entry.row.device_ns for entry in slow) / facts.gpu_total_ns if facts.gpu_total_ns else 0.0
    if not slow or share <= limits["gpu_share"]:
        return
    where = tuple(
        CodePlace("operator", e.row.name, shapes=e.row.input_shapes, value=e.row.device_ns, unit="ns") for e in slow[:5]
    )
    worst = slow[0]
    yield Draft(
        (Evidence(_PAGE.text("subject")(), worst.share, limits["pace"], "share", where),),
        _change(facts, slow),
        {
            "time": facts.gpu_per_step(sum(entry.row.device_ns for entry in slow)),
            "share": share,
            "operator": worst.row.name,
            "shapes": worst.row.input_shapes,
            "pace": worst.share,
        },
        ceiling="medium",
        summary=None if worst.has_peer else _PAGE.text("summary-alone"),
    )


def _slow(facts: Facts, limits: Mapping[str, float]) -> list[Slow]:
    """Misaligned products that are slower than aligned ones.

    Raises:
        Missing: There are misaligned products, but the limits of the GPU are unknown.
    """
    found = facts.need("roofline", Roofline)
    products = [row for row in found.rows if is_candidate(row, limits["call_ns"])]
    odd = [row for row in products if not is_aligned(row)]
    if not odd:
        return []
    if found.roof is None:
        raise Missing(_PAGE.text("no-roof")())
    loads = loaded_at_once(facts)
    aligned = [row for row in products if is_aligned(row) and row.roofline_share is not None]
    return [entry for row in odd if (entry := judge(row, aligned, loads, limits["pace"])) is not None]


def _change(facts: Facts, slow: Sequence[Slow]) -> TimeSaved:
    low, high = (facts.gpu_per_step(sum(entry.saved_ns[end] for entry in slow)) for end in (0, 1))
    claims = {f"operator:{e.row.name}|{e.row.input_shapes}": facts.gpu_per_step(e.saved_ns[1]) for e in slow}
    return TimeSaved("gpu", (low, high), _PAGE.text("basis")(most=WITHOUT_PEER), claims=claims)


RULE = _PAGE.rule(trace=_trace)
