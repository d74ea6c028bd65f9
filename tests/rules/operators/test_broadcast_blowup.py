"""Tests of the rule `broadcast-blowup`: numbers worked out by hand, and edges of thresholds.

The programs: tensors that are expanded and summed up again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import corpus_files
from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.cpu_work import AROUND, program
from tests.rules.cpu_work import Call as Operator
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.judging import findings, report
from tests.rules.kernels.test_gemm_degenerate import printed
from traceanalyzer.rules.engine.selection import builtin

LEFT, RIGHT, HUGE = [64, 512, 1, 64], [64, 1, 512, 64], [64, 512, 512, 64]
SUM = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >"


def model(left: list[int], right: list[int], huge: list[int], *, summed: bool = True) -> TraceBuilder:
    """A product with broadcasting (4 ms), whose result is summed up (3 ms) or not, beside 3 ms of other work."""
    calls = [Call("aten::mul", [kernel(ADDITION, 4000)], [left, right], ["float", "float"])]
    if summed:
        reduced = Call("aten::sum", [kernel(SUM, 3000)], [huge, [], [], []], ["float", "ScalarList", "Scalar", ""])
        calls.append(reduced)
    return training([*calls, addition(3000)], device=A100)


def fires() -> TraceBuilder:
    """All pairs of 512 vectors are multiplied and summed up: 512 times as many elements as either input."""
    return model(LEFT, RIGHT, HUGE)


def fires_in_a_table() -> str:
    """A product whose inner side is 1 makes the tensor, one with a single column sums it up."""
    made, used = "[[1000000, 1], [1, 128]]", "[[1000000, 128], [128, 1]]"
    return printed([("aten::mm", made, "40.000ms"), ("aten::mm", used, "20.000ms")])


def quiet() -> TraceBuilder:
    """Tensors of the same size."""
    return model(HUGE, HUGE, HUGE)


def trap_attention_bias() -> TraceBuilder:
    """A mask is added to scores that were there anyway; softmax and sums work on them."""
    scores = [16, 16, 1024, 1024]
    return model(scores, [1, 1, 1024, 1024], scores)


def trap_root_mean_square() -> TraceBuilder:
    """A norm multiplies with one number per row, and takes the mean over rows of the same size."""
    return model([64, 4096, 1024], [64, 4096, 1], [64, 4096, 1024])


def trap_outer_product_that_is_needed() -> TraceBuilder:
    """Nothing sums it up."""
    return model(LEFT, RIGHT, HUGE, summed=False)


def trap_small() -> TraceBuilder:
    """The result stays in a cache."""
    return model([512, 1], [1, 512], [512, 512])


def on_a_cpu(rows: int = 16, *, summed: bool = True, other: int = 1000) -> TraceBuilder:
    """A product with broadcasting (400 us) that is summed up (200 us) or not, beside other work."""
    left, right, huge = [rows, 128, 1], [1, 128, 128], [rows, 128, 128]
    calls = [Operator("aten::mul", 400, [left, right], ["float", "float"])]
    if summed:
        calls.append(Operator("aten::sum", 200, [huge, [], [], []], ["float", "ScalarList", "Scalar", ""]))
    return program([*calls, Operator("aten::mm", other, [[128, 128], [128, 128]], ["float", "float"])])


def fires_on_a_cpu() -> TraceBuilder:
    """A megabyte between two operators."""
    return on_a_cpu()


def quiet_on_a_cpu() -> TraceBuilder:
    """A product of matrices."""
    return program([Operator("aten::mm", 600, [[128, 128], [128, 128]], ["float", "float"])])


def trap_needed_on_a_cpu() -> TraceBuilder:
    """Nothing sums it up."""
    return on_a_cpu(summed=False)


def trap_small_on_a_cpu() -> TraceBuilder:
    """A sixteenth of it, which stays in a cache."""
    return on_a_cpu(1)


def outer_product(*within: str) -> TraceBuilder:
    """An outer product (400 us), as the gradient of a matrix is, beside a sum of as many elements (200 us)."""
    huge = [1024, 1024]
    product = Operator("aten::mm", 400, [[1024, 1], [1, 1024]], ["float", "float"], within)
    total = Operator("aten::sum", 200, [huge, [], [], []], ["float", "ScalarList", "Scalar", ""], within)
    return program([product, total])


def trap_gradient_of_a_matrix() -> TraceBuilder:
    """Autograd multiplies two vectors, which is the gradient of the matrix between them."""
    return outer_product("autograd::engine::evaluate_function: MmBackward0", "MmBackward0")


def fires_on_an_outer_product() -> TraceBuilder:
    """The same operators in the program's own code."""
    return outer_product()


RULES = {rule.id: rule for rule in builtin()}
RULE = "broadcast-blowup"
ELEMENTS = 64 * 512 * 512 * 64


