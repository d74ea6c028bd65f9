"""Products with a side of 1."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import V100
from tests.rules.gpu_work import addition, product, training
from tests.rules.judging import table

SGEMM = "volta_sgemm_64x64_nn"
ROWS = 1_000_000


def fires() -> TraceBuilder:
    """`Linear(1, 128)` on a million rows: 516 MB in 3 ms, where the V100 needs 0.57 ms."""
    return training([product(SGEMM, 3000, [[ROWS, 1], [1, 128]]), addition(3000)], device=V100)


def fires_in_a_table() -> str:
    """The program in a printed table; a sum of large tensors shows the memory bandwidth."""
    return printed([("aten::mm", "[[1000000, 1], [1, 128]]", "30.000ms")])


def quiet() -> TraceBuilder:
    """Products with sides of some length."""
    return training([product(SGEMM, 3000), addition(3000)], device=V100)


def trap_decoding() -> TraceBuilder:
    """One token times the weights of a language model: the weights must be read."""
    gemv = "void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>"
    return training([product(gemv, 3000, [[1, 4096], [4096, 32000]]), addition(3000)], device=V100)


def trap_as_fast_as_memory() -> TraceBuilder:
    """A product with one column that reaches the bandwidth of the memory."""
    return training([product(SGEMM, 600, [[ROWS, 128], [128, 1]]), addition(600)], device=V100)


def trap_small() -> TraceBuilder:
    """The head of a classifier with one class, on a batch."""
    return training([product(SGEMM, 3000, [[64, 512], [512, 1]]), addition(3000)], device=V100)


def trap_bandwidth_unknown_in_a_table() -> str:
    """Nothing in the table shows the memory bandwidth."""
    return printed([("aten::mm", "[[4096, 1], [1, 128]]", "30.000ms")], copies=False)


def printed(products: list[tuple[str, str, str]], *, copies: bool = True) -> str:
    """A table by shapes of 100 ms on the GPU: products, and ten sums of tensors with 200 MB in 1 ms (600 GB/s)."""
    rows = [(name, shapes, time) for name, shapes, time in products]
    if copies:
        rows.append(("aten::add", "[[50000000], [50000000], []]", "10.000ms"))
    cells = [
        {
            "Name": name,
            "Self CPU": "1.000ms",
            "CPU total": "1.000ms",
            "Self CUDA": time,
            "# of Calls": 10,
            "Input Shapes": shapes,
        }
        for name, shapes, time in rows
    ]
    return table(cells, cpu="5.000ms", device="100.000ms")
