"""Values that are read one by one: what a run of readings costs on a CPU and beside a GPU (`sync-item-frequent`)."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report
from tests.rules.waits.test_sync_item_frequent import (
    RULE,
    fires_on_a_cpu,
    fires_one_by_one_beside_a_gpu,
    logging,
    on_cpu,
    one_by_one,
)
from traceanalyzer.report.model import Finding


def test_runs_of_readings_on_a_cpu() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    # 40 readings of 10 us, the pause before the first left out; recording 5 operators each costs 303.7 ns at least, in
    # a step of 1.4 ms that is shorter by that of all of its 210
    time = 40 * 10_000 - 2_000
    left = (time - 200 * 303.7) * 1_400_000 / (1_400_000 - 210 * 303.7)
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * left, time + 1_000)), "with half of the pause"
    assert "40 values per step" in finding.summary.text
    assert "GPU" not in "".join(
        text.text for text in (finding.title, finding.summary, finding.advice, finding.not_when)
    )


RUN = 40 * 42_400 - 2_000
"""Forty readings, each of 2 us in Python, 15 us of the comparison, and 25.4 us until its value is there; the first
2 us left out. The GPU compares for 20 us, copies for 1 us, and has nothing to do for the rest."""
ALONE = RUN - 40 * 21_000
"""Time of the run in which the GPU has nothing to do."""
STEP = 3_745_000
"""Before the run 1023.5 us, after it 1027.5 us."""


def test_runs_of_readings_beside_an_idle_gpu() -> None:
    (finding,) = findings(fires_one_by_one_beside_a_gpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(ALONE / STEP)
    assert finding.summary.params["calls"] == 40
    assert finding.summary.params["time"] == RUN
    assert finding.saving is not None
    # recording 3 operators in each reading costs 303.7 ns each at least, in a step that is shorter by that of all 123
    left = (ALONE - 120 * 303.7) * STEP / (STEP - 123 * 303.7)
    beside = 2_000 + 10_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * left, RUN + beside / 2))
    assert "whole tensors" in finding.advice.text
    assert "torch.stack(values).tolist()" in (finding.code or ""), "whatever the values are"


def test_the_summary_tells_for_how_long_no_device_works_in_the_runs() -> None:
    (finding,) = findings(fires_one_by_one_beside_a_gpu(), RULE)
    assert finding.summary.params["idle"] == ALONE
    assert "takes 1.7 ms of a step of 3.7 ms, and for 854 us of it no device works" in finding.summary.text


def test_the_kernels_of_a_run_beside_a_gpu_go_with_it() -> None:
    """Else a step would gain no more than the 0.9 ms for which the GPU does nothing."""
    (finding,) = findings(fires_one_by_one_beside_a_gpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    low, high = finding.saving.wall_ns_per_step
    assert RUN - 80 * 900 <= high <= RUN, "at most the gaps before forty kernels and forty copies are left"
    assert low > finding.saving.direct_ns_per_step[0], "of the calls and kernels as much, and all of the waits"


def test_readings_while_the_gpu_works_are_judged_by_the_waits() -> None:
    """Another stream works all the time, so that nothing is gained by not reading."""
    (finding,) = findings(one_by_one(40, beside=5000), RULE)
    assert "idle" not in finding.summary.params
    assert finding.summary.params["calls"] == 40
    assert finding.summary.params["gain"] == 0
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 0)


def test_runs_in_which_less_is_idle_than_after_the_waits_are_judged_by_the_waits() -> None:
    """After each of three readings the GPU waits for 0.17 ms; of the last one that is after the run."""
    limits = {"host_share": 0.0}
    (finding,) = findings(one_by_one(3, kernel=1000, think=150), RULE, limits)
    assert "idle" not in finding.summary.params
    # 2 us of each reading, 152 us of Python, or 160 us after the last one, and 14 us until the next kernel starts
    assert finding.summary.params["gain"] == pytest.approx(2 * 168_000 + 176_000)
    (shorter,) = findings(one_by_one(3, kernel=1000, think=0), RULE, limits)
    assert "idle" in shorter.summary.params


def test_two_readings_beside_a_gpu_are_no_run() -> None:
    limits = {"host_share": 0.0}
    assert "idle" in findings(one_by_one(3), RULE, limits)[0].summary.params
    assert "idle" not in findings(one_by_one(2), RULE, limits)[0].summary.params


def test_nothing_is_promised_of_runs_for_an_environment() -> None:
    trace = fires_one_by_one_beside_a_gpu()
    trace.python_function("gymnasium/wrappers/common.py(100): step", 5000, 3)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, RUN + 6_000))
    assert "many environments at once" in finding.advice.text
    assert not finding.code


def test_edge_host_share_beside_a_gpu() -> None:
    share = findings(fires_one_by_one_beside_a_gpu(), RULE)[0].evidence[0].observed
    at, below = (
        findings(fires_one_by_one_beside_a_gpu(), RULE, {"host_share": each}) for each in (share, share - 1e-9)
    )
    assert "idle" not in at[0].summary.params, "judged by the waits"
    assert "idle" in below[0].summary.params


def test_statistics_are_told_by_their_operators_and_not_by_their_readings() -> None:
    (finding,) = findings(logging(), RULE)
    assert finding.title.id == "sync-item-frequent-title-statistics"
    assert finding.summary.params["operators"] == "aten::kthvalue"
    assert finding.summary.params["made"] == 40 * 150_000
    assert "every hundred steps" in finding.advice.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] <= 40 * 160_000, "without the update before the first statistic"


def test_small_operators_between_readings_are_told_to_be_one() -> None:
    (finding,) = findings(on_cpu(40), RULE)
    assert finding.summary.id == "sync-item-frequent-summary-cpu"


def test_idle_time_of_readings_is_promised_once() -> None:
    """Readings launch small kernels and wait for each; nothing else leaves the GPU without work."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 1000)
        for _ in range(40):
            compute(host, stream, 2, "aten::norm")
            read_value(host, stream)
        compute(host, stream, 1000)
        host.wait(stream)

    whole = report(looping(step))
    assert {"sync-item-frequent"} == {finding.rule for finding in whole.findings if _gains(finding)}


def _gains(finding: Finding) -> bool:
    return finding.saving is not None and finding.saving.resource == "host" and finding.severity != "info"
