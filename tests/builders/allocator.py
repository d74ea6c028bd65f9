"""A caching allocator that keeps the totals of `[memory]` records consistent."""

from __future__ import annotations

from .timeline import Host
from .values import micros

_SEGMENT = 2 << 20
_ROUND = 512


class Allocator:
    """Memory of one device, or of the host if `device` is None."""

    def __init__(self, device: int | None = None, *, held: int = 0) -> None:
        """`held` bytes, such as the weights, were allocated before the trace."""
        self.device = device
        self.allocated = held
        self.reserved = 0
        self._next = (0x7F0000000000 if device is not None else 0x550000000000) + held
        self._blocks: dict[int, int] = {}
        self._reserve()

    def allocate(self, host: Host, nbytes: int) -> int:
        """Take memory now; returns the address."""
        size = -(-nbytes // _ROUND) * _ROUND
        address, self._next = self._next, self._next + size
        self._blocks[address] = size
        self._record(host, size, address)
        return address

    def free(self, host: Host, address: int) -> None:
        """Give memory back now."""
        self._record(host, -self._blocks.pop(address), address)

    def _record(self, host: Host, size: int, address: int) -> None:
        self.allocated += size
        self._reserve()
        host.trace.memory(
            size,
            micros(host.now),
            addr=address,
            allocated=self.allocated,
            reserved=self.reserved,
            device=self.device,
            tid=host.tid,
        )

    def _reserve(self) -> None:
        if self.device is not None:
            self.reserved = max(self.reserved, -(-self.allocated // _SEGMENT) * _SEGMENT)
