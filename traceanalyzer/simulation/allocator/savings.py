"""What changes of a program save of its memory, alone and together: savings overlap, as they do in time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.report.selection import PeakSaving
from traceanalyzer.simulation.allocator.changes import MemoryChange
from traceanalyzer.simulation.allocator.recording import RecordedMemory
from traceanalyzer.simulation.allocator.replaying import ReplayedMemory, replay, requested_peak


class MemoryProposal(msgspec.Struct, frozen=True):
    """Something to change, as it may be worth most, and least."""

    changes: tuple[MemoryChange, ...]
    cautious: tuple[MemoryChange, ...] | None = None
    """The same thing if less of it is possible; None if there is nothing uncertain about it."""


class SavedBytes(msgspec.Struct, frozen=True):
    """By how many bytes peaks get lower, from least to most."""

    requested_least: int
    """Bytes by which the peak of what the program asks for gets lower at least."""
    requested_most: int
    """Bytes by which it gets lower at most."""
    reserved_least: int | None
    """Bytes by which the peak of what the allocator holds from the driver gets lower at least; null where no segments
    are known."""
    reserved_most: int | None
    """Bytes by which that gets lower at most; null where no segments are known."""

    @property
    def most(self) -> int:
        """What is saved at most, of either."""
        return max(self.requested_most, self.reserved_most or 0)

    def at_peak(self, device: int, peak_bytes: int) -> PeakSaving | None:
        """The same for a finding; None if nothing is saved of what the program asks for.

        Args:
            device: Number of the device.
            peak_bytes: Its peak of what the program asks for.
        """
        if not peak_bytes or not self.requested_most:
            return None
        requested = (self.requested_least, self.requested_most)
        share = (requested[0] / peak_bytes, requested[1] / peak_bytes)
        has_segments = self.reserved_least is not None and self.reserved_most is not None
        reserved = (self.reserved_least or 0, self.reserved_most or 0) if has_segments else None
        return PeakSaving(f"GPU{device}", requested, share, reserved)


class MemorySavings(msgspec.Struct, frozen=True):
    """What proposals save of one device's peaks."""

    each: tuple[SavedBytes, ...]
    """Of each proposal alone: by its cautious estimate, and by the other."""
    together: SavedBytes
    """Of all proposals; the sum of what each saves can be more or less."""
    unchanged: ReplayedMemory
    """The program as it is, without what was cached when the history began."""
    reserved_error: int
    """Bytes by which the unchanged replay's peak of reserved memory differs from the recorded one; bounds are wider by
    it."""


def savings(memory: RecordedMemory, proposals: Sequence[MemoryProposal]) -> MemorySavings:
    """What each proposal saves, and all together."""
    unchanged = replay(memory, keeps_cached=False)
    error = abs(replay(memory).reserved_peak - memory.reserved_peak)

    def saved(variants: Sequence[tuple[MemoryChange, ...]]) -> SavedBytes:
        after = [replay(memory, changes, keeps_cached=False) for changes in variants]
        return _saved(unchanged, after, error)

    bold = [one.changes for one in proposals]
    cautious = [one.changes if one.cautious is None else one.cautious for one in proposals]
    return MemorySavings(
        each=tuple(
            saved((least, most) if least is not most else (most,)) for least, most in zip(cautious, bold, strict=True)
        ),
        together=saved((_joined(cautious), _joined(bold))),
        unchanged=unchanged,
        reserved_error=error,
    )


def requested_savings(
    memory: RecordedMemory, proposals: Sequence[MemoryProposal]
) -> tuple[tuple[SavedBytes, ...], SavedBytes]:
    """What each proposal saves of requested bytes alone, and all together: as `savings`, without an allocator."""
    unchanged = requested_peak(memory)

    def saved(cautious: tuple[MemoryChange, ...], bold: tuple[MemoryChange, ...]) -> SavedBytes:
        after = [unchanged - requested_peak(memory, changes) for changes in (cautious, bold)]
        return SavedBytes(max(min(after), 0), max(*after, 0), None, None)

    cautious = [one.changes if one.cautious is None else one.cautious for one in proposals]
    bold = [one.changes for one in proposals]
    each = tuple(saved(least, most) for least, most in zip(cautious, bold, strict=True))
    return each, saved(_joined(cautious), _joined(bold))


def _joined(parts: Sequence[tuple[MemoryChange, ...]]) -> tuple[MemoryChange, ...]:
    return tuple(change for part in parts for change in part)


def _saved(unchanged: ReplayedMemory, after: Sequence[ReplayedMemory], error: int) -> SavedBytes:
    """The range of what peaks lose; nothing saves less than 0."""
    requested = [max(unchanged.requested_peak - one.requested_peak, 0) for one in after]
    reserved = [unchanged.reserved_peak - one.reserved_peak for one in after]
    return SavedBytes(
        requested_least=min(requested),
        requested_most=max(requested),
        reserved_least=max(min(reserved) - error, 0),
        reserved_most=max(max(reserved) + error, 0),
    )
