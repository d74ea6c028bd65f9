"""A small training loop: forward passes with numbers of autograd, backward passes on their own thread, optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .timeline import Host, Stream, Work, finish
from .trace import TraceBuilder
from .values import Time

_EVALUATION = "autograd::engine::evaluate_function: "
AUTOGRAD = 77
"""Thread that runs backward passes."""


class Training:
    """Writes the parts of training one after the other, as a program with one GPU (or none) makes them.

    ```
    loop = Training()
    with loop.iteration():
        loop.zero_grad(fills=0)
        loop.backward(loop.forward())
        loop.step(launches=3)
    ```
    """

    def __init__(self, *, trace: TraceBuilder | None = None, gpu: bool = True) -> None:
        self.trace = trace or TraceBuilder()
        self.gpu = gpu
        self.host = Host(self.trace, at=10)
        self.engine = Host(self.trace, tid=AUTOGRAD)
        self.stream = Stream()
        self.sequence = 100
        self.steps = 0

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """A marked step; the host waits for the GPU at its end."""
        with self.host.annotation(f"ProfilerStep#{self.steps}"):
            yield
            if self.gpu:
                self.host.wait(self.stream)
        self.steps += 1

    def finish(self) -> TraceBuilder:
        """The trace, its events in kineto's order."""
        return finish(self.trace)

    def forward(
        self,
        layers: int = 3,
        *,
        shape: Sequence[int] = (128, 3, 32, 32),
        dur: Time = 200,
        root: tuple[str, int] | None = None,
        wrapper: str | None = None,
        grad: bool = True,
    ) -> list[int]:
        """Operators that extend the graph; returns their numbers, for `backward`.

        Args:
            layers: How many.
            shape: Of their input.
            dur: On the GPU, of each.
            root: Name and number of the module around them, recorded with stacks.
            wrapper: Range of a wrapper around them.
            grad: Whether gradients are recorded.
        """
        if root is not None:
            with self.host.frame(f"nn.Module: {root[0]}", module=root[1]):
                return self.forward(layers, shape=shape, dur=dur, wrapper=wrapper, grad=grad)
        if wrapper is not None:
            with self.host.annotation(wrapper):
                return self.forward(layers, shape=shape, dur=dur, grad=grad)
        made = []
        for _ in range(layers):
            number = self.sequence if grad else None
            with self.host.op("aten::conv2d", shapes=[list(shape), [8, 3, 3, 3]], sequence=number):
                self._launch(self.host, "ampere_sgemm_128x64_nn", dur)
            made.append(self.sequence)
            self.sequence += grad
        return made

    def backward(self, numbers: Sequence[int], *, dur: Time = 200, reduces: int = 0, reduce_dur: Time = 50) -> None:
        """Evaluate functions, the last first; exchange gradients after the first of them if asked."""
        self.engine.now = self.host.now
        for number in reversed(numbers):
            around = self.engine.op(_EVALUATION + "ConvolutionBackward0", sequence=number, fwd_thread=1)
            with around, self.engine.op("ConvolutionBackward0", sequence=number, fwd_thread=1):
                self._launch(self.engine, "ampere_sgemm_128x64_nt", dur)
            self.engine.leaf(_EVALUATION + "torch::autograd::AccumulateGrad", 2)
        for _ in range(reduces):
            with self.engine.annotation("nccl:all_reduce"):
                self._launch(self.engine, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", reduce_dur)
        self.host.now = self.engine.now + 1000

    def recompute(self, numbers: Sequence[int], *, layers: int = 2) -> None:
        """A backward pass that first repeats a part of the forward pass, as checkpointing does."""
        self.engine.now = self.host.now
        with self.engine.op(_EVALUATION + "CheckpointFunctionBackward", sequence=numbers[-1], fwd_thread=1):
            for _ in range(layers):
                with self.engine.op("aten::conv2d", shapes=[[128, 3, 32, 32]], sequence=self.sequence):
                    self._launch(self.engine, "ampere_sgemm_128x64_nn", 200)
                self.sequence += 1
        self.host.now = self.engine.now + 1000
        self.backward(numbers[:-1])

    def zero_grad(self, fills: int = 0, *, each: Time = 20, name: str = "Optimizer.zero_grad#SGD.zero_grad") -> None:
        """Drop gradients, or fill so many with zeros, each in so long an operator."""
        with self.host.annotation(name):
            for _ in range(fills):
                with self.host.op("aten::zero_"), self.host.op("aten::fill_", each, 1):
                    kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>"
                    self._launch(self.host, kernel, 2)

    def step(
        self,
        launches: int = 3,
        *,
        operator: str = "aten::_foreach_add_",
        kernel: str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>>",
        each: Time = 20,
        name: str = "Optimizer.step#SGD.step",
    ) -> None:
        """Update parameters by so many kernels, each in an operator of so long."""
        with self.host.annotation(name):
            for _ in range(launches):
                with self.host.op(operator, each, 1):
                    self._launch(self.host, kernel, 2)

    def _launch(self, host: Host, kernel: str, dur: Time) -> None:
        if self.gpu:
            host.launch(Work(kernel, dur), self.stream)
        else:
            host.work(dur)
