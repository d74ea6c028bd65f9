"""Tests of the rule `step-time-outliers`: numbers worked out by hand, and edges of thresholds.

The programs: marked steps of which one may take longer.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.timeline import Host, Stream, Work, finish
from tests.rules.cpu_work import AROUND, Call, make
from tests.rules.host_work import compute, looping
from tests.rules.judging import findings, report, skipped
from tests.rules.loader.test_dataloader_bound import fires_in_a_table


def steps(*durations: int) -> TraceBuilder:
    """One step for each duration in us, of one kernel that is waited for."""

    def body(host: Host, stream: Stream, number: int) -> None:
        compute(host, stream, durations[number])
        host.wait(stream)

    return looping(body, steps=len(durations))


def fires() -> TraceBuilder:
    """One of seven steps takes twice as long."""
    return steps(1000, 1000, 1000, 2000, 1000, 1000, 1000)


def quiet() -> TraceBuilder:
    """All steps take about as long."""
    return steps(1000, 1010, 990, 1020, 1000, 980, 1000)


def on_a_cpu(*durations: int) -> TraceBuilder:
    """The same steps without a GPU, of one operator each."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number, duration in enumerate(durations):
        with host.annotation(f"ProfilerStep#{number}"):
            host.leaf("aten::mm", duration)
    return finish(trace)


def trap_jitter_of_a_loaded_machine() -> TraceBuilder:
    """Another program takes a slice of 1 ms from one step in four."""
    return on_a_cpu(*(1000, 1000, 2000, 1010) * 5)


def trap_a_long_step_among_many() -> TraceBuilder:
    """On a GPU one step of forty takes half as long again: a hundredth of the time."""
    return steps(*(1000,) * 20, 1500, *(1000,) * 19)


def trap_too_few_to_tell() -> TraceBuilder:
    """Three steps are too few to decide which one is unusual."""
    return steps(1000, 2000, 1000)


def passes(*durations: int, shapes: Callable[[int], list[int]] | None = lambda _: [64, 64]) -> TraceBuilder:
    """Passes that nothing marks, of five operators with a kernel each; the first kernel takes so many us.

    Without shapes the grids of the kernels tell that their inputs differ.
    """
    trace = TraceBuilder(options=("record_shapes",) if shapes else ())
    host, stream = Host(trace, at=10), Stream()
    for number, duration in enumerate(durations):
        for operator in range(5):
            with host.op(f"aten::operator_{operator}", 5, 5, **({"shapes": [shapes(number)]} if shapes else {})):
                grid = (1 if shapes else duration, 1, 1)
                host.launch(Work("kernel", duration if not operator else 20, grid=grid), stream)
        host.wait(stream)
    return finish(trace)


UNEVEN = (1000, 1900, 1000, 1000, 1950, 2000, 1010, 1900, 1000, 2500, 1000, 1980)


def fires_where_the_same_work_takes_different_times() -> TraceBuilder:
    """Passes of the same operators, about half of which take twice as long."""
    return passes(*UNEVEN)


LONGER = tuple(range(1000, 2600, 100))


def fires_on_a_sequence_that_grows() -> TraceBuilder:
    """Sixteen passes, of which the last takes 2.5 times as long as the first; no shapes were recorded."""
    return passes(*LONGER, shapes=None)


def inputs_of_other_shapes() -> TraceBuilder:
    """A pass is long where its batch is."""
    return passes(*UNEVEN, shapes=lambda number: [64 if UNEVEN[number] < 1500 else 128, 64])


def without_shapes(*durations: int, last: str = "aten::argmax") -> TraceBuilder:
    """Passes of an operator on a CPU, whose shapes are not recorded, and of a short last one."""
    calls = [[Call("aten::addmm", duration), Call(last, 10)] for duration in durations]
    trace = TraceBuilder()
    host = Host(trace, at=10)
    for number, inner in enumerate(calls):
        with host.annotation(f"ProfilerStep#{number}"):
            for call in inner:
                make(host, call, shapes=False)
    return finish(trace)


GROWING = tuple(2000 + 50 * number + (120 if number % 3 else 0) for number in range(20))


def fires_where_a_sequence_grows() -> TraceBuilder:
    """Each token is computed with all before it."""
    return without_shapes(*GROWING)


RULE = "step-time-outliers"


def test_the_same_work_in_very_different_times() -> None:
    """Of the eleven after the first the shortest and the longest are left aside: 1000 to 2000 us, and the host's 30."""
    (finding,) = findings(fires_where_the_same_work_takes_different_times(), RULE)
    assert (finding.severity, finding.summary.id) == ("low", "step-time-outliers-summary-uneven")
    assert finding.summary.params["steps"] == 9
    assert finding.summary.params["shortest"] == pytest.approx(1_090_000, abs=40_000)
    assert finding.summary.params["longest"] == pytest.approx(2_090_000, abs=40_000)
    (headline,) = report(fires_where_the_same_work_takes_different_times()).headlines
    assert "uneven steps of 1.1 to 2.6 ms" in headline.text


def test_inputs_of_other_shapes_are_no_longer_the_same_work() -> None:
    (finding,) = findings(inputs_of_other_shapes(), RULE)
    assert finding.summary.id == "step-time-outliers-summary"


def test_without_shapes_nothing_tells_that_the_work_is_the_same() -> None:
    (finding,) = findings(without_shapes(*UNEVEN, 30_000, *UNEVEN), RULE)
    assert finding.summary.id == "step-time-outliers-summary"


