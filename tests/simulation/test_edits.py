"""What edits do together where they meet: factors multiply, floors hold unless one edit alone gets below, what is
dropped is gone."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.simulation.replaying import model_of, saved, synchronized
from traceanalyzer.simulation.edits import DropEdit, Edit, HostEdit, ScaleEdit, UnblockEdit

KERNEL = np.array([0])


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ((ScaleEdit(KERNEL, 0.5), ScaleEdit(KERNEL, 0.5)), 75),
        ((ScaleEdit(KERNEL, 0.5, 80_000), ScaleEdit(KERNEL, 0.5, 60_000)), 40),
        ((ScaleEdit(KERNEL, 0.5, 80_000), ScaleEdit(KERNEL, 0.9)), 20),
        ((ScaleEdit(KERNEL, 0.5, np.array([70_000])), ScaleEdit(KERNEL, 1.0)), 30),
        ((ScaleEdit(KERNEL, 2.0), ScaleEdit(KERNEL, 0.5)), 0),
        ((ScaleEdit(KERNEL, 3.0), UnblockEdit(np.array([1]))), 168 - 315),
    ],
    ids=["factors", "floors", "a floor and none", "a floor for each row", "back and forth", "an end without a wait"],
)
def test_edits_that_meet_do_the_same_in_any_order(edits: tuple[Edit, ...], expected: float) -> None:
    found = model_of(synchronized())
    assert [saved(found, *order) for order in permutations(edits)] == pytest.approx([expected] * 2, abs=0.01)


def test_a_floor_lengthens_nothing() -> None:
    """Neither what is not scaled, nor what is shorter already."""
    found = model_of(synchronized())
    for factor in (1.0, 0.5):
        assert saved(found, ScaleEdit(KERNEL, factor, 200_000)) == 0


def test_what_is_dropped_is_not_scaled() -> None:
    found = model_of(synchronized())
    assert saved(found, DropEdit(KERNEL), ScaleEdit(KERNEL, 100.0)) == saved(found, DropEdit(KERNEL)) >= 98


def test_host_time_is_scaled_where_it_lies_and_a_wait_is_none() -> None:
    """The last 48 of the host become 24; a wait that lies in an interval does not depend on the host."""
    found = model_of(synchronized())
    thread = found.context.host.tree.thread[:1].astype(np.int64)
    after = HostEdit(thread, np.array([120_000]), np.array([168_000]), 0.5)
    wait = HostEdit(thread, np.array([30_000]), np.array([110_000]), 0.5)
    assert saved(found, after) == pytest.approx(24, abs=0.01)
    assert saved(found, wait) == 0