def test_what_remains_is_the_arithmetic() -> None:
    # 4 + 3 ms of operators on 2^30 elements; two operations each at 19.5 TFLOP/s remain for both
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(512)
    assert finding.summary.params["elements"] == ELEMENTS
    assert finding.summary.params["count"] == 2
    assert finding.saving is not None
    remains = 2 * 2 * ELEMENTS / 19_500
    assert finding.saving.direct_ns_per_step == pytest.approx((3.5e6, 7e6 - remains), rel=1e-4)
    assert [place.name for place in finding.evidence[0].where] == ["aten::mul", "aten::sum"]


def test_products_with_a_side_of_one_are_a_blow_up_as_well() -> None:
    # ten calls of 4 ms that make 128 million elements, ten of 2 ms that sum them up
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.evidence[0].observed == pytest.approx(128)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30e6, 60e6 - 20 * 2 * 128e6 / 5000))


def test_worked_number_of_document_002(corpus: Path) -> None:
    (document,) = (corpus / "documents").glob("002_*")
    measured = corpus_files.report_of(document)
    (finding,) = [f for f in measured.findings if f.rule == RULE]
    assert finding.run == "run-1"
    assert finding.summary.params["share"] == pytest.approx(0.89 + 0.0896, abs=0.005), "the family and its copies"
    assert finding.saving is not None
    low, high = finding.saving.direct_ns_per_step
    assert low < 553.0e6, "what the author's change removed"
    assert high == pytest.approx(553.0e6, rel=0.02)


def test_a_slow_member_does_not_count_twice() -> None:
    combined = report(fires()).headlines[0].combined
    assert combined is not None
    assert combined.wall_ns_per_step[1] < 10e6


def test_edge_expansion() -> None:
    assert findings(fires(), RULE, {"expansion": 512})
    assert findings(fires(), RULE, {"expansion": 512 + 1e-6}) == []


def test_edge_result_bytes() -> None:
    assert findings(fires(), RULE, {"result_bytes": 4 * ELEMENTS})
    assert findings(fires(), RULE, {"result_bytes": 4 * ELEMENTS + 1}) == []


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.7}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.7 - 1e-9})


def test_on_a_cpu_such_tensors_cost_more_than_their_operators() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    left = 600_000 - 2 * 16 * 128 * 128 / 60
    assert finding.saving.direct_ns_per_step == pytest.approx((0.95 * left, 1.4 * left))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text


@pytest.mark.parametrize("name", ["aten::clamp_min", "aten::relu_"])
def test_a_function_of_each_element_is_no_contraction(name: str) -> None:
    """All triplets of 128 with a margin: 600 us for the tensor, of which one of three operators remains."""
    huge = [128, 128, 128]
    made = Operator("aten::sub", 200, [[128, 128, 1], [128, 1, 128], []], ["float", "float", "Scalar"])
    bent = Operator(name, 200, [huge, []], ["float", "Scalar"])
    total = Operator("aten::sum", 200, [huge, [], [], []], ["float", "ScalarList", "Scalar", ""])
    other = Operator("aten::mm", 1000, [[128, 128], [128, 128]], ["float", "float"])
    (finding,) = findings(program([made, bent, total, other]), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == 0
    assert finding.saving.direct_ns_per_step[1] <= 600_000
    assert "torch.compile" in finding.advice.text
    assert finding.action is not None
    assert "einsum" not in finding.action.text + (finding.code or "")


def test_edge_host_share() -> None:
    share = 600_000 / (1_600_000 + AROUND)
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share * (1 + 1e-9)}) == []
    assert findings(fires_on_a_cpu(), RULE, {"host_share": share * (1 - 1e-9)})


def test_edge_host_result_bytes() -> None:
    assert findings(fires_on_a_cpu(), RULE, {"host_result_bytes": 2**20})
    assert findings(fires_on_a_cpu(), RULE, {"host_result_bytes": 2**20 + 1}) == []


def test_the_code_sums_the_axis_that_both_tensors_share() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.code == 'y = torch.einsum("abc,abc->ac", a, b)  # instead of (a * b).sum(1)'
    (several,) = findings(fires(), RULE)
    assert several.code == RULES[RULE].code, "two axes are shared"


def differences(after: str) -> TraceBuilder:
    """Differences of all pairs of 20,000 and 64 vectors of 24 numbers, and another operator before their sum."""
    huge = [20_000, 64, 24]
    return program(
        [
            Operator("aten::sub", 4000, [[20_000, 1, 24], [1, 64, 24], []], ["float", "float", "Scalar"]),
            Operator(after, 4000, [huge, []], ["float", "Scalar"]),
            Operator("aten::sum", 2000, [huge, [], [], []], ["float", "ScalarList", "Scalar", ""]),
        ]
    )


def test_distances_have_their_own_operator() -> None:
    (finding,) = findings(differences("aten::pow"), RULE)
    assert finding.code is not None
    assert finding.code.startswith("d = torch.cdist(a, b).square()")
    assert "cdist" in finding.advice.text
    assert not any(found.code for found in findings(differences("aten::clamp"), RULE)), "no code fits"
