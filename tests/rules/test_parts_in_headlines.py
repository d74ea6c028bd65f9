"""The part of a step that a finding is about, in the sentence about what bounds the step."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
from tests.builders.training import Training
from tests.rules.communication.test_comm_exposed import ddp
from tests.rules.judging import report
from tests.rules.kernels.test_attention_unfused import attention, fires_in_a_table, model
from tests.rules.kernels.test_conv_layout_transposes import fires as converts
from tests.rules.loader import test_preprocessing_in_step as preprocessing
from tests.rules.operators import test_recurrent_cell_loop as recurrent
from tests.rules.optimizer import test_work_beside_training as beside_training
from tests.rules.waits import test_sync_item_frequent as values
from traceanalyzer.rules.engine.headlines.step_bound import is_short


def sentence(situation: object) -> str:
    (found,) = report(situation).headlines  # type: ignore[arg-type]
    assert is_short(found.message)
    return found.message.text


def test_a_part_of_the_gpus_work_is_named_beside_its_kind() -> None:
    assert sentence(model(attention(16, 2048, 2048, 64))).endswith(
        "mostly matrix multiplications, 3.6 of the 5.6 ms of each step; unfused attention 4.0 ms."
    )
    assert sentence(converts()).endswith("; layout conversions 2.0 ms.")


@pytest.mark.parametrize(("comm", "end"), [(1300, "; exposed communication 1.3 ms."), (800, "of each step.")])
def test_a_part_counts_from_a_share_of_the_step_on(comm: int, end: str) -> None:
    """Beside 6 ms of products: 18 % of the step, and 12 %."""
    assert sentence(ddp(overlap=0, comm=comm)).endswith(end)


def test_communication_that_computation_hides_is_not_counted() -> None:
    assert sentence(ddp(overlap=1000, comm=2400)).endswith("; exposed communication 1.4 ms.")


def test_on_a_cpu_a_part_replaces_an_operator_that_takes_no_longer() -> None:
    assert sentence(beside_training.fires_on_a_checkpoint()).startswith("Limited by the CPU: mostly a checkpoint, ")
    assert sentence(beside_training.fires_on_a_copy()).startswith("Limited by the CPU: above all a deep copy of the")
    assert sentence(recurrent.fires()).startswith("Limited by the CPU: mostly a Python loop over time, ")


def test_on_a_cpu_a_part_that_is_most_of_a_step_replaces_the_kind_of_its_arithmetic() -> None:
    assert sentence(beside_training.fires()).startswith("Limited by the CPU: mostly a validation without gradients, ")
    assert sentence(values.fires_on_statistics()).startswith("Limited by the CPU: mostly statistics with aten::")
    assert sentence(preprocessing.fires_on_a_cpu()).endswith("of each step; preparing inputs 1.0 ms.")


def test_a_part_for_which_the_gpu_waits_replaces_python_code() -> None:
    idles = "so the GPU idles 2.3 of the 4.3 ms."
    assert sentence(preprocessing.fires()) == f"Limited by the CPU: preparing inputs takes 2.3 ms, {idles}"
    assert "preparing inputs" not in sentence(preprocessing.fires_in_a_pipeline())
    assert "CPU: reading single values takes " in sentence(values.one_by_one(60, kernel=1, think=100))


def augmenting(images: int, *, layer: str = "aten::grid_sampler", closure: bool = False) -> TraceBuilder:
    """Three steps, in each of which a loop over images draws numbers, reads them and warps; then come two products.

    With a closure the optimizer calls the program, as Lightning does.
    """
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(3):
        around = thread.annotation("Optimizer.step#SGD.step") if closure else nullcontext()
        with thread.annotation(f"ProfilerStep#{number}"), around:
            for _ in range(images):
                for name in ("aten::rand", "aten::affine_grid_generator", layer, "aten::mul", "aten::clamp"):
                    with thread.op(name, 10):
                        thread.launch(Work("elementwise_kernel", 3), stream)
            for _ in range(2):
                with thread.op("aten::mm", 10, sequence=number):
                    thread.launch(Work("ampere_sgemm_128x64_nn", 300), stream)
            if closure:
                thread.leaf("autograd::engine::evaluate_function: MmBackward0", 50, sequence=number, fwd_thread=1)
            thread.wait(stream)
    return finish(trace)


@pytest.mark.parametrize("closure", [False, True])
def test_a_loop_of_small_operators_is_named_by_them(closure: bool) -> None:
    (found,) = report(augmenting(60, closure=closure)).headlines
    assert found.bound == "host"
    assert "of each step a loop runs the same 5 operators 60 times, among them `aten::rand`, `aten::aff" in found.text


def test_few_turns_and_layers_of_a_model_are_no_loop() -> None:
    assert "a loop runs" not in report(augmenting(8)).headlines[0].text
    assert "a loop runs" not in report(augmenting(60, layer="aten::linear")).headlines[0].text


def test_a_printed_table_keeps_its_sentence() -> None:
    assert "unfused attention" not in sentence(fires_in_a_table())


def on_cpu(*parts: tuple[str, dict[str, int]], around: str = "train_step") -> TraceBuilder:
    """Four steps on a CPU in a mark around marks of these names, with operators and their time in us."""
    trace = TraceBuilder(devices=())
    thread = Host(trace, at=10)
    for number in range(4):
        with thread.annotation(f"ProfilerStep#{number}", 0, 0), thread.annotation(around, 0, 0):
            for name, operators in parts:
                with thread.annotation(name, 0, 0):
                    for operator, time in operators.items():
                        thread.leaf(f"aten::{operator}", time)
    return finish(trace)


def test_on_a_cpu_the_part_of_the_program_in_which_a_kind_of_work_is_is_named() -> None:
    student = "student", {"mkldnn_convolution": 100, "convolution_backward": 100}
    told = sentence(on_cpu(("teacher", {"mkldnn_convolution": 700, "batch_norm": 100}), student))
    assert told.startswith("Limited by the CPU: mostly convolutions, 0.90 of the 1.0 ms of each step, mostly in `teach")


def test_a_part_that_may_not_have_most_of_a_kind_of_work_has_its_own_time() -> None:
    """Of 500 us of convolutions only 150 are in the part with 600 of 1000 us."""
    teacher = "teacher", {"mkldnn_convolution": 150, "sort": 250, "cumsum": 200}
    told = sentence(on_cpu(teacher, ("student", {"mkldnn_convolution": 350, "mm": 50})))
    assert told == "Limited by the CPU: mostly convolutions, 0.50 of the 1.0 ms of each step; `teacher` 600 us."


def test_a_part_of_many_kinds_of_work_is_named_with_its_longest_operator() -> None:
    mlp, encode = ("mlp", {"addmm": 320, "clamp_min": 280}), ("encode", {"sin": 180, "sort": 220})
    told = sentence(on_cpu(mlp, encode))
    assert (
        told == "Limited by the CPU, mostly in `mlp`: 0.60 of the 1.0 ms of each step, longest in aten::addmm (320 us)."
    )
    scattered = {f"operator_{number}": 60 for number in range(10)}
    assert sentence(on_cpu(("mlp", scattered), encode)).endswith("in `mlp`: 0.60 of the 1.0 ms of each step.")
    assert "`mlp`" not in sentence(on_cpu(("mlp", {"addmm": 260, "clamp_min": 260}), ("encode", {"sin": 480})))


@pytest.mark.parametrize("name", ["train_step", "forward", "fwd_bwd_pass", "TrainingLoop", "Optimizer.step#SGD.step"])
def test_names_that_are_in_any_program_are_no_part_of_it(name: str) -> None:
    mlp, rest = {"addmm": 320, "clamp_min": 280}, ("encode", {"sin": 180, "sort": 220})
    assert f"mostly in `{name}`" not in sentence(on_cpu((name, mlp), rest))


def test_what_has_all_of_a_step_is_no_part_of_it() -> None:
    work = ("mlp", {"addmm": 520}), ("encode", {"sin": 480})
    assert "`render`" not in sentence(on_cpu(*work, around="render"))


def on_gpu(first: int, second: int, *, norm: int = 0) -> TraceBuilder:
    """Four steps with convolutions of so many us in the marks `D` and `G`, and a normalization in the latter."""
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(4):
        with thread.annotation(f"ProfilerStep#{number}"):
            for name, times in (("D", (first, 0)), ("G", (second, norm))):
                with thread.annotation(name):
                    for kernel, time in zip(("implicit_convolve_sgemm", "batch_norm_kernel"), times, strict=True):
                        if time:
                            with thread.op("aten::conv2d"):
                                thread.launch(Work(kernel, time), stream)
            thread.wait(stream)
    return finish(trace)


def test_the_part_that_launches_most_of_the_gpus_work_is_named() -> None:
    told = sentence(on_gpu(8000, 1800))
    assert told == "Limited by GPU compute: mostly convolutions, all 9.8 ms of each step, mostly in `D`."
    assert "`D`" not in sentence(on_gpu(5000, 4800))


def test_the_part_has_its_own_time_where_others_may_have_the_work() -> None:
    told = sentence(on_gpu(3400, 2000, norm=3400))
    assert told.endswith("of each step; `G` 5.4 ms.")


def distilled(*, teacher: int) -> TraceBuilder:
    """Four steps on a CPU with stacks in which two models run and one function differentiates both."""
    loop = Training(trace=TraceBuilder(devices=()), gpu=False)
    for _ in range(4):
        with loop.iteration(), loop.host.frame("train.py(9): distil"):
            numbers = []
            for module, (name, dur) in enumerate((("Teacher", teacher), ("Student", 40))):
                with (
                    loop.host.frame(f"nn.Module: {name}_0", module),
                    loop.host.frame(f"nets.py({module + 1}): forward"),
                ):
                    numbers += loop.forward(dur=dur)
            loop.backward(numbers)
    return loop.finish()


def test_a_model_beside_another_one_counts_with_its_backward_pass() -> None:
    assert sentence(distilled(teacher=800)).endswith(", mostly in `Teacher`.")
    assert "`Teacher`" not in sentence(distilled(teacher=20))


def federated(*, batches: int) -> TraceBuilder:
    """Three clients, each of which trains on three batches of 1.5 ms and is evaluated on some batches of 6 ms."""
    loop = Training()
    thread = loop.host
    for _ in range(3):
        with thread.frame("fed.py(96): run_round"):
            with thread.frame("fed.py(34): local_train"):
                for _ in range(3):
                    thread.leaf("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20)
                    loop.backward(loop.forward(dur=300))
                    loop.step(launches=3)
                    thread.wait(loop.stream)
            with thread.frame("fed.py(58): evaluate"):
                for _ in range(batches):
                    thread.leaf("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 20)
                    loop.forward(dur=2000, grad=False)
                    thread.wait(loop.stream)
    return loop.finish()


def test_an_evaluation_that_takes_most_of_a_training_is_named_with_its_part_of_the_trace() -> None:
    (found,) = report(federated(batches=4)).headlines
    assert found.message.text.endswith(" ms of each step of `evaluate`.")
    assert found.qualifier is not None
    assert found.qualifier.text.startswith("`evaluate` takes 7")


def test_a_function_whose_file_has_no_room_is_named_without_it() -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(4):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.frame("models/pointnet2_utils.py(63): farthest_point_sample"):
                for _ in range(300):
                    with thread.op("aten::min", 20):
                        thread.launch(Work("elementwise_kernel", 3), stream)
            with thread.op("aten::mm", 10):
                thread.launch(Work("ampere_sgemm_128x64_nn", 300), stream)
            thread.wait(stream)
    assert sentence(finish(trace)).startswith(
        "Limited by the CPU in `farthest_point_sample`: it launches kernels too sl"
    )


def test_an_operator_that_computes_on_the_cpu_is_named_where_marks_have_little_of_the_idle_time() -> None:
    trace = TraceBuilder()
    thread, stream = Host(trace, at=10), Stream()
    for number in range(4):
        with thread.annotation(f"ProfilerStep#{number}"):
            with thread.annotation("Optimizer.step#SGD.step", 20), thread.op("aten::mm", 10):
                thread.launch(Work("ampere_sgemm_128x64_nn", 500), stream)
            thread.wait(stream)
            thread.leaf("aten::stack", 3000)
    assert sentence(finish(trace)).startswith(
        "Limited by the CPU in `aten::stack`: operators compute on it, so the GPU"
    )
