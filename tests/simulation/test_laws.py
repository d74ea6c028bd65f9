"""Laws of the causal model for arbitrary traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.random_traces import Plan, plans
from tests.simulation.replaying import modelled
from traceanalyzer.simulation import back_pointers, critical_path, step_times
from traceanalyzer.simulation.edits import (
    BandwidthEdit,
    DropEdit,
    Edit,
    HostEdit,
    LoaderEdit,
    OverlapEdit,
    RelaunchEdit,
    ScaleEdit,
    StartEdit,
    UnblockEdit,
)
from traceanalyzer.simulation.model import Model
from traceanalyzer.structure.recording import shown_step
from traceanalyzer.structure.recording.program_steps import program_steps
from traceanalyzer.trace.intervals import Intervals

ALWAYS = 1 << 50
KERNEL = "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn"
EARLY = ((KERNEL, 0, 0, 4201, 0, 2, 7), (KERNEL, 1, 0, 4201, -1, 0, 7))
"""Two kernels, the second of which seems to start before it is launched."""
OVERLAPPING = Plan((0, 2), (), (), ((0, 2, 0), (1, 0, 0)))
"""Two copies on one stream, the last of which ends while the first still runs."""
LAUNCHED = Plan(
    (), (), ((KERNEL, 0, 0, 4202, 0, 0, 7), (KERNEL, 0, 1, 4201, 0, 0, 8), (KERNEL, 0, 0, 4201, 0, 1, 8)), ()
)
"""Three kernels, of which one may be removed and all launched at once: host time is saved only once."""
AT_ITS_END = Plan(
    (1, 239),
    (),
    (("my_kernel", 0, 0, 4201, 3, 3, 7), (KERNEL, 21, 0, 4201, 68, 120, 7), (KERNEL, 128, 10, 4202, 80, 120, 7)),
    (),
)
"""A kernel that begins just before the one before it ends: it still takes all of its time if that one is removed."""

WAITING = Plan(
    (),
    (),
    (
        *((KERNEL, 0, 0, 4201, 0, 0, 7),) * 4,
        (KERNEL, 45, 0, 4201, 80, 0, 8),
        (KERNEL, 44, 0, 4201, 80, 3, 7),
        (KERNEL, 48, 0, 4201, 79, 0, 7),
        (KERNEL, 47, 0, 4201, 77, 0, 8),
        (KERNEL, 44, 0, 4201, 80, 0, 7),
        (KERNEL, 44, 0, 4201, 80, 2, 9),
    ),
    (),
)
"""The last kernel of a stream waits for one of another stream; both are removed, and those before it move away."""


def edits(found: Model, numbers: list[int]) -> list[Edit]:
    """Some edits that only shorten or remove."""
    trace = found.context.trace
    rows, calls = np.arange(len(trace.device)), np.arange(len(trace.launches))
    threads = np.unique(found.graph.host.thread)
    start, end = np.full(len(threads), -ALWAYS), np.full(len(threads), ALWAYS)
    known: list[Edit] = [
        LoaderEdit(3_000),
        ScaleEdit(rows[::2], 0.5, 1_000),
        ScaleEdit(rows, 0.25),
        DropEdit(rows[1::2]),
        UnblockEdit(calls),
        HostEdit(threads, start, end, 0.5),
        RelaunchEdit(rows, 2_000),
        OverlapEdit(rows[1::3]),
        BandwidthEdit(rows[::3], 0.7),
        StartEdit(rows[::2], np.full(len(rows[::2]), 3_000)),
    ]
    return [known[number] for number in numbers]


def elapsed(found: Model, changes: list[Edit]) -> list[float]:
    return [found.elapsed_ns(changes, keep_residuals=keeps) for keeps in (True, False)]


choices = st.lists(st.integers(0, 9), max_size=4)


@given(plans)
def test_with_residuals_an_unchanged_replay_is_the_recording(plan: Plan) -> None:
    found = modelled(plan)
    assert found.recorded.point_ns.tolist() == found.graph.host.time_ns.tolist()
    assert found.recorded.start_ns.tolist() == found.graph.device.start_ns.tolist()
    assert found.recorded.dropped == found.times.dropped


@given(plans, choices)
@example(OVERLAPPING, [7])
def test_what_only_shortens_never_lengthens(plan: Plan, numbers: list[int]) -> None:
    found = modelled(plan)
    for before, after in zip(elapsed(found, []), elapsed(found, edits(found, numbers)), strict=True):
        assert after <= before


@given(plans, choices)
def test_the_order_of_edits_does_not_matter(plan: Plan, numbers: list[int]) -> None:
    found = modelled(plan)
    changes = edits(found, numbers)
    assert elapsed(found, changes) == pytest.approx(elapsed(found, changes[::-1]), abs=len(found.graph.host))


@given(plans, choices, choices)
@example(OVERLAPPING, [1], [2])
@example(LAUNCHED, [3], [6])
@example(AT_ITS_END, [7], [3, 5])
@example(WAITING, [], [3, 7])
@example(WAITING, [3], [7])
def test_edits_together_save_at_least_what_each_saves_alone(plan: Plan, some: list[int], more: list[int]) -> None:
    found = modelled(plan)
    together = elapsed(found, edits(found, [*some, *more]))
    for alone in (edits(found, some), edits(found, more)):
        assert all(one <= other for one, other in zip(together, elapsed(found, alone), strict=True))


@given(plans)
@example(Plan((0, 1), (), ((KERNEL, 0, 0, 4201, 0, 0, 7),) * 2 + EARLY, ()))
@example(Plan((1, 2), (), ((KERNEL, 0, 3, 4201, 0, 0, 7),), ()))  # the mark lies within the call
def test_the_critical_path_fills_the_steps_once(plan: Plan) -> None:
    found = modelled(plan)
    pieces = back_pointers.critical(found.with_residuals, found.recorded, found.bounds)
    assert (pieces.start_ns[1:] >= pieces.end_ns[:-1]).all()
    result = critical_path.analyze(found.context)
    assert sum(part.ns_per_step for part in result.parts) == pytest.approx(result.step_ns)
    assert min(part.ns_per_step for part in result.parts) >= 0
    shown = shown_step(found.context)
    starts = np.concatenate([part.step_start_ns for part in found.windows])
    step = starts.tolist().index(program_steps(found.context).start_ns[shown])
    length = step_times.ends(found.bounds, found.recorded) - step_times.starts(found.bounds, found.recorded)
    assert sum(stretch.duration_ns for stretch in result.stretches) == length[step]
    own = sum(row.ns_per_step for row in result.owners)
    assert own == pytest.approx(sum(part.ns_per_step for part in result.parts if part.resource in ("host", "loader")))


@given(plans)
def test_what_is_on_the_critical_path_has_no_slack(plan: Plan) -> None:
    found = modelled(plan)
    left = back_pointers.slack_of_events(found.with_residuals, found.recorded, found.bounds, found.part_of_event)
    pieces = back_pointers.critical(found.with_residuals, found.recorded, found.bounds)
    steps = Intervals.union(found.windows[-1].step_start_ns, found.windows[-1].step_end_ns)
    runs = (pieces.why == back_pointers.Why.RUNS) & (steps.within(pieces.start_ns, pieces.end_ns) > 0)
    assert not left[pieces.event[runs]].any()
