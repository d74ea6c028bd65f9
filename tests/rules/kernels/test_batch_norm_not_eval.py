"""Tests of the rule `batch-norm-not-eval`: numbers worked out by hand, and edges of thresholds.

The programs: inference with batch norms in both modes, and trainings.
"""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.rules.gpu_work import Call, kernel, training
from tests.rules.judging import findings, skipped

ACTIVATION = [[32, 64, 56, 56]]


def network(*, counts: int = 1, norms: int = 4, shapes: bool = True, backward: bool = False) -> TraceBuilder:
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
    return training(calls, shapes=shapes)


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
    assert (finding.severity, finding.saving, finding.code) == ("low", None, "model.eval()")
    assert finding.summary.params["norms"] == 4
    assert finding.evidence[0].observed == 1


def test_without_shapes_nobody_can_tell() -> None:
    assert "shapes" in (skipped(network(counts=4, shapes=False), RULE) or "")


def test_edge_counted() -> None:
    assert findings(network(counts=2), RULE)
    assert not findings(network(counts=2), RULE, {"counted": 0.5 + 1e-9})
