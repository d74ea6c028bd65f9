"""Tests of the rule `cpu-operator-dominates`: numbers worked out by hand, and edges of thresholds.

The tables: programs on a CPU, of which one operator takes most of the time, or none.
"""

from __future__ import annotations

import pytest

from tests.rules.judging import findings, table

RULE = "cpu-operator-dominates"


def program(name: str, own: int = 70, *, beside: str = "aten::other") -> str:
    """A table of 100 ms; own times in ms."""
    rows = [
        {"Name": row, "Self CPU": f"{time}.000ms", "CPU total": f"{time}.000ms", "# of Calls": 10}
        for row, time in ((name, own), *((f"{beside}{number}", (100 - own) // 5) for number in range(5)))
    ]
    return table(rows, cpu="100.000ms")


def fires() -> str:
    """Convolutions take 70 of 100 ms."""
    return program("aten::mkldnn_convolution")


def quiet() -> str:
    """The largest operator takes a third."""
    return program("aten::mkldnn_convolution", 35)


def trap_waits_for_a_gpu() -> str:
    """A call shows that there is a GPU, so that the host's time may be waiting."""
    return program("aten::item", beside="cudaLaunchKernel")


def trap_of_a_range() -> str:
    """A range that the program marked is no operator."""
    return program("my model")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("aten::mkldnn_convolution", "cpu-operator-dominates-advice-products"),
        ("aten::addmm", "cpu-operator-dominates-advice-products"),
        ("aten::scatter_add_", "cpu-operator-dominates-advice-scatter"),
        ("aten::embedding_dense_backward", "cpu-operator-dominates-advice-scatter"),
        ("aten::sort", "cpu-operator-dominates-advice-sort"),
        ("aten::nonzero", "cpu-operator-dominates-advice-nonzero"),
        ("aten::gelu", "cpu-operator-dominates-advice-elementwise"),
        ("aten::native_layer_norm", "cpu-operator-dominates-advice-elementwise"),
        ("aten::grid_sampler_2d", "cpu-operator-dominates-advice"),
    ],
)
def test_advice_follows_from_what_the_operator_does(name: str, advice: str) -> None:
    (found,) = findings(program(name), RULE)
    assert (found.advice.id, found.summary.params["share"]) == (advice, 0.7)
    assert bool(found.code) == (advice.endswith("products"))


def test_edge_of_the_share() -> None:
    assert not findings(program("aten::mm", 40), RULE)
    assert findings(program("aten::mm", 41), RULE)
