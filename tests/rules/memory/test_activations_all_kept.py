"""Tests of the rule `activations-all-kept`: layers that keep their activations."""

from __future__ import annotations

import pytest

from tests.builders.memory_snapshot import MIB, MemoryRecorder
from tests.rules.judging import findings, report
from tests.rules.memory.programs import Training

RULE = "activations-all-kept"


def fires() -> MemoryRecorder:
    return Training().run()


def quiet() -> MemoryRecorder:
    return Training(layers=1).run()


def trap_layers_are_checkpointed_already() -> MemoryRecorder:
    """Each keeps what it begins with, and computes the rest again."""
    training = Training(kept=(8,))
    training.is_checkpointed = True
    return training.run()


def trap_activations_are_little() -> MemoryRecorder:
    return Training(kept=(0.02, 0.01)).run()


def saved(memory: MemoryRecorder) -> tuple[float, float]:
    """What the peak loses at least and at most, in MiB."""
    (device,) = report(memory, RULE).analyses["memory_replay"].devices
    one = next(change for change in device.changes if change.idea == "checkpoint")
    assert device.recorded_peak_bytes == device.replayed_peak_bytes
    return one.saved.requested_least / MIB, one.saved.requested_most / MIB


def test_all_layers_but_one_at_most_and_what_they_end_with_at_least() -> None:
    """Of four layers of 8 and 4 MiB one stays; and at the cautious estimate 4 MiB of each other one.

    The peak is 4 + 8 + 48 MiB, and 1 for the first gradient. At most three layers are saved, but then all gradients are
    there before the layer that stays is freed.
    """
    assert saved(fires()) == (3 * 8, 3 * 12 - 3)


def test_lines_and_bytes() -> None:
    (found,) = findings(fires(), RULE)
    assert [place.name for place in found.evidence[0].where] == [
        "/home/me/model.py(31): attend",
        "/home/me/model.py(44): mlp",
    ]
    assert found.summary.params["held"] == 4 * 12 * MIB
    assert found.summary.params["parts"] == 4
    assert found.severity == "medium"


def test_its_card_is_worth_what_the_replay_saves() -> None:
    (found,) = findings(fires(), RULE)
    peak = 4 + 8 + 48 + 1
    assert found.peak is not None
    assert found.peak.requested_bytes == (24 * MIB, 33 * MIB)
    assert found.peak.requested_share == pytest.approx((24 / peak, 33 / peak), rel=0.01)
