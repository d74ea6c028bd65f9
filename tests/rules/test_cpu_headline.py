"""What takes most of a step without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

import traceanalyzer
from tests.builders import TraceBuilder
from tests.builders.gloo import GlooTraining
from tests.builders.timeline import Host, finish
from tests.builders.training import Training
from tests.rules.host import test_host_waits_or_logs as host_waits_or_logs
from tests.rules.judging import findings, report, said, table


def test_without_a_gpu_the_operators_are_named() -> None:
    trace = TraceBuilder(devices=())
    trace.step(0, 0, 1000)
    trace.op("aten::mkldnn_convolution", 10, 800)
    trace.op("aten::add", 820, 50)
    (found,) = report(trace).headlines
    assert found.bound == "host"
    assert "What takes most of it: aten::mkldnn_convolution 800 us." in found.text


def test_the_operators_that_are_named_are_those_of_typical_steps() -> None:
    """Two of six steps load code for 50 ms; the others take 900 us."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(6):
        own = 50_000 if number < 2 else 800
        trace.step(number, at, own + 100)
        trace.op("aten::mkldnn_convolution", at + 10, own)
        at += own + 100
    assert "takes most of it: aten::mkldnn_convolution 800 us." in said(trace)


def test_an_optimizer_is_named_instead_of_its_arithmetic() -> None:
    trace = TraceBuilder(devices=())
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.op("aten::addmm", at + 10, 150)
        trace.annotation("Optimizer.step#Adam.step", at + 200, 700)
        for call in range(4):
            trace.op("aten::sqrt", at + 210 + 170 * call, 160)
    assert "What takes most of it: Optimizer.step#Adam.step 700 us." in said(trace)


def test_a_program_that_sleeps_is_not_called_slow() -> None:
    (told,) = report(host_waits_or_logs.fires_in_a_function()).headlines
    assert told.bound == "host"
    assert "is asleep, or waits for a lock, a process, a file or the network" in told.text
    (untold,) = report(host_waits_or_logs.fires_where_it_only_prints()).headlines
    assert untold.bound == "host"
    assert "asleep" not in untold.text


def test_an_optimizer_with_a_closure_is_not_what_takes_most() -> None:
    """The closure computes the loss: its arithmetic is named, and no rule calls the optimizer expensive."""
    loop = Training(gpu=False)
    for _ in range(3):
        with loop.iteration(), loop.host.annotation("Optimizer.step#LBFGS.step"):
            loop.backward(loop.forward(dur=1000))
    trace = loop.finish()
    assert "takes most of it: Optimizer" not in said(trace)
    assert findings(trace, "optimizer-expensive") == []


