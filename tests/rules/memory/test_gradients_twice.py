"""Tests of the rule `gradients-twice`: gradients with a second copy."""

from __future__ import annotations

from tests.builders.memory_snapshot import BACKWARD, MIB, OPTIMIZER, SAVED, MemoryRecorder
from tests.rules.judging import findings, report
from tests.rules.memory.programs import ATTENTION, BUCKETS, CLONE, ZERO, Training

RULE = "gradients-twice"


def fires() -> MemoryRecorder:
    training = Training()
    training.has_copies = True
    return training.run()


def fires_with_buckets_of_ddp() -> MemoryRecorder:
    training = Training()
    training.make(4, BUCKETS)
    return training.run()


def quiet() -> MemoryRecorder:
    return Training().run()


def trap_gradients_are_views_of_the_buckets() -> MemoryRecorder:
    """The backward pass makes no blocks that stay: gradients are in the buckets."""
    training = Training()
    training.make(4, BUCKETS)
    memory = training.memory
    for _ in range(3):
        saved = [training.make(8, ATTENTION) for _ in range(4)]
        memory.free(training.make(0.5, BACKWARD), BACKWARD)
        for block in saved:
            memory.free(block, SAVED)
        training.state = training.state or training.make(8, OPTIMIZER)
    return memory


def trap_a_copy_of_one_gradient() -> MemoryRecorder:
    """Of four gradients the program keeps one."""
    training = Training()
    memory = training.memory
    for number in range(3):
        saved = [training.make(8, ATTENTION) for _ in range(4)]
        gradients = [training.make(1, BACKWARD) for _ in range(4)]
        for block in saved:
            memory.free(block, SAVED)
        if not number:
            training.make(1, CLONE)
        training.state = training.state or training.make(8, OPTIMIZER)
        for gradient in gradients:
            memory.free(gradient, ZERO)
    return memory


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "gradients-once")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_bytes_of_the_copy() -> None:
    assert saved(fires()) == (4, 4)
    assert saved(fires_with_buckets_of_ddp()) == (4, 4)


def test_line() -> None:
    (found,) = findings(fires(), RULE)
    assert found.evidence[0].where[0].name == "/home/me/train.py(22): accumulate"
    assert found.summary.params["held"] == 4 * MIB
