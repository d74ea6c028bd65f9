"""Costs by shape, and the cheaper call of the same size."""

from __future__ import annotations

import pytest

from tests.analyzers.tables.making import MS, row
from traceanalyzer.analyzers.tables.runs import PrintedShapeCost, shape_costs


def costs(*rows: tuple[str, str, int, int]) -> dict[str, PrintedShapeCost]:
    made = [row(name, 1, device, calls=calls, input_shapes=shapes) for name, shapes, device, calls in rows]
    return {cost.input_shapes: cost for cost in shape_costs(made)}


def test_operands_in_another_order_are_the_same_work() -> None:
    slow, fast = "[[8, 16, 1], [8, 16, 32]]", "[[8, 16, 32], [8, 16, 1]]"
    found = costs(("aten::mul", slow, 600, 10), ("aten::mul", fast, 40, 20))
    peer = found[slow].peer
    assert peer is not None
    assert (peer.input_shapes, peer.device_ns_per_call) == (fast, 2 * MS)
    assert peer.saving_ns == (600 - 20) * MS
    assert found[fast].peer is None


def test_other_operators_and_other_sizes_are_no_peers() -> None:
    found = costs(
        ("aten::mul", "[[8, 16], [8, 16]]", 600, 10),
        ("aten::mul", "[[8, 32], [8, 32]]", 1, 10),
        ("aten::add", "[[16, 8], [16, 8]]", 1, 10),
    )
    assert all(cost.peer is None for cost in found.values())


@pytest.mark.parametrize(
    ("name", "shapes", "output", "moved"),
    [
        ("aten::mul", "[[8, 16, 1], [8, 16, 32]]", 4096, 4096 * 2 + 128),
        ("aten::relu", "[[10, 10]]", 100, 200),
        ("aten::mm", "[[4, 8], [8, 2]]", 8, 32 + 16 + 8),
        ("aten::addmm", "[[2], [4, 8], [8, 2], [], []]", 8, 2 + 32 + 16 + 8),
        ("aten::bmm", "[[3, 4, 8], [3, 8, 2]]", 24, 96 + 48 + 24),
        ("aten::linear", "[[5, 4, 8], [2, 8], [2]]", 40, 160 + 16 + 2 + 40),
        ("aten::copy_", "[[6, 7], [6, 7], []]", 42, 42 * 3),
    ],
)
def test_elements_that_shapes_imply(name: str, shapes: str, output: int, moved: int) -> None:
    (cost,) = costs((name, shapes, 10, 5)).values()
    assert (cost.output_elements, cost.elements_moved) == (output, moved)
    assert cost.bytes_at_4_per_element == 4 * moved
    assert cost.device_ns_per_call == 2 * MS


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::convolution", "[[8, 3, 32, 32], [16, 3, 3, 3]]"),
        ("aten::mm", "[[4, 8], [7, 2]]"),
        ("aten::mul", "[[3], [4]]"),
        ("aten::cat", "[[[3], [4]], []]"),
        ("aten::mul", "no shapes"),
        ("aten::mul", "[[-1]]"),
    ],
)
def test_without_a_model_the_size_is_unknown(name: str, shapes: str) -> None:
    (cost,) = costs((name, shapes, 10, 5)).values()
    assert cost.output_elements is None
    assert cost.bytes_at_4_per_element is None


def test_a_cut_list_of_shapes_has_no_size() -> None:
    cut = row("aten::relu", 1, 10, calls=5, input_shapes="[[8, 3], [", shapes_truncated=True)
    (cost,) = shape_costs([cut])
    assert cost.elements_moved is None
    assert cost.device_ns_per_call == 2 * MS
