"""Detects GPUs that work at a low clock: gpu-clock-low."""

from __future__ import annotations

from traceanalyzer.analyzers.kernels.clocks import Clocks, DeviceClock, LowClock, at_low_clock
from traceanalyzer.rules.engine.change import DeviceWork
from traceanalyzer.rules.engine.rule import CodePlace, Draft, Drafts, Facts, Limits, OfEvents, page

_CLOCK_LOW = page("gpu-clock-low")
_SAID = {
    "unknown": (_CLOCK_LOW.text("summary"), _CLOCK_LOW.text("advice")),
    "power": (_CLOCK_LOW.text("summary-power"), _CLOCK_LOW.text("advice-power")),
    "heat": (_CLOCK_LOW.text("summary-heat"), _CLOCK_LOW.text("advice-heat")),
    "idle": (_CLOCK_LOW.text("summary-idle"), _CLOCK_LOW.text("advice-idle")),
}
"""By cause: what is said and advised."""
_PLACES = 5


def _clock_low(facts: Facts, limits: Limits) -> Drafts:
    busiest = facts.step_resources.device if facts.step_resources else None
    for device in facts.need("clocks", Clocks).devices:
        low = device.low
        if low is None or device.highest_mhz is None or low.share <= limits["share"]:
            continue
        cause = _cause(device, low, limits)
        evidence = _CLOCK_LOW.evidence(limits, "share", low.share, _slowest(device))
        params = {
            "device": device.device,
            "clock": low.clock_mhz,
            "highest": device.highest_mhz,
            "share": low.share,
            "time": OfEvents(facts.per_step(low.work_ns)),
            "power": low.power_w,
            "temperature": low.temperature_c,
            "works": low.works_share,
        }
        change = None
        if device.device == busiest and cause != "idle":
            at = at_low_clock(device=device.device, highest_mhz=device.highest_mhz)
            change = DeviceWork((0.0, facts.per_step(low.slow_ns)), _CLOCK_LOW.text("basis")(), at=at)
        summary, advice = _SAID[cause]
        yield Draft(
            (evidence,),
            change,
            params,
            severity=None if change else "info",
            ceiling="high",
            summary=summary,
            advice=advice,
        )


def _slowest(device: DeviceClock) -> tuple[CodePlace, ...]:
    """The steps with the lowest clocks, in MHz."""
    known = ((step.sm_clock_mhz, step.start_ns, step.name) for step in device.steps if step.sm_clock_mhz is not None)
    return tuple(CodePlace("step", name, None, mhz, "number", start) for mhz, start, name in sorted(known)[:_PLACES])


def _cause(device: DeviceClock, low: LowClock, limits: Limits) -> str:
    """Why the clock is low, one of `_SAID`."""
    if low.temperature_c is not None and low.temperature_c >= limits["heat"]:
        return "heat"
    limit = device.board_w or device.highest_w
    if low.power_w is not None and limit and low.power_w >= limits["power"] * limit:
        return "power"
    return "idle" if low.works_share < limits["idle"] else "unknown"


RULES = (_CLOCK_LOW.rule(trace=_clock_low),)
