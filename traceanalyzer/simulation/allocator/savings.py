"""What changes of a program save of its memory, alone and together: savings overlap, as they do in time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from traceanalyzer.simulation.allocator.changes import MemoryChange
from traceanalyzer.simulation.allocator.recording import RecordedMemory
from traceanalyzer.simulation.allocator.replaying import ReplayedMemory, replay


class MemoryProposal(msgspec.Struct, frozen=True):
    """Something to change, as it may be worth most, and least."""

    changes: tuple[MemoryChange, ...]
    cautious: tuple[MemoryChange, ...] | None = None
    """The same thing if less of it is possible; None if there is nothing uncertain about it."""


class SavedBytes(msgspec.Struct, frozen=True):
    """By how many bytes peaks get lower, from least to most."""

    requested_least: int
    requested_most: int
    reserved_least: int
    reserved_most: int


class MemorySavings(msgspec.Struct, frozen=True):
    """What proposals save of one device's peaks."""

    each: tuple[SavedBytes, ...]
    """Of each proposal: from the lower to the higher of what it saves alone, and after all others."""
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

    def peaks(changes: Sequence[MemoryChange]) -> ReplayedMemory:
        return replay(memory, changes, keeps_cached=False)

    bold = [one.changes for one in proposals]
    cautious = [one.changes if one.cautious is None else one.cautious for one in proposals]
    everything = peaks(_joined(bold))
    each = []
    for number, (most, least) in enumerate(zip(bold, cautious, strict=True)):
        others = peaks(_joined([*bold[:number], *bold[number + 1 :]]))
        pairs = [(unchanged, peaks(most)), (others, everything)]
        if least is not most:
            pairs += [(unchanged, peaks(least)), (others, peaks(_joined([*bold[:number], least, *bold[number + 1 :]])))]
        each.append(_saved(pairs, error))
    together = [(unchanged, everything)]
    if any(one.cautious is not None for one in proposals):
        together.append((unchanged, peaks(_joined(cautious))))
    return MemorySavings(each=tuple(each), together=_saved(together, error), unchanged=unchanged, reserved_error=error)


def _joined(parts: Sequence[tuple[MemoryChange, ...]]) -> tuple[MemoryChange, ...]:
    return tuple(change for part in parts for change in part)


def _saved(pairs: Sequence[tuple[ReplayedMemory, ReplayedMemory]], error: int) -> SavedBytes:
    """The range of what peaks lose from the first to the second replay of each pair; nothing saves less than 0."""
    requested = [max(before.requested_peak - after.requested_peak, 0) for before, after in pairs]
    reserved = [before.reserved_peak - after.reserved_peak for before, after in pairs]
    return SavedBytes(
        requested_least=min(requested),
        requested_most=max(requested),
        reserved_least=max(min(reserved) - error, 0),
        reserved_most=max(max(reserved) + error, 0),
    )
