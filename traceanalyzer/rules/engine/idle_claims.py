"""Keys under which changes claim the idle time that they remove."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.structure.idle_times import IdleTime
from traceanalyzer.structure.recording import Recording


def claims(facts: Facts, times: Iterable[IdleTime]) -> dict[str, float]:
    """Per step: waiting for the loader is `loader`, all other idle time `idle:CAUSE`.

    With separate keys, time spent waiting for the loader is not counted again once the loader is fixed. A claim is
    never more than the typical step's idle time of that cause; the idle time of steps that are left out does not recur.
    """
    recording = facts.find("recording", Recording)
    is_known = recording is not None and recording.typical is not None
    sums: Counter[str] = Counter()
    for idle in times:
        sums[idle.cause] += idle.time_ns
    found: dict[str, float] = {}
    for cause, time in sums.items():
        own = facts.host_per_step(time)
        typical = min(own, facts.idle_per_step(cause)) if is_known else own
        found[_key(cause)] = found.get(_key(cause), 0.0) + typical
    return found


def _key(cause: str) -> str:
    return "loader" if cause == "dataloader" else f"idle:{cause}"
