"""Tests of the rule `optimizer-state-large`: states of an optimizer that hold much."""

from __future__ import annotations

import pytest

from tests.builders.memory_snapshot import MIB, TRAIN, MemoryRecorder, OutOfMemoryError
from tests.rules.judging import findings, report
from tests.rules.memory.programs import Training

RULE = "optimizer-state-large"


def fires() -> MemoryRecorder:
    return Training().run()


def quiet() -> MemoryRecorder:
    return Training(state=0).run()


def trap_states_are_small_already() -> MemoryRecorder:
    """In 8 bits, or a shard: smaller than the gradient."""
    return Training(state=0.5).run()


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "state")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_three_quarters_at_most_and_half_at_least() -> None:
    """Scales take a sixty-fourth of the values."""
    assert saved(fires()) == (8 - 4 * 65 / 64, 8 - 2 * 65 / 64)


def test_line_and_bytes() -> None:
    (found,) = findings(fires(), RULE)
    assert found.evidence[0].where[0].name == "/home/me/train.py(20): step"
    assert found.summary.params["held"] == 8 * MIB


def test_it_is_urgent_where_memory_was_scarce() -> None:
    training = Training(state=200, limit=400)
    training.run()
    with pytest.raises(OutOfMemoryError):
        training.make(200, TRAIN)
    (found,) = findings(training.memory, RULE)
    assert found.severity == "high"
