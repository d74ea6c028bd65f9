"""Which steps are not typical, and why."""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.structure.recording.reading import US, recorded
from traceanalyzer.structure.recording import left_out

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def steps(*lengths: int, tail: dict[int, int] | None = None) -> TraceBuilder:
    """Steps one after the other; the device works from 5 us after their start to 5 us (`tail`) before their end."""
    trace, start = TraceBuilder(), 0
    for number, length in enumerate(lengths):
        trace.step(number, start, length)
        trace.op("aten::mm", start + 1, 4)
        idle = (tail or {}).get(number, 5)
        trace.launch_kernel("gemm", start + 5, length - 5 - idle, at=start + 2, call_dur=2)
        start += length
    return trace


def reasons(trace: TraceBuilder) -> list[str | None]:
    return [step.reason for step in recorded(trace).steps]


@pytest.mark.parametrize(("length", "reason"), [(120, None), (121, "unknown"), (80, None), (79, "unknown")])
def test_a_step_may_differ_from_the_median_by_a_fifth(length: int, reason: str | None) -> None:
    trace = steps(100, 100, length, 100, 100)
    assert reasons(trace) == [None, None, reason, None, None]
    found = recorded(trace)
    assert found.typical_step_ns == (400 + (0 if reason else length)) * US / (4 if reason else 5)


def test_steps_of_which_many_differ_vary_and_all_count_but_a_first_that_is_the_longest() -> None:
    many = (150, 100, 130, 100, 140, 100, 100, 150, 100)
    assert reasons(steps(*many)) == [None] * 9, "three of nine are a third"
    assert reasons(steps(151, *many[1:])) == ["unknown", *[None] * 8], "the longest"
    few = steps(100, 100, 130, 100, 140, 100, 100, 150, 100, 100)
    assert reasons(few).count("unknown") == 3, "three of ten are not"
    assert reasons(steps(100, 130, 100, 70, 100, 100)).count("unknown") == 2, "two are not many"


def epochs(every: int, count: int) -> TraceBuilder:
    """Steps of 20 ms; in every n-th one an epoch ends, processes start for 19 ms, and the first batch is waited for."""
    trace, start = TraceBuilder(), 0
    for number in range(count):
        changes = number % every == every - 1
        trace.step(number, start, 52_000 if changes else 20_000)
        for wait, length in ((start, 8_000), (start + 27_000, 5_000)) if changes else ((start, 400),):
            trace.annotation(LOADER, wait, length)
        work = start + (32_500 if changes else 500)
        trace.op("aten::mm", work, 19_000)
        start += 52_000 if changes else 20_000
    return trace


def test_steps_with_a_change_of_epochs_are_left_out_unless_they_are_a_third() -> None:
    """Its two waits explain less than half of what it takes more; with the start of processes between, most."""
    rare = reasons(epochs(every=4, count=16))
    assert rare == [None, None, None, "loader"] * 4
    assert recorded(epochs(every=4, count=16)).typical_step_ns == 20_000 * US
    assert reasons(epochs(every=3, count=15)) == [None] * 15


def test_prefills_among_steps_that_decode_are_another_phase_however_many() -> None:
    trace, start = TraceBuilder(), 0
    for phase, length in zip(("DECODE", "EXTEND", "DECODE", "DECODE") * 4, (100, 300, 100, 100) * 4, strict=True):
        trace.annotation(f"step[{phase} bs=4]" if phase == "DECODE" else f"step[{phase} bs=4 toks=900]", start, length)
        trace.launch_kernel("gemm", start + 5, length - 10, at=start + 2, call_dur=2)
        start += length
    assert {reason for reason in reasons(trace) if reason} == {"other-phase"}


def test_a_first_step_that_is_merely_slower_counts() -> None:
    trace = steps(118, 100, 100, 100)
    assert reasons(trace) == [None] * 4
    assert recorded(trace).typical_step_ns == 418 * US / 4


