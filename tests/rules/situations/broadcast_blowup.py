"""Tensors that are expanded and summed up again."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.cpu_work import Call as Operator
from tests.rules.cpu_work import program
from tests.rules.gpu_work import ADDITION, Call, addition, kernel, training
from tests.rules.situations.gemm_degenerate import printed

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
