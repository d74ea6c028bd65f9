"""Tests of the rule `memory-exhausted`: programs that ask for more than the device has."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest

from tests.builders.memory_snapshot import (
    BACKWARD,
    FORWARD,
    MIB,
    OPTIMIZER,
    SAVED,
    TRAIN,
    MemoryRecorder,
    OutOfMemoryError,
)
from tests.rules.judging import findings
from traceanalyzer.trace.memory_snapshot import Frame

RULE = "memory-exhausted"


def filled(stack: Sequence[Frame], *, saved: bool = False) -> MemoryRecorder:
    """Blocks of 30 MiB until 400 MiB are full; with `saved` a step before shows that they are for the backward pass."""
    memory = MemoryRecorder(limit=400 * MIB)
    if saved:
        block = memory.alloc(30 * MIB, stack)
        gradient = memory.alloc(MIB, BACKWARD)
        memory.free(block, SAVED)
        memory.free(gradient, SAVED)
    with contextlib.suppress(OutOfMemoryError):
        for _ in range(50):
            memory.alloc(30 * MIB, stack)
    return memory


def fires() -> MemoryRecorder:
    return filled(FORWARD)


def fires_with_state_of_an_optimizer() -> MemoryRecorder:
    return filled(OPTIMIZER)


def quiet() -> MemoryRecorder:
    memory = MemoryRecorder()
    memory.alloc(30 * MIB)
    return memory


def trap_only_pieces_are_missing() -> MemoryRecorder:
    """Half of the memory is free, in pieces."""
    memory = MemoryRecorder(limit=400 * MIB)
    wholes = [memory.alloc(40 * MIB) for _ in range(10)]
    for whole in wholes:
        memory.free(whole)
        first = memory.alloc(20 * MIB, FORWARD)
        memory.alloc(20 * MIB, FORWARD)
        memory.free(first)
    with contextlib.suppress(OutOfMemoryError):
        memory.alloc(90 * MIB)
    return memory


@pytest.mark.parametrize(
    ("stack", "advice"),
    [
        (FORWARD, "memory-exhausted-advice-activations"),
        (OPTIMIZER, "memory-exhausted-advice-optimizer"),
        (BACKWARD, "memory-exhausted-advice-gradients"),
        (TRAIN, "memory-exhausted-advice-unknown"),
    ],
)
def test_the_advice_is_about_what_holds_most(stack: Sequence[Frame], advice: str) -> None:
    (found,) = findings(filled(stack), RULE)
    assert found.advice.id == advice
    assert found.summary.params["asked"] == 30 * MIB
    assert found.summary.params["level"] == 13 * 30 * MIB


def test_at_most_all_but_the_largest_block_is_saved() -> None:
    (found,) = findings(fires(), RULE)
    assert found.advice.params["most"] == 12 * 30 * MIB