@pytest.mark.parametrize(
    ("call", "taken", "reason"),
    [
        ("cuModuleLoadData", 50, "loading"),
        ("cuModuleLoadData", 49, "unknown"),
        ("cudaMalloc", 50, "allocation"),
        ("cudaMalloc", 49, "unknown"),
    ],
)
def test_a_one_off_explains_a_step_if_it_is_half_of_the_excess(call: str, taken: int, reason: str) -> None:
    trace = steps(100, 200, 100, 100, 100)
    trace.launch(call, 110, taken)
    assert reasons(trace) == [None, reason, None, None, None]


def test_what_every_step_does_explains_no_single_one() -> None:
    trace = steps(100, 200, 100, 100, 100)
    for start in (0, 100, 300, 400, 500):
        trace.launch("cudaMalloc", start + 10, 50)
    assert reasons(trace) == [None, "unknown", None, None, None]


def communicating(*exposed: int, operators: tuple[int, ...] = ()) -> TraceBuilder:
    """Steps of 60 us of computation, and of a collective that runs on beside nothing; and more operators in some."""
    trace, start = TraceBuilder(), 0
    for number, length in enumerate(exposed):
        trace.step(number, start, 70 + length)
        trace.launch_kernel("gemm", start + 5, 60, at=start + 1, call_dur=1)
        trace.launch_kernel("ncclDevKernel_AllReduce", start + 35, 30 + length, at=start + 3, call_dur=1, stream=8)
        for _ in range(5 + (operators[number] if operators else 0)):
            trace.op("aten::mm", start + 20, 1)
        start += 70 + length
    return trace


def test_collectives_that_take_longer_explain_a_step() -> None:
    """Only the part counts that nothing hides: here 130 of the 160 us of the collective."""
    assert reasons(communicating(30, 30, 130, 30, 30)) == [None, None, "communication", None, None]
    assert reasons(communicating(130, 130, 30, 130, 130))[2] == "unknown", "a shorter step waits for nothing"
    assert reasons(communicating(30, 30, 130, 30, 30, operators=(0, 0, 5, 0, 0)))[2] == "other-phase"


def test_collectives_that_take_longer_in_steps_that_vary_by_them_are_no_exception() -> None:
    """A step of 110 us, others of 92 to 128: what is up to twice as far away is what waits for ranks take."""
    assert reasons(communicating(40, 22, 76, 40, 58)) == [None] * 5
    assert reasons(communicating(40, 22, 77, 40, 58)) == [None, None, "communication", None, None]


@pytest.mark.parametrize(("reduce", "reason"), [(3_000, "communication"), (100, "unknown")])
def test_collectives_of_the_cpu_that_take_longer_explain_a_step(reduce: int, reason: str) -> None:
    loop = GlooTraining()
    for number in range(5):
        with loop.host.annotation(f"ProfilerStep#{number}"):
            loop.forward()
            loop.backward([reduce if number == 2 else 100], dur=3_900 if number == 2 and reduce == 100 else 1_000)
    assert reasons(loop.finish()) == [None, None, reason, None, None]


def waiting(number: int, *at: int, first: int = 100) -> TraceBuilder:
    """Steps of 100 us, of which those at some positions wait for 100 us more for the loader, or step 0 for `first`."""
    waits = [(first if position == 0 else 100) if position in at else 0 for position in range(number)]
    trace = steps(*(100 + wait for wait in waits))
    for position in at:
        trace.annotation(LOADER, 100 * position + sum(waits[:position]) + 10, waits[position])
    return trace


@pytest.mark.parametrize("position", [0, 3])
def test_one_wait_for_the_loader_is_a_one_off(position: int) -> None:
    assert reasons(waiting(8, position))[position] == "loader"


def test_waits_for_the_loader_that_come_again_are_the_programs_usual_work() -> None:
    """Slow workers deliver in bursts: the median step waits for nothing, and the run waits all the time."""
    trace = waiting(9, 0, 4, 8)
    assert reasons(trace) == [None] * 9, "the first step waits no longer than the others"
    assert recorded(trace).typical_step_ns == (6 * 100 + 3 * 200) * US / 9
    assert reasons(waiting(9, 0, 4, 8, first=140)) == [None] * 9, "a fifth longer"
    assert reasons(waiting(9, 0, 4, 8, first=141)) == ["loader", *[None] * 8], "the workers start in it"


