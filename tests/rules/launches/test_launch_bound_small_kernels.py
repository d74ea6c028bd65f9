"""Tests of the rule `launch-bound-small-kernels`: numbers worked out by hand, and edges of thresholds.

The programs: a step with many small kernels.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping, read_value
from tests.rules.idle.test_gpu_underutilized import trap_warm_up, working
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table
from tests.rules.waits.test_sync_between_launches import trap_slow_launches
from traceanalyzer.analyzers.idle.step_idle import GapOwner
from traceanalyzer.rules.engine import host_owners


def fires() -> TraceBuilder:
    """Forty kernels of 5 us per step, one launched every 25 us."""
    return working(5, 10, kernels=40)


def fires_with_stacks() -> TraceBuilder:
    """The program, recorded with stacks, which slow the host down."""
    trace = fires()
    trace.options = ("with_stack",)
    return trace


def fires_between_values() -> TraceBuilder:
    """A value is read after every tenth kernel, so no graph could hold more than ten."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for kernel in range(40):
            with host.op("aten::mm", 10, 10):
                host.launch(Work("small_kernel", 5), stream)
            if kernel % 10 == 9:
                read_value(host, stream)

    return looping(step)


def fires_beside_python_code() -> TraceBuilder:
    """With stacks: ten kernels of 20 us with 60 us of Python before each, then forty of 5 us one after the other."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            with host.frame("model.py(7): forward"):
                host.work(60)
            compute(host, stream, 20)
        for _ in range(40):
            compute(host, stream, 5)

    return looping(step)


def quiet() -> TraceBuilder:
    """Kernels take longer than their launches."""
    return working(200, 10, kernels=40)


def trap_cost_of_recording_stacks() -> TraceBuilder:
    """The GPU waits for 8 % of the time for a host that the recording of stacks has slowed down."""
    trace = working(184, 185, kernels=40)
    trace.options = ("with_stack",)
    return trace


def trap_graphs() -> TraceBuilder:
    """The kernels come from a graph, one launch for forty of them."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.work(100)
        host.graph([Work("small_kernel", 5)] * 40, stream)
        host.wait(stream)

    return looping(step)


