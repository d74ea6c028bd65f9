"""Tests of the rule `index-backward`: numbers worked out by hand, and edges of thresholds.

The programs: trainings that look up rows by an index, in different ways.
"""

from __future__ import annotations

import pytest

from tests.builders import TraceBuilder
from tests.rules import cpu_work
from tests.rules.gpu_work import Call, addition, kernel, training
from tests.rules.judging import findings, table

RULE = "index-backward"
KERNEL = "void at::native::(anonymous namespace)::indexing_backward_kernel<float, 4>(long const*, long const*)"
AROUND = ("autograd::engine::evaluate_function: IndexBackward0", "IndexBackward0")


def lookup(dur: int, *, calls: int = 1, within: tuple[str, ...] = AROUND, name: str = KERNEL) -> TraceBuilder:
    """Steps with writes by index, in some operators, beside 4 ms of sums."""
    puts = [Call("aten::_index_put_impl_", [kernel(name, dur)], within=within) for _ in range(calls)]
    return training([*puts, addition(4000)], shapes=False)


def fires() -> TraceBuilder:
    """The backward pass of a lookup takes 6 of 10 ms."""
    return lookup(6000)


def selects(calls: int = 20, *, dur: int = 200) -> TraceBuilder:
    """Steps on a CPU with 4 ms of products, and gradients of slices, which fill tensors with zeros."""
    around = ("autograd::engine::evaluate_function: SelectBackward0", "SelectBackward0", "aten::select_backward")
    zeros = [cpu_work.Call("aten::fill_", dur, within=around) for _ in range(calls)]
    return cpu_work.program([*zeros, cpu_work.Call("aten::mm", 4000)], shapes=False)


def fires_on_slices_of_a_cpu() -> TraceBuilder:
    """Twenty of 200 us beside 4 ms."""
    return selects()


def trap_few_slices() -> TraceBuilder:
    """Two slices, as of queries and keys, are no loop."""
    return selects(2, dur=2000)


def fires_in_a_table() -> str:
    """The same, as torch prints it."""
    return printed("IndexBackward0")


def quiet() -> TraceBuilder:
    """It takes a twentieth of the time."""
    return lookup(200)


def trap_assignment() -> TraceBuilder:
    """`x[index] = y` calls the same operator in the forward pass, and adds nothing."""
    return lookup(6000, within=("aten::index_put_",))


def trap_many_short_calls() -> TraceBuilder:
    """Calls of 100 us have few equal indices, or none."""
    return lookup(100, calls=40)


def trap_embedding() -> TraceBuilder:
    """An embedding has a backward pass of its own."""
    call = Call("aten::embedding_dense_backward", [kernel("compute_grad_weight", 6000)], within=("EmbeddingBackward0",))
    return training([call, addition(4000)], shapes=False)


def printed(outer: str) -> str:
    """A table of ten calls that take 60 of 100 ms within an operator."""
    rows = [
        {"Name": name, "Self CPU": "1.000ms", "CPU total": "1.000ms", "Self CUDA": own, "CUDA total": whole}
        for name, own, whole in (
            (outer, "0.000us", "60.000ms"),
            ("aten::_index_put_impl_", "60.000ms", "60.000ms"),
            ("aten::mm", "40.000ms", "40.000ms"),
        )
    ]
    return table([{**row, "# of Calls": 10} for row in rows], cpu="10.000ms", device="100.000ms")


def test_half_to_nearly_all_of_the_backward_pass_is_saved() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.5 * 6e6, 0.95 * 6e6), rel=0.01)
    assert finding.evidence[0].observed == pytest.approx(0.6)
    assert "6.0 ms per step (60 %" in finding.summary.text


def test_slices_have_gradients_of_the_whole_size() -> None:
    (finding,) = findings(fires_on_slices_of_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.5, rel=0.01)
    assert finding.summary.params["calls"] == 20
    assert finding.summary.params["time"] == pytest.approx(4_000_000, rel=0.01), "with the zeros that it calls for"
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.7 * 4_000_000, 4_000_000), rel=0.01)
    assert finding.action is not None
    assert "unbind" in finding.action.text


def test_edge_selects() -> None:
    assert findings(selects(9, dur=400), RULE) == []
    assert findings(selects(10, dur=400), RULE)


def test_a_table_tells_it_by_the_names_of_its_rows() -> None:
    (finding,) = findings(printed("autograd::engine::evaluate_function: IndexBackward0"), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.6)
    assert "60 ms in all (60 %" in finding.summary.text
    assert not findings(printed("IndexPutBackward0"), RULE)


def test_edge_call_ns() -> None:
    assert not findings(lookup(200, calls=10), RULE)
    assert findings(lookup(201, calls=10), RULE)


def messages(edges: int, *, layer: bool = False) -> TraceBuilder:
    """A graph of 1000 nodes: gathered for 2 ms, added up for 4 ms, beside 3 ms of sums; or a layer on each edge."""
    wide, index = [edges, 64], [edges]
    calls = [
        Call("aten::index_select", [kernel("indexSelectLargeIndex<float>", 2000)], [[1000, 64], [], index]),
        Call("aten::scatter_add_", [kernel("_scatter_gather_elementwise_kernel", 4000)], [[1000, 64], [], wide, wide]),
        addition(3000),
    ]
    if layer:
        calls.append(Call("aten::mm", [kernel("ampere_sgemm_128x64_nn", 500)], [wide, [64, 64]]))
    return training(calls)


def test_messages_of_a_graph_are_a_sparse_product() -> None:
    (finding,) = findings(messages(20_000), RULE)
    assert finding.action is not None
    assert finding.action.text == "Multiply by a sparse adjacency matrix"
    assert "for 20,000 edges, 64 values each" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.3 * 6_000_000, 0.75 * 6_000_000), rel=0.01)
    assert not findings(messages(1500), RULE), "no more than nodes"
    assert not findings(messages(20_000, layer=True), RULE), "a layer computes each message"
