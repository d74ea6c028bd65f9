"""Tests of the rule `gradients-held-late`: gradients that live through the next forward pass."""

from __future__ import annotations

from tests.builders.memory_snapshot import BACKWARD, FORWARD, MIB, OPTIMIZER, SAVED, MemoryRecorder
from tests.rules.judging import findings, report
from tests.rules.memory.programs import ZERO, Training

RULE = "gradients-held-late"


def fires() -> MemoryRecorder:
    training = Training()
    training.frees_late = True
    return training.run()


def quiet() -> MemoryRecorder:
    return Training().run()


def trap_gradients_are_added_up() -> MemoryRecorder:
    """Each update follows two backward passes, the second of which adds to the gradients of the first."""
    memory = Training().memory
    state = None
    for _ in range(4):
        gradient = None
        for _ in range(2):
            saved = [memory.alloc(8 * MIB, FORWARD) for _ in range(4)]
            added = memory.alloc(4 * MIB, BACKWARD)
            for block in saved:
                memory.free(block, SAVED)
            if gradient is None:
                gradient = added
            else:
                memory.free(added, BACKWARD)
        state = state or memory.alloc(8 * MIB, OPTIMIZER)
        assert gradient is not None
        memory.free(gradient, ZERO)
    return memory


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "gradients-freed")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_what_the_peak_loses() -> None:
    """Gradients of the step before lie beside all activations: 4 MiB, where later the first of the next step has 1."""
    assert saved(fires()) == (3, 3)


def test_the_line_is_the_one_that_frees_them() -> None:
    (found,) = findings(fires(), RULE)
    assert found.evidence[0].where[0].name == "/home/me/train.py(13): step"
    assert found.summary.params["held"] == 4 * MIB


def fires_with_zeros() -> MemoryRecorder:
    training = Training()
    training.fills_zeros = True
    return training.run()


def test_gradients_that_are_filled_with_zeros() -> None:
    """They lie beside all activations of the next step; the first of them is made again beside these, once in place."""
    (device,) = report(fires_with_zeros(), RULE).analyses["memory_replay"].devices
    (one,) = [change for change in device.changes if change.idea == "gradients-zeroed"]
    assert (one.held_bytes, one.saved.requested_least, one.saved.requested_most) == (4 * MIB, 3 * MIB, 4 * MIB)
    (found,) = findings(fires_with_zeros(), RULE)
    assert "filled with zeros" in found.summary.text
    assert found.summary.params["held"] == 4 * MIB


def test_gradients_that_are_added_up_are_not_filled_with_zeros() -> None:
    (device,) = report(trap_gradients_are_added_up(), RULE).analyses["memory_replay"].devices
    assert "gradients-zeroed" not in [change.idea for change in device.changes]
