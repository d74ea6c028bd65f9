"""Double precision on GPUs that are made for it, and on others."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import TraceBuilder
from tests.builders.hardware import A100, MI300X, Device
from tests.rules import cpu_work
from tests.rules.gpu_work import Call, addition, kernel, product, training
from tests.rules.situations.tensor_cores_unused import printed

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


def trap_a_gpu_made_for_it() -> TraceBuilder:
    """An A100 computes fp64 at half the rate of fp32."""
    return model(A100)


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


def on_a_cpu(dtype: str = "double", *, other: int = 4000, devices: Sequence[Device] = ()) -> TraceBuilder:
    """A product (4 ms), a sum (2 ms) and a view (1 ms) of doubles, beside other work in fp32."""
    sides, vector = [[512, 512], [512, 512]], [[1 << 20], [1 << 20], []]
    calls = [
        cpu_work.Call("aten::mm", 4000, sides, [dtype, dtype]),
        cpu_work.Call("aten::add", 2000, vector, [dtype, dtype, "Scalar"]),
        cpu_work.Call("aten::view", 1000, [[1 << 20], []], [dtype, "ScalarList"]),
        cpu_work.Call("aten::mm", other, sides, ["float", "float"]),
    ]
    return cpu_work.program(calls, devices=devices)


def fires_on_a_cpu() -> TraceBuilder:
    """A CPU moves twice the bytes, too."""
    return on_a_cpu()


def quiet_on_a_cpu() -> TraceBuilder:
    """The products in fp32."""
    return on_a_cpu("float")


def trap_a_gpu_that_was_not_recorded() -> TraceBuilder:
    """The header names a GPU: what the operators of the host cost is unknown."""
    return on_a_cpu(devices=(T4,))


def trap_python_numbers_on_a_cpu() -> TraceBuilder:
    """A Python float beside a tensor of fp32."""
    return cpu_work.program([cpu_work.Call("aten::mul", 4000, [[1 << 20], []], ["float", "double"])])
