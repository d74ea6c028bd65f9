"""distribution-checks, and what sync-item-frequent promises of programs that step an environment.

The programs: policies whose distributions check their arguments, on a CPU and with a GPU.
"""

from __future__ import annotations

import ast

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table
from traceanalyzer.analyzers.waits.distribution_checks import DistributionChecks
from traceanalyzer.rules.engine.rule import page

MADE = "torch/distributions/distribution.py(46): __init__"
SAMPLED = "torch/distributions/distribution.py(280): _validate_sample"
ENVIRONMENT = "envs/point_env.py(4): step"


def validate(host: Host, frame: str = MADE, *, operators: int = 2, reads: bool = True) -> None:
    """A check of 3 us in Python, operators of 5 us, and a reading of 4 us in two operators."""
    with host.frame(frame, before=3, after=0):
        for _ in range(operators):
            host.leaf("aten::ge", 5)
        host.leaf("aten::_is_all_true", 5)
        if reads:
            with host.op("aten::is_nonzero", 1, 0):
                host.leaf("aten::_local_scalar_dense", 3)


def acting(
    checks: int,
    *,
    frame: str = MADE,
    reads: bool = True,
    environment: str | None = ENVIRONMENT,
    steps: int = 4,
    readings: int = 1,
) -> TraceBuilder:
    """Steps of ten actions on a CPU; for each a layer of 50 us, checks, readings, and the environment."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(steps):
        with host.annotation(f"ProfilerStep#{number}", 0, 0), host.frame("train.py(20): rollout", before=0, after=0):
            for _ in range(10):
                host.leaf("aten::addmm", 50)
                for _ in range(checks):
                    validate(host, frame, reads=reads)
                for _ in range(readings):
                    with host.op("aten::item", 1, 0):
                        host.leaf("aten::_local_scalar_dense", 2)
                if environment is not None:
                    with host.frame(environment):
                        host.work(20)
    return finish(trace)


def with_gpu(checks: int, frame: str = MADE) -> TraceBuilder:
    """Three steps with a kernel of 500 us, behind which the program makes distributions."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}", 0, 0), host.frame("train.py(20): rollout", before=0, after=0):
            with host.op("aten::mm"):
                host.launch(Work("gemm", 500), stream)
            for _ in range(checks):
                validate(host, frame)
            host.wait(stream)
    return finish(trace)


def fires() -> TraceBuilder:
    """Two checks for each action: when the distribution is made, and when the probability is asked for."""
    return acting(2)


def fires_with_a_gpu() -> TraceBuilder:
    """Twelve checks in each step."""
    return with_gpu(12)


def fires_with_a_gpu_without_frames() -> TraceBuilder:
    """Twelve checks that only operators show."""
    return with_gpu(12, "train.py(30): act")


def quiet() -> TraceBuilder:
    """The checks are switched off."""
    return acting(0)


def trap_nothing_is_read() -> TraceBuilder:
    """Constraints that cannot be checked read nothing."""
    return acting(2, reads=False)


def trap_a_function_of_the_program() -> TraceBuilder:
    """The program checks its own values."""
    return acting(2, frame="policy/distribution.py(46): __init__")


def trap_a_few_with_a_gpu() -> TraceBuilder:
    """A training that makes four distributions per step."""
    return with_gpu(4)


def trap_results_that_are_used_later() -> TraceBuilder:
    """The program reads much later whether all values are valid, and something else."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for number in range(3):
        with host.annotation(f"ProfilerStep#{number}", 0, 0):
            with host.op("aten::mm"):
                host.launch(Work("gemm", 500), stream)
            for _ in range(12):
                host.leaf("aten::_is_all_true", 5)
                host.work(60)
                with host.op("aten::is_nonzero", 1, 0):
                    host.leaf("aten::_local_scalar_dense", 3)
            host.wait(stream)
    return finish(trace)


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


def test_edge_calls_per_step() -> None:
    assert findings(fires_with_a_gpu(), RULE, {"calls_per_step": 12})
    assert findings(fires_with_a_gpu(), RULE, {"calls_per_step": 12.01}) == []
