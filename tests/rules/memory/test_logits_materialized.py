"""Tests of the rule `logits-materialized`: logits that are in memory at once."""

from __future__ import annotations

from tests.builders.memory_snapshot import MIB, MemoryRecorder
from tests.rules.judging import findings, report
from tests.rules.memory.programs import FUSED, Training

RULE = "logits-materialized"


def with_logits(mib: int) -> Training:
    training = Training()
    training.logits = mib
    return training


def fires() -> MemoryRecorder:
    return with_logits(64).run()


def quiet() -> MemoryRecorder:
    return Training().run()


def trap_the_loss_is_fused() -> MemoryRecorder:
    """A kernel that computes the loss in chunks has large blocks, too."""
    training = with_logits(64)
    training.loss = FUSED
    return training.run()


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "logits")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_the_copy_at_least_and_the_logits_with_their_gradient_at_most() -> None:
    """Three blocks of 64 MiB at the peak: the logits, the copy that the loss makes, and the gradient.

    In eight parts each has 8 MiB.
    """
    assert saved(fires()) == (56, 3 * 56)


def test_lines() -> None:
    (found,) = findings(fires(), RULE)
    assert {"/home/me/train.py(15): loss", "/home/me/model.py(60): head"} <= {
        place.name for place in found.evidence[0].where
    }
