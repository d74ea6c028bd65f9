"""Which calls end a step."""

from __future__ import annotations

import time

import pytest

from traceanalyzer.capture.agent import recording
from traceanalyzer.capture.agent.seen import Seen
from traceanalyzer.capture.agent.steps import (
    AFTER,
    BACKWARD,
    BEFORE,
    DATALOADER,
    MARKED,
    MODULE,
    OPTIMIZER,
    PROFILED,
    StepClock,
    StepFinder,
)

FIRST, SECOND = 1, 2


def test_every_step_of_the_only_optimizer_ends_one() -> None:
    finder = StepFinder()
    assert all(finder.optimizer_stepped(FIRST, in_backward=False) for _ in range(5))
    assert finder.source == OPTIMIZER


def test_of_two_optimizers_the_first_decides() -> None:
    finder = StepFinder()
    ended = [finder.optimizer_stepped(who, in_backward=False) for who in (FIRST, SECOND) * 30]
    assert ended == [True, False] * 30


def test_an_optimizer_that_goes_on_alone_takes_over() -> None:
    finder = StepFinder()
    finder.optimizer_stepped(FIRST, in_backward=False)
    ended = [finder.optimizer_stepped(SECOND, in_backward=False) for _ in range(12)]
    assert ended == [False] * 9 + [True] * 3


def test_many_optimizers_in_turn_are_one_step() -> None:
    finder = StepFinder()
    ended = [finder.optimizer_stepped(who, in_backward=False) for who in [*range(200)] * 3]
    assert [number % 200 for number, end in enumerate(ended) if end] == [0, 0, 0]


def test_optimizers_inside_the_backward_pass_end_nothing() -> None:
    finder = StepFinder()
    assert not finder.optimizer_stepped(FIRST, in_backward=True)
    assert finder.source is None


def test_batches_end_steps_where_there_is_no_optimizer() -> None:
    finder = StepFinder()
    assert all(finder.batch_wanted(FIRST) for _ in range(3))
    assert finder.source == DATALOADER


def test_batches_wait_for_an_optimizer_that_exists() -> None:
    finder = StepFinder()
    finder.has_optimizer = True
    ended = [finder.batch_wanted(FIRST) for _ in range(22)]
    assert ended == [False] * 20 + [True] * 2


def test_batches_wait_longer_where_gradients_may_accumulate() -> None:
    finder = StepFinder()
    finder.backward_ended()
    assert not any(finder.batch_wanted(FIRST) for _ in range(100))
    assert finder.batch_wanted(FIRST)


def test_batches_with_gradients_after_each_mark_steps_soon() -> None:
    """A compiled optimizer is not seen."""
    finder = StepFinder()
    finder.has_optimizer = True
    ended = []
    for _ in range(7):
        ended.append(finder.batch_wanted(FIRST))
        assert not finder.backward_begins()
        finder.backward_ended()
    assert ended == [False] * 4 + [True] * 3
    assert finder.counts == {"batches": 7, "backwards": 7}


def test_repeated_calls_of_the_outermost_module_are_steps_where_nothing_else_is() -> None:
    finder = StepFinder()
    ended = [finder.module_called(who) for who in (FIRST, SECOND) * 8]
    assert ended == [False] * 10 + [True, False] * 3
    assert finder.source == MODULE
    assert finder.batch_wanted(SECOND)
    assert (finder.source, finder.needs_calls) == (DATALOADER, False)
    assert not finder.module_called(FIRST)


def test_calls_of_modules_are_no_steps_where_an_optimizer_exists() -> None:
    finder = StepFinder()
    finder.has_optimizer = True
    assert not any(finder.module_called(FIRST) for _ in range(500))


def test_calls_that_build_a_graph_wait_longer_for_a_backward_pass() -> None:
    finder = StepFinder()
    assert [finder.module_called(FIRST, may_train=True) for _ in range(101)] == [False] * 100 + [True]