def differentiated(*, again: int, checkpoint: bool = False) -> TraceBuilder:
    """Three steps on a CPU: a forward pass of 1 ms, its backward pass of 4, and that of the latter for some us.

    The functions of the second pass are those that operators within the first one created; so are those of checkpoints,
    which compute a part of the forward pass again and differentiate it.
    """
    name = "CheckpointFunctionBackward" if checkpoint else "TanhBackward0"
    trace, at, number = TraceBuilder(devices=()), 0, 100
    evaluation = "autograd::engine::evaluate_function: "
    for step in range(3):
        trace.step(step, at, 5100 + again)
        trace.op("aten::tanh", at, 1000, sequence=number)
        trace.op(f"{evaluation}{name}", at + 1000, 4000, sequence=number, fwd_thread=1)
        trace.op("aten::mul", at + 1010, 2000, sequence=number + 1)
        trace.op("aten::mm", at + 3010, 1900, sequence=number + 2)
        trace.op(f"{evaluation}TanhBackwardBackward0", at + 5000, again, sequence=number + 1, fwd_thread=1)
        trace.op("aten::mul", at + 5010, again // 2, sequence=number + 3)
        trace.annotation("Optimizer.step#Adam.step", at + 5010 + again, 50)
        at, number = at + 5100 + again, number + 4
    return trace


def test_gradients_of_gradients_are_named_before_their_arithmetic() -> None:
    assert said(differentiated(again=8000)).startswith(
        "Limited by the CPU: mostly gradients of gradients (create_graph=True), 8.0 of the 13.1 ms of each step."
    )
    assert "gradients of gradients" not in said(differentiated(again=1000))
    assert "gradients of gradients" not in said(differentiated(again=8000, checkpoint=True))


def decoding(*, grows: bool = True, reorder: str = "aten::index_select") -> TraceBuilder:
    """Six tokens on a CPU: keys are appended to a cache for 300 us, beams reordered for 300, a layer takes 350."""
    trace = TraceBuilder(devices=(), options=("record_shapes",))
    for token in range(6):
        at, length = 1000 * token, 160 + token * grows
        trace.step(token, at, 1000)
        trace.op("aten::cat", at + 10, 300, shapes=[[[20, 8, length, 32], [20, 8, 1, 32]], []])
        trace.op("aten::addmm", at + 310, 350, shapes=[[1024], [20, 256], [256, 1024], [], []])
        trace.op(reorder, at + 670, 300, shapes=[[20, 8, length + 1, 32], [], [20]])
    return trace


def test_copies_of_a_cache_of_keys_are_named_together() -> None:
    assert said(decoding()).startswith(
        "Limited by the CPU: mostly copying the cache of keys and values, 0.60 of the 1.0 ms of each step."
    )
    assert "the cache" not in said(decoding(grows=False)), "one length is no cache that grows"
    assert "the cache" not in said(decoding(reorder="aten::softmax")), "alone, appending takes less than the model"


def test_code_outside_of_operators_is_named() -> None:
    """A tokenizer in Python takes 700 of 1000 us; a fifth of the step is not worth telling."""

    def told(operator: int) -> str:
        trace = TraceBuilder(devices=())
        for number in range(3):
            trace.step(number, 1000 * number, 1000)
            trace.op("aten::embedding_bag", 1000 * number, operator)
        return said(trace)

    assert "takes most of it: code in no operator 700 us, aten::embedding_bag 300 us." in told(300)
    assert "takes most of it: aten::embedding_bag 801 us." in told(801)


def test_code_in_no_operator_is_named_before_an_operator_that_takes_less() -> None:
    trace = TraceBuilder(devices=())
    for number in range(3):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::mm", 1000 * number, 160)
        for other in range(13):
            trace.op(f"aten::op{other}", 1000 * number + 160 + 50 * other, 50)
    assert "takes most of it: code in no operator 190 us, aten::mm 160 us." in said(trace)


def test_in_a_table_the_step_itself_is_no_operator() -> None:
    rows = [
        {"Name": "ProfilerStep*", "Self CPU": "600.000ms", "CPU total": "1.000s", "# of Calls": 10},
        {"Name": "aten::mm", "Self CPU": "400.000ms", "CPU total": "400.000ms", "# of Calls": 10},
    ]
    assert "takes most of it: code in no operator 60 ms, aten::mm 40 ms." in said(table(rows, cpu="1.000s"))


def test_waiting_for_collectives_is_no_code() -> None:
    """Of each step of 1.6 ms, gloo communicates for 500 us while no operator runs."""
    training = GlooTraining()
    for number in range(3):
        with training.host.annotation(f"ProfilerStep#{number}"):
            training.forward(500)
            training.backward([500], dur=500)
    told = said(training.finish())
    assert "Limited by the CPU" in told
    assert "code in no operator" not in told


def test_a_file_that_is_cut_off_says_so_first_and_blames_nothing_that_may_be_in_the_rest(tmp_path: Path) -> None:
    trace = TraceBuilder(options=("record_shapes",))
    for number in range(4):
        trace.step(number, 1000 * number, 1000)
        trace.op("aten::cudnn_convolution", 1000 * number + 10, 900)
    for number in range(4):
        trace.launch_kernel("gemm", 1000 * number + 40, 600, at=1000 * number + 20)
    file = tmp_path / "trace.json"
    trace.write(file)
    whole = file.read_bytes()
    file.write_bytes(whole[: whole.index(b"cudaLaunchKernel")])
    made = traceanalyzer.analyze(traceanalyzer.load(file))
    assert made.headlines[0].text == (
        "Cut off: No verdict: the part of the file that could be read has no GPU events. The file is cut off: only its "
        "first 8 events could be read."
    )
    assert {"q-gpu-not-recorded", "q-no-gpu-events"}.isdisjoint(found.id for found in made.warnings)
    file.write_bytes(whole)
    assert "cut off" not in traceanalyzer.analyze(traceanalyzer.load(file)).headlines[0].text.lower()


def _tiny(operators: int, each: int, *, steps: int = 3, marked: bool = True) -> TraceBuilder:
    """A program that calls many operators of some microseconds, with as much time between them."""
    trace, at = TraceBuilder(devices=()), 0
    for number in range(steps):
        if marked:
            trace.step(number, at, 2 * each * operators)
        for call in range(operators):
            trace.op(f"aten::{('add', 'mul', 'sub', 'div', 'neg')[call % 5]}", at, each)
            at += 2 * each
    return trace


def test_many_tiny_operators_are_named_as_what_takes_time() -> None:
    """A small network on small batches: 200 operators of 3 us with 3 us between them."""
    assert "it calls 200 tiny operators for 0.60 of the 1.2 ms of each step, one every 3.0 us." in said(_tiny(200, 3))
    assert "tiny operators" not in said(_tiny(200, 30))
    assert "tiny operators" not in said(_tiny(20, 3))


@pytest.mark.parametrize(
    ("length", "begin"),
    [
        (700, "Limited by the CPU, mostly in `sample`: 200 tiny operators for 0.60 of the 1.2 ms of each step"),
        (500, "Limited by the CPU: it calls 200 tiny operators"),
        (1200, "Limited by the CPU: it calls 200 tiny operators"),
    ],
)
def test_the_part_of_the_program_that_calls_most_tiny_operators_is_named(length: int, begin: str) -> None:
    """A mark around less than half of the time does not say where it is, nor does one around all of it."""
    trace = _tiny(200, 3)
    for number in range(3):
        trace.annotation("sample", 1200 * number, length)
    assert said(trace).startswith(begin)


def test_tiny_operators_are_not_the_limit_of_a_step_that_mostly_pauses() -> None:
    """A ray sensor in Python takes 1 ms beside 200 operators of 3 us."""

    def of(pause: int) -> str:
        trace = TraceBuilder(devices=())
        for step in range(3):
            at = step * 4000
            trace.step(step, at, 600 + pause)
            for number in range(200):
                trace.op(f"aten::{('add', 'mul', 'sub', 'div', 'neg')[number % 5]}", at + 3 * number, 3)
        return said(trace)

    assert "tiny operators" in of(400)
    assert "longest outside of operators (1.0 ms)" in of(1000)


def test_operators_are_not_tiny_where_others_compute_for_much_of_the_step() -> None:
    """Beside 200 operators of 3 us a step has ten of 60 us each, of several kinds: a quarter of its time."""

    def of(each: int) -> str:
        trace, at = TraceBuilder(devices=()), 0
        for number in range(3):
            trace.step(number, at, 1200 + 20 * each)
            for call in range(210):
                short = ("add", "mul", "sub", "div", "neg")[call % 5], 3
                kind, time = short if call % 21 else (f"conv{call % 2}", each)
                trace.op(f"aten::{kind}", at, time)
                at += 2 * time
        return said(trace)

    assert "tiny operators" in of(3)
    assert "tiny operators" not in of(60)


def test_a_recording_without_steps_has_no_each_step() -> None:
    """One pass without marks is the recording; three marked ones are steps."""
    assert "Limited by the CPU for all 1.2 ms of the trace, " in said(_tiny(20, 30, steps=1, marked=False))
    assert "Limited by the CPU for all 1.2 ms of each step, " in said(_tiny(20, 30))


def test_marks_are_named_instead_of_code_in_no_operator() -> None:
    """Somebody marked the tokenizer, which calls no operator for 700 of 1000 us."""
    trace = TraceBuilder(devices=())
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.annotation("tokenize", at, 700)
        trace.annotation("classify", at + 700, 300)
        trace.op("aten::embedding_bag", at + 710, 280)
    assert "takes most of it: tokenize 700 us, classify 300 us." in said(trace)


def test_a_gpu_in_the_header_of_a_program_on_the_cpu_is_named() -> None:
    """Only the CPU was recorded, on a machine with a GPU: convolutions of MKL show where they ran."""
    for devices, is_there in ((TraceBuilder(), True), (TraceBuilder(devices=()), False)):
        devices.step(0, 0, 1000)
        devices.op("aten::mkldnn_convolution", 10, 800)
        assert ("The machine has a GPU (" in said(devices)) is is_there


def test_a_shorter_step_is_not_what_lies_outside() -> None:
    """Two steps of 10 ms among six of 20 ms, which are no phase; a longer one is told."""

    def of(first: int) -> str:
        trace, at = TraceBuilder(devices=()), 0
        for number, own in enumerate((first, 20_000, 20_000, first, 20_000)):
            trace.step(number, at, own)
            trace.op("aten::mm", at, own - 100)
            at += own
        return said(trace)

    assert "Not counted" not in of(13_000)
    assert "Not counted, outside of the typical steps: 90 ms in 2 steps unlike the others" in of(45_000)


def test_long_pauses_without_a_name_are_not_the_programs_work() -> None:
    """A server computes for 0.5 ms on a request, and nothing is recorded for 20 ms until the next."""
    trace = TraceBuilder(devices=())
    for number in range(8):
        trace.op("aten::linear", 20_500 * number + 11 * number * number, 500)
    text = said(trace)
    assert text.startswith("The trace does not show what takes 14")
    assert "Limited by the CPU" not in text


def test_a_loader_that_takes_nearly_half_of_a_step_bounds_it() -> None:
    def bound(loading: int) -> str:
        trace = TraceBuilder(devices=())
        for number in range(4):
            trace.step(number, 1000 * number, 1000)
            trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000 * number, loading)
            trace.op("aten::mm", 1000 * number + loading, 1000 - loading)
        (found,) = report(trace).headlines
        return found.bound

    assert (bound(390), bound(410)) == ("host", "input")


