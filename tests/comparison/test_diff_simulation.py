"""Laws of verdicts that only many runs show: few false alarms, and real changes are found.

Seeds are fixed. CI divides 200 populations; TRACEANALYZER_FULL=1 divides 2,000.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable

import numpy as np
import pytest
from sides import bare

from traceanalyzer.comparison import comparability, verdict
from traceanalyzer.trace.table import F64

RUNS = 2000 if os.environ.get("TRACEANALYZER_FULL") == "1" else 200
ALLOWED = 0.05 + 2 * math.sqrt(0.05 * 0.95 / RUNS)
CHANGES = ("faster", "slower")
STEP_NS = 100e6

Population = Callable[[np.random.Generator, int], F64]


def normal(random: np.random.Generator, size: int) -> F64:
    return random.normal(STEP_NS, 0.05 * STEP_NS, size)


def skewed(random: np.random.Generator, size: int) -> F64:
    return STEP_NS * random.lognormal(0, 0.8, size)


def with_outliers(random: np.random.Generator, size: int) -> F64:
    steps = random.normal(STEP_NS, 0.02 * STEP_NS, size)
    steps[random.random(size) < 0.1] *= 5
    return steps


def quiet(random: np.random.Generator, size: int) -> F64:
    return random.normal(STEP_NS, 0.01 * STEP_NS, size)


def outcome(base: F64, head: F64, limit: float | None = None) -> str:
    one, two = bare(base.tolist()), bare(head.tolist())
    return verdict.judge(one, two, verdict.compare(one, two), comparability.check(one, two), limit).outcome


@pytest.mark.parametrize("count", [5, 6, 10, 30])
@pytest.mark.parametrize("population", [normal, skewed, with_outliers])
def test_one_population_in_two_is_no_change(population: Population, count: int) -> None:
    random = np.random.default_rng([count, 8])
    alarms = 0
    for _ in range(RUNS):
        steps = population(random, 2 * count)
        random.shuffle(steps)
        alarms += outcome(steps[:count], steps[count:]) in CHANGES
    assert alarms / RUNS <= ALLOWED


@pytest.mark.parametrize(("population", "least"), [(quiet, 0.99), (normal, 0.99), (with_outliers, 0.85)])
def test_a_change_of_a_fifth_is_found_in_ten_steps(population: Population, least: float) -> None:
    random = np.random.default_rng(88)
    found = [outcome(population(random, 10), 1.2 * population(random, 10)) for _ in range(200)]
    assert found.count("slower") >= least * len(found)
    assert "faster" not in found


def test_quiet_steps_that_did_not_change_are_told_so() -> None:
    """Not only "inconclusive": the interval of ten quiet steps is narrow enough."""
    random = np.random.default_rng(89)
    found = [outcome(quiet(random, 10), quiet(random, 10)) for _ in range(200)]
    assert found.count("no-change") >= 0.9 * len(found)


def test_a_slow_step_in_every_fourth_is_a_change_of_the_mean() -> None:
    """The median does not see it; the mean does, with enough steps."""
    random = np.random.default_rng(90)
    found = []
    for _ in range(50):
        head = quiet(random, 60)
        head[::4] *= 3
        found.append(outcome(quiet(random, 60), head))
    assert found.count("slower") >= 45


def test_slow_phases_of_a_run_raise_few_false_alarms() -> None:
    """Steps that follow their neighbours (r = 0.6): without care, 30 steps a side would alarm in 30 of 100 cases."""
    random = np.random.default_rng(91)
    alarms = sum(outcome(_phases(random, 30), _phases(random, 30)) in CHANGES for _ in range(200))
    assert alarms / 200 <= 0.12


def _phases(random: np.random.Generator, size: int) -> F64:
    noise = random.normal(0, 0.02 * STEP_NS, size + 50)
    for i in range(1, len(noise)):
        noise[i] += 0.6 * noise[i - 1]
    return STEP_NS + noise[50:]
