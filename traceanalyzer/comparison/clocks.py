"""Clocks and power of both sides: what another clock explains is no change of the program."""

from __future__ import annotations

from collections.abc import Sequence

from traceanalyzer.analyzers.kernels.clocks import Clocks
from traceanalyzer.comparison.measurement import Measurement, known_mean
from traceanalyzer.report.compared import Interval
from traceanalyzer.report.difference import Check
from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Report

SAME_CLOCK = 0.02
"""Share by which the same clocks differ at most (own choice: recordings of one program under load do so)."""
_SAME_POWER = 0.05
"""Share by which the same power differs at most (own choice: it follows the clock and the work)."""

_CLOCKS = (
    Text("diff-clocks-same", "The GPUs work at the same clock: {base:number} MHz."),
    Text(
        "diff-clocks-other", "The GPUs work at different clocks: {base:number} and {head:number} MHz ({share:+share})."
    ),
    Text("diff-clocks-unknown", "The clock of the GPUs was recorded on one side only."),
)
_POWER = (
    Text("diff-power-same", "The GPUs draw the same power: {base:number} W."),
    Text("diff-power-other", "The GPUs draw different power: {base:number} and {head:number} W ({share:+share})."),
    Text("diff-power-unknown", "The power of the GPUs was recorded on one side only."),
)


def while_working(reports: Sequence[Report], counter: str) -> float | None:
    """The mean of a counter over the GPUs of all traces while they work; None without counters."""
    found = [report.result("clocks", Clocks) for report in reports]
    return known_mean(getattr(device.works, counter) for each in found if each for device in each.devices)


def check(base: Measurement, head: Measurement) -> Check | None:
    """Whether the GPUs of both sides work at the same clock; nothing where neither was recorded."""
    return _held("clocks", base.clock_mhz, head.clock_mhz, _CLOCKS, SAME_CLOCK)


def check_power(base: Measurement, head: Measurement) -> Check | None:
    """Whether they draw the same power."""
    return _held("power", base.power_w, head.power_w, _POWER, _SAME_POWER)


def _held(
    id: str,  # noqa: A002 - the contract's word
    one: float | None,
    two: float | None,
    texts: tuple[Text, Text, Text],
    within: float,
) -> Check | None:
    same, other, unknown = texts
    if not one or not two:
        return None if one == two else Check(id, None, False, unknown())
    if abs(share := two / one - 1) <= within:
        return Check(id, 1.0, False, same(base=one))
    return Check(id, min(one, two) / max(one, two), False, other(base=one, head=two, share=share))


def other_clocks(base: Measurement, head: Measurement) -> tuple[float, float] | None:
    """The clocks of both sides in MHz, where they differ."""
    one, two = base.clock_mhz, head.clock_mhz
    return (one, two) if one and two and abs(two / one - 1) > SAME_CLOCK else None


def at_one_clock(share: Interval, clocks: tuple[float, float] | None) -> Interval:
    """The interval of a change, had both sides worked at the clock of the base.

    Work that computes takes as much longer as the clock is lower, and what memory or the host limits takes no longer;
    so the change may be anything between.
    """
    if clocks is None:
        return share
    ratio = clocks[1] / clocks[0]
    low, high = share
    return (1 + low) * min(1.0, ratio) - 1, (1 + high) * max(1.0, ratio) - 1
