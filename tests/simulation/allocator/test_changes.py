"""What changes are worth, by hand."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.simulation.allocator.snapshots import MIB
from tests.simulation.allocator.written import A, B, C, D, Written
from traceanalyzer.simulation.allocator.changes import (
    DropBlocks,
    FreeBlocks,
    ResizeBlocks,
    UseExpandableSegments,
    changed,
)
from traceanalyzer.simulation.allocator.recording import RecordedMemory
from traceanalyzer.simulation.allocator.replaying import replay, requested_peak
from traceanalyzer.simulation.allocator.savings import MemoryProposal, SavedBytes, savings
from traceanalyzer.simulation.allocator.sizes import AllocatorSettings

PARAMETERS, FIRST, SECOND, TEMPORARY = range(4)
"""Rows of the blocks of a step."""


def rows(*chosen: int) -> np.ndarray:
    return np.array(chosen, np.int64)


@cache
def step() -> RecordedMemory:
    """Parameters of 30 MiB from before; activations of 40 and 24 are freed in the reverse order after 16 of temporary.

    Entries: 0-1 first activations, 2-3 second ones, 4-5 temporary, 6-7, 8-9 and 10-11 the frees.
    """
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.reserve(B, 40)
    written.alloc(B, 40)
    written.reserve(C, 24)
    written.alloc(C, 24)
    written.reserve(D, 16)
    written.alloc(D, 16)
    for address in (D, C, B):
        written.free(address)
    return written.lose(2).recorded()


def peaks(*changes: object) -> tuple[float, float]:
    """Requested and reserved MiB with changes."""
    found = replay(step(), changes, keeps_cached=False)  # type: ignore[arg-type]
    assert requested_peak(step(), changes) == found.requested_peak  # type: ignore[arg-type]
    return found.requested_peak / MIB, found.reserved_peak / MIB


def test_unchanged() -> None:
    assert peaks() == (110, 110)
    assert step().blocks.born.tolist() == [-1, 1, 3, 5]
    assert step().blocks.died.tolist() == [12, 11, 9, 7]


def test_blocks_that_are_never_allocated() -> None:
    assert peaks(DropBlocks(rows(SECOND))) == (86, 86)
    assert peaks(DropBlocks(rows(PARAMETERS))) == (80, 80)
    assert peaks(DropBlocks(rows(PARAMETERS, FIRST, SECOND, TEMPORARY))) == (0, 0)


def test_blocks_that_are_freed_earlier() -> None:
    """Before the temporary block is allocated at entry 5: it lies in the freed segment, and the peak is before it."""
    assert peaks(FreeBlocks(rows(SECOND), rows(3))) == (94, 94)
    assert peaks(FreeBlocks(rows(SECOND), rows(5))) == (110, 110)
    assert peaks(FreeBlocks(rows(SECOND), rows(100))) == (110, 110)
    # The second activations lie in the segment of the parameters, and 6 MiB stay free.
    assert peaks(FreeBlocks(rows(PARAMETERS), rows(-1))) == (80, 86)
    # No block is freed before it is allocated.
    assert peaks(FreeBlocks(rows(SECOND), rows(0))) == (94, 94)


def test_blocks_of_another_size() -> None:
    """Parameters of 15 MiB take 16; a block of 6 MiB has 20 reserved for it."""
    assert peaks(ResizeBlocks(rows(PARAMETERS), 0.5)) == (95, 96)
    assert peaks(ResizeBlocks(rows(FIRST, SECOND), 0.25)) == (62, 76)
    assert peaks(ResizeBlocks(rows(FIRST), 0.25, extra_bytes=2 * MIB)) == (82, 82)
    assert peaks(ResizeBlocks(rows(FIRST), 0.5), ResizeBlocks(rows(FIRST, SECOND), 0.5)) == (68, 68)
    assert peaks(ResizeBlocks(rows(FIRST), 0)) == peaks(DropBlocks(rows(FIRST)))
    assert peaks(ResizeBlocks(rows(TEMPORARY), 2)) == (126, 126)


def test_expandable_segments() -> None:
    """Pages of 20 MiB: 110 in use need six of them."""
    assert peaks(UseExpandableSegments()) == (110, 120)
    assert peaks(UseExpandableSegments(from_start=False)) == (110, 30 + 80)
    assert peaks(UseExpandableSegments(), DropBlocks(rows(SECOND))) == (86, 100)


def test_changes_of_settings_and_sizes() -> None:
    found = changed(step().blocks, (UseExpandableSegments(from_start=False),), AllocatorSettings())
    assert found.settings.expandable_segments
    assert found.stays.all()
    assert not changed(step().blocks, (UseExpandableSegments(),), AllocatorSettings()).stays.any()
    assert changed(step().blocks, (ResizeBlocks(rows(FIRST), 1 / 3),), AllocatorSettings()).requested[FIRST] == 13981014


def test_savings_that_overlap() -> None:
    """Halved parameters save 15 MiB of 110, dropping the second activations 24, and freeing them after entry 3 16.

    What is never allocated need not be freed, so that all together save less than their sum.
    """
    proposals = (
        MemoryProposal((ResizeBlocks(rows(PARAMETERS), 0.5),)),
        MemoryProposal((DropBlocks(rows(SECOND)),)),
        MemoryProposal((FreeBlocks(rows(SECOND), rows(3)),)),
    )
    found = savings(step(), proposals)
    assert found.reserved_error == 0
    assert found.unchanged.requested_peak == 110 * MIB
    halved, dropped, freed = found.each
    assert halved == SavedBytes(15 * MIB, 15 * MIB, 14 * MIB, 14 * MIB)
    assert dropped == SavedBytes(24 * MIB, 24 * MIB, 24 * MIB, 24 * MIB)
    assert freed == SavedBytes(16 * MIB, 16 * MIB, 16 * MIB, 16 * MIB)
    assert found.together == SavedBytes(39 * MIB, 39 * MIB, 38 * MIB, 38 * MIB)


def test_a_cautious_estimate() -> None:
    proposal = MemoryProposal((DropBlocks(rows(SECOND)),), (ResizeBlocks(rows(SECOND), 0.5),))
    found = savings(step(), [proposal])
    assert found.each[0] == found.together == SavedBytes(12 * MIB, 24 * MIB, 12 * MIB, 24 * MIB)


def test_no_proposal() -> None:
    found = savings(step(), [])
    assert found.each == ()
    assert found.together == SavedBytes(0, 0, 0, 0)


def test_a_request_that_failed_fits_after_a_change() -> None:
    """70 MiB are used and 20 free; a request of 30 fits if 10 are dropped, and then the peak counts it."""
    written = Written()
    for address, mib in ((A, 50), (B, 20)):
        written.reserve(address, mib)
        written.alloc(address, mib)
    written.fail(30, 20)
    memory = written.recorded()
    assert (replay(memory).failures, replay(memory).reserved_peak) == (1, 70 * MIB)
    saved = replay(memory, [ResizeBlocks(rows(1), 0.5)])
    assert (saved.failures, saved.reserved_peak) == (0, 90 * MIB)


@pytest.mark.parametrize(("kept", "reserved"), [(True, 70), (False, 40)])
def test_what_was_cached_when_the_history_began(kept: bool, reserved: int) -> None:
    """A segment that nothing used then stays, but says nothing about the program with a change."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 30)
    written.free(A)
    written.reserve(B, 40)
    written.alloc(B, 40)
    memory = written.lose(4).recorded()
    assert replay(memory, keeps_cached=kept).reserved_peak == reserved * MIB


