"""What do errors of failed allocations and summaries of memory say: was there enough, and who holds the rest?

Texts name no holders: neither blocks nor lines of the program, except the one that asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from traceanalyzer.trace.document import MemorySummary, PrintedFailure, TableDocument


class PrintedAllocation(msgspec.Struct, frozen=True):
    """An allocation that failed, as the text of its error says it."""

    device: int | None
    """Number of the device; null where it is not printed."""
    asked_bytes: int
    """Bytes that were asked for."""
    line: str | None
    """Innermost line of the program in the traceback above the error; null if there is none."""
    device_free_bytes: int | None
    """Bytes that the device had free; null where it is not printed."""
    total_bytes: int | None
    """Bytes that the device has in all; null where it is not printed."""
    allocated_bytes: int | None
    """Bytes that tensors held; null where it is not printed."""
    reserved_bytes: int | None
    """Bytes that the allocator held from the driver; null where it is not printed."""
    inactive_bytes: int | None
    """Bytes of these that no tensor used; null where it is not printed."""
    elsewhere_bytes: int | None
    """Bytes of the device that were neither free nor the allocator's: other processes, libraries, and what the driver
    needs; null if unknown."""
    is_fragmentation: bool | None
    """Whether what no tensor used, with what the device had free, would have been enough in one piece, and what was
    free alone would not; null if unknown."""

    @property
    def is_limited(self) -> bool:
        """Whether what the device had free would have been enough, so that something else limits the program."""
        return self.device_free_bytes is not None and self.device_free_bytes >= self.asked_bytes


class PrintedMemorySummary(msgspec.Struct, frozen=True):
    """What `torch.cuda.memory_summary()` prints of a device."""

    device: int
    """Number of the device."""
    failures: int | None
    """Allocations that failed; null where it is not printed."""
    retries: int | None
    """How often the allocator gave back what it could, to ask again; null where it is not printed."""
    allocated_bytes: int
    """Bytes that tensors hold."""
    peak_bytes: int
    """Most bytes that tensors held at a time."""
    reserved_bytes: int | None
    """Bytes that the allocator holds from the driver; null where it is not printed."""
    stuck_bytes: int | None
    """Bytes that no tensor uses, in segments that others use, so that they cannot be given back; null where it is not
    printed."""

    @property
    def unusable_bytes(self) -> int | None:
        """Bytes that are reserved and of no use for a larger request, at most; None if unknown."""
        if self.stuck_bytes is not None or self.reserved_bytes is None:
            return self.stuck_bytes
        return max(0, self.reserved_bytes - self.allocated_bytes)


class PrintedMemory(msgspec.Struct, frozen=True):
    """What a text says of the memory of devices."""

    failures: tuple[PrintedAllocation, ...]
    """Allocations that failed, in the order of the text, each once."""
    summaries: tuple[PrintedMemorySummary, ...]
    """Summaries of the memory of devices, in the order of the text."""


def analyze(document: TableDocument) -> PrintedMemory | None:
    """What the text says of memory; None if it says nothing."""
    failures, summaries = tuple(_failed(document.memory_failures)), tuple(_summed(document.memory_summaries))
    return PrintedMemory(failures, summaries) if failures or summaries else None


def _failed(printed: Iterable[PrintedFailure]) -> Iterable[PrintedAllocation]:
    for one in printed:
        known = one.total_bytes is not None and one.free_bytes is not None and one.reserved_bytes is not None
        elsewhere = (one.total_bytes or 0) - (one.free_bytes or 0) - (one.reserved_bytes or 0)
        yield PrintedAllocation(
            device=one.device,
            asked_bytes=one.asked_bytes,
            line=one.code,
            device_free_bytes=one.free_bytes,
            total_bytes=one.total_bytes,
            allocated_bytes=one.allocated_bytes,
            reserved_bytes=one.reserved_bytes,
            inactive_bytes=one.inactive_bytes,
            elsewhere_bytes=max(0, elsewhere) if known else None,
            is_fragmentation=_is_fragmentation(one),
        )


def _is_fragmentation(one: PrintedFailure) -> bool | None:
    if one.inactive_bytes is None or one.free_bytes is None:
        return None
    return one.free_bytes < one.asked_bytes <= one.free_bytes + one.inactive_bytes


def _summed(printed: Iterable[MemorySummary]) -> Iterable[PrintedMemorySummary]:
    for one in printed:
        yield PrintedMemorySummary(
            device=one.device,
            failures=one.failures,
            retries=one.retries,
            allocated_bytes=one.allocated_bytes,
            peak_bytes=one.peak_bytes,
            reserved_bytes=one.reserved_bytes,
            stuck_bytes=one.stuck_bytes,
        )
