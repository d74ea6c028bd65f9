"""Operators that take longer than their size explains."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.situations.gemm_degenerate import printed

WIDE, NARROW = [8, 128, 984, 128], [8, 128, 984, 1]
FLASH = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4> >"


def multiplied(dur: int, first: list[int], second: list[int]) -> Call:
    """A product of elements."""
    return Call("aten::mul", [kernel(ADDITION, dur)], [first, second], ["float", "float"])


def fires() -> TraceBuilder:
    """The same product costs 20 ms with the operands in one order, and 2 ms in the other."""
    return training([multiplied(20_000, NARROW, WIDE), multiplied(2000, WIDE, NARROW)], device=None)


def fires_against_the_memory() -> TraceBuilder:
    """A softmax over 1 GB takes 7 ms; an A100 moves that much, once in and once out, in 1.4 ms."""
    softmax = Call(
        "aten::_softmax",
        [kernel("void softmax_forward<float>", 7000)],
        [[2**14, 2**14], [], []],
        ["float", "Scalar", "Scalar"],
        ["", "-1", "False"],
    )
    return training([softmax, addition(1000)], device=A100)


def fires_in_a_table() -> str:
    """The two orders, printed."""
    return printed(
        [("aten::mul", f"[{NARROW}, {WIDE}]", "60.000ms"), ("aten::mul", f"[{WIDE}, {NARROW}]", "6.000ms")],
        copies=False,
    )


def quiet() -> TraceBuilder:
    """Both orders cost about the same."""
    return training([multiplied(2500, NARROW, WIDE), multiplied(2000, WIDE, NARROW)], device=A100)


def trap_small_calls() -> TraceBuilder:
    """Calls of a few microseconds are bound by their launch."""
    slow, fast = multiplied(9, [64, 1], [64, 64]), multiplied(2, [64, 64], [64, 1])
    return training([slow, fast] * 100, device=A100)


def trap_data_that_stays_in_a_cache() -> TraceBuilder:
    """4 MB move in 3 us: what a call takes beyond that is its start and its end."""
    return training([Call("aten::relu", [kernel(ADDITION, 30)], [[1 << 19]], ["float"])] * 10, device=A100)


def trap_operators_without_a_model() -> TraceBuilder:
    """How many bytes an index reads is in its data."""
    index = Call(
        "aten::index", [kernel("void at::native::index_elementwise_kernel", 5000)], [[2**24, 4], []], ["float", ""]
    )
    return training([index, addition(1000)], device=A100)


def trap_fused_attention() -> TraceBuilder:
    """It is bound by exponentials and products, far from the limits of memory and of the peak."""
    shapes = [[16, 512, 16, 64]] * 3 + [[]] * 3
    call = Call("aten::_flash_attention_forward", [kernel(FLASH, 5000)], shapes, ["c10::Half"] * 3 + ["Scalar"] * 3)
    return training([call, addition(1000)], device=A100)
