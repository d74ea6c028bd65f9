"""Checks what rules find, those of other packages, too: before it is priced, and before it is in a report."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from traceanalyzer.config import SEVERITIES
from traceanalyzer.report import units
from traceanalyzer.report.model import Finding
from traceanalyzer.rules.engine.change import (
    CollectivesShorter,
    DeviceWork,
    HostTime,
    LoaderShorter,
    StartsEarlier,
    StepChange,
    WaitsGone,
)
from traceanalyzer.structure.events import ITS_OWN, EventSet, Of

_CHANGES = (LoaderShorter, DeviceWork, StartsEarlier, HostTime, WaitsGone, CollectivesShorter)
_CONFIDENCES = ("A", "B", "C")
_LONGEST = 1_000_000
"""Greatest size of a finding in bytes of JSON; longer texts are not useful as advice."""


def change(found: StepChange) -> None:
    """Raises a ValueError if the times that are removed are not times, or the events none."""
    if not isinstance(found, _CHANGES):
        raise ValueError(f"a change of the unknown kind {type(found).__name__}")
    for interval in (found.direct, found.exposed or found.direct):
        low, high = interval
        if not all(map(math.isfinite, interval)) or low < 0 or high < 0:
            raise ValueError(f"a change from {low} to {high} ns")
    if not all(isinstance(key, EventSet) and math.isfinite(ns) for key, ns in found.claims.items()):
        raise ValueError("claims that are no times")
    _require_analysis(found.place)
    if isinstance(found, DeviceWork) and found.host != ITS_OWN:
        _require_analysis(found.host)


def _require_analysis(events: EventSet | None) -> None:
    if events is not None and not (isinstance(events, EventSet) and events.of is Of.ANALYSIS):
        raise ValueError("events that no analysis finds")


def finding(found: Finding) -> None:
    """Raises a ValueError if a finding is not of the types that a saved report has, or more than people can read."""
    _require(found.severity, SEVERITIES, "severity")
    _require(found.confidence, _CONFIDENCES, "confidence")
    for evidence in found.evidence:
        for unit in (evidence.unit, *(place.unit for place in evidence.where)):
            _require(unit, units.UNITS, "unit")
    data = msgspec.json.encode(found)
    if len(data) > _LONGEST:
        raise ValueError(f"a finding of {len(data)} bytes; at most {_LONGEST}")
    msgspec.json.decode(data, type=Finding)  # JSON has no NaN, and each field has its type


def _require(value: object, known: Collection[str], name: str) -> None:
    if value not in known:
        raise ValueError(f"unknown {name} {str(value)[:40]!r}; one of {', '.join(sorted(known))}")
