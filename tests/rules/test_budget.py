"""Bounds of savings: numbers worked out by hand, and laws for all numbers."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.rules.kinds_of_change import KINDS
from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources
from traceanalyzer.rules.engine.budget import Budget, combine
from traceanalyzer.rules.engine.change import Fix, StepChange
from traceanalyzer.structure.events import EventSet

BASIS = Message("basis", {}, "because")
MS = 1_000_000.0

TIMES = st.floats(0, 1e9, allow_nan=False)
RESOURCES = st.sampled_from(["gpu", "host", "loader", "communication"])


def change(resource: str, low: float, high: float | None = None, **more: object) -> StepChange:
    return KINDS[resource]((low, low if high is None else high), BASIS, **more)  # type: ignore[arg-type]


def budget(step: float, gpu: float, host: float, loader: float = 0, *, is_estimate: bool = False) -> Budget:
    resources = Resources(step * MS, gpu * MS, host * MS, loader * MS, None)
    return Budget.of(resources, is_estimate=is_estimate)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Resources that fit into the step, like those of a measurement."""
    step = draw(st.floats(1, 1e9))
    gpu, host, loader = (draw(st.floats(0, 1)) for _ in range(3))
    return Budget(step, gpu * step, host * step, loader * (1 - host) * step, 0.0, draw(st.booleans()))


@st.composite
def changes(draw: st.DrawFn) -> StepChange:
    low, high = sorted((draw(TIMES), draw(TIMES)))
    exposed = tuple(sorted((draw(TIMES), draw(TIMES)))) if draw(st.booleans()) else None
    claims = draw(st.dictionaries(st.sampled_from([EventSet.other(name) for name in "abc"]), TIMES, max_size=2))
    return KINDS[draw(RESOURCES)]((low, high), BASIS, exposed, claims)  # type: ignore[arg-type]


def test_host_time_that_may_be_waiting_limits_only_the_lower_end() -> None:
    """Of 95 ms of the host, 70 may be waits for the 100 ms of the GPU, which a change shortens by 60 ms."""
    whole = Budget.of(Resources(100 * MS, 100 * MS, 95 * MS, None, None), is_estimate=True)
    run = msgspec.structs.replace(whole, unseen_waits=70 * MS)
    assert run.wall(change("gpu", 60 * MS)) == pytest.approx((5 * MS, 60 * MS))
    assert run.saving(change("gpu", 60 * MS)).basis.id == "saving-host-unseen"
    assert run.saving(change("gpu", 3 * MS)).basis.id == "basis"
    saving = run.saving(change("gpu", 90 * MS))
    assert saving.wall_ns_per_step[1] == pytest.approx(75 * MS)
    assert saving.arithmetic is not None
    assert [operand.ns for operand in saving.arithmetic.subtrahends] == [10_000_000, 25_000_000]


def test_the_worked_table_of_a_loader_that_hides_everything() -> None:
    run = budget(174.76, 44.05, 6.14, 165.16, is_estimate=True)
    saving = run.saving(change("loader", 165.16 * MS))
    assert saving.wall_ns_per_step == pytest.approx((130.71 * MS * 0.98 / 1.02, 130.71 * MS)), "2 % around"
    assert saving.wall_share == pytest.approx((0.7186, 0.7479), abs=1e-4)
    assert saving.arithmetic is not None
    assert saving.arithmetic.minuend.ns == 174_760_000
    assert [operand.ns for operand in saving.arithmetic.subtrahends] == [44_050_000, 6_140_000]
    assert saving.arithmetic.result_ns == 130_710_000


def test_what_is_not_critical_is_worth_nothing_in_a_table() -> None:
    run = budget(174.76, 44.05, 6.14, 165.16, is_estimate=True)
    assert run.saving(change("gpu", 6.03 * MS)).wall_ns_per_step == (0, 0)


def test_time_that_overlaps_is_worth_nothing() -> None:
    run = budget(100, 95, 98)
    assert run.wall(change("gpu", 30 * MS)) == pytest.approx((2 * MS, 2 * MS))


