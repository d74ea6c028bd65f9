"""Tests of the rule `autograd-in-inference`: numbers worked out by hand, and edges of thresholds.

The programs: inference with and without gradients.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.timeline import Host, finish
from tests.builders.training import Training
from tests.rules.host_work import compute, read_value
from tests.rules.judging import findings, skipped, table

MODEL = ("Net_0", 0)


def inference(passes: int, *, grad: bool, modules: bool = True, steps: int = 1) -> TraceBuilder:
    """Forward passes without a backward pass."""
    loop = Training()
    for _ in range(steps):
        with loop.iteration():
            for _ in range(passes):
                loop.forward(root=MODEL if modules else None, grad=grad)
            if grad:
                loop.host.leaf("aten::argmax", sequence=loop.sequence)
    return loop.finish()


def fires() -> TraceBuilder:
    """Four forward passes of a module with gradients on."""
    return inference(4, grad=True)


def fires_without_modules() -> TraceBuilder:
    """Stacks were not recorded, but there are three steps."""
    return inference(1, grad=True, modules=False, steps=3)


def quiet() -> TraceBuilder:
    """Gradients are off: operators have no numbers of autograd."""
    return inference(4, grad=False)


def trap_program_that_trains_later() -> TraceBuilder:
    """A capture saw an optimizer: a policy is called many times before its update."""
    trace = inference(4, grad=True)
    trace.metadata["traceanalyzer"] = {"version": 1, "may_train": True}
    return trace


def trap_cut_window() -> TraceBuilder:
    """The window ends after the first forward pass."""
    return inference(1, grad=True)


def trap_frozen() -> TraceBuilder:
    """Gradients are on, but no parameter needs one: the number never grows."""
    loop = Training()
    with loop.iteration():
        for _ in range(6):
            loop.host.leaf("aten::mm", sequence=loop.sequence)
    return loop.finish()


def trap_features() -> TraceBuilder:
    """Features of several batches are collected, then one backward pass goes through all."""
    loop = Training()
    with loop.iteration():
        numbers = [number for _ in range(4) for number in loop.forward(root=MODEL)]
        loop.backward(numbers)
    return loop.finish()


def in_a_table() -> str:
    """A printed table of such a program."""
    return table([{"Name": "aten::mm", "Self CPU": "1.000ms", "# of Calls": 3}], cpu="1.000ms")


RULE = "autograd-in-inference"


def test_is_mostly_memory() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 0
    assert "memory" in finding.saving.basis.text
    assert finding.severity == "low"


def test_on_a_cpu_more_may_be_saved() -> None:
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            for layer in range(5):
                host.leaf("aten::conv2d", 200, sequence=5 * number + layer)
    (finding,) = findings(finish(trace), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 0.35 * 1_000_000))


def test_long_products_cost_as_much_without_a_graph() -> None:
    trace = TraceBuilder(devices=())
    host = Host(trace, at=10)
    for number in range(4):
        with host.annotation(f"ProfilerStep#{number}"):
            for layer in range(5):
                host.leaf("aten::relu", 20, sequence=10 * number + 2 * layer)
                host.leaf("aten::addmm", 200, sequence=10 * number + 2 * layer + 1)
    (finding,) = findings(finish(trace), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0, 0.35 * 100_000))


def test_counts_calls_of_the_module() -> None:
    assert findings(fires(), RULE)[0].evidence[0].observed == 4


def test_counts_steps_where_modules_were_not_recorded() -> None:
    assert findings(fires_without_modules(), RULE)[0].evidence[0].observed == 3


def test_gradients_that_are_off_are_judged() -> None:
    assert skipped(inference(4, grad=False), RULE) is None


def test_a_table_cannot_tell() -> None:
    assert "gradients" in (skipped(in_a_table(), RULE) or "")


def test_edge_forward_passes() -> None:
    assert findings(inference(1, grad=True), RULE) == []
    assert findings(inference(2, grad=True), RULE)


def test_a_training_of_which_only_forward_passes_were_kept_is_no_inference() -> None:
    trace = inference(4, grad=True)
    assert "trains" not in (skipped(trace, RULE) or "")
    trace.annotation("## start_sparse_data_dist ##", 0, 1)  # of TorchRec's pipeline for training
    assert findings(trace, RULE) == []
    assert "trains" in (skipped(trace, RULE) or "")


def fires_without_marks() -> TraceBuilder:
    """Neither steps nor modules were recorded: the same operators come again and again."""
    loop = Training()
    for _ in range(8):
        for side in (32, 16, 8, 4):
            loop.forward(1, shape=(128, 3, side, side))
            loop.host.leaf("aten::relu", shapes=[[128, 3, side, side]], sequence=loop.sequence)
        compute(loop.host, loop.stream, 30, "aten::softmax")
        read_value(loop.host, loop.stream)
    return loop.finish()


def test_repeated_passes_without_marks_are_counted() -> None:
    (finding,) = findings(fires_without_marks(), "autograd-in-inference")
    assert finding.summary.params["passes"] >= 7
