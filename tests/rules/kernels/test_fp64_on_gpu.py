"""Tests of the rule `fp64-on-gpu`: numbers worked out by hand, and edges of thresholds.

The programs: double precision on GPUs that are made for it, and on others.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, MI300X, Device
from tests.rules import cpu_work
from tests.rules.cpu_work import AROUND
from tests.rules.gpu_work import Call, addition, kernel, product, training
from tests.rules.judging import findings
from tests.rules.kernels.test_tensor_cores_unused import printed

T4 = Device("Tesla T4", 15_843_721_216, 40, 7, 5)
DGEMM = "volta_dgemm_128x64_nn"
DOUBLES = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<double>, at::detail::Array>"


def model(device: Device | None, *, shapes: bool = True) -> TraceBuilder:
    """A product (4 ms) and a sum (2 ms) in fp64, beside 4 ms in fp32."""
    summed = Call("aten::add", [kernel(DOUBLES, 2000)], [[1 << 20], [1 << 20], []], ["double", "double", "Scalar"])
    return training([product(DGEMM, 4000, dtype="double"), summed, addition(4000)], device=device, shapes=shapes)


def fires() -> TraceBuilder:
    """A T4 computes fp64 at a thirty-second of the rate of fp32."""
    return model(T4)


def fires_without_shapes() -> TraceBuilder:
    """Names of kernels show fp64 as well."""
    return model(T4, shapes=False)


def fires_in_a_table() -> str:
    """Which GPU it was is not known."""
    return printed([("dgemm_128x64_nn_kernel", "60.000ms"), ("elementwise_kernel<128, 2>", "40.000ms")])


def quiet() -> TraceBuilder:
    """Everything is in fp32."""
    return training([product("volta_sgemm_128x64_nn", 4000), addition(4000)], device=T4)


def slipped_in(device: Device, dur: int = 2000) -> TraceBuilder:
    """A sum of doubles beside 8 ms in fp32."""
    summed = Call("aten::add", [kernel(DOUBLES, dur)], [[1 << 20], [1 << 20], []], ["double", "double", "Scalar"])
    return training([product("ampere_sgemm_128x64_nn", 4000), summed, addition(4000)], device=device)


def fires_on_a_gpu_made_for_it() -> TraceBuilder:
    """Nothing is multiplied in fp64: doubles slipped in, which move twice the bytes on an A100 as well."""
    return slipped_in(A100)


def fires_on_amd() -> TraceBuilder:
    """The same on an MI300X."""
    return slipped_in(MI300X)


def trap_a_gpu_made_for_it() -> TraceBuilder:
    """An A100 computes fp64 at half the rate of fp32."""
    return model(A100)


def trap_mostly_doubles_on_a_gpu_made_for_it() -> TraceBuilder:
    """A simulation that multiplies no matrices."""
    return slipped_in(A100, 9000)


def trap_amd() -> TraceBuilder:
    """AMD's Instinct cards compute fp64 at half the rate of fp32 or faster."""
    return model(MI300X)


def trap_python_numbers() -> TraceBuilder:
    """A Python float beside tensors is recorded as a double, but computed with as fp32."""
    scaled = Call(
        "aten::mul",
        [kernel("void at::native::vectorized_elementwise_kernel<4, AUnaryFunctor<float, float>>", 4000)],
        [[1 << 20], []],
        ["float", "double"],
    )
    return training([scaled, addition(4000)], device=T4)


def trap_python_numbers_in_half_precision() -> TraceBuilder:
    """Products in fp64 beside products in bfloat16."""
    name = "void at::native::vectorized_elementwise_kernel<4, AUnaryFunctor<c10::BFloat16, c10::BFloat16>>"
    scaled = Call("aten::mul", [kernel(name, 4000)], [[1 << 20], []], ["c10::BFloat16", "double"])
    return training([scaled, addition(4000)], device=T4)


def on_a_cpu(
    dtype: str = "double", *, product: int = 4000, other: int = 4000, devices: Sequence[Device] = ()
) -> TraceBuilder:
    """A product (4 ms), a sum (2 ms) and a view (1 ms) of doubles, beside other work in fp32."""
    sides, vector = [[512, 512], [512, 512]], [[1 << 20], [1 << 20], []]
    calls = [
        cpu_work.Call("aten::mm", product, sides, [dtype, dtype]),
        cpu_work.Call("aten::add", 2000, vector, [dtype, dtype, "Scalar"]),
        cpu_work.Call("aten::view", 1000, [[1 << 20], []], [dtype, "ScalarList"]),
        cpu_work.Call("aten::mm", other, sides, ["float", "float"]),
    ]
    return cpu_work.program(calls, devices=devices)


