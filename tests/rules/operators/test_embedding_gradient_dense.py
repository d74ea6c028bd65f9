"""Tests of the rule `embedding-gradient-dense`: numbers worked out by hand, and edges of thresholds.

The programs: lookups in embeddings, with dense and sparse gradients.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.cpu_work import Call, program
from tests.rules.gpu_work import ADDITION, addition, kernel
from tests.rules.gpu_work import Call as GpuCall
from tests.rules.gpu_work import training as gpu_training
from tests.rules.judging import findings, skipped, table

RULE = "embedding-gradient-dense"
TABLE = [100_000, 64]


def training(rows: int = 100_000, *calls: Call, dense: bool = True, work: int = 1000) -> TraceBuilder:
    """Steps that look up 1,024 rows, and update the whole matrix in 2.5 ms, or the rows alone."""
    own = [rows, 64]
    backward = [
        Call("aten::embedding_dense_backward", 300, [[16, 64, 64], [16, 64], [], [], []]),
        Call("aten::fill_", 1500, [own, []]),
        Call("aten::add_", 700, [own, own, []]),
    ]
    sparse = [Call("aten::_sparse_coo_tensor_unsafe", 20, [[1, 1024], [1024, 64]])]
    lookup = Call("aten::embedding", 50, [own, [16, 64], [], [], []])
    return program([lookup, Call("aten::mm", work, [[64, 64], [64, 64]]), *calls, *(backward if dense else sparse)])


def fires() -> TraceBuilder:
    """The gradient of 100,000 rows is filled and added."""
    return training()


def fires_in_lists() -> TraceBuilder:
    """An optimizer updates lists of parameters; of the elements the matrix has nine tenths."""
    lists = [[[100_000, 64], [11_111, 64]], [[100_000, 64], [11_111, 64]], []]
    return training(100_000, Call("aten::_foreach_add_", 1000, lists))


def fires_on_a_gpu() -> TraceBuilder:
    """The same with kernels: 3 ms of 4 ms."""
    own = [100_000, 64]
    calls = [
        GpuCall("aten::embedding", [kernel(ADDITION, 500)], [own, [16, 64], [], [], []]),
        GpuCall("aten::embedding_dense_backward", [kernel(ADDITION, 1000)], [[16, 64, 64], [16, 64], [], [], []]),
        GpuCall("aten::fill_", [kernel(ADDITION, 2000)], [own, []]),
    ]
    return gpu_training([*calls, addition(500)], device=A100)


def quiet() -> TraceBuilder:
    """The gradient is sparse."""
    return training(dense=False)


def trap_most_rows_are_used() -> TraceBuilder:
    """A vocabulary of 4,000 words, of which a step has 1,024."""
    return training(4_000)


def trap_tied_weights() -> TraceBuilder:
    """The output layer multiplies by the same matrix, so its gradient has all rows."""
    return training(100_000, Call("aten::linear", 500, [[16, 64, 64], TABLE, []]))


def trap_little_time() -> TraceBuilder:
    """All of it takes less than five percent of the step."""
    return training(work=60_000)


def test_a_bag_is_looked_up_once_although_two_operators_say_so() -> None:
    """Of 15,000 rows a step takes 1,024, not twice as many."""
    own: list[list[object]] = [[15_000, 64], [1024], [64]]
    calls = [
        Call("aten::_embedding_bag", 50, own, within=("aten::embedding_bag",)),
        Call("aten::mm", 1000, [[64, 64], [64, 64]]),
        Call("aten::_embedding_bag_dense_backward", 300, [[64, 64], [1024]]),
        Call("aten::fill_", 1500, [[15_000, 64], []]),
    ]
    trace = program(calls)
    for event in trace.events:
        if event["name"] == "aten::embedding_bag":
            event["args"]["Input Dims"] = own  # type: ignore[index]
    (finding,) = findings(trace, RULE)
    assert finding.evidence[0].observed == pytest.approx(15_000 / 1024)


def test_time_on_the_whole_matrix() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(100_000 / 1024)
    assert finding.saving is not None
    most = 2_500_000 + 3_000 + 0.2 * 1_050_000  # what is in no operator, and a fifth of the others
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * 2_500_000, most))
    assert finding.summary.params["time"] == pytest.approx(2_500_000)


def test_the_share_of_lists_counts() -> None:
    (finding,) = findings(fires_in_lists(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step[0] == pytest.approx(0.8 * 3_400_000, rel=0.001)


def test_an_optimizer_whose_lists_are_not_shown_may_be_of_the_matrix() -> None:
    """3 ms of gradients, and 5 ms of a fused update of which nothing shows the parameters."""
    own = [100_000, 64]
    calls = [
        GpuCall("aten::embedding", [kernel(ADDITION, 500)], [own, [16, 64], [], [], []]),
        GpuCall("aten::embedding_dense_backward", [kernel(ADDITION, 1000)], [[16, 64, 64], [16, 64], [], [], []]),
        GpuCall("aten::fill_", [kernel(ADDITION, 2000)], [own, []]),
        GpuCall("aten::_fused_adam_", [kernel(ADDITION, 5000)], [[[1]]]),
    ]
    (finding,) = findings(gpu_training([*calls, addition(500)], device=A100), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.8 * 3_000_000, 1.29 * 3_000_000 + 5_000_000), rel=0.01)
    assert finding.summary.params["time"] == pytest.approx(8_000_000)
    assert "updates 5" in finding.summary.text


def test_several_tables_are_one_finding() -> None:
    """A second table of half as many rows, whose gradient is filled in 1 ms; the backward passes count once."""
    second = [50_000, 64]
    lookup = Call("aten::embedding", 50, [second, [16, 64], [], [], []])
    (finding,) = findings(training(100_000, lookup, Call("aten::fill_", 1000, [second, []])), RULE)
    assert finding.summary.params["count"] == 2
    assert finding.summary.params["rows"] == 100_000
    assert finding.summary.params["time"] == pytest.approx(3_500_000)
    assert finding.summary.text.startswith("A step looks up few rows of 2 embeddings (of one at most 1,024 of 100,000")


def test_edge_host_share() -> None:
    share = 2500 / (2500 + 1050 + 3)
    assert findings(fires(), RULE, {"host_share": share - 0.01})
    assert not findings(fires(), RULE, {"host_share": share + 0.01})


def test_edge_gpu_share() -> None:
    assert findings(fires_on_a_gpu(), RULE, {"gpu_share": 0.74})
    assert not findings(fires_on_a_gpu(), RULE, {"gpu_share": 0.76})


def test_a_table_is_not_judged() -> None:
    row = {"Name": "aten::embedding", "Self CPU": "1.000ms", "# of Calls": 3}
    assert "does not show" in (skipped(table([row], cpu="1.000ms"), RULE) or "")


def test_rows_that_are_used_and_other_operators_keep_their_time() -> None:
    """Of 10,240 rows a step uses a tenth, each of which may cost three times as much; others take 150 us."""
    (finding,) = findings(training(10_240, work=100), RULE)
    assert finding.saving is not None
    time = finding.summary.params["time"]
    least, most = finding.saving.direct_ns_per_step
    assert least == pytest.approx(0.7 * time, rel=0.01)
    assert most == pytest.approx(2.5e6 + 3_000 + 0.2 * 150_000)
