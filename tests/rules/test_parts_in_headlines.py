"""The part of a step that a finding is about, in the sentence about what bounds the step."""

from __future__ import annotations

import pytest

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


def test_a_printed_table_keeps_its_sentence() -> None:
    assert "unfused attention" not in sentence(fires_in_a_table())
