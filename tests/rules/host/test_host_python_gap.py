"""Tests of the rule `host-python-gap`: numbers worked out by hand, and edges of thresholds.

The programs: what the host does between launches.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, finish
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report, skipped, varied
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def pausing(pause: Callable[[int], int], *, frames: bool = True, steps: int = 6, first: bool = False) -> TraceBuilder:
    """Steps of 20 kernels of 100 us, with a pause in their middle (or before all) in a function of the program."""

    def rest(host: Host, number: int) -> None:
        if frames:
            with host.frame("train.py(40): update_statistics"):
                host.work(pause(number))
        else:
            host.work(pause(number))

    def step(host: Host, stream: Stream, number: int) -> None:
        if first:
            rest(host, number)
        for _ in range(10):
            compute(host, stream, 100)
        if not first:
            rest(host, number)
        for _ in range(10):
            compute(host, stream, 100)

    return looping(step, steps=steps)


def fires() -> TraceBuilder:
    """Each step spends 4 ms in a function that launches nothing; the GPU's queue lasts for 1 ms."""
    return pausing(lambda number: 4000)


def fires_without_stacks() -> TraceBuilder:
    """The program without stacks, so that nothing shows what ran."""
    return pausing(lambda number: 4000, frames=False)


def fires_after_a_value_was_read() -> TraceBuilder:
    """Each step reads a value, so that nothing is queued, and then sleeps for 2 ms."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 100)
        read_value(host, stream)
        with host.frame("train.py(41): sleep"):
            host.work(2000)

    return looping(step)


def quiet() -> TraceBuilder:
    """The function ends before the queue is empty."""
    return pausing(lambda number: 300)


def trap_log_now_and_then() -> TraceBuilder:
    """One step of six writes a log."""
    return pausing(lambda number: 4000 if number == 3 else 1)


def trap_first_step() -> TraceBuilder:
    """The first step prepares something."""
    return pausing(lambda number: 4000 if number == 0 else 1)


def fires_before_the_first_kernel() -> TraceBuilder:
    """The only step begins with 4 ms in a function of the program."""
    return pausing(lambda number: 4000, steps=1, first=True)


def trap_before_the_first_kernel() -> TraceBuilder:
    """A recording of one step begins while no event shows what the program does."""
    return pausing(lambda number: 4000, steps=1, first=True, frames=False)


def trap_preprocessing() -> TraceBuilder:
    """Each step prepares its inputs for 4 ms, which another rule reports."""

    def step(host: Host, stream: Stream, number: int) -> None:
        with host.frame("train.py(40): preprocess_images"):
            host.work(4000)
        for _ in range(20):
            compute(host, stream, 100)

    return looping(step)


def trap_events_are_missing() -> TraceBuilder:
    """Kernels that were launched long before start late, and no recorded event shows what they wait for."""

    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            stream.free_ns = max(stream.free_ns, host.now) + 1_000_000  # nobody recorded what ran
            compute(host, stream, 100)
        with host.frame("train.py(40): update_statistics"):
            host.work(4000)

    return looping(step)


def trap_no_steps() -> TraceBuilder:
    """Twice ten products with a pause between them, and no steps: nothing comes back."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for _ in range(2):
        for _ in range(10):
            compute(host, stream, 100)
        host.work(20_000)
    return trace


def fires_outside_of_the_steps(function: str = "gymnasium/vector/sync_vector_env.py(200): step") -> TraceBuilder:
    """Three times, environments are stepped for 50 ms before eight updates of 1 ms, whose optimizer marks the steps."""
    trace = TraceBuilder()
    host, stream = Host(trace, at=10), Stream()
    for _ in range(3):
        with host.frame("train.py(10): collect"):
            for _ in range(10):
                with host.frame(function):
                    host.work(5000)
                compute(host, stream, 20)
        for _ in range(8):
            for _ in range(10):
                compute(host, stream, 80)
            with host.annotation("Optimizer.step#Adam.step"):
                compute(host, stream, 80)
            read_value(host, stream)
    return finish(trace)


RULE = "host-python-gap"


def test_gaps_without_any_open_call_are_said_to_be_python() -> None:
    (silent,) = findings(fires_without_stacks(), RULE)
    assert "without any recorded operator or call, so most likely Python code" in silent.summary.text
    assert "results" in silent.advice.text, "a program that only infers converts them"
    (shown,) = findings(fires(), RULE)
    assert "most likely Python" not in shown.summary.text


@pytest.mark.parametrize(("nbytes", "told"), [(4, "no results are converted"), (4096, "convert those of many inputs")])
def test_a_program_that_only_reads_values_converts_no_results(nbytes: int, told: str) -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            compute(host, stream, 100)
        host.copy("DtoH", nbytes, stream, dur=2, wait=True)
        host.work(2000)

    (finding,) = findings(looping(step), RULE)
    assert told in finding.advice.text


