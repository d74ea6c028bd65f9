"""Sets of events with their times, worked out by hand."""

from __future__ import annotations

from traceanalyzer.report.message import Text
from traceanalyzer.report.model import CodePlace, Resources
from traceanalyzer.rules.engine.event_times import EventTimes
from traceanalyzer.rules.engine.facts import Facts
from traceanalyzer.rules.engine.rule import EventSet

BASIS = Text("test-basis", "by hand")()
COPIES, SUM, KERNEL = EventSet.operator("aten::copy_", "[[2]]"), EventSet.operator("aten::sum"), EventSet.kernel("gemm")


def work() -> EventTimes:
    """Two steps; the copies are given twice, as where they have several types."""
    facts = Facts(Resources(1000.0, None, None, None, None), steps=2)
    return EventTimes.on_device(facts, [(SUM, 0), (COPIES, 10), (KERNEL, 40), (COPIES, 20)])


def test_times_of_the_same_events_are_summed() -> None:
    assert work().ns == {SUM: 0, COPIES: 30, KERNEL: 40}
    assert (work().total_ns, work().time) == (70, 35)


def test_the_longest_come_first() -> None:
    assert list(work().longest_first.ns) == [KERNEL, COPIES, SUM]


def test_places_have_the_time_of_a_step() -> None:
    assert work().longest_first.places[:2] == (
        CodePlace("kernel", "gemm", None, 20.0, "ns"),
        CodePlace("operator", "aten::copy_", "[[2]]", 15.0, "ns"),
    )


def test_a_part_of_the_work_is_saved() -> None:
    change = work().shorter((0.5, 1.0), BASIS)
    assert change.direct == (17.5, 35.0)
    assert change.claims == {COPIES: 15.0, KERNEL: 20.0}


def test_a_change_is_about_events_of_which_it_removes_nothing_too() -> None:
    change = work().part(0.5).removed((8, 30), BASIS)
    assert change.direct == (4.0, 15.0)
    assert change.claims == {SUM: 0.0, COPIES: 7.5, KERNEL: 10.0}