def test_nothing_is_worth_more_than_what_the_timeline_shows_exposed() -> None:
    run = budget(100, 90, 20)
    assert run.wall(change("gpu", 30 * MS, 50 * MS, exposed=(10 * MS, 20 * MS))) == (10 * MS, 20 * MS)


def test_hiding_communication_does_not_make_it_go_away() -> None:
    run = Budget(100 * MS, 90 * MS, 10 * MS, 0.0, 60 * MS, is_estimate=False)
    assert run.cap("communication", 50 * MS) == 40 * MS


def test_the_next_fix_counts_from_where_the_first_left() -> None:
    """Both together cannot beat the host, which nothing relieves."""
    found = combine(budget(100, 90, 70), [Fix("a", 0, change("gpu", 20 * MS)), Fix("b", 1, change("gpu", 25 * MS))])
    assert found is not None
    assert [(fix.rule, fix.wall_ns_per_step[1] / MS) for fix in found.fixes] == [("b", 25), ("a", 5)]
    assert found.wall_ns_per_step[1] == 30 * MS
    assert found.next_bottleneck == "host"


def test_the_same_time_is_claimed_once() -> None:
    once = {EventSet.operator("aten::mul"): 20 * MS}
    fixes = [Fix(name, i, change("gpu", 20 * MS, claims=once)) for i, name in enumerate("ab")]
    found = combine(budget(100, 95, 10), fixes)
    assert found is not None
    assert [fix.rule for fix in found.fixes] == ["a"]


def test_a_latent_fix_counts_once_the_first_bottleneck_is_gone() -> None:
    run = budget(174.76, 44.05, 6.14, 165.16, is_estimate=True)
    fixes = [Fix("bias", 0, change("gpu", 6 * MS)), Fix("loader", 1, change("loader", 165.16 * MS))]
    found = combine(run, fixes)
    assert found is not None
    assert [fix.rule for fix in found.fixes] == ["loader", "bias"]
    assert found.wall_ns_per_step[1] == pytest.approx((130.71 + 6) * MS)


@given(budgets(), changes())
def test_a_saving_lies_within_its_bounds(run: Budget, wanted: StepChange) -> None:
    low, high = run.wall(wanted)
    assert 0 <= low <= high + 1e-6
    assert high <= max(wanted.direct[1], 0)
    if not run.is_estimate:
        assert high <= run.step


@given(budgets(), st.lists(changes(), max_size=6))
def test_together_they_never_save_more_than_the_step(run: Budget, wanted: list[StepChange]) -> None:
    found = combine(run, [Fix(str(i), i, one) for i, one in enumerate(wanted)])
    assume(found is not None)
    low, high = found.wall_ns_per_step
    assert -1e-6 <= low <= high + 1e-6 <= run.step + 1e-5
    assert sum(fix.wall_ns_per_step[1] for fix in found.fixes) == pytest.approx(high, rel=1e-6, abs=1e-3)


@given(budgets(), changes())
def test_shown_operands_give_the_shown_result(run: Budget, wanted: StepChange) -> None:
    arithmetic = run.saving(wanted).arithmetic
    if arithmetic is not None:
        assert arithmetic.result_ns == arithmetic.minuend.ns - max(o.ns for o in arithmetic.subtrahends)


def test_what_one_resource_holds_back_comes_with_a_later_fix() -> None:
    """30 ms of the GPU are worth 2 ms while the host takes 98 ms; with 40 ms of the host gone, all of it comes."""
    run = budget(100, 95, 98)
    fixes = [Fix("gpu", 0, change("gpu", 30 * MS)), Fix("host", 1, change("host", 40 * MS))]
    found = combine(run, fixes)
    assert found is not None
    assert found.wall_ns_per_step[1] == pytest.approx(35 * MS), "100 - max(65 of the GPU, 58 of the host)"
    other = combine(run, [Fix("host", 0, change("host", 40 * MS)), Fix("gpu", 1, change("gpu", 30 * MS))])
    assert other is not None
    assert other.wall_ns_per_step[1] == pytest.approx(35 * MS), "in any order"


