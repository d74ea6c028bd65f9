"""`examples/planted_faults.py` on one V100: a training with faults that a profiler should find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ..allocator import Allocator
from ..hardware import V100
from ..timeline import Host, Pace, Stream, Work, finish
from ..trace import TraceBuilder
from .kernels import VOLTA
from .layers import Shape, Step, backward, forward, size
from .planted_network import WHOLE, images, planted_network

_STEPS, _FIRST = 3, 2
_SCRIPT = "examples/planted_faults.py"
_LARGE: Shape = (1000, 1000)
_SUM = Work(
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float, "
    "at::native::sum_functor<float, float, float> >, unsigned int, float, 4> >()",
    "7.2",
    (48, 1, 1),
    (32, 16, 1),
)
_ADD = Work(
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctorOnSelf_add<float>, "
    "std::array<char*, 2ul> >(int, at::native::CUDAFunctorOnSelf_add<float>, std::array<char*, 2ul>)",
    "11.6",
    (977, 1, 1),
)
_METADATA = {"cuda_runtime_version": 12040, "cuda_driver_version": 12040}


def planted_faults(*, faults: bool = True) -> TraceBuilder:
    """Three steps of `examples/planted_faults.py` on a V100: values read, clones, passes for nothing, DataParallel."""
    options = ("record_shapes", "profile_memory", "with_stack")
    trace = TraceBuilder(
        devices=(V100,), options=options, origin="518204417.230", metadata=_METADATA, margins=(70, 190)
    )
    return _Script(trace, faults=faults).run()


class _Script:
    """Runs the script, with its faults or, with products in float16, without."""

    def __init__(self, trace: TraceBuilder, *, faults: bool) -> None:
        self.trace, self.faults = trace, faults
        pace = Pace(31)
        self.host = Host(trace, at=100, pace=pace)
        self.engine = Host(trace, tid=trace.tid + 96, pace=pace)
        self.stream = Stream(7, pace=pace)
        self.step = Step(self.stream, Allocator(0, held=3_000_000))

    def run(self) -> TraceBuilder:
        """The events of all steps."""
        with self.host.frame(f"{_SCRIPT}(110): <module>"), self.host.frame(f"{_SCRIPT}(66): train"):
            for number in range(_FIRST, _FIRST + _STEPS):
                with self.host.annotation(f"ProfilerStep#{number}"):
                    self._iteration()
                self.host.work(35)
        return finish(self.trace, self.stream)

    def _iteration(self) -> None:
        batch = images(WHOLE)
        with self.host.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 8, 4):
            self.host.leaf("aten::stack", 160, shapes=[[]], types=["TensorList"])
        address = self._move(batch, "312.5")
        if self.faults:
            self._read_on_the_host(batch)
            self._made_on_the_cpu()
            self._cloned_for_nothing(batch)
            for _ in range(2):
                with self.host.frame(f"{_SCRIPT}(59): passes_for_nothing"):
                    self._pass(WHOLE // 4)
        with self.host.annotation("Optimizer.zero_grad#SGD.zero_grad", 14, 4):
            self.host.work(10)
        self._pass(WHOLE)
        with self.host.annotation("Optimizer.step#SGD.step", 25, 8):
            for name in ("aten::_foreach_mul_", "aten::_foreach_add_", "aten::_foreach_add_"):
                with self.host.op(name, 14, 4, shapes=[[], [], []], types=["TensorList", "TensorList", "Scalar"]):
                    self.host.launch(VOLTA.update, self.stream)
        self.step.free(self.host, address)

    def _move(self, shape: Shape, dur: str) -> int:
        """`.to(device)` of a tensor in pageable memory; returns its address there."""
        host = self.host
        with ExitStack() as nest:
            for name in ("aten::to", "aten::_to_copy"):
                nest.enter_context(host.op(name, 3, 1, shapes=[list(shape)], types=["float"]))
            with host.op("aten::empty_strided", 4, 2):
                address = self.step.allocate(host, shape)
            shapes, types = [list(shape), list(shape), []], ["float", "float", "Scalar"]
            with host.op("aten::copy_", 5, 2, shapes=shapes, types=types):
                host.copy("HtoD", size(shape), self.stream, dur=dur, wait=True)
        return address

    def _read_on_the_host(self, batch: Shape) -> None:
        """`inputs.sum().item()` and a pause of a millisecond, three times."""
        host = self.host
        with host.frame(f"{_SCRIPT}(37): read_on_the_host"):
            for _ in range(3):
                with host.op("aten::sum", 6, 2, shapes=[list(batch), []], types=["float", ""]):
                    host.launch(_SUM, self.stream)
                value = {"shapes": [[]], "types": ["float"]}
                with host.op("aten::item", 2, 1, **value), host.op("aten::_local_scalar_dense", 3, 2, **value):
                    host.copy("DtoH", 4, self.stream, dur="1.6", wait=True)
                with host.frame("<built-in function sleep>", before=1062):
                    pass

    def _made_on_the_cpu(self) -> None:
        """`torch.zeros(1000, 1000).to(device)`, and five additions of a number."""
        host, sides = self.host, list(_LARGE)
        with host.frame(f"{_SCRIPT}(44): made_on_the_cpu"):
            with host.op("aten::zeros", 4, 2, shapes=[[], [], [], [], []], concrete=[str(sides), "", "", "", "False"]):
                host.leaf("aten::empty", 9, shapes=[[]] * 6)
                with host.op("aten::zero_", 3, 1, shapes=[sides], types=["float"]):
                    host.leaf("aten::fill_", 236, shapes=[sides, []], types=["float", "Scalar"])
            held = [self._move(_LARGE, "672.8")]
            for _ in range(5):
                shapes, types = [sides, [], []], ["float", "double", "Scalar"]
                with host.op("aten::add", 7, 2, shapes=shapes, types=types):
                    held.append(self.step.allocate(host, _LARGE))
                    host.launch(_ADD, self.stream)
                self.step.free(host, held.pop(0))
            self.step.free(host, held.pop())

    def _cloned_for_nothing(self, batch: Shape) -> None:
        """Ten clones of the batch, all thrown away."""
        host, shape = self.host, list(batch)
        with host.frame(f"{_SCRIPT}(52): cloned_for_nothing"):
            held = []
            for _ in range(10):
                with host.op("aten::clone", 3, 1, shapes=[shape, []], types=["float", ""]):
                    with host.op("aten::empty_strided", 4, 2):
                        held.append(self.step.allocate(host, batch))
                    shapes, types = [shape, shape, []], ["float", "float", "Scalar"]
                    with host.op("aten::copy_", 5, 2, shapes=shapes, types=types):
                        host.copy("DtoD", size(batch), self.stream, dur="5.1")
            for address in held:
                self.step.free(host, address)

    def _pass(self, samples: int) -> None:
        """Forward, loss and backward of so many samples."""
        host, layers = self.host, planted_network(samples, half=not self.faults)
        with self._wrapped(samples), host.frame("nn.Module: Sequential_0", 0):
            for number, layer in enumerate(layers[:-2], start=1):
                with host.frame(f"nn.Module: {layer.module}", number):
                    forward(host, layer, self.step)
        with host.frame("nn.Module: CrossEntropyLoss_0", 20), host.op("aten::cross_entropy_loss", 5, 2):
            for layer in layers[-2:]:
                forward(host, layer, self.step)
        with host.frame("torch/_tensor.py(569): backward"):
            self.engine.now = host.now + 21_000
            backward(self.engine, self.step)
            host.now = self.engine.now + 14_000

    @contextmanager
    def _wrapped(self, samples: int) -> Iterator[None]:
        """`DataParallel` on one GPU checks every parameter and scatters, then calls the model."""
        if not self.faults:
            yield
            return
        host = self.host
        frame, wrapper = host.frame("nn.Module: DataParallel_0", 30), host.annotation("DataParallel.forward", 150, 6)
        with frame, wrapper:
            inputs = {"shapes": [list(images(samples))], "types": ["float"]}
            scatter = host.frame("torch/nn/parallel/data_parallel.py(212): scatter", before=24, after=9)
            with scatter, host.op("Scatter", 38, 6, sequence=self.step.sequence, **inputs):
                host.leaf("aten::chunk", 9, **inputs)
            yield