def test_operators_are_also_told_with_what_they_call() -> None:
    """A sort of indices copies and sorts: each of them is less than what the program called."""
    trace = TraceBuilder(devices=())
    for number in range(3):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.op("aten::argsort", at, 900)
        trace.op("aten::sort", at + 1, 500)
        trace.op("aten::copy_", at + 510, 380)
    assert "With what they call: aten::argsort 900 us." in said(trace)


def _only_cpu_recorded(read: int) -> TraceBuilder:
    """Steps of 1 ms with an operator of cuDNN, without any call of its runtime; the loss is read once."""
    trace = TraceBuilder()
    for number in range(4):
        at = 1000 * number
        trace.step(number, at, 1000)
        trace.op("aten::cudnn_convolution", at + 10, 100)
        trace.op("aten::item", at + 300, read)
        trace.op("aten::_local_scalar_dense", at + 301, read - 2)
    return trace


def test_a_gpu_that_was_not_recorded_is_said_with_the_waits_for_it() -> None:
    assert said(_only_cpu_recorded(600)) == (
        "The GPU was not recorded: the CPU waits for it 0.60 of the 1.0 ms of each step, mostly in `aten::item`. "
        "Kernels were not recorded: add ProfilerActivity.CUDA."
    )
    assert said(_only_cpu_recorded(20)) == (
        "No verdict: `aten::cudnn_convolution` shows that a GPU works, but the GPU was not recorded. Kernels were not "
        "recorded: add ProfilerActivity.CUDA."
    )