def test_a_first_step_with_work_from_before_is_left_out() -> None:
    trace = steps(100, 100, 100, 100)
    trace.kernel("earlier", 0, 6)
    # work from before pushes the start of the step to 6 us; 6 of 94 are more than a twentieth
    assert reasons(trace) == ["earlier-work", None, None, None]


def test_little_work_from_before_changes_no_step() -> None:
    trace = steps(100, 100, 100, 100)
    trace.kernel("earlier", 0, 4)
    assert reasons(trace) == [None] * 4


def test_where_no_launch_is_recorded_nothing_tells_work_from_before() -> None:
    trace = TraceBuilder()
    for number in range(4):
        trace.step(number, 100 * number, 100)
        trace.kernel("gemm", 100 * number + 5, 90)
    assert reasons(trace) == [None] * 4


def test_a_last_step_with_the_end_of_the_recording_is_left_out() -> None:
    assert reasons(steps(100, 100, 100, 100, tail={3: 10})) == [None, None, None, "recording-end"]
    assert reasons(steps(100, 100, 100, 100, tail={3: 9})) == [None] * 4
    assert reasons(steps(100, 100, 100, 100, tail={2: 40})) == [None] * 4, "the host's time within a recording"


def test_without_two_alike_all_steps_count() -> None:
    found = recorded(steps(100, 200, 400))
    assert [step.reason for step in found.steps] == ["unknown", None, "unknown"]
    assert [step.is_typical for step in found.steps] == [True] * 3
    assert found.all_steps_count
    assert found.typical_step_ns == pytest.approx(700 * US / 3)


def test_two_alike_make_a_typical_step() -> None:
    found = recorded(steps(200, 100, 100))
    assert [step.is_typical for step in found.steps] == [False, True, True]
    assert not found.all_steps_count
    assert found.typical_step_ns == 100 * US


def test_where_no_two_are_alike_only_one_time_events_leave_steps_out() -> None:
    trace = steps(140, 400, 100)
    trace.launch("cudaMalloc", 150, 280)
    found = recorded(trace)
    assert [step.reason for step in found.steps] == [None, "allocation", "unknown"]
    assert [step.is_typical for step in found.steps] == [True, False, True]
    assert not found.all_steps_count
    assert found.typical_step_ns == 120 * US


def test_two_steps_always_count() -> None:
    found = recorded(steps(100, 300))
    assert [step.is_typical for step in found.steps] == [True, True]
    assert found.typical_step_ns == 200 * US


def test_one_step_has_nothing_to_be_compared_with() -> None:
    found = recorded(steps(100))
    assert [(step.is_typical, step.reason) for step in found.steps] == [(True, None)]
    assert not found.all_steps_count


def test_a_prefill_among_decode_steps_is_another_phase() -> None:
    reasons_before = [None, "unknown", "unknown", "loading"]
    phases = ["decode", "prefill", "decode", "prefill"]
    assert left_out.of_phases(reasons_before, phases) == (None, "other-phase", "unknown", "loading")
    assert left_out.of_phases([None, "communication", None], ["decode", "prefill", "decode"])[1] == "other-phase"
    assert left_out.of_phases(["unknown", None], [None, None]) == ("unknown", None)


def trained(*, steps: int, after: int, operators: int = 1, optimizer: bool = False) -> TraceBuilder:
    """Marked training steps of 100 us with three operators and an optimizer, then a mark of `after` us."""
    trace = TraceBuilder(devices=())
    for number in range(steps):
        trace.step(number, 100 * number, 100)
        for call in range(3):
            trace.op("aten::addmm", 100 * number + 25 * call, 20)
        trace.annotation("Optimizer.step#SGD.step", 100 * number + 80, 10)
    trace.step(steps, 100 * steps, after)
    for call in range(operators):
        trace.op("aten::addmm", 100 * steps + 2 * call, 1)
    if optimizer:
        trace.annotation("Optimizer.step#SGD.step", 100 * steps + 8, 1)
    return trace


