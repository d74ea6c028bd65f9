"""Tests of the rule `sync-item-frequent`: numbers worked out by hand, and edges of thresholds."""

from __future__ import annotations

import pytest

from tests.builders.timeline import Host, Stream
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report, skipped, table, varied
from tests.rules.situations.sync_item_frequent import (
    fires,
    fires_in_a_table,
    fires_on_a_cpu,
    printed,
    reading,
    trap_busy_gpu,
    trap_gradient_scaler,
    trap_values_of_the_cpu,
)
from traceanalyzer.structure.recording import Recording

RULE = "sync-item-frequent"


def test_the_idle_time_after_the_waits_goes_away() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # three kernels start 0.9 us after a copy as others do, not 218.5 us
    assert (low, high) == pytest.approx(varied(3 * 217_600))
    assert [e.unit for e in finding.evidence] == ["share", "number"]
    assert finding.evidence[1].observed == 3
    assert "the GPU has nothing to do for 648.0 us of a step" in finding.summary.text


def test_nothing_is_promised_of_values_for_an_environment() -> None:
    trace = fires()
    trace.python_function("gymnasium/wrappers/common.py(100): step", 5000, 3)
    (finding,) = findings(trace, RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    assert (low, high) == (0, pytest.approx(varied(3 * 217_600)[1], rel=0.05))
    assert "many environments at once" in finding.advice.text


def test_waits_that_cost_nothing_are_worth_nothing() -> None:
    assert findings(trap_busy_gpu(), RULE, {"calls_per_step": 1})[0].severity == "info"


def test_checks_of_the_gradient_scaler_do_not_count() -> None:
    assert findings(trap_gradient_scaler(), RULE, {"calls_per_step": 0.5}) == []


def test_in_a_table_of_a_gpu_bound_run_it_is_worth_nothing() -> None:
    (finding,) = findings(printed(30, device="500.000ms"), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step == (0, 0)


def test_a_table_gives_at_most_the_time_in_the_operator() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (0, 3_000_000)


def test_what_is_missing_is_told() -> None:
    assert "no device activity" in (skipped(trap_values_of_the_cpu(), RULE) or "")
    row = {
        "Name": "aten::item",
        "Self CPU": "1.000ms",
        "CPU total": "1.000ms",
        "Self CUDA": "1.000ms",
        "# of Calls": 99,
    }
    assert "how many steps" in (skipped(table([row], cpu="9.000ms", device="1.000ms"), RULE) or "")


def test_edge_calls_per_step() -> None:
    trace = reading(3, pause=1)
    limits = {"gain_share": 0.9}
    assert findings(trace, RULE, limits | {"calls_per_step": 3})
    assert findings(trace, RULE, limits | {"calls_per_step": 3.01}) == []


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


def test_edge_host_share() -> None:
    share = findings(fires_on_a_cpu(), RULE)[0].evidence[0].observed
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share - 1e-9})


def test_edge_gain_share() -> None:
    share = findings(fires(), RULE)[0].evidence[0].observed
    limits = {"calls_per_step": 100}
    assert findings(fires(), RULE, limits | {"gain_share": share}) == []
    assert findings(fires(), RULE, limits | {"gain_share": share - 1e-9})


def test_a_long_wait_of_a_step_that_is_left_out_is_not_avoided_in_the_others() -> None:
    """Each step reads three values and thinks for 0.2 ms after each; in the first one for 9 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(3):
            compute(host, stream, 1000)
            read_value(host, stream)
            host.work(200 if number else 9000)
        compute(host, stream, 1000)
        host.wait(stream)

    found = report(looping(step, steps=6), RULE)
    recording = found.result("recording", Recording)
    assert recording is not None
    assert recording.typical is not None
    assert recording.typical.steps == 5
    (finding,) = found.findings
    assert finding.saving is not None
    idle = recording.typical.resources.step_ns - (recording.typical.resources.gpu_ns or 0)
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(idle), "over all six steps it would be 1 ms"
    assert idle < 800_000
