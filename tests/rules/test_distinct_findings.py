"""One mechanism, one card."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import Evidence, Resources
from traceanalyzer.rules.engine.change import HostTime
from traceanalyzer.rules.engine.duplicates import distinct
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import Draft, Rule
from traceanalyzer.structure.events import LOADER, WAITS, EventSet

TEXT = Text("distinct-test", "text")
FACTS = Facts(Resources(step_ns=100.0, gpu_ns=40.0, host_ns=60.0, loader_ns=0.0, communication_ns=None), steps=1)
RULE = Rule("cause", TEXT, TEXT, TEXT, TEXT, "low", "A", (), "0.2")
REST = replace(RULE, id="rest", is_rest=True)
PART = replace(RULE, id="part", part_of=("cause",))
LAUNCHES, CODE = EventSet.idle("launch_bound"), EventSet.idle("host_code")
BMM = EventSet.operator("aten::bmm", "x")
SUM = replace(RULE, id="sum", sums_up_idle=True)


def draft(*claims: tuple[EventSet, float]) -> Draft:
    keys = dict(claims)
    total = sum(keys.values())
    change = HostTime((total / 2, total), TEXT(), (total / 2, total), keys)
    return Draft((Evidence(TEXT(), 1.0, 0.0, "number", ()),), change if keys else None)


def claimed(found: Draft | None) -> dict[EventSet, float]:
    assert found is not None
    assert found.change is not None
    return dict(found.change.claims)


def test_what_is_left_is_worth_its_part() -> None:
    kept = distinct(FACTS, [(RULE, draft((LAUNCHES, 4.0))), (REST, draft((LAUNCHES, 10.0)))])
    assert claimed(kept[1]) == {LAUNCHES: 6.0}
    assert kept[1] is not None
    assert kept[1].change is not None
    assert kept[1].change.direct == pytest.approx((3.0, 6.0))
    assert kept[1].change.exposed == pytest.approx((3.0, 6.0))


def test_with_less_than_a_third_nothing_is_left_to_say() -> None:
    cause, rest = draft((LAUNCHES, 7.0)), draft((LAUNCHES, 10.0))
    assert distinct(FACTS, [(RULE, cause), (REST, rest)]) == [cause, None]


def test_two_rests_take_nothing_from_each_other() -> None:
    one, other = draft((CODE, 5.0)), draft((CODE, 5.0))
    assert distinct(FACTS, [(REST, one), (REST, other)]) == [one, other]


def test_idle_time_after_a_wait_is_of_both() -> None:
    wait, rest = draft((WAITS, 5.0)), draft((WAITS, 5.0))
    assert distinct(FACTS, [(RULE, wait), (REST, rest)]) == [wait, rest]


def test_a_part_goes_where_the_whole_claims_most_of_it() -> None:
    whole = draft((BMM, 6.0))
    assert distinct(FACTS, [(RULE, whole), (PART, draft((BMM, 12.0)))])[1] is None
    assert distinct(FACTS, [(RULE, whole), (PART, draft((BMM, 12.1)))])[1] is not None
    assert distinct(FACTS, [(PART, draft((BMM, 6.0)))])[0] is not None


def test_a_sum_of_idle_time_goes_where_others_explain_half_of_it() -> None:
    # 60 of 100 ns are idle
    total = draft()
    assert distinct(FACTS, [(SUM, total), (RULE, draft((LOADER, 20.0))), (RULE, draft((CODE, 10.0)))])[0] is None
    assert distinct(FACTS, [(SUM, total), (RULE, draft((LOADER, 29.9))), (RULE, draft((LOADER, 20.0)))])[0] is total


def test_a_sum_goes_where_another_finding_is_about_the_part_that_it_names() -> None:
    """Where stacks made the CPU slow, a fifth of the gaps is claimed: what to do about them is said all the same."""
    total = replace(draft(), part=LAUNCHES)
    assert distinct(FACTS, [(SUM, total), (RULE, draft((LAUNCHES, 12.0)))])[0] is None
    assert distinct(FACTS, [(SUM, total), (RULE, draft((CODE, 12.0)))])[0] is total