def test_a_recording_that_ends_in_a_step_does_not_make_it_one() -> None:
    """Programs that end, or that leave the profiler, within a step: of few steps the last is no half of the mean."""
    trace = trained(steps=1, after=20)
    assert reasons(trace) == [None, "recording-end"]
    assert recorded(trace).typical_step_ns == 100 * US
    assert reasons(trained(steps=4, after=49)) == [None] * 4 + ["recording-end"]


@pytest.mark.parametrize(
    "trace",
    [
        trained(steps=3, after=50),  # a shorter step
        trained(steps=3, after=20, operators=2),  # as much work, faster
        trained(steps=3, after=20, optimizer=True),  # a complete step of a small batch
    ],
)
def test_a_short_last_step_is_a_step(trace: TraceBuilder) -> None:
    assert reasons(trace) == [None] * 3 + ["unknown"]


def test_a_last_step_with_work_after_it_was_not_cut() -> None:
    trace = trained(steps=3, after=20)
    trace.op("aten::addmm", 400, 20)
    assert reasons(trace) == [None] * 3 + ["unknown"]


def test_a_step_that_only_waits_for_the_device_after_the_last_optimizer_step_is_none() -> None:
    """A loop without marks reads the loss in each turn: its last optimizer step only waits for what was launched."""
    trace = TraceBuilder()
    for number in range(5):
        start = 1000 * number
        for operator in range(10):
            trace.op("aten::mm", start + 10 * operator, 8)
            trace.launch_kernel("gemm", start + 98 * operator + 5, 98, at=start + 10 * operator + 2, call_dur=2)
        trace.annotation("Optimizer.step#SGD.step", start + 100, 20)
        trace.op("aten::add_", start + 105, 5)
        trace.op("aten::item", start + 125, 865)
        trace.launch("cudaStreamSynchronize", start + 130, 857)
    assert reasons(trace) == [None, None, None, None, "recording-end"]
    assert recorded(trace).typical_step_ns == 1000 * US


def test_what_a_device_does_after_the_last_optimizer_step_is_none_if_the_host_is_far_ahead() -> None:
    """All launches of four steps of 1000 us are made in 400; after the last update only 20 us are left."""
    trace = TraceBuilder()
    for number in range(4):
        trace.op("aten::mm", 100 * number, 20)
        trace.launch_kernel("gemm", 1000 * number + 10, 900, at=100 * number + 5)
        trace.annotation("Optimizer.step#SGD.step", 100 * number + 40, 20)
        trace.launch_kernel("multi_tensor_apply_kernel", 1000 * number + 920, 80, at=100 * number + 45)
    trace.launch_kernel("reduce_kernel", 4000, 20, at=390)
    trace.launch("cudaDeviceSynchronize", 400, 3625)
    assert reasons(trace) == [None, None, None, "recording-end"]


def test_after_the_last_optimizer_step_no_step_ends() -> None:
    trace = TraceBuilder(devices=())
    for number in range(3):
        trace.annotation("Optimizer.step#SGD.step", 100 * number, 10)
        trace.op("aten::add_", 100 * number + 1, 5)
        if number < 2:
            for call in range(3):
                trace.op("aten::addmm", 100 * number + 20 + 25 * call, 20)
    assert reasons(trace) == [None, None, "recording-end"]
    assert recorded(trace).typical_step_ns == 100 * US


