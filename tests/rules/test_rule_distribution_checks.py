"""distribution-checks, and what sync-item-frequent promises of programs that step an environment."""

from __future__ import annotations

import ast

import pytest

from tests.rules.judging import findings, report, skipped
from tests.rules.situations.dataloader_bound import fires_in_a_table
from tests.rules.situations.distribution_checks import (
    MADE,
    SAMPLED,
    acting,
    fires,
    fires_with_a_gpu,
    fires_with_a_gpu_without_frames,
)
from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.rules.engine.page import page

RULE = "distribution-checks"
READ = "sync-item-frequent"


def test_time_of_the_checks() -> None:
    (finding,) = findings(fires(), RULE)
    # 20 checks of 22 us: 3 of Python, 3 operators of 5, 1 + 3 of reading
    assert finding.summary.params["calls"] == 20
    assert finding.summary.params["time"] == pytest.approx(20 * 22_000)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert high == pytest.approx(2 * 20 * 22_000)
    assert 0.2 * high < low < 0.25 * high, "operators of a few us take 0.3 us to record"
    assert [(place.name, place.value) for place in finding.evidence[0].where] == [("train.py(20): rollout", 80)]
    assert ast.parse(page("distribution-checks").code or "")


def test_samples_are_checked_as_well() -> None:
    found = report(acting(1, frame=SAMPLED)).result("distribution_checks", DistributionChecks)
    assert found is not None
    assert (found.checks, found.environment, found.environment_steps) == (40, "envs/point_env.py(4): step", 40)


def test_with_a_gpu_nothing_is_promised() -> None:
    (finding,) = findings(fires_with_a_gpu(), RULE)
    assert (finding.severity, finding.saving) == ("low", None)
    assert "12 times per step" in finding.summary.text
    assert finding.confidence == "A"
    (finding,) = findings(fires_with_a_gpu_without_frames(), RULE)
    assert [(place.name, place.value) for place in finding.evidence[0].where] == [("aten::_is_all_true", 36)]
    assert finding.confidence == "B"


def test_says_what_is_missing() -> None:
    assert "nothing shows checks" in (skipped(acting(0, environment=None), RULE) or "")
    assert "record with stacks" in (skipped(acting(2, frame="policy.py(46): act"), RULE) or "")
    assert skipped(fires_in_a_table(), RULE)


@pytest.mark.parametrize("frame", [MADE, "policy.py(46): act"])
def test_checks_are_no_readings_of_the_program(frame: str) -> None:
    """Six checks and a reading for each action are no run of seven readings, which would be told."""
    assert findings(acting(6, frame=frame), READ) == []
    assert findings(acting(0, readings=7), READ)[0].summary.params["calls"] == 70


@pytest.mark.parametrize(
    ("environment", "is_kept"),
    [
        ("gymnasium/wrappers/common.py(100): step", True),
        ("envs/point_env.py(4): step", True),
        ("my_env.py(4): step", True),
        ("torch/optim/adam.py(4): step", False),
        ("/home/me/env/lib/python3.12/site-packages/torch/optim/adam.py(4): step", False),
        ("gymnasium/spaces/box.py(4): sample", False),
        (None, False),
    ],
)
def test_of_readings_for_an_environment_nothing_is_promised(environment: str | None, is_kept: bool) -> None:
    (finding,) = findings(acting(0, readings=8, environment=environment), READ)
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert (low == 0) is is_kept
    assert high > 0
    assert ("environment" in finding.advice.text) is is_kept


def test_edge_host_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    assert findings(fires(), RULE, {"host_share": share}) == []
    assert findings(fires(), RULE, {"host_share": share - 1e-9})


def test_edge_calls_per_step() -> None:
    assert findings(fires_with_a_gpu(), RULE, {"calls_per_step": 12})
    assert findings(fires_with_a_gpu(), RULE, {"calls_per_step": 12.01}) == []
