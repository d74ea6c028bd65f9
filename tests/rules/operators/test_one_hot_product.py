"""Tests of the rule `one-hot-product`: numbers worked out by hand, and edges of thresholds.

The programs: products with one-hot vectors, and other uses of these.
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

RULE = "one-hot-product"


def choosing(classes: int = 1280, *, product: bool = True, calls: int = 1, work: int = 500) -> TraceBuilder:
    """Steps that make 1,024 one-hot vectors in 1 ms, and multiply them in 2 ms and 1 ms."""
    made = [16, 64, classes]
    forward = [
        Call("aten::one_hot", 100, [[16, 64], []]),
        Call("aten::scatter_", 900, [made, [], [16, 64, 1], []]),
        Call("aten::mm", work, [[64, 64], [64, 64]]),
    ]
    products = [
        Call("aten::matmul", 2000, [made, [classes, 64]]),
        Call("aten::mm", 1000, [[classes, 1024], [1024, 64]]),
    ]
    return program([*forward, *(products * calls if product else [])])


def fires() -> TraceBuilder:
    """Rows of a matrix are chosen by a product."""
    return choosing()


def fires_on_a_gpu() -> TraceBuilder:
    """The same with kernels: 3 ms of 4 ms."""
    calls = [
        GpuCall("aten::one_hot", [kernel(ADDITION, 1000)], [[16, 64], []]),
        GpuCall("aten::matmul", [kernel(ADDITION, 2000)], [[16, 64, 1280], [1280, 64]]),
    ]
    return gpu_training([*calls, addition(1000)], device=A100)


def quiet() -> TraceBuilder:
    """One-hot vectors are the targets of a loss."""
    return choosing(product=False)


def trap_few_classes() -> TraceBuilder:
    """Ten classes."""
    return choosing(10)


def trap_probabilities() -> TraceBuilder:
    """More products of this shape than one-hot vectors: the left sides are probabilities."""
    return choosing(calls=2)


def trap_little_time() -> TraceBuilder:
    """All of it takes less than five percent of the step."""
    return choosing(work=100_000)


def test_time_of_vectors_and_products() -> None:
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == 1280
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((0.9 * 4_000_000, 4_000_000 + 103_000))
    assert finding.summary.params["time"] == pytest.approx(4_000_000), "others take 500 us, code in none 3 us"


def test_edge_host_share() -> None:
    share = 4000 / (4500 + 3)
    assert findings(fires(), RULE, {"host_share": share - 0.01})
    assert not findings(fires(), RULE, {"host_share": share + 0.01})


def test_edge_gpu_share() -> None:
    assert findings(fires_on_a_gpu(), RULE, {"gpu_share": 0.74})
    assert not findings(fires_on_a_gpu(), RULE, {"gpu_share": 0.76})


def test_a_table_is_not_judged() -> None:
    row = {"Name": "aten::embedding", "Self CPU": "1.000ms", "# of Calls": 3}
    assert "does not show" in (skipped(table([row], cpu="1.000ms"), RULE) or "")