def fires_on_a_cpu() -> TraceBuilder:
    """A CPU moves twice the bytes, too."""
    return on_a_cpu()


def fires_on_convolutions_on_a_cpu() -> TraceBuilder:
    """Without a library for doubles PyTorch multiplies itself, in an operator whose work has no model."""
    shapes, types = [[4, 3, 32, 32], [48, 3, 3, 3], [], [48]], ["double", "double", "ScalarList", "double"]
    return cpu_work.program([cpu_work.Call("aten::_slow_conv2d_forward", 8000, shapes, types, ["aten::conv2d"])])


def fires_on_convolutions_of_a_cpu() -> TraceBuilder:
    """A convolution, whose stride no table of operators has, and a sum."""
    sides = [[4, 48, 32, 32], [48, 48, 3, 3], [], [48], [], []]
    types = ["double", "double", "ScalarList", "double", "ScalarList", "ScalarList"]
    vector, numbers = [[1 << 20], [1 << 20], []], ["double", "double", "Scalar"]
    return cpu_work.program(
        [
            cpu_work.Call("aten::_slow_conv2d_forward", 8000, sides, types),
            cpu_work.Call("aten::add", 2000, vector, numbers),
        ]
    )


def quiet_on_a_cpu() -> TraceBuilder:
    """The products in fp32."""
    return on_a_cpu("float")


def trap_a_gpu_that_was_not_recorded() -> TraceBuilder:
    """The header names a GPU, and products return too soon for a CPU: what operators cost is unknown."""
    return on_a_cpu(product=20, other=20, devices=(T4,))


def trap_python_numbers_on_a_cpu() -> TraceBuilder:
    """A Python float beside a tensor of fp32."""
    return cpu_work.program([cpu_work.Call("aten::mul", 4000, [[1 << 20], []], ["float", "double"])])


RULE = "fp64-on-gpu"
CPU_STEP = 11_000_000 + AROUND


def test_convolutions_of_doubles_count_whatever_their_stride_is() -> None:
    (finding,) = findings(fires_on_convolutions_of_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(10_000_000 / (10_000_000 + AROUND))


def test_doubles_that_slipped_in_move_twice_the_bytes() -> None:
    # 2 of 10 ms, of which half remains
    (finding,) = findings(fires_on_a_gpu_made_for_it(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.2)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((1e6, 1e6))
    assert "twice the bytes" in finding.summary.text


def test_half_goes_away_and_nearly_all_of_products() -> None:
    # 4 ms product and 2 ms sum of 10 ms: at least half of 6, at most 15/16 of 4 and half of 2
    (finding,) = findings(fires(), RULE)
    assert finding.evidence[0].observed == pytest.approx(0.6)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3e6, 4.75e6))
    assert finding.evidence[0].where[0].name == "aten::mm"


def test_names_tell_the_same_without_shapes() -> None:
    (finding,) = findings(fires_without_shapes(), RULE)
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((3e6, 4.75e6))
    assert finding.evidence[0].where[0].name == DGEMM


def test_a_table_does_not_know_the_gpu() -> None:
    (finding,) = findings(fires_in_a_table(), RULE)
    assert finding.confidence == "C"
    assert "is unknown" in finding.summary.text
    assert finding.saving is not None
    assert finding.saving.direct_ns_per_step == pytest.approx((30e6, 56.25e6))


def test_edge_gpu_share() -> None:
    assert findings(fires(), RULE, {"gpu_share": 0.6}) == []
    assert findings(fires(), RULE, {"gpu_share": 0.6 - 1e-9})


def test_on_a_cpu_what_is_beyond_the_calls() -> None:
    (finding,) = findings(fires_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(6_000_000 / CPU_STEP), "the view computes nothing"
    assert finding.saving is not None
    assert finding.saving.resource == "host"
    work = 3_998_000 + 1_998_000
    assert finding.saving.direct_ns_per_step == pytest.approx((0.55 * work, 0.85 * work))
    assert "GPU" not in finding.title.text + finding.summary.text + finding.advice.text + finding.not_when.text


def test_on_a_cpu_operators_without_a_model_count() -> None:
    (finding,) = findings(fires_on_convolutions_on_a_cpu(), RULE)
    assert finding.evidence[0].observed == pytest.approx(8_000_000 / (8_000_000 + AROUND))
