"""Finds operators, shapes, kernels and modules that appeared, vanished, slowed down or sped up."""

from __future__ import annotations

from traceanalyzer.comparison.measurement import Key, Measurement, Ranked
from traceanalyzer.report.difference import Change, Cost, Ranking

KEYS = ("operators", "operators_by_shape", "kernels", "kernels_by_operator", "modules")

_LEAST_OWN = 0.05
"""Least share of a row's own time that counts as a change (own choice: equal kernels differ by a few percent)."""

_LEAST_STEP = 0.0005
"""Least share of the step that counts as a change (own choice: what the largest of a hundred rows may move)."""

_LEAST_CALLS = 0.005
"""Least share of the calls that counts as a change; fewer are calls outside of steps."""

_HIDDEN = 0.1
"""A row that takes less than ten times what the other table does not print may be there and not printed."""


def compare(base: Measurement, head: Measurement) -> tuple[Ranking, ...]:
    """Compare all rankings that both sides can have and at least one has rows for."""
    step = max(base.step_ns or 0.0, head.step_ns or 0.0)
    return tuple(
        _compare(key, base.rankings[key], head.rankings[key], step)
        for key in KEYS
        if key in base.rankings and key in head.rankings and base.rankings[key].rows and head.rankings[key].rows
    )


def _compare(name: str, base: Ranked, head: Ranked, step: float) -> Ranking:
    changes = []
    same = 0
    for key in {**base.rows, **head.rows}:
        change = _change(key, base, head, step)
        if change is None:
            same += 1
        else:
            changes.append(change)
    return Ranking(name, tuple(sorted(changes, key=_order)), same, base.ambiguous + head.ambiguous)


def _order(row: Change) -> tuple[bool, float, str, str, str]:
    """Sort key: the largest change first; rows that are only not printed come last, because their change is unknown."""
    size = max(abs(row.device_change_ns or 0.0), abs(row.host_change_ns or 0.0))
    return row.status == "not-printed", -size, row.name, row.detail or "", row.owner or ""


def _change(key: Key, base: Ranked, head: Ranked, step: float) -> Change | None:
    one, two = base.rows.get(key), head.rows.get(key)
    device, host = _difference(one, two, "device_ns"), _difference(one, two, "host_ns")
    if one is None or two is None:
        present, other = (two, base) if one is None else (one, head)
        status = "appeared" if one is None else "vanished"
        if present is not None and other.hidden_ns > _HIDDEN * max(present.device_ns or 0.0, present.host_ns or 0.0):
            status, device, host = "not-printed", None, None
    else:
        found = _status(one, two, device, host, step)
        if found is None:
            return None
        status = found
    return Change(key.name, key.detail, key.owner, status, one, two, device, host)


def _difference(base: Cost | None, head: Cost | None, field: str) -> float | None:
    """Head minus base; a row that does not occur takes no time."""
    one = 0.0 if base is None else getattr(base, field)
    two = 0.0 if head is None else getattr(head, field)
    return None if one is None or two is None else two - one


def _status(base: Cost, head: Cost, device: float | None, host: float | None, step: float) -> str | None:
    """Status by the resource that changed most; None where nothing that matters changed.

    The status names the resource where the other one changed in the opposite direction.
    """
    changes = [("device", device or 0.0, base.device_ns), ("host", host or 0.0, base.host_ns)]
    name, change, before = max(changes, key=lambda entry: abs(entry[1]))
    if change and abs(change) >= max(_LEAST_OWN * (before or 0.0), _LEAST_STEP * step):
        word = "slower" if change > 0 else "faster"
        is_mixed = any(change * other < 0 for _, other, _ in changes)
        return f"{name}-{word}" if is_mixed else word
    calls = abs((head.calls or 0.0) - (base.calls or 0.0))
    return "calls" if calls > _LEAST_CALLS * (base.calls or 0.0) else None