def test_copies_wait_for_a_gpu_that_was_not_recorded_where_they_take_long() -> None:
    def told(copy: int) -> str:
        trace = _only_cpu_recorded(20)
        for number in range(4):
            trace.op("aten::copy_", 1000 * number + 400, copy)
        return said(trace)

    assert "the CPU waits for it 0.57 of the 1.0 ms of each step, mostly in `aten::copy_`." in told(550)
    assert told(190).startswith("No verdict: ")


def test_two_marks_that_take_turns_are_one_iteration() -> None:
    """K-means: 12 iterations of 3.3 ms in `assign` and 0.9 ms in `update_centers`, over other numbers of rows."""
    trace, at = TraceBuilder(devices=(), options=("record_shapes",)), 0
    for number in range(12):
        trace.annotation("assign", at, 3300)
        trace.op("aten::cdist", at, 3000, shapes=[[1000, 2], [10, 2]])
        trace.op("aten::argmin", at + 3000, 300, shapes=[[1000, 10]])
        trace.annotation("update_centers", at + 3300, 900)
        for center in range(5):
            trace.op("aten::mean", at + 3300 + 180 * center, 180, shapes=[[100 + 7 * number + center, 2]])
        at += 4200
    told = said(trace)
    assert told.startswith(
        "Limited by the CPU, mostly in `assign`: 3.3 of the 4.2 ms of each step, longest in aten::cdist"
    )
    assert "Not counted" not in told


def test_collectives_that_take_longer_than_the_operator_are_named() -> None:
    """Of each step of 1.6 ms, 500 us are collectives alone; the longest operator takes 300 us."""
    training = GlooTraining()
    for number in range(3):
        with training.host.annotation(f"ProfilerStep#{number}"):
            for name in ("aten::mul", "aten::fill_", "aten::copy_", "aten::index"):
                training.host.leaf(name, 250)
            training.backward([500], dur=100)
    assert "and by communication for 500 us." in said(training.finish())


def test_a_stalled_operator_is_no_long_one() -> None:
    """In each step one of 600 tiny operators stalls for 5 ms: what takes time is calling them."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(6):
        with host.annotation(f"ProfilerStep#{number}"):
            for turn in range(600):
                name = ("aten::view", "aten::empty", "aten::mul")[turn % 3]
                host.leaf(name, 5_000 if turn == 300 + number % 2 else 5)
                host.work(10)
    assert "tiny operators" in said(finish(trace))


def test_code_around_parts_of_a_broken_graph_is_told_as_such() -> None:
    """Three parts of compiled code of 100 us each, and 200 us around each."""
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            host.work(200)
            with host.op("Torch-Compiled Region: 0/0", 100, 5):
                host.leaf("aten::mm", 50)
                with host.op("Torch-Compiled Region: 1/0", 100, 5):
                    host.leaf("aten::mm", 50)
            host.work(400)
    assert "around 2 parts of compiled code" in said(finish(trace))
