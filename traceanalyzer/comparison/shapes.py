"""Compares the shapes that the operators of two sides work on, and by how much their sizes differ."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from fractions import Fraction

import msgspec

from traceanalyzer.comparison.measurement import Key, Table

_MOST = 0.5
"""Own choice: where one ratio explains half of the time in other shapes, it is the reason for them."""

Shape = tuple[int, ...]


def shared(base: Table, head: Table) -> float | None:
    """Share of the operators' time that is in shapes of both sides, over operators that both sides have.

    The smaller one of the two sides' shares; None where nothing is known.
    """
    common = {key.name for key in base} & {key.name for key in head}
    shares = [_share(base, head, common), _share(head, base, common)]
    known = [share for share in shares if share is not None]
    return min(known) if known else None


def scaled(base: Table, head: Table) -> float | None:
    """The ratio of dimensions, head to base, that explains most of the other shapes; None if none does."""
    time = _time(base)
    shapes = {name: list(_first_shapes(keys)) for name, keys in _by_name(head, base).items()}
    votes: defaultdict[Fraction, float] = defaultdict(float)
    whole = 0.0
    for key in base:
        if key not in head and key.name in shapes:
            whole += time(key)
            own = next(_first_shapes([key]), None)
            ratios = {ratio for other in shapes[key.name] if own and (ratio := _ratio(own, other))}
            for ratio in ratios:
                votes[ratio] += time(key)
    if not votes:
        return None
    best = max(votes, key=lambda ratio: (votes[ratio], ratio))
    changed = 1 - (shared(base, head) or 0.0)
    return float(best) if votes[best] > _MOST * whole and changed > _MOST else None


def _share(table: Table, other: Table, common: Collection[str]) -> float | None:
    time = _time(table)
    rows = [key for key in table if key.name in common]
    whole = math.fsum(map(time, rows))
    missing = math.fsum(time(key) for key in rows if key not in other)
    return 1 - missing / whole if whole else None


def _time(table: Table) -> Callable[[Key], float]:
    """Time of a row in ns: on the device, if the side has one."""
    field = "device_ns" if any(cost.device_ns for cost in table.values()) else "host_ns"
    return lambda key: getattr(table[key], field) or 0.0


def _by_name(table: Table, other: Table) -> dict[str, list[Key]]:
    """Rows that the other side does not have, by operator."""
    found: defaultdict[str, list[Key]] = defaultdict(list)
    for key in table:
        if key not in other:
            found[key.name].append(key)
    return found


def _first_shapes(keys: Collection[Key]) -> Iterator[Shape]:
    """For each row, the shape of its first tensor that has dimensions."""
    for key in keys:
        try:
            decoded = msgspec.json.decode((key.detail or "").encode())
        except (msgspec.DecodeError, RecursionError):
            continue
        tensors = (s for s in decoded if isinstance(s, list) and s) if isinstance(decoded, list) else iter(())
        first = next((tuple(s) for s in tensors if all(isinstance(d, int) and d > 0 for d in s)), None)
        if first is not None:
            yield first


def _ratio(base: Shape, head: Shape) -> Fraction | None:
    """The one ratio of all dimensions that differ; None if there are several, or none differs."""
    if len(base) != len(head):
        return None
    ratios = {Fraction(h, b) for b, h in zip(base, head, strict=True) if h != b}
    return ratios.pop() if len(ratios) == 1 else None
