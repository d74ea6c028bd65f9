"""What bounds a saving: worked numbers, and the laws that hold for all numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.report.message import Message
from traceanalyzer.report.model import Resources
from traceanalyzer.rules.budget import Budget
from traceanalyzer.rules.change import Change
from traceanalyzer.rules.combine import Fix, combine

BASIS = Message("basis", {}, "because")
MS = 1_000_000.0

TIMES = st.floats(0, 1e9, allow_nan=False)
RESOURCES = st.sampled_from(["gpu", "host", "loader", "communication"])


def change(resource: str, low: float, high: float | None = None, **more: object) -> Change:
    return Change(resource, (low, low if high is None else high), BASIS, **more)  # type: ignore[arg-type]


def budget(step: float, gpu: float, host: float, loader: float = 0, *, is_estimate: bool = False) -> Budget:
    resources = Resources(step * MS, gpu * MS, host * MS, loader * MS, None)
    return Budget.of(resources, is_estimate=is_estimate)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """Resources that fit into the step, as those of a measurement do."""
    step = draw(st.floats(1, 1e9))
    gpu, host, loader = (draw(st.floats(0, 1)) for _ in range(3))
    return Budget(step, gpu * step, host * step, loader * (1 - host) * step, 0.0, draw(st.booleans()))


@st.composite
def changes(draw: st.DrawFn) -> Change:
    low, high = sorted((draw(TIMES), draw(TIMES)))
    exposed = tuple(sorted((draw(TIMES), draw(TIMES)))) if draw(st.booleans()) else None
    claims = draw(st.dictionaries(st.sampled_from("abc"), TIMES, max_size=2))
    return Change(draw(RESOURCES), (low, high), BASIS, exposed, claims)  # type: ignore[arg-type]


def test_the_worked_table_of_a_loader_that_hides_everything() -> None:
    run = budget(174.76, 44.05, 6.14, 165.16, is_estimate=True)
    saving = run.saving(change("loader", 165.16 * MS))
    assert saving.wall_ns_per_step == pytest.approx((130.71 * MS, 165.16 * MS))
    assert saving.wall_share == pytest.approx((0.7479, 0.9451), abs=1e-4)
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
    once = {"operator:aten::mul": 20 * MS}
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
def test_a_saving_lies_within_its_bounds(run: Budget, wanted: Change) -> None:
    low, high = run.wall(wanted)
    assert 0 <= low <= high + 1e-6
    assert high <= max(wanted.direct[1], 0)
    if not run.is_estimate:
        assert high <= run.step


@given(budgets(), st.lists(changes(), max_size=6))
def test_together_they_never_save_more_than_the_step(run: Budget, wanted: list[Change]) -> None:
    found = combine(run, [Fix(str(i), i, one) for i, one in enumerate(wanted)])
    if found is None:
        return
    low, high = found.wall_ns_per_step
    assert -1e-6 <= low <= high + 1e-6 <= run.step + 1e-5
    assert sum(fix.wall_ns_per_step[1] for fix in found.fixes) == pytest.approx(high, rel=1e-6, abs=1e-3)


@given(budgets(), changes())
def test_shown_operands_give_the_shown_result(run: Budget, wanted: Change) -> None:
    arithmetic = run.saving(wanted).arithmetic
    if arithmetic is not None:
        assert arithmetic.result_ns == arithmetic.minuend.ns - max(o.ns for o in arithmetic.subtrahends)
