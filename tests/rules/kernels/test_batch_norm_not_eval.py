"""Tests of the rule `batch-norm-not-eval`: numbers worked out by hand, and edges of thresholds.

The programs: inference with batch norms and dropouts in both modes, and trainings.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import Call, kernel, training
from tests.rules.judging import findings, skipped

ACTIVATION = [[32, 64, 56, 56]]


def network(
    *, counts: int = 1, norms: int = 4, shapes: bool = True, backward: bool = False, steps: int = 3
) -> TraceBuilder:
    """Convolutions and batch norms, of which some count their batches."""
    calls = []
    for number in range(norms):
        calls.append(Call("aten::cudnn_convolution", [kernel("implicit_convolve_sgemm", 300)], ACTIVATION, ["float"]))
        if number < counts:
            counter = Call("aten::add_", [kernel("elementwise", 2)], [[], [], []], ["long int", "Scalar", "Scalar"])
            calls.append(counter)
        calls.append(Call("aten::batch_norm", [kernel("bn_fw_tr_1C11", 100)], ACTIVATION, ["float"]))
    if backward:
        calls.append(Call("autograd::engine::evaluate_function: ConvolutionBackward0", [kernel("dgrad", 300)]))
    return training(calls, shapes=shapes, steps=steps)


def fires() -> TraceBuilder:
    """Four norms that all count."""
    return network(counts=4)


def quiet() -> TraceBuilder:
    """None counts, as in evaluation."""
    return network(counts=0)


def trap_training() -> TraceBuilder:
    """A training has to."""
    return network(counts=4, backward=True)


def trap_a_counter_of_its_own() -> TraceBuilder:
    """The program counts its steps."""
    return network(counts=1)


RULE = "batch-norm-not-eval"


def test_it_counts_the_norms_of_a_step() -> None:
    (finding,) = findings(fires(), RULE)
    assert (finding.severity, finding.saving, finding.code) == ("medium", None, "model.eval()")
    assert finding.summary.params["norms"] == 4
    assert finding.evidence[0].observed == 1


def test_a_single_pass_may_be_the_begin_of_a_training() -> None:
    (finding,) = findings(network(counts=4, steps=1), RULE)
    assert finding.severity == "low"


def test_without_shapes_nobody_can_tell() -> None:
    assert "shapes" in (skipped(network(counts=4, shapes=False), RULE) or "")


def test_edge_counted() -> None:
    assert findings(network(counts=2), RULE)
    assert not findings(network(counts=2), RULE, {"counted": 0.5 + 1e-9})


def dropping(*, draws: int = 4, dropouts: int = 4, backward: bool = False) -> TraceBuilder:
    """On a CPU, linear layers of 300 us and dropouts of 100, of which some draw for 60."""
    trace = TraceBuilder(devices=())
    for number in range(max(draws, dropouts)):
        start = 1000 * number
        trace.op("aten::linear", start, 300)
        if number < dropouts:
            trace.op("aten::dropout", start + 400, 100)
        if number < draws:
            trace.op("aten::bernoulli_", start + 410, 60)
    if backward:
        trace.op("autograd::engine::evaluate_function: AddmmBackward0", 9000, 300)
    return trace


def test_dropouts_that_draw_are_told_with_their_time() -> None:
    (finding,) = findings(dropping(), RULE)
    assert finding.summary.id == "batch-norm-not-eval-summary-dropout~trace"  # no steps are marked
    assert finding.summary.params["dropouts"] == 4
    assert finding.code == "model.eval()"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == (240_000, 400_000)


def test_dropouts_of_an_evaluation_or_a_training_are_fine() -> None:
    assert not findings(dropping(draws=0), RULE)
    assert not findings(dropping(backward=True), RULE)


def trap_random_numbers_of_the_program() -> TraceBuilder:
    """It samples without a dropout."""
    return dropping(dropouts=0)


def test_random_numbers_without_a_dropout_are_the_programs() -> None:
    assert not findings(trap_random_numbers_of_the_program(), RULE)


def test_edge_counted_of_dropouts() -> None:
    assert findings(dropping(draws=2), RULE)
    assert not findings(dropping(draws=2), RULE, {"counted": 0.5 + 1e-9})
