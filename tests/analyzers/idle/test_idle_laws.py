"""Idle time of random traces agrees with a slow reading of the definitions, microsecond by microsecond."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.reading import read_built
from tests.structure.plans import Plan, causes, plans
from traceanalyzer.analyzers import idle
from traceanalyzer.analyzers.idle import gpu
from traceanalyzer.structure.context import Context
from traceanalyzer.trace.intervals import Intervals, LabelledTime


@given(plans)
def test_every_microsecond_has_the_cause_that_the_definitions_give_it(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    window = context.steps.window
    assert window is not None
    wanted = causes(plan, (window[0] // 1000, window[1] // 1000))
    for device in idle.analyze(context).devices:
        assert {c.cause: c.time_ns for c in device.causes if c.time_ns} == {c: 1000 * n for c, n in wanted.items()}


@given(plans)
def test_causes_sum_to_the_idle_time_that_the_gpu_metrics_give(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    shares = {device.device: device.idle_share for device in gpu.analyze(context).devices}
    found = idle.analyze(context)
    assert {device.device for device in found.devices} == set(shares)
    for device in found.devices:
        assert sum(cause.time_ns for cause in device.causes) == device.idle_ns == device.window_ns - device.busy_ns
        assert abs(device.idle_share - shares[device.device]) < 1e-12
    for stream in found.streams:
        between = sum(part.time_ns for part in (stream.host_wait, stream.kernel_wait, stream.other))
        assert between + stream.edge_ns == stream.idle_ns


@given(plans)
def test_the_longest_gaps_are_parts_of_the_idle_time(plan: Plan) -> None:
    found = idle.analyze(Context(read_built(plan.build())))
    total = sum(device.idle_ns for device in found.devices)
    lengths = [gap.duration_ns for gap in found.longest_gaps]
    assert lengths == sorted(lengths, reverse=True)
    assert all(0 < gap.cause_ns <= gap.duration_ns for gap in found.longest_gaps)
    if sum(device.gaps for device in found.devices) <= 20:
        assert sum(lengths) == total


_interval_sets = st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=4), max_size=5)


@given(_interval_sets, st.lists(st.tuples(st.integers(-5, 70), st.integers(-3, 30)), max_size=4))
def test_a_timeline_divides_time_like_interval_algebra(
    spans: list[list[tuple[int, int]]], asked: list[tuple[int, int]]
) -> None:
    sets = []
    for label, own in enumerate(spans):
        table = np.array(own, np.int64).reshape(-1, 2)
        sets.append((label, Intervals.union(table[:, 0], table[:, 0] + table[:, 1])))
    timeline = LabelledTime.build(sets, unlabelled=9)
    start = np.array([begin for begin, _ in asked], np.int64)
    end = start + np.array([length for _, length in asked], np.int64)
    found = timeline.within(start, end, range(len(sets)))
    left = Intervals.union(np.array([-100]), np.array([200]))
    for (_, own), times in zip(sets, found, strict=True):
        assert (times == (left & own).within(start, end)).all()
        left = left - own
    for begin, finish in zip(start.tolist(), end.tolist(), strict=True):
        begins, ends, labels = timeline.segments(begin, finish)
        lengths = [int((ends - begins)[labels == label].sum()) for label in range(len(sets))]
        row = asked.index((begin, finish - begin))
        assert finish <= begin or lengths == [int(times[row]) for times in found]
