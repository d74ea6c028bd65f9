"""Tests of the rule `activations-large`: activations that hold much of the peak."""

from __future__ import annotations

from tests.builders.memory_snapshot import BACKWARD, FORWARD, MIB, MemoryRecorder
from tests.rules.judging import report
from tests.rules.memory.programs import Training

RULE = "activations-large"


def fires() -> MemoryRecorder:
    return Training().run()


def quiet() -> MemoryRecorder:
    return Training(kept=(0.1, 0.1)).run()


def trap_inference() -> MemoryRecorder:
    """A cache of keys and values grows with each token, and there is no backward pass."""
    memory = MemoryRecorder()
    memory.alloc(40 * MIB)
    for _ in range(20):
        memory.free(memory.alloc(8 * MIB, FORWARD), FORWARD)
        memory.alloc(4 * MIB, FORWARD)
    return memory


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "halved")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_half_of_the_activations() -> None:
    assert saved(fires()) == (24, 24)


def test_copies_of_weights_do_not_shrink() -> None:
    """Some activations have the size of a gradient, as copies of weights do."""
    training = Training(kept=(8, 3))
    training.make(8, BACKWARD)
    assert saved(training.run()) == (4 * 3 / 2, 4 * 11 / 2)
