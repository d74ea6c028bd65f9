"""Windows, which has other names for integers and kernels, and Macs, whose GPU no profiler of torch records."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders import TraceBuilder

from .cards import LAPTOP
from .layers import Op, cross_entropy, perceptron
from .program import program
from .script import Script


def mangled(name: str) -> str:
    """The name of a kernel as Windows writes it: it has no function that would make it readable."""
    for start, text in _MANGLED.items():
        if start in name:
            return text
    return name


_MANGLED: Mapping[str, str] = {
    "launch_clamp_scalar": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_12ClampFunctorIfEENS_6detail5ArrayIPcLi2EEEEEviT0_T1_"
    ),
    "threshold_kernel_impl": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_16ThresholdFunctorIfEENS_6detail5ArrayIPcLi3EEEEEviT0_T1_"
    ),
    "CUDAFunctor_add": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6detail5ArrayIPcLi3EEEEEviT0_T1_"
    ),
    "GeluCUDAKernelImpl": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11GeluFunctorIfEENS_6detail5ArrayIPcLi2EEEEEviT0_T1_"
    ),
    "FillFunctor": (
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEENS_6detail5ArrayIPcLi1EEEEEviT0_T1_"
    ),
    "reduce_kernel": (
        "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_"
        "functorIfffEEEEjfLi4EEEEEvT1_"
    ),
    "multi_tensor_apply_kernel": (
        "_ZN2at6native25multi_tensor_apply_kernelINS0_18TensorListMetadataILi4EEENS0_"
        "20FusedAdamMathFunctorIfLi4EEEfEEvT_T0_T1_"
    ),
    "layer_norm_kernel": "_ZN2at6native28vectorized_layer_norm_kernelIffEEviT0_PKT_S3_S3_PS2_S4_PT_",
    "cunn_SoftMaxForward": "_ZN2at6native19cunn_SoftMaxForwardILi4EfffNS0_25LogSoftMaxForwardEpilogueEEEvPT2_PKT0_i",
    "cunn_SoftMaxBackward": "_ZN2at6native20cunn_SoftMaxBackwardILi4EfffNS0_26LogSoftMaxBackwardEpilogueEEEvPT0_PKT2_i",
    "nll_loss_forward": "_ZN2at6native38nll_loss_forward_reduce_cuda_kernel_2dIfflEEvPT_S3_PKS2_PKT1_",
    "nll_loss_backward": "_ZN2at6native39nll_loss_backward_reduce_cuda_kernel_2dIflEEvPT_PKS2_PKT0_",
    "flash_fwd_kernel": (
        "_ZN13pytorch_flash16flash_fwd_kernelI23Flash_fwd_kernel_"
        "traitsILi64ELi128ELi128ELi4ELb0ELb0EN7cutlass6half_tEEEEvNS_16Flash_fwd_paramsE"
    ),
}


def windows(trace: TraceBuilder) -> TraceBuilder:
    """The trace as Windows would have it, where torch names no threads."""
    trace.thread_names.clear()
    for event in trace.events:
        args = event.get("args")
        if event["cat"] == "kernel":
            event["name"] = mangled(str(event["name"]))
        elif isinstance(args, dict) and "Input type" in args:
            args["Input type"] = ["__int64" if text == "long int" else text for text in args["Input type"]]
    return trace


@program("Windows and Mac", "A laptop with Windows that trains in single precision; names of kernels are mangled")
def windows_laptop_trains() -> TraceBuilder:
    script = Script(LAPTOP, seed=41, speed=200, process="python.exe")
    layers = [*perceptron(LAPTOP, 2048, (1024, 4096, 4096, 4096, 1000)), cross_entropy(LAPTOP, 2048, 1000)]
    for _ in range(6):
        script.load(1_100)
        script.to_device((2048, 1024), pinned=True)
        script.to_device((2048,), "long int")
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers, fused=True)
        script.item()
    return windows(script.finish())


@program(
    "Windows and Mac", "Windows starts the loader's workers for seven seconds before the first batch, then never waits"
)
def windows_starts_its_workers() -> TraceBuilder:
    script = Script(LAPTOP, seed=42, is_old=True, speed=200, process="python.exe")
    layers = [*perceptron(LAPTOP, 1024, (2048, 4096, 4096, 100)), cross_entropy(LAPTOP, 1024, 100)]
    for number in range(8):
        script.load(6_900_000 // 2 if number == 0 else 60, workers=True)
        script.to_device((1024, 2048), pinned=True)
        script.to_device((1024,), "long int", pinned=True)
        script.zero_grad()
        script.forward(layers)
        script.backward()
        script.update(layers, fused=True)
        script.item()
    return windows(script.finish())


@program("Windows and Mac", "A Mac's GPU: operators that return at once, and a copy back that waits for its work")
def mac_gpu_passes() -> TraceBuilder:
    script = Script(None, seed=43, speed=100, process="python3.12")
    for _ in range(10):
        for _ in range(12):
            script.run(
                Op(
                    "aten::linear",
                    ((64, 1024), (1024, 1024), (1024,)),
                    (Op("aten::_mps_linear", ((64, 1024), (1024, 1024), (1024,)), cpu=21),),
                )
            )
            script.run(Op("aten::gelu", ((64, 1024),), cpu=14, rest=("none",)))
            script.host.work(5)
        with (
            script.host.op("aten::to", 3, 1),
            script.host.op("aten::_to_copy", 3, 1),
            script.host.op("aten::copy_", 4, 2),
        ):
            script.run(Op("aten::_copy_from", ((64, 1024), (64, 1024)), cpu=8_700, rest=("False",)))
        script.host.work(90)
    return script.finish()


@program("Windows and Mac", "A Mac that trains a small network on its CPU")
def mac_cpu_trains() -> TraceBuilder:
    script = Script(None, seed=44, speed=100, process="python3.12")
    image, kernel = (32, 3, 32, 32), (32, 3, 3, 3)
    for _ in range(8):
        script.zero_grad("SGD")
        slow = Op("aten::_slow_conv2d_forward", (image, kernel, (32,)), cpu=5_200, rest=("[3, 3]", "[1, 1]", "[1, 1]"))
        conv = Op(
            "aten::convolution",
            (image, kernel, (32,)),
            (Op("aten::_convolution", (image, kernel), (Op("aten::thnn_conv2d", (image, kernel), (slow,)),)),),
        )
        script.run(Op("aten::conv2d", (image, kernel, (32,)), (conv,)), sequence=script.sequence)
        script.run(
            Op(
                "aten::max_pool2d",
                ((32, 32, 32, 32),),
                (Op("aten::max_pool2d_with_indices", ((32, 32, 32, 32),), cpu=840),),
            )
        )
        script.run(
            Op(
                "aten::linear",
                ((32, 8192), (10, 8192), (10,)),
                (Op("aten::addmm", ((10,), (32, 8192), (8192, 10)), cpu=110),),
            )
        )
        script.run(Op("aten::cross_entropy_loss", ((32, 10), (32,)), cpu=45, types=("float", "long int")))
        script.engine.now = script.host.now + 40_000
        for node, op, cpu in (
            ("AddmmBackward0", "aten::mm", 190),
            ("MaxPool2DWithIndicesBackward0", "aten::max_pool2d_with_indices_backward", 610),
            ("ConvolutionBackward0", "aten::_slow_conv2d_backward", 8_900),
        ):
            with (
                script.engine.op(
                    f"autograd::engine::evaluate_function: {node}", 4, 2, sequence=script.sequence, fwd_thread=1
                ),
                script.engine.op(node, 3, 1, sequence=script.sequence, fwd_thread=1),
            ):
                script.run(Op(op, (image, kernel), cpu=cpu), script.engine)
        script.sequence += 1
        script.host.now = script.engine.now + 25_000
        with script.host.annotation("Optimizer.step#SGD.step", 20, 5):
            for shape in ((32, 3, 3, 3), (32,), (10, 8192), (10,)):
                script.run(Op("aten::add_", (shape, shape), cpu=7, rest=("-0.01",)))
    return script.finish()