def test_pages_that_were_cached_when_the_history_began() -> None:
    """Pages of an expandable segment count like segments: the last of three is free at the start."""
    written = Written(expandable_segments=True)
    written.map(A, 60)
    written.alloc(A, 30)
    written.alloc(A + 30 * MIB, 30)
    written.free(A + 30 * MIB)
    written.alloc(A + 30 * MIB, 4)
    memory = written.lose(5).recorded()
    assert replay(memory).reserved_peak == 60 * MIB
    assert replay(memory, keeps_cached=False).reserved_peak == 40 * MIB
    assert replay(memory, [DropBlocks(rows(0))]).reserved_peak == 20 * MIB


def test_the_error_of_the_unchanged_replay_widens_bounds() -> None:
    """A segment of 30 MiB for a block of 10, which the model would not reserve."""
    written = Written()
    written.reserve(A, 30)
    written.alloc(A, 10)
    written.reserve(B, 24)
    written.alloc(B, 24)
    found = savings(written.recorded(), [MemoryProposal((DropBlocks(rows(1)),))])
    assert found.reserved_error == 20 * MIB
    assert found.each[0] == found.together == SavedBytes(24 * MIB, 24 * MIB, 4 * MIB, 44 * MIB)
    small = savings(written.recorded(), [MemoryProposal((DropBlocks(rows(0)),))])
    assert small.together == SavedBytes(10 * MIB, 10 * MIB, 0, 30 * MIB)
