"""What workers cost: fitted on a pair of recordings, and put into another one."""

from __future__ import annotations

import pytest

from traceanalyzer.knowledge.loader_workers import LoadedSteps, slowdown, with_workers

ALONE = LoadedSteps(step_ns=150.0, exposed_ns=30.0, full_ns=40.0)


def test_the_rest_gets_longer_by_a_share_of_what_is_loaded() -> None:
    """120 without waiting, 126 beside workers that load for 40."""
    assert slowdown(ALONE, LoadedSteps(127.0, 1.0, 2.0)) == pytest.approx(6 / 40)
    assert with_workers(ALONE, 6 / 40, 4) == pytest.approx(126)


def test_a_rest_that_got_shorter_is_no_gain_of_workers() -> None:
    assert slowdown(ALONE, LoadedSteps(100.0, 0.0, 0.0)) == 0


def test_without_loading_nothing_is_told() -> None:
    assert slowdown(LoadedSteps(100.0, 0.0, 0.0), ALONE) == 0


def test_workers_that_cannot_keep_up_set_the_pace() -> None:
    assert with_workers(LoadedSteps(600.0, 500.0, 500.0), 0.0, 4) == 125
    assert with_workers(LoadedSteps(600.0, 500.0, 500.0), 0.0, 10) == 100
