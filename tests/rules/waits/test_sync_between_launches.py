"""Tests of the rule `sync-between-launches`: numbers worked out by hand, and edges of thresholds.

The programs: waits of the host between its launches.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work
from tests.rules.host_work import compute, looping, read_value
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def waiting(after: int, *, long: int = 2000, small: int = 5, count: int = 40, every: int = 2) -> TraceBuilder:
    """Steps of a long kernel, whose result is read, and of small ones, with a value read after every few of them.

    Args:
        after: Time in us that the host takes to launch one of the small kernels.
        long: Time of the long kernel in us.
        small: Time of the small ones in us.
        count: How many small ones.
        every: After how many a value is read.
    """

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, long)
        read_value(host, stream)
        for kernel in range(count):
            with host.op("aten::mul", after // 2, after - after // 2):
                host.launch(Work("small_kernel", small), stream)
            if kernel % every == every - 1:
                read_value(host, stream)

    return looping(step)


def fires() -> TraceBuilder:
    """The host waits for 2 ms; without that, it would have launched the forty small kernels meanwhile."""
    return waiting(20)


def quiet() -> TraceBuilder:
    """Nothing is read: the host is ahead."""

    def step(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, 2000)
        for _ in range(40):
            compute(host, stream, 5)
        host.wait(stream)

    return looping(step)


def trap_slow_launches() -> TraceBuilder:
    """A value is read after every other kernel, but the GPU had hardly anything to do: the host is too slow anyway."""
    return waiting(25, long=5)


def trap_few_waits() -> TraceBuilder:
    """Five values per step, which sync-item-frequent reports."""
    return waiting(20, every=10)


RULE = "sync-between-launches"


def test_without_the_waits_the_host_launches_while_the_gpu_works() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.wall_ns_per_step[0] == 0
    time = finding.summary.params["time"]
    assert isinstance(time, float)
    # 40 launches every 25 us: 20 us of the operator and 5 us of the call, of which the kernel takes 5 us
    assert time > 40 * 20_000
    assert finding.saving.point_ns_per_step == pytest.approx(time / 2, rel=0.1)
    assert finding.saving.wall_ns_per_step[1] == pytest.approx(time, rel=0.1)
    assert [place.name for place in finding.evidence[0].where] == ["aten::item > aten::_local_scalar_dense"]
    assert finding.evidence[0].where[0].value == 21


def test_these_gaps_are_not_those_of_launches_too() -> None:
    rules = {entry.rule for entry in report(fires()).findings}
    assert "sync-item-frequent" in rules, "which explains them better"
    assert not rules & {RULE, "launch-bound-small-kernels"}
    slow = {entry.rule for entry in report(trap_slow_launches()).findings}
    assert RULE not in slow
    assert "launch-bound-small-kernels" in slow


def test_advice_where_an_environment_needs_the_values() -> None:
    trace = fires()
    assert "nonzero" in findings(trace, RULE)[0].advice.text
    trace.python_function("envs/point_env.py(4): step", 5000, 3)
    assert "many environments at once" in findings(trace, RULE)[0].advice.text


def test_a_table_has_no_gaps() -> None:
    assert "no timeline" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_events() -> None:
    events = 4 * (1 + 1 + 40 + 20)  # the long kernel, its value, the small kernels and twenty values
    assert findings(fires(), RULE, {"events": events})
    assert findings(fires(), RULE, {"events": events + 1}) == []


def test_the_headline_names_the_waits_and_not_the_launches_after_them() -> None:
    (headline,) = report(fires()).headlines
    assert headline.bound == "host"
    assert "it waits for the GPU between launches, so the GPU idles 1.2 of the 3.4 ms" in headline.message.text
    (slow,) = report(trap_slow_launches()).headlines
    assert "the CPU: it launches kernels too slowly, so the GPU idles" in slow.message.text
