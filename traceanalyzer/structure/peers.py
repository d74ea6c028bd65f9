"""Finds the cheapest of calls that should cost the same: what this device can do, without a data sheet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """A cheaper call of the same operator and size, in the same measurement."""

    input_shapes: str
    """Input shapes of the cheaper call, as recorded."""
    device_ns_per_call: float
    """Device time of one cheaper call in ns."""
    saving_ns: float
    """What all calls of the dearer shape together would save at the price of the cheaper one, in ns."""


class Priced(msgspec.Struct, frozen=True):
    """All calls of one operator with the same inputs."""

    size: Hashable | None
    """Calls of equal size should cost the same; None: the size is not known."""
    input_shapes: str
    calls: int
    """Number of calls, at least 1."""
    device_ns: int

    @property
    def price(self) -> float:
        """Device time of one call, in ns."""
        return self.device_ns / self.calls


def peers(rows: Sequence[Priced]) -> list[Peer | None]:
    """For each row the cheapest row of its size; None for the cheapest itself and for unknown sizes."""
    best: dict[Hashable, Priced] = {}
    for row in rows:
        if row.size is not None and row.device_ns:
            cheapest = best.get(row.size)
            if cheapest is None or row.price < cheapest.price:
                best[row.size] = row
    return [_peer(row, best.get(row.size)) for row in rows]


def _peer(row: Priced, best: Priced | None) -> Peer | None:
    if best is None or best.price >= row.price:
        return None
    return Peer(best.input_shapes, best.price, row.device_ns - best.price * row.calls)