def test_the_function_is_named_and_its_gap_is_worth_the_idle_time() -> None:
    (finding,) = findings(fires_without_stacks(), RULE)
    assert finding.saving is not None
    low, high = finding.saving.wall_ns_per_step
    # the launch that ends the gap of 2285.9 us comes half of it earlier, or all of it; then its kernel starts 0.9 us
    # after the one before it, as others do
    assert (low, high) == pytest.approx(varied(0.8 * 2_285_900, 2_285_000), rel=1e-3)
    assert finding.confidence == "C"
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((high / 5, high / 2), rel=0.01), "stacks slow the host"
    assert finding.confidence == "B"
    assert finding.evidence[0].where[0].name == "train.py(40): update_statistics"
    assert "`train.py: update_statistics`" in finding.summary.text
    assert not finding.code, "no garbage collection is recorded"


@pytest.mark.parametrize(("recorded_us", "largest"), [(2400, "nothing recorded"), (3400, "`aten::tokenize`")])
def test_an_owner_of_less_than_what_left_no_event_is_not_the_largest(recorded_us: int, largest: str) -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(10):
            compute(host, stream, 100)
        with host.op("aten::tokenize"):
            host.work(recorded_us)
        host.work(4000 - recorded_us)
        for _ in range(10):
            compute(host, stream, 100)

    # the queue hides 1.7 ms of the operator: 0.7 of 2.3 ms are its, or 1.7 ms
    (finding,) = findings(looping(step, steps=6), RULE)
    assert f"The largest part of that: {largest}." in finding.summary.text


def test_stacks_name_python_code_in_short_gaps_too() -> None:
    def step(host: Host, stream: Stream, number: int) -> None:
        for _ in range(20):
            with host.frame("model.py(7): forward"):
                host.work(100)
            compute(host, stream, 10)

    (finding,) = findings(looping(step), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(0.5 * 20 * 90_000, rel=0.1)  # 10 us of each are busy
    assert finding.evidence[0].where[0].name == "model.py(7): forward"


def test_what_follows_a_wait_is_the_hosts_and_counts_once() -> None:
    (finding,) = findings(fires_after_a_value_was_read(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[1] == pytest.approx(0.5 * 2_000_000, rel=0.05)
    assert finding.evidence[0].where[0].name == "train.py(41): sleep"
    combined = report(fires_after_a_value_was_read()).headlines[0].combined
    assert combined is not None
    # 20 launches and reads of 100 us kernels hide the host's work until the value is read, which takes 1144 us of the
    # step: without the wait the sleep of 2 ms hides behind them, or they behind it, so that together they save no more
    # than the step without the sleep
    own = [fix for fix in combined.fixes if fix.rule in (RULE, "sync-item-frequent")]
    assert {fix.rule for fix in own} == {RULE, "sync-item-frequent"}


def test_half_of_the_steps_must_have_it() -> None:
    assert findings(pausing(lambda number: 4000 if number % 2 else 1, steps=6), RULE), "in 3 of 5 after the first"
    assert findings(pausing(lambda number: 4000 if number in (2, 4) else 1, steps=6), RULE) == []


def test_without_steps_nothing_comes_back() -> None:
    assert "no steps are marked" in (skipped(trap_no_steps(), RULE) or "")
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def test_share_and_time_are_those_of_the_same_gaps() -> None:
    (finding,) = findings(fires(), RULE)
    said = finding.summary.params
    assert said["share"] == pytest.approx(said["time"] / said["step"])
    assert said["time"] == pytest.approx(sum(each.ns_per_step or 0.0 for each in finding.where))


def test_edge_events() -> None:
    assert findings(fires(), RULE, {"events": 100})
    assert findings(fires(), RULE, {"events": 101}) == []


def test_what_most_of_the_recording_is_comes_before_the_steps() -> None:
    """Of 181 ms, environments are stepped for 150, again and again, while the GPU has next to nothing to do."""
    whole = report(fires_outside_of_the_steps())
    first = whole.findings[0]
    assert first.rule == RULE
    assert first.severity == "critical"
    assert first.once is not None
    assert first.once.comes_back
    assert first.once.wall_ns[1] == pytest.approx(150_000_000, rel=0.02)
    assert first.action is not None
    assert first.action.text == "Step environments in processes, or on the GPU"
    assert "`sync_vector_env.py: step`" in first.summary.text
    others = [finding for finding in whole.findings if finding.saving is not None and finding.saving.wall_share[1]]
    assert all(finding.saving.steps_share < 0.2 and finding.severity != "critical" for finding in others)


def test_work_without_a_known_purpose_is_named_outside_of_the_steps_too() -> None:
    (finding,) = findings(fires_outside_of_the_steps("sim/world.py(7): advance"), RULE)
    assert "`world.py: advance`" in finding.advice.text
