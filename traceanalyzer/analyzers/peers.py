"""Of calls that should cost the same, the cheapest: what is possible on this device, without any data sheet."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import msgspec


class Peer(msgspec.Struct, frozen=True):
    """A cheaper call of the same operator and size, in the same measurement."""

    input_shapes: str
    device_ns_per_call: float
    saving_ns: float
    """What all calls together would save at the peer's price."""


@dataclass(frozen=True)
class Priced:
    """All calls of one operator with the same inputs."""

    size: Hashable | None
    """Calls of equal size should cost the same; None: the size is not known."""
    input_shapes: str
    calls: int
    """At least 1."""
    device_ns: int

    @property
    def price(self) -> float:
        """Device time of one call, in ns."""
        return self.device_ns / self.calls


def peers(rows: Sequence[Priced]) -> list[Peer | None]:
    """The cheapest of each size, for all others of that size that cost more."""
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
