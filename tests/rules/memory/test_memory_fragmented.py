"""Tests of the rule `memory-fragmented`: programs whose free memory is in pieces."""

from __future__ import annotations

import contextlib

from tests.builders.memory_snapshot import MIB, TRAIN, MemoryRecorder, OutOfMemoryError
from tests.rules.judging import findings

RULE = "memory-fragmented"


def in_pieces(request: int, *, limit: int = 400 * MIB) -> MemoryRecorder:
    """Ten segments of 40 MiB, of which 12 MiB each stay in use, and then one large request."""
    memory = MemoryRecorder(limit=limit)
    pairs = []
    for _ in range(10):
        whole = memory.alloc(40 * MIB)
        memory.free(whole)
        pairs.append((memory.alloc(28 * MIB), memory.alloc(12 * MIB)))
    for first, _ in pairs:
        memory.free(first)
    with contextlib.suppress(OutOfMemoryError):
        memory.alloc(request, (("/home/me/train.py", 55, "attend"), *TRAIN))
    return memory


def fires() -> MemoryRecorder:
    """280 MiB are free, in pieces of 28 MiB, and 100 MiB are asked for."""
    return in_pieces(100 * MIB)


def quiet() -> MemoryRecorder:
    return in_pieces(20 * MIB)


def trap_too_much_is_held() -> MemoryRecorder:
    """What is free would not do, even in one piece."""
    return in_pieces(500 * MIB)


def fires_where_segments_are_given_back() -> MemoryRecorder:
    """A request of 100 MiB fits only after a segment that nobody uses is given back."""
    memory = in_pieces(20 * MIB, limit=520 * MIB)
    memory.free(memory.alloc(60 * MIB))
    memory.alloc(100 * MIB)
    return memory


def test_it_is_a_small_matter_where_nothing_failed() -> None:
    (found,) = findings(fires_where_segments_are_given_back(), RULE)
    assert (found.severity, found.confidence) == ("low", "B")


def test_what_is_said() -> None:
    (found,) = findings(fires(), RULE)
    memory = fires()
    free = [block.size for segment in memory.segments for block in segment.blocks if block.state == "inactive"]
    assert found.severity == "high"
    assert found.summary.params["unusable"] == sum(size for size in free if size < 100 * MIB)
    assert found.summary.params["largest"] == 100 * MIB
    assert found.evidence[0].where[0].name == "/home/me/train.py(55): attend"


def test_the_request_fits_into_segments_that_grow() -> None:
    (found,) = findings(fires(), RULE)
    assert found.advice.id == "memory-fragmented-advice-fits"


def test_what_is_reserved_less() -> None:
    """Ten requests, each larger than what the ones before left: 40 to 76 MiB, one at a time, in pages of 20 MiB.

    Segments that grow hold at most the 102 MiB that are in use at the end.
    """
    memory = MemoryRecorder(limit=640 * MIB)
    for number in range(10):
        memory.free(memory.alloc((40 + 4 * number) * MIB))
    memory.alloc(2 * MIB)
    memory.alloc(100 * MIB)
    (found,) = findings(memory, RULE)
    assert found.advice.id == "memory-fragmented-advice-replayed"
    assert found.advice.params["reserved_saved"]["params"] == {"size": (580 - 120) * MIB}
