"""Laws of analyses for arbitrary traces."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import numpy as np
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.random_traces import Plan, plans
from tests.reading import read_built
from traceanalyzer.analyzers import operators
from traceanalyzer.analyzers.idle import gpu
from traceanalyzer.pipeline import analyze
from traceanalyzer.report.model import Report
from traceanalyzer.structure import operator_times, step_breakdown
from traceanalyzer.structure.context import Context
from traceanalyzer.structure.step_breakdown import PARTS
from traceanalyzer.trace.table import Bool
from traceanalyzer.trace.tree import NO_PARENT


def plain(report: Report) -> Any:
    """A report as data, without what the clock's origin and the size of the file change."""
    data = msgspec.to_builtins(report)
    data["trace"].pop("base_ns")
    if ranks := data["analyses"].get("rank_facts"):
        ranks.pop("clock_ns")
    data["source"].pop("size_bytes")
    return data


@given(plans)
def test_the_parts_of_a_step_sum_to_the_step(plan: Plan) -> None:
    found = step_breakdown.analyze(Context(read_built(plan.build())))
    inferred = found.inferred.steps if found.inferred else ()
    for step in (*found.steps, *inferred):
        parts = [getattr(step, f"{part}_ns") for part in PARTS]
        assert sum(parts) == step.duration_ns
        assert min(parts) >= 0
        assert step.dataloader_ns <= step.dataloader_full_ns <= step.duration_ns


@given(plans)
def test_steps_follow_each_other(plan: Plan) -> None:
    steps = Context(read_built(plan.build())).steps
    assert (steps.start_ns <= steps.end_ns).all()
    assert (steps.end_ns[:-1] <= steps.start_ns[1:]).all()


@given(plans)
def test_shares_are_between_nothing_and_everything(plan: Plan) -> None:
    for device in gpu.analyze(Context(read_built(plan.build()))).devices:
        assert 0 <= device.utilization <= device.busy_share <= 1
        assert device.busy_share + device.idle_share == 1
        for share in (
            device.est_sm_efficiency,
            device.est_achieved_occupancy,
            device.tensor_core_share,
            device.tensor_core_unknown_share,
        ):
            assert share is None or 0 <= share <= 1
        if device.tensor_core_share is not None:
            assert device.tensor_core_share + (device.tensor_core_unknown_share or 0) <= 1


def owned_launches(context: Context) -> Bool:
    """Launches that count: those of a node which was not replaced by its only callee."""
    replaced = np.isin(context.links.node, context.host.tree.parent[context.host.merged])
    owned: Bool = (context.links.node != NO_PARENT) & ~replaced
    return owned


@given(plans)
def test_self_times_and_calls_sum_to_what_the_roots_took(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    times, host = operator_times.node_times(context), context.host
    calls = int(context.trace.launches.dur_ns[owned_launches(context)].sum())
    roots = host.tree.parent == NO_PARENT
    total = host.tree.end_ns - host.tree.start_ns
    assert times.host_self_ns[~host.merged].sum() + calls == total[roots].sum()


@given(plans)
def test_device_time_of_operators_is_what_they_launched(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    times, tree, launch = operator_times.node_times(context), context.host.tree, context.links.launch
    launched = np.append(owned_launches(context), False)[launch] & (launch != NO_PARENT)
    assert times.device_self_ns.sum() == context.trace.device.dur_ns[launched].sum()
    assert times.device_total_ns[tree.parent == NO_PARENT].sum() == times.device_self_ns.sum()
    assert (times.device_total_ns >= times.device_self_ns).all()


@given(plans, st.integers(-(10**9), 1_900_000_000_000_000))
def test_only_the_base_time_depends_on_the_clock(plan: Plan, origin: int) -> None:
    here, there = analyze(read_built(plan.build())), analyze(read_built(plan.build(origin)))
    assert plain(there) == plain(here)
    assert here.trace is not None
    assert there.trace is not None
    assert there.trace.base_ns == (here.trace.base_ns or 0) + 1000 * origin


@example(Plan((), (("aten::a", 0, 0, 4202),), (), ()), random.Random(1))  # two threads with an operator each
@example(Plan((), (("aten::a", 0, 1, 4201),), (), ()), random.Random(1))  # two operators that take half each
@given(plans, st.randoms(use_true_random=False))
def test_the_order_of_the_file_does_not_matter(plan: Plan, order: random.Random) -> None:
    """Except among events that start at the same time, and for the numbers that names have in the timeline."""
    trace = plan.build()
    distinct = {event["ts"]: event for event in trace.events}
    assume(any("dur" in event for event in distinct.values()))
    trace.events = sorted(distinct.values(), key=lambda event: str(event["ts"]))
    usual = plain(analyze(read_built(trace)))
    order.shuffle(trace.events)
    shuffled = plain(analyze(read_built(trace)))
    for report in (usual, shuffled):
        report["analyses"].pop("timeline", None)
        if slices := report["analyses"].get("slices"):
            names = slices.pop("names")
            for lane in (lane for time in slices["times"] for lane in time["lanes"]):
                lane["name"] = [names[position] for position in lane["name"]]
    assert shuffled == usual


@given(plans)
def test_the_same_trace_gives_the_same_bytes(plan: Plan) -> None:
    data = plan.build()
    assert msgspec.json.encode(analyze(read_built(data))) == msgspec.json.encode(analyze(read_built(data)))


@given(plans)
def test_both_tables_of_operators_hold_the_same(plan: Plan) -> None:
    context = Context(read_built(plan.build()))
    sums: dict[str, list[int]] = {}
    for row in operators.by_shape(context).rows:
        figures = [row.calls, row.device_self_ns, row.device_total_ns, row.host_self_ns, row.host_total_ns]
        sums[row.name] = [a + b for a, b in zip(sums.get(row.name, [0] * 5), figures, strict=True)]
    assert sums == {
        row.name: [row.calls, row.device_self_ns, row.device_total_ns, row.host_self_ns, row.host_total_ns]
        for row in operators.by_name(context).rows
    }
