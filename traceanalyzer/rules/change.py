"""What a piece of advice saves, before the limits that other resources set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from traceanalyzer.report.message import Message

Interval = tuple[float, float]
"""Least and greatest value in ns per step."""


@dataclass(frozen=True)
class TimeSaved:
    """Time that is saved if the advice is followed."""

    resource: str
    """`loader`, `host`, `gpu` or `communication`: whose time shrinks, and which must be critical to gain from it."""
    direct: Interval
    """Time that is removed from the resource itself, at least and at most, in ns per step."""
    basis: Message
    """How it was estimated, and why the lower end is 0 where it is."""
    exposed: Interval | None = None
    """The part that is not hidden behind other work: a step gets shorter by no more. None without a timeline."""
    claims: Mapping[str, float] = field(default_factory=dict)
    """Which time is removed, so that two findings do not claim it twice: a key (`loader`, `idle:synchronization`,
    `operator:aten::mul`, `kernel:NAME`) to ns per step. Empty: time that no other finding claims."""
