"""Changes of layout around convolutions."""

from __future__ import annotations

from tests.builders import TraceBuilder
from tests.builders.hardware import A100
from tests.rules.gpu_work import TF32_CONVOLUTION, Call, addition, kernel, training
from tests.rules.situations.tensor_cores_unused import printed

TO_LAST = "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)2>(x)"
TO_FIRST = "void cudnn::ops::nhwcToNchwKernel<float, float, float, true, false, (cudnnKernelDataType_t)0>(x)"


def model(turning_us: int, convolution: str = TF32_CONVOLUTION) -> TraceBuilder:
    """A convolution of 6 ms, before and after which the layout changes."""
    works = [kernel(TO_LAST, turning_us), kernel(convolution, 6000), kernel(TO_FIRST, turning_us)]
    return training([Call("aten::cudnn_convolution", works), addition(2000)], device=A100)


def fires() -> TraceBuilder:
    """Changes of layout take 2 of 10 ms."""
    return model(1000)


def fires_in_a_table() -> str:
    """The same program in a printed table."""
    return printed([(TF32_CONVOLUTION, "60.000ms"), (TO_LAST, "20.000ms"), ("elementwise_kernel<128, 2>", "20.000ms")])


def quiet() -> TraceBuilder:
    """Model and input are in channels last."""
    return training([Call("aten::cudnn_convolution", [kernel(TF32_CONVOLUTION, 6000)]), addition(2000)], device=A100)


def trap_already_in_channels_last() -> TraceBuilder:
    """Only the input of the network is turned."""
    return model(50)


def trap_convolutions_in_fp32() -> TraceBuilder:
    """Outside of Tensor Cores, convolutions do not want channels last."""
    return model(1000, "cudnn_infer_ampere_scudnn_128x64_relu_medium_nn_v1")