@given(budgets(), st.lists(changes(), min_size=1, max_size=6))
def test_together_is_what_is_taken_away_or_what_the_resources_leave(run: Budget, wanted: list[StepChange]) -> None:
    """Without a shared claim the upper end is no more and no less, so it contradicts neither cards nor resources."""
    run = msgspec.structs.replace(run, is_estimate=False)
    alone = [replace(one, claims={}) for one in wanted]
    left = run
    for one in alone:
        left = left.without(one.resource, one.direct[1])
    offered = sum(min(one.direct[1], (one.exposed or one.direct)[1]) for one in alone)
    expected = max(0.0, min(offered, run.step - max(left.chains.values())))
    found = combine(run, [Fix(str(i), i, one) for i, one in enumerate(alone)])
    assert (found.wall_ns_per_step[1] if found else 0.0) == pytest.approx(expected, rel=1e-6, abs=1e-3)
    assert max(run.wall(one)[1] for one in alone) <= expected + 1e-3


def test_a_host_that_stacks_slowed_down_is_no_upper_bound() -> None:
    """The recorded 33 of 35.18 ms of host time would limit every saving to 2.18 ms, which is not known to be true."""
    run = msgspec.structs.replace(budget(35.18, 31.9, 33.0), is_host_inflated=True)
    saving = run.saving(change("gpu", 11 * MS, 15 * MS))
    assert saving.wall_ns_per_step == pytest.approx((2.18 * MS, 15 * MS))
    assert saving.basis.id == "saving-host-inflated"
    assert saving.arithmetic is None
    small = run.saving(change("gpu", 1 * MS, 2 * MS))
    assert small.wall_ns_per_step == pytest.approx((1 * MS, 2 * MS))
    assert small.basis == BASIS, "the host does not bound it"


def test_a_loader_bounds_even_where_the_host_was_slowed_down() -> None:
    run = msgspec.structs.replace(budget(100, 90, 30, 60), is_host_inflated=True)
    saving = run.saving(change("gpu", 70 * MS))
    assert saving.wall_ns_per_step == pytest.approx((10 * MS, 40 * MS))
    assert saving.arithmetic is not None
    assert [operand.name.text for operand in saving.arithmetic.subtrahends] == ["GPU", "DataLoader"]


@given(budgets(), changes())
def test_a_slowed_host_only_widens_the_interval(run: Budget, wanted: StepChange) -> None:
    low, high = run.wall(wanted)
    wide = msgspec.structs.replace(run, is_host_inflated=True).wall(wanted)
    assert wide[0] == low
    assert wide[1] >= high


def test_idle_time_is_claimed_once_but_the_work_behind_it_goes() -> None:
    """Both would end 10 of 12 ms of the same idle time; the host that is left has lost the work of both."""
    idle = {EventSet.idle("launch_bound"): 10 * MS}
    host = [Fix(n, i, change("host", t * MS, exposed=(t * MS, t * MS), claims=idle)) for i, (n, t) in enumerate(TWO)]
    gpu = Fix("gpu", 2, change("gpu", 60 * MS))
    found = combine(budget(100, 90, 95), [*host, gpu])
    assert found is not None
    assert found.wall_ns_per_step[1] == pytest.approx((100 - (95 - 12 - 10)) * MS, rel=1e-3)


TWO = (("launches", 12), ("optimizer", 10.001))


def test_the_host_of_a_late_rank_is_no_upper_bound_for_the_others() -> None:
    """A mean host of 589 of 1098 ms, most of it the late rank's, left 508.5 ms of 1007 ms at both ends."""
    run = msgspec.structs.replace(budget(1098, 801, 589.5), is_of_ranks=True)
    saving = run.saving(change("communication", 1007 * MS))
    assert saving.wall_ns_per_step == pytest.approx((508.5 * MS, 1007 * MS))
    assert saving.basis.id == "saving-host-of-ranks"
    assert saving.arithmetic is None