def trap_one_long_gap() -> TraceBuilder:
    """Kernels follow each other closely, but once per step the host does something else for 5 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(40):
            with host.op("aten::mm", 5, 5):
                host.launch(Work("ampere_sgemm_128x64_nn", 100), stream)
        host.work(10_000)

    return looping(step)


RULE = "launch-bound-small-kernels"


def test_at_most_the_gaps_and_at_least_half() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # a launch every 25 us, a kernel of 5 us: all gaps go but that before the first kernel, which waits for its launch
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(40 * 20_000, rel=0.02)
    assert high == pytest.approx(40 * 20_000, rel=0.03)
    assert low == pytest.approx(high / 2, rel=0.02)


def test_evidence_lists_what_the_host_does_in_these_gaps_and_says_how_much_of_them_that_is() -> None:
    (finding,) = findings(fires(), RULE)
    (evidence,) = finding.evidence
    assert evidence.where[0].name == "aten::mm"
    # of each 25 us the host spends 15 us in the operator, and the GPU works for some of them
    assert evidence.where[0].value == pytest.approx(40 * 15_000, rel=0.1)
    assert evidence.subject.params["shown"] == sum(place.value or 0 for place in evidence.where)
    assert evidence.subject.params["time"] == pytest.approx(finding.summary.params["time"])
    assert "554 of 795 us are listed" in evidence.subject.text


def test_gaps_between_waits_are_told_by_kernel() -> None:
    (finding,) = findings(trap_slow_launches(), RULE)
    assert {place.unit for place in finding.evidence[0].where} == {"count"}
    assert "small_kernel" in {place.name for place in finding.evidence[0].where}


def test_stacks_lower_what_is_claimed() -> None:
    plain, stacked = findings(fires(), RULE)[0], findings(fires_with_stacks(), RULE)[0]
    assert plain.saving is not None
    assert stacked.saving is not None
    high = plain.saving.direct_ns_per_step[1]
    assert stacked.saving.direct_ns_per_step == pytest.approx((high / 5, 0.75 * high), rel=0.02)
    assert (plain.confidence, stacked.confidence) == ("B", "C")


def test_what_is_listed_is_no_more_than_what_there_is() -> None:
    """The Python code of gaps that stacks explain is with host-python-gap: here its line launches for 107 us."""
    (finding,) = findings(fires_beside_python_code(), RULE)
    listed = sum(place.value or 0 for place in finding.evidence[0].where)
    assert listed == pytest.approx(finding.summary.params["time"], rel=0.001)


def test_python_code_that_stacks_show_is_another_findings() -> None:
    """Ten gaps of 59 us have 14 of an operator with its launch; of forty of 15 us each the GPU works for 5.

    Only the first of the forty begins behind a kernel that still runs: its gap is one of 0.9, and the next one of 4.1.
    """
    found = {finding.rule: finding for finding in report(fires_beside_python_code()).findings}
    launching, python = found[RULE], found["host-python-gap"]
    assert launching.summary.params["time"] == pytest.approx(10 * 14_000 + 38 * 10_000 + 4_100)
    assert sum(place.ns_per_step or 0 for place in launching.where) == launching.summary.params["time"]
    # 45 us of each gap of 59, and 18 more where the kernel before takes 5 us only, or 21 at the start of the recording
    assert python.summary.params["time"] == pytest.approx(10 * 45_000 + (3 * 18_000 + 21_000) / 4)


def test_launches_between_values_fit_no_graph() -> None:
    (finding,) = findings(fires_between_values(), RULE)
    assert "nonzero" in finding.advice.text
    assert finding.code is None
    assert "torch.compile" in (findings(fires(), RULE)[0].code or "")


def copying_inputs(host: Host, stream: Stream, number: int) -> None:
    """Forty small kernels; before every fourth one an input is copied, for which the host waits."""
    for kernel in range(40):
        if kernel % 4 == 0:
            with host.op("aten::copy_", 5, 5):
                host.copy("HtoD", 4096, stream, dur=1, wait=True)
        with host.op("aten::mm", 10, 10):
            host.launch(Work("small_kernel", 5), stream)


def test_waits_that_bring_no_value_leave_the_advice_to_launch_fewer_kernels() -> None:
    (finding,) = findings(looping(copying_inputs), RULE)
    assert "nonzero" not in finding.advice.text
    assert "torch.compile" in (finding.code or "")


def test_launches_between_values_are_still_to_become_fewer() -> None:
    (finding,) = findings(fires_between_values(), RULE)
    assert finding.advice.text.startswith("Launch fewer and larger kernels")


def test_the_rest_of_a_cold_step_may_be_bound_by_launches() -> None:
    """One step: 200 ms in which a library is loaded, then 200 kernels of 5 us, each launched after 60 us."""

    def step(host: Host, stream: Stream, number: int) -> None:
        host.call("cuModuleLoadData", 200_000)
        for _ in range(200):
            with host.op("aten::relu", 50):
                host.launch(Work("vectorized_elementwise_kernel", 5), stream)
        host.wait(stream)

    (finding,) = findings(looping(step, steps=1), RULE)
    assert finding.severity == "low"  # the rest is 11 ms of 211 ms, and one cold step tells little
    assert finding.saving is not None
    assert 0.4 * 11e6 <= finding.saving.direct_ns_per_step[0] <= finding.saving.direct_ns_per_step[1] <= 12e6


def test_gaps_after_loading_code_are_not_those_of_launches() -> None:
    assert findings(trap_warm_up(), RULE) == []
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def test_the_host_bounds_such_steps() -> None:
    assert report(fires(), RULE).headlines[0].bound == "host"


def test_edge_events() -> None:
    assert findings(fires(), RULE, {"events": 240})
    assert findings(fires(), RULE, {"events": 241}) == []


def test_parts_of_the_program_come_before_operators_if_they_matter() -> None:
    rows = [
        GapOwner(kind, name, None, None, None, time, 0)
        for kind, name, time in (
            ("operator", "aten::conv2d", 700),
            ("mark", "zero_grad", 200),
            ("module", "Net", 91),
            ("mark", "log", 9),  # less than a hundredth of all
        )
    ]
    assert [row.name for row in host_owners.named_first(rows)] == ["zero_grad", "Net", "aten::conv2d", "log"]


def test_what_the_gradient_scaler_must_know_excuses_no_slow_launches() -> None:
    """A loop launches for 6 ms what the GPU does at once, and each step ends with the wait for AMP's scaler.

    Without that wait nothing would be ahead of the next loop: the program needs it.
    """

    def step(host: Host, stream: Stream, number: int) -> None:
        for item in range(100):
            with host.op("aten::mul", 25, 25):
                host.launch(Work("small_kernel", 5), stream)
            if item % 2:
                read_value(host, stream)
        compute(host, stream, 8000)
        with host.op("aten::_amp_foreach_non_finite_check_and_unscale_"):
            host.launch(Work("check", 5), stream)
        read_value(host, stream)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] > 0.7 * 100 * 50_000
    assert "many items" in (finding.action.text if finding.action else "")
