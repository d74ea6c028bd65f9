"""Checks findings of rules, which anyone can write, before they are saved, shown and compared."""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

from traceanalyzer.config import SEVERITIES
from traceanalyzer.report import units
from traceanalyzer.report.model import Finding
from traceanalyzer.rules.engine.change import TimeSaved

_RESOURCES = ("loader", "host", "gpu", "communication")
_CONFIDENCES = ("A", "B", "C")
_LONGEST = 1_000_000
"""Greatest size of a finding in bytes of JSON; longer texts are not useful as advice."""


def change(found: TimeSaved | None) -> None:
    """Raises a ValueError if the times that are removed are not times."""
    if found is None:
        return
    _require(found.resource, _RESOURCES, "resource of a change")
    for interval in (found.direct, found.exposed or found.direct):
        low, high = interval
        if not all(map(math.isfinite, interval)) or low < 0 or high < 0:
            raise ValueError(f"a change from {low} to {high} ns")
    if not all(isinstance(key, str) and math.isfinite(ns) for key, ns in found.claims.items()):
        raise ValueError("claims that are no times")


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
