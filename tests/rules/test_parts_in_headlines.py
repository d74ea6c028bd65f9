"""The part of a step that a finding is about, in the sentence about what bounds the step."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, Stream, Work, finish
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