@pytest.mark.parametrize(("more", "reason"), [(10, "other-phase"), (9, "unknown")])
def test_a_step_with_more_operators_does_other_work(more: int, reason: str) -> None:
    """Four steps of 100 us call ten operators; one takes three times as long, half of which twice as many explain."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(5):
        length, calls = (300, 10 + more) if number == 2 else (100, 10)
        trace.step(number, at, length)
        for call in range(calls):
            trace.op("aten::linear", at + 5 * call, 4)
        at += length
    assert reasons(trace) == [None, None, reason, None, None]


def phases(*trains: bool, evaluation: int = 100) -> TraceBuilder:
    """Steps that a loader begins; those that train take 100 us and have a backward pass, others `evaluation` us."""
    trace, start = TraceBuilder(), 0
    for is_training in trains:
        length = 100 if is_training else evaluation
        trace.annotation(LOADER, start, 10)
        trace.op("aten::mm", start + 12, 20)
        trace.launch_kernel("gemm", start + 20, length - 20, at=start + 14, call_dur=2)
        if is_training:
            trace.op("autograd::engine::evaluate_function: MmBackward0", start + 40, 20, tid=4202)
        start += length
    trace.op("aten::zeros", start, 1)
    return trace


@pytest.mark.parametrize(
    ("trains", "evaluation", "left_out"),
    [
        ([True] * 4 + [False] * 6, 100, [True] * 4 + [False] * 6),
        ([True] * 6 + [False] * 4, 100, [False] * 6 + [True] * 4),
        ([True] * 6 + [False] * 4, 200, [True] * 6 + [False] * 4),
        ([False] * 3 + [True] * 4 + [False] * 3, 100, [False] * 3 + [True] * 4 + [False] * 3),
        ([True] * 6 + [False] * 2, 100, [False] * 8),
        ([True, True, False] * 4, 100, [False] * 12),
    ],
    ids=["evaluation", "training", "longer", "twice", "few", "in turn"],
)
def test_of_a_training_and_an_evaluation_one_is_left_out(
    trains: list[bool], evaluation: int, left_out: list[bool]
) -> None:
    found = reasons(phases(*trains, evaluation=evaluation))
    assert [reason == "other-phase" for reason in found] == left_out
    assert {reason for reason in found if reason} <= {"other-phase"}


def test_the_last_call_of_a_loader_that_only_ends_an_epoch_begins_no_step() -> None:
    trace = TraceBuilder(devices=())
    for number in range(6):
        trace.annotation(LOADER, 10_000 * number, 300)
        if number < 5:
            for call in range(12):
                trace.op("aten::mm", 10_000 * number + 400 + 800 * call, 700)
    found = recorded(trace)
    assert found.steps_from == "enumerate(DataLoader)"
    assert [step.reason for step in found.steps] == [None] * 5


def in_epochs(*, epochs: int, batches: int, restart: int) -> TraceBuilder:
    """Iterations of 10 ms; after each epoch a call ends its workers for 20 ms, and others start."""
    trace, at = TraceBuilder(devices=()), 0
    for _ in range(epochs):
        for batch in range(batches):
            wait = 15_000 if restart and not batch else 300
            trace.annotation(LOADER, at, wait)
            for call in range(12):
                trace.op("aten::mm", at + wait + 100 + 800 * call, 700)
            at += wait + 9_700
        trace.annotation(LOADER, at, 20_000 if restart else 50)
        trace.op("aten::random_", at + 20_100, 20)  # the seed of the next workers
        at += 20_200 + restart
    return trace


@pytest.mark.parametrize("restart", [60_000, 0])
def test_calls_of_a_loader_that_end_epochs_begin_no_steps(restart: int) -> None:
    found = recorded(in_epochs(epochs=4, batches=5, restart=restart))
    assert len(found.steps) == 20
    first_of_epochs = [step for number, step in enumerate(found.steps) if not number % 5]
    assert {step.reason for step in first_of_epochs} == {"loader" if restart else None}
    assert found.typical_step_ns == 10_000 * US


def test_a_loader_that_is_only_read_has_steps() -> None:
    trace = TraceBuilder(devices=())
    trace.op("aten::zeros", 0, 1)
    for number in range(8):
        trace.annotation(LOADER, 1_000 * number, 900)
    assert len(recorded(trace).steps) == 7


@pytest.mark.parametrize(("stalled", "left_out"), [((4, 7), [4, 7]), ((1, 3, 5, 7, 9), [])], ids=["few", "often"])
def test_a_few_stalls_are_no_part_of_steps_that_vary(stalled: tuple[int, ...], left_out: list[int]) -> None:
    """Half of the steps take 1.0 ms and half of them 1.8 ms; the system stops some of them for 40 ms more."""
    found = recorded(steps(*(1_000 + 800 * (number % 2) + 40_000 * (number in stalled) for number in range(12))))
    assert [number for number, step in enumerate(found.steps) if step.reason] == left_out
    assert found.typical_step_ns == (1_400 * US if left_out else pytest.approx(18_067 * US, rel=0.001))
