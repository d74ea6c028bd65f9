"""Detects elementwise kernels that move implausibly little data: bandwidth-implausible."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

import msgspec

from traceanalyzer.analyzers.kernels.contiguous import ContiguousRates, ContiguousWork
from traceanalyzer.report.message import Text
from traceanalyzer.rules.engine.change import StepChange
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.rule import Draft, Drafts, Facts, Limits, page

_IMPLAUSIBLE = page("bandwidth-implausible")
_REACHED = 0.5
"""Least share of the bandwidth that such a kernel reaches on a GPU that is well (own choice: 70 to 90 % is usual)."""
_COMPUTING = ("double", "complex")
"""Types that cards for games compute so slowly that memory does not bound even a sum."""


class _Slow(msgspec.Struct, frozen=True):
    """Kernels that are too slow, the one with most time first, and how that was judged."""

    rows: Sequence[ContiguousWork]
    usual: float | None
    """GB/s that they should reach; None: unknown."""
    summary: Text | None = None


def _implausible(facts: Facts, limits: Limits) -> Drafts:
    large = [row for row in facts.need("contiguous_rates", ContiguousRates).rows if _is_large(row, limits)]
    peak = facts.gpu.bandwidth if facts.gpu else None
    slow = _beside_others(large, limits) if peak is None else _below_the_sheet(large, peak, limits)
    if slow is None:
        return
    work = EventTimes.on_device(facts, ((row.events, row.total_ns) for row in slow.rows)).longest_first
    if work.share <= limits["gpu_share"]:
        return
    longest = slow.rows[0]
    evidence = _IMPLAUSIBLE.evidence(limits, "gpu_share", work.share, work.places)
    params = {**work.figures(), "operator": longest.operator, "rate": longest.gb_per_s, "usual": slow.usual}
    change = None if slow.usual is None else _at_usual_rate(facts, slow.rows, slow.usual)
    yield Draft((evidence,), change, params, None if change else "medium", summary=slow.summary)


def _is_large(row: ContiguousWork, limits: Limits) -> bool:
    return row.bytes >= limits["bytes"] and not any(kind in row.dtype for kind in _COMPUTING)


def _below_the_sheet(large: Sequence[ContiguousWork], peak: float, limits: Limits) -> _Slow | None:
    """Those far below the bandwidth of the data sheet in GB/s."""
    rows = [row for row in large if row.gb_per_s < limits["bandwidth_share"] * peak]
    return _Slow(rows, peak) if rows else None


def _beside_others(large: Sequence[ContiguousWork], limits: Limits) -> _Slow | None:
    """Those far below the best of the recording, else those that are slower than any memory."""
    best = max((row.gb_per_s for row in large), default=0.0)
    rows = [row for row in large if row.gb_per_s * limits["ratio"] < best]
    if rows:
        return _Slow(rows, best, _IMPLAUSIBLE.text("summary-peer"))
    rows = [row for row in large if row.gb_per_s < limits["least_rate"]]
    return _Slow(rows, None, _IMPLAUSIBLE.text("summary-alone")) if rows else None


def _at_usual_rate(facts: Facts, rows: Sequence[ContiguousWork], usual: float) -> StepChange:
    """The change if each moved its bytes at half of the usual rate, in GB/s, at least, and at most at all of it."""
    saved = [(row, max(0.0, row.total_ns - row.calls * row.bytes / usual)) for row in rows]
    least = fsum(max(0.0, row.total_ns - row.calls * row.bytes / usual / _REACHED) for row in rows)
    every = EventTimes.on_device(facts, ((row.events, ns) for row, ns in saved))
    return every.removed((least, every.total_ns), _IMPLAUSIBLE.text("basis")())


RULES = (_IMPLAUSIBLE.rule(trace=_implausible),)