def test_steps_that_grow() -> None:
    """The first step is left aside; of the others four and five are a quarter."""
    backward = "autograd::engine::evaluate_function: AddmmBackward0"
    (finding,) = findings(without_shapes(*GROWING, last=backward), RULE)
    assert (finding.summary.id, finding.severity) == ("step-time-outliers-summary-growing", "low")
    (finding,) = findings(fires_where_a_sequence_grows(), RULE)
    assert (finding.summary.id, finding.severity) == ("step-time-outliers-summary-generation", "medium")
    assert finding.summary.params["first"] == pytest.approx(2_195_000 + 10_000 + AROUND)
    assert finding.summary.params["last"] == pytest.approx(2_920_000 + 10_000 + AROUND)


def test_a_later_pace_is_no_growth() -> None:
    assert findings(without_shapes(*(2000,) * 10, *(3500,) * 10), RULE) == []


def of_growth(trace: TraceBuilder) -> list[float]:
    """How much longer passes take in the end, by a finding about a sequence that grows."""
    found = findings(trace, "step-time-outliers")
    return [each.evidence[0].observed for each in found if each.action and "use_cache=True" in each.action.text]


def test_passes_that_become_longer_and_longer_compute_a_whole_sequence_again() -> None:
    """Fifteen without the first: the medians of three at the beginning, and of four at the end."""
    (growth,) = of_growth(fires_on_a_sequence_that_grows())
    assert growth == pytest.approx(2350 / 1200, rel=0.1)


def test_passes_that_take_longer_now_and_then_do_not_grow() -> None:
    assert of_growth(passes(*LONGER[::2], *LONGER[1::2], shapes=None)) == []


def test_passes_that_grow_with_equal_shapes_are_only_uneven() -> None:
    assert of_growth(passes(*LONGER)) == []


def test_marked_steps_of_the_same_work_count_too() -> None:
    (finding,) = findings(steps(*UNEVEN), RULE)
    assert finding.summary.id == "step-time-outliers-summary-uneven"


def test_steps_that_wait_for_a_loader_have_a_reason() -> None:
    def body(host: Host, stream: Stream, number: int) -> None:
        with host.annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
            host.work(UNEVEN[number] - 900)
        compute(host, stream, 1000)
        host.wait(stream)

    found = findings(looping(body, steps=len(UNEVEN)), RULE)
    assert [finding.summary.id for finding in found] != ["step-time-outliers-summary-uneven"]


@pytest.mark.parametrize(
    ("iterator", "told"),
    [("MultiProcessing", "workers of the loader must start, once"), ("SingleProcess", "longer for")],
)
def test_a_first_batch_waits_for_workers_to_start(iterator: str, told: str) -> None:
    def body(host: Host, stream: Stream, number: int) -> None:
        with host.annotation(f"enumerate(DataLoader)#_{iterator}DataLoaderIter.__next__"):
            host.work(100 if number else 50_000)
        compute(host, stream, 1000)
        host.wait(stream)

    (finding,) = findings(looping(body, steps=8), RULE)
    assert told in finding.summary.text
    later = looping(body, steps=8)
    for event in later.events:
        if str(event["name"]).startswith("ProfilerStep#"):
            event["name"] = f"ProfilerStep#{int(str(event['name'])[13:]) + 4}"
    (finding,) = findings(later, RULE)
    assert "longer for its batch" in finding.summary.text, "four steps were before it"


def test_a_cold_first_pass_does_not_make_the_others_uneven() -> None:
    (finding,) = findings(passes(5000, *(1000,) * 9), RULE)
    assert finding.summary.id == "step-time-outliers-summary"


@pytest.mark.parametrize(("uneven", "told"), [(1.8, True), (2.0, False)])
def test_edge_uneven(uneven: float, told: bool) -> None:
    (finding,) = findings(fires_where_the_same_work_takes_different_times(), RULE, {"uneven": uneven})
    assert (finding.summary.id == "step-time-outliers-summary-uneven") is told


def test_it_names_the_longest_step() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.summary.params["long"], finding.summary.params["steps"]) == (1, 7)
    assert finding.summary.params["name"] == "3"
    assert finding.evidence[0].observed == pytest.approx(2, rel=0.03)
    assert (finding.severity, finding.saving) == ("info", None)


def test_a_step_at_the_edge_is_not_counted_among_the_others() -> None:
    trace = steps(1000, 1000, 1000, 1500, 1000, 1000, 1000)
    late = steps(2000, 1000, 1000, 1500, 1000, 1000, 1000)
    late.kernel("from_before", 0, 400, stream=9)
    numbers = [findings(one, RULE)[0].summary.params["steps"] for one in (trace, late)]
    assert numbers == [7, 6]


def test_it_says_that_collectives_take_longer() -> None:
    loop = GlooTraining()
    for number in range(5):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            loop.forward()
            loop.backward([3_000 if number == 2 else 100])
    (finding,) = findings(loop.finish(), RULE)
    assert "collectives take longer" in finding.summary.text


def test_edge_excess_share() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed > 1
    assert findings(fires(), RULE, {"excess_share": 0.2}) == []


def test_says_why_it_cannot_judge() -> None:
    assert "too few" in (skipped(trap_too_few_to_tell(), RULE) or "")
    assert "single steps" in (skipped(fires_in_a_table(), RULE) or "")


def test_edge_steps() -> None:
    assert findings(fires(), RULE, {"steps": 7})
    assert findings(fires(), RULE, {"steps": 8}) == []


@pytest.mark.parametrize(("turn", "tells"), [((3000, 3000, 100), False), ((3000, 100, 100), True)])
def test_what_most_steps_are_is_no_outlier(turn: tuple[int, ...], tells: bool) -> None:
    """Two of three steps, or one, are longer than the mean: batches of an evaluation beside those of another kind."""
    assert bool(findings(without_shapes(*turn * 4), RULE)) is tells
