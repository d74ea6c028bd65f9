"""Keys under which changes claim the idle time of a device that they end."""

from __future__ import annotations

from collections.abc import Iterable

from traceanalyzer.analyzers.idle.late_launches import IdleTime
from traceanalyzer.rules.facts import Facts


def claims(facts: Facts, times: Iterable[IdleTime]) -> dict[str, float]:
    """Per step: waiting for the loader is `loader`, all other idle time `idle:CAUSE`.

    So that what a shorter host would gain in a wait for the loader is not gained again after the loader was fixed.
    """
    found: dict[str, float] = {}
    for cause, time in facts.idle_ended_per_step(times).items():
        found[_key(cause)] = found.get(_key(cause), 0.0) + time
    return found


def _key(cause: str) -> str:
    return "loader" if cause == "dataloader" else f"idle:{cause}"