@pytest.mark.parametrize("sign", ["batch_wanted", "module_called"])
def test_the_first_backward_pass_shows_that_what_came_before_were_no_steps(sign: str) -> None:
    finder = StepFinder()
    assert [getattr(finder, sign)(FIRST) for _ in range(20)][-1]
    assert not finder.backward_begins()
    assert finder.backward_ended(), "to be thrown away"
    assert finder.source is None
    assert not finder.backward_ended(), "only once"
    assert not any(finder.module_called(FIRST) for _ in range(500))


def test_backward_passes_are_the_steps_where_nothing_else_is() -> None:
    finder = StepFinder()
    ended = []
    for _ in range(13):
        ended.append(finder.backward_begins())
        finder.backward_ended()
    assert ended == [False] * 10 + [True] * 3
    assert finder.source == BACKWARD


def test_optimizers_take_precedence_over_batches_and_marks_over_both() -> None:
    finder = StepFinder()
    assert finder.batch_wanted(FIRST)
    assert finder.optimizer_stepped(SECOND, in_backward=False)
    assert not finder.batch_wanted(FIRST)
    finder.marked()
    assert not finder.optimizer_stepped(SECOND, in_backward=False)
    assert not finder.batch_wanted(FIRST)
    assert finder.source == MARKED


def test_laps_without_a_phase_count_nowhere() -> None:
    clock = StepClock()
    clock.lap(None)
    clock.lap(BEFORE)
    clock.lap(None)
    clock.restart()
    assert [len(durations) for durations in clock.durations_ns.values()] == [1, 0, 0]
    assert list(clock.facts()) == [BEFORE]
    clock.durations_ns[AFTER] += [1, 2, 9]
    assert clock.facts()[AFTER] == {"steps": 3, "mean_ns": 4, "median_ns": 2, "range_ns": [2, 6]}


def test_time_on_a_core_is_exact_and_never_longer_than_the_step() -> None:
    """The system's own table counts at ticks: nothing in most steps, and several milliseconds in some."""
    clock = StepClock()
    clock.restart()
    for _ in range(20):
        until = time.thread_time_ns() + 300_000
        while time.thread_time_ns() < until:
            pass
        clock.lap(PROFILED)
    steps = clock.recorded()
    if not steps:
        pytest.skip("this system does not count how long threads wait for a core")
    assert all(step["cpu_ns"] >= 300_000 for step in steps)
    assert all(step["cpu_ns"] + step["queued_ns"] <= step["ns"] for step in steps)


def test_batches_of_an_evaluation_count_no_more_than_its_time() -> None:
    """The median of the times leaves out the step that has it."""
    seen = Seen()
    for batches in (1, 1, 31, 1, 1):
        seen.batches = batches
        seen.step_ended(counts=True, is_recorded=False)
    assert seen.facts()["batches_per_step"] == 1.0
    seen.start_counting()
    assert seen.facts()["batches_per_step"] is None


def test_the_heap_is_asked_only_when_the_process_has_grown_and_then_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """To answer, glibc goes through all free pieces: a millisecond, within the step that is recorded."""
    resident, heap, asked = [0], [0], []

    def ask() -> int:
        asked.append(heap[0])
        clock[0] += 0.5
        return heap[0]

    clock = [0.0]
    monkeypatch.setattr(recording, "resident_bytes", lambda: resident[0])
    monkeypatch.setattr(recording, "heap_bytes", ask)
    monkeypatch.setattr(recording.time, "perf_counter", lambda: clock[0])
    growth = recording.Growth()
    assert not any(growth.is_large for _ in range(1000))
    assert len(asked) == 1, "when the recording began"
    resident[0] = recording.MOST_BYTES + 1
    assert not any(growth.is_large for _ in range(1000)), "something else has grown"
    assert len(asked) == 2
    heap[0], clock[0] = recording.MOST_BYTES + 1, clock[0] + 49
    assert not growth.is_large
    clock[0] += 1
    assert growth.is_large
    assert len(asked) == 3
